"""RocksQueue: the units of one queue of a RocksDB, in a scratch file of batch units.

Results are those of a 5.3.3 broker. A unit is found by its queue offset, so a queue may have holes. An inner batch has
one unit and advances the queue by its number of messages. A PREPARED message takes an offset in light queues without
a unit. As in the broker, binary searches go right at a hole, and iteration ends there.

Source: RocksDBConsumeQueue, RocksDBConsumeQueueTable, RocksDBConsumeQueueOffsetTable (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from store.broker_line import LINE_4_9, BrokerLine
from store.formats.queue_unit import BATCH_UNIT_SIZE, BatchUnit
from store.formats.run import Int64Array, Run
from store.structures.batchqueue.queue import BatchConsumeQueue, unit_at, written_units
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE, BatchUnitArray
from store.structures.consumequeue.time_search import StoreTime
from store.structures.queuedb.database import first_offset, search
from store.structures.queuedb.keys import Place
from store.structures.queuedb.units import units_in_database

SCRATCH_FILE_SIZE = BATCH_UNIT_SIZE * 65_536


class RocksQueue(BatchConsumeQueue):
    """The units of one queue. `max_physic_offset` is the log offset of the newest unit's record.

    oldest, newest  the database's entries for the queue's first and newest unit; None without an entry
    """

    oldest: Place | None = None
    newest: Place | None = None
    _known: tuple[int, BatchUnitArray, Int64Array] | None = None

    @property
    def max_offset(self) -> int:
        """Queue offset after the newest unit, even if that unit has expired."""
        known = super().max_offset
        return known if known or self.newest is None else self.newest.queue_offset + 1

    def correct_min_offset(self, min_log_offset: int) -> None:
        """Move the queue's first offset, as the broker does on a request for it."""
        newest = Place(self.max_physic_offset, self.max_offset - 1)
        self.begin_at(first_offset(self.oldest, newest, min_log_offset, self._find))

    def _all(self) -> tuple[BatchUnitArray, Int64Array]:
        """Return every unit, and the units' queue offsets."""
        end = self.files.max_wrote_offset
        if self._known is None or self._known[0] != end:
            pieces = [written_units(file) for file in self.files.files]
            units = np.concatenate(pieces) if pieces else np.zeros(0, BATCH_UNIT_DTYPE)
            self._known = end, units, units["queue_offset"].astype(np.int64)
        return self._known[1:]

    def _units_of(self, run: Run, rows: Int64Array, codes: Int64Array) -> BatchUnitArray:
        return units_in_database(run, rows, codes)

    def _find(self, queue_offset: int) -> BatchUnit | None:
        units, offsets = self._all()
        at = int(np.searchsorted(offsets, queue_offset))
        return unit_at(units, at) if at < len(units) and offsets[at] == queue_offset else None

    def units_from(self, queue_offset: int) -> Iterator[BatchUnit] | None:
        """Return the units from `queue_offset` to the first hole; None if no unit is at `queue_offset`."""
        units, offsets = self._all()
        at = int(np.searchsorted(offsets, queue_offset))
        if at == len(units) or offsets[at] != queue_offset:
            return None
        return _until_hole(units[at:], queue_offset)

    def pass_hole(self, queue_offset: int) -> int:
        """Return the queue offset of the first unit after the hole; the queue's end without one."""
        _, offsets = self._all()
        at = int(np.searchsorted(offsets, queue_offset))
        return int(offsets[at]) if at < len(offsets) else self.max_offset

    def roll_next_file(self, queue_offset: int) -> int:
        """Return 0, as the broker does: it has no files to roll."""
        return 0

    def offset_by_time(
        self, time_ms: int, store_time: StoreTime, min_log_offset: int, line: BrokerLine = LINE_4_9
    ) -> int:
        """Return the queue offset of the first unit stored at `time_ms` or later; the end if all are older."""
        first, last = self._find(self.min_offset), self._find(self.max_offset - 1)
        if last is not None and last.store_timestamp_ms < time_ms:
            return self.max_offset
        if first is not None and first.store_timestamp_ms > time_ms:
            return self.min_offset
        found = search(
            self.min_offset, self.max_offset - 1, self._find, lambda unit: unit.store_timestamp_ms >= time_ms
        )
        return found if found is not None else self.max_offset


def _until_hole(units: BatchUnitArray, queue_offset: int) -> Iterator[BatchUnit]:
    for unit in units:
        if int(unit["queue_offset"]) != queue_offset:
            return
        yield BatchUnit(*map(int, unit.item()[:6]))
        queue_offset += 1
