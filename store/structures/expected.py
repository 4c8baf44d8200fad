"""Contents of the derived files for a run of records: a queue unit each, and an index entry per key.

The values are those that dispatch writes (CommitLog.checkMessageAndReturnSize, ConsumeQueue.putMessagePositionInfo,
IndexService.buildIndex, 4.9.8): no unit for prepared and rolled-back transactions, no entry for rolled-back ones,
the unique key's entry before those of KEYS.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from store import kernels
from store.formats.run import Run
from store.structures.consumequeue.light_queues import LightParts, find_light_parts
from store.structures.consumequeue.numbering import QueueTable
from store.structures.index.keys import CAPACITY, KeyHasher, Keys

Ints = npt.NDArray[np.int64]
_USUAL_KEYS = 4
"""Of a record, with its unique one."""


class Units(NamedTuple):
    """Queue units in log order; `queue` numbers the pairs in `queues`."""

    queues: list[tuple[str, int]]
    queue: Ints
    queue_offset: Ints
    log_offset: Ints
    size: Ints
    tags_code: Ints

    def rows(self, rows: Ints) -> Units:
        """The units of these rows."""
        return Units(self.queues, *(column[rows] for column in self[1:]))


class Entries(NamedTuple):
    """Index entries in log order."""

    key_hash: Ints
    log_offset: Ints
    store_timestamp_ms: Ints

    def up_to(self, log_offset: int) -> Entries:
        """The entries of the records up to this log offset."""
        count = int(np.searchsorted(self.log_offset, log_offset, "right"))
        return Entries(*(column[:count] for column in self))


def log_offsets(run: Run) -> Ints:
    """Offset of each record in the log, without regard to the offset that the record names."""
    return run.columns.position + run.file_start


def expected_units(run: Run, delay_levels_ms: tuple[int, ...], table: QueueTable | None = None) -> Units:
    """The units of a run's records. A `table` that goes from run to run keeps the numbers of the queues."""
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
        log_offsets(run)[picked],
        columns.size[picked],
        codes[picked],
    )


def with_light_units(
    run: Run, units: Units, table: QueueTable, numbers: dict[tuple[str, int], int]
) -> tuple[Units, LightParts]:
    """Adds the units in light queues to those of a run's records; gives their parts too.

    numbers  the numbers in `table` of light queues; new ones are added
    """
    places, found = log_offsets(run), [units[1:]]
    rows_of_units = np.searchsorted(places, units.log_offset)
    codes = np.zeros(run.count, np.int64)
    codes[rows_of_units] = units.tags_code
    light = find_light_parts(run, rows_of_units, enable_lmq=True)
    for (topic, queue_id), part, named in light.parts:
        if (topic, queue_id) not in numbers:
            numbers[topic, queue_id] = table.add(topic.encode(), queue_id)
        # A record that names a queue twice gets one unit there.
        first = np.flatnonzero(np.diff(named, prepend=-1))
        rows = named[first]
        queue = np.full(len(rows), numbers[topic, queue_id], np.int64)
        found.append((queue, part.columns.queue_offset[first], places[rows], run.columns.size[rows], codes[rows]))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    _, _, offsets, *_ = columns
    order = np.argsort(offsets, kind="stable")
    return Units(table.names, *(column[order] for column in columns)), light


def expected_entries(run: Run) -> Entries:
    """The index entries of a run's records."""
    # Mostly there is room for all keys at once, and nothing is copied.
    pieces = KeyHasher(CAPACITY + _USUAL_KEYS * run.count).keys_of(run)
    found = [keys if keys.is_all_of(run) else keys.copy() for keys in pieces]
    hashes, records = found[0][:2] if len(found) == 1 else _joined(found)
    return Entries(hashes, log_offsets(run)[records], run.columns.store_timestamp_ms[records])


def _joined(found: list[Keys]) -> tuple[Ints, Ints]:
    none = np.empty(0, np.int64)
    return (
        np.concatenate([none, *(keys.hashes for keys in found)]),
        np.concatenate([none, *(keys.records for keys in found)]),
    )
