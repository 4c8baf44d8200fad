"""Units of records by queue, as a broker with queues in a RocksDB dispatches them.

A record has a unit in its own queue, and one in each light queue of its property INNER_MULTI_DISPATCH. PREPARED and
ROLLBACK records have none.
A record of several messages has one unit, at the queue offset of the first; it counts as 1 message.

Source: RocksDBConsumeQueueStore.putMessagePosition (5.3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from store import kernels
from store.formats.run import Int64Array, Run
from store.formats.sets import distinct
from store.structures.consumequeue.batch_units import BatchUnitArray, units_of_records
from store.structures.consumequeue.multi_dispatch import LightParts, find_light_parts
from store.structures.consumequeue.numbering import QueueTable

QueueKey = tuple[str, int]
NO_LIGHT_PARTS = LightParts([], [], [])


class DispatchedUnits(NamedTuple):
    """Units of one run.

    parts   the units of each queue, in the log's order
    end     log offset after the last record with a unit, -1 without one
    light   the parts in light queues
    """

    parts: list[tuple[QueueKey, BatchUnitArray]]
    end: int
    light: LightParts


def units_in_database(run: Run, rows: Int64Array, codes: Int64Array) -> BatchUnitArray:
    """Return the units of these records of a run; `codes` holds a tags code for each record of the run."""
    units = units_of_records(run, rows, codes)
    units["message_count"] = 1
    return units


class UnitMaker:
    """Makes the units of runs of one log."""

    def __init__(self, delay_levels_ms: Sequence[int]) -> None:
        self._delays = np.array(delay_levels_ms, np.int64)
        self._table = QueueTable()

    def units_of(self, run: Run) -> DispatchedUnits:
        """Return the units of the run's records."""
        numbers = self._table.assign(run.buffer, run.array, run.count)
        codes = np.empty(run.count, np.int64)
        kernels.tags_codes(run.buffer, run.array, run.count, self._delays, codes)
        queued = np.flatnonzero(numbers >= 0)
        if not len(queued):
            return DispatchedUnits([], -1, NO_LIGHT_PARTS)
        parts = []
        for number in distinct(numbers[queued]).tolist():
            units = units_in_database(run, np.flatnonzero(numbers == number), codes)
            parts.append((self._table.names[number], units))
        light = find_light_parts(run, queued)
        for key, part, rows in light.parts:
            units = units_in_database(part, np.arange(part.count), np.ascontiguousarray(codes[rows]))
            parts.append((key, units))
        last = int(queued[-1])
        end = int(run.columns.position[last] + run.columns.size[last]) + run.file_start
        return DispatchedUnits(parts, end, light)
