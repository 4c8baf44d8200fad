"""The expected queue units of a run of records.

They equal the units that dispatch writes (CommitLog.checkMessageAndReturnSize, ConsumeQueue.putMessagePositionInfo,
4.9.8). Prepared and rolled-back transactions have none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from store import kernels
from store.formats.run import Int64Array, Run
from store.structures.consumequeue.multi_dispatch import LightParts, find_light_parts
from store.structures.consumequeue.numbering import QueueTable


class Units(NamedTuple):
    """Queue units in log order; `queue` holds indexes of `queues`, the pairs of topic and queue id."""

    queues: list[tuple[str, int]]
    queue: Int64Array
    queue_offset: Int64Array
    log_offset: Int64Array
    size: Int64Array
    tags_code: Int64Array

    def rows(self, rows: Int64Array) -> Units:
        """Return the units of these rows."""
        return Units(self.queues, *(column[rows] for column in self[1:]))


def expected_units(run: Run, delay_levels_ms: tuple[int, ...], table: QueueTable | None = None) -> Units:
    """Return the units of a run's records.

    table  keeps the numbers of the queues from run to run
    """
    array = run.array
    table = QueueTable() if table is None else table
    slots = table.assign(run.buffer, array, run.count)
    codes = np.empty(run.count, np.int64)
    kernels.tags_codes(run.buffer, array, run.count, np.array(delay_levels_ms, np.int64), codes)
    picked = np.flatnonzero(slots >= 0)
    columns = run.columns
    return Units(
        table.names,
        slots[picked],
        columns.queue_offset[picked],
        run.log_offsets[picked],
        columns.size[picked],
        codes[picked],
    )


def with_light_units(
    run: Run, units: Units, table: QueueTable, numbers: dict[tuple[str, int], int]
) -> tuple[Units, LightParts]:
    """Add light queue units to the units of a run's records; return the light parts too.

    numbers  the light queues' numbers in `table`; new queues are added
    """
    places, found = run.log_offsets, [units[1:]]
    rows_of_units = np.searchsorted(places, units.log_offset)
    codes = np.zeros(run.count, np.int64)
    codes[rows_of_units] = units.tags_code
    light = find_light_parts(run, rows_of_units)
    for (topic, queue_id), part, named in light.parts:
        if (topic, queue_id) not in numbers:
            numbers[topic, queue_id] = table.add(topic.encode(), queue_id)
        # A record that lists a light queue twice gets one unit in it.
        first = np.flatnonzero(np.diff(named, prepend=-1))
        rows = named[first]
        queue = np.full(len(rows), numbers[topic, queue_id], np.int64)
        found.append((queue, part.columns.queue_offset[first], places[rows], run.columns.size[rows], codes[rows]))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    _, _, offsets, *_ = columns
    order = np.argsort(offsets, kind="stable")
    return Units(table.names, *(column[order] for column in columns)), light
