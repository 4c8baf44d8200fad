"""BatchConsumeQueue: a queue with one unit for each record of one or several messages.

    batchconsumequeue/<topic>/<queue id>/<byte offset of the file>

A queue offset does not determine a file position. So a lookup searches the files by their first unit, and then the file
by its units.

    find 5     | 0 n1 | 1 n1 | 2 n2 | 4 n3 | 7 n8 |        the unit of 4, which holds 4, 5 and 6

Source: BatchConsumeQueue, BatchOffsetIndex (5.3.3).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import numpy as np

from store.broker_line import LINE_4_9, BrokerLine
from store.errors import BadRequest
from store.files.mapped_file import MappedFile
from store.files.mapped_file_queue import MappedFileQueue
from store.formats.queue_unit import BATCH_UNIT_SIZE, BatchUnit, QueueUnit
from store.formats.run import Int64Array, Run
from store.structures.consumequeue.batch_units import BatchUnitArray, batch_units_of, units_of_records, written_count
from store.structures.consumequeue.consume_queue import RECOVER_FILES, ConsumeQueue
from store.structures.consumequeue.out_of_order import OutOfOrder
from store.structures.consumequeue.time_search import StoreTime
from store.structures.consumequeue.unit_array import FileUnits

_CHUNK_BYTES = 1 << 20


class BatchConsumeQueue(ConsumeQueue):
    """One batch queue; `max_physic_offset` is the log offset of the newest unit's record."""

    holds_batches = True

    def __init__(self, topic: str, queue_id: int, files: MappedFileQueue) -> None:
        super().__init__(topic, queue_id, files)
        self._min_offset = 0
        if files.file_size % BATCH_UNIT_SIZE:
            raise BadRequest(
                f"mapperFileSizeBatchConsumeQueue={files.file_size} is no multiple of {BATCH_UNIT_SIZE}",
                file=files.folder,
            )

    @property
    def min_offset(self) -> int:
        return self._min_offset

    @property
    def max_offset(self) -> int:
        for file in reversed(self.files.files[-2:]):
            units = written_units(file)
            if len(units):
                return unit_at(units, len(units) - 1).next_queue_offset
        return 0

    @property
    def built_to(self) -> int:
        for file in reversed(self.files.files[-2:]):
            units = written_units(file)
            if len(units):
                return int(units["log_offset"][-1]) + int(units["size"][-1])
        return -1

    # After a restart.

    def recover(self) -> int:
        files = self.files.files
        for file in files[max(0, len(files) - RECOVER_FILES) :]:
            units = all_units(file)
            count = written_count(units)
            if count:
                self.max_physic_offset = int(units["log_offset"][count - 1])
            end = file.file_start + count * BATCH_UNIT_SIZE
            if count < len(units):
                break
        if files:
            self.files.flushed_where = self.files.committed_where = end
            self.files.truncate_dirty_files(end)
        return self.max_physic_offset

    def truncate_dirty_logic_files(self, log_offset: int, *, as_broker: bool = False) -> None:
        self.max_physic_offset = log_offset - 1
        while (file := self.files.last) is not None:
            units = all_units(file)
            written = written_count(units)
            behind = np.flatnonzero(units["log_offset"][:written] >= log_offset)
            count = int(behind[0]) if len(behind) else written
            if count or not written:
                file.set_positions(count * BATCH_UNIT_SIZE)
                if count:
                    self.max_physic_offset = int(units["log_offset"][count - 1])
                return
            self.files.delete_last_file()

    def has_lost_extension(self, min_log_offset: int) -> bool:
        return False

    def has_cut_units(self) -> bool:
        last = self.files.last
        return last is not None and bool(written_count(all_units(last)[last.wrote // BATCH_UNIT_SIZE :]))

    def clear_cut_units(self) -> bool:
        if not self.has_cut_units():
            return False
        file = self.files.last_file()
        file.reserve(file.size)
        file.write_buffer[file.wrote : file.size] = bytes(file.size - file.wrote)
        return True

    def correct_min_offset(self, min_log_offset: int) -> None:
        """Move the queue's first offset past units of expired records in its first file."""
        first = self.files.first
        if first is None or not first.readable_position:
            return
        units = written_units(first)
        live = np.flatnonzero(units["log_offset"] >= min_log_offset)
        index = int(live[0]) if len(live) else len(units)
        self._min_offset = unit_at(units, 0).queue_offset if index == 0 else unit_at(units, index - 1).next_queue_offset

    def begin_at(self, queue_offset: int) -> None:
        self._min_offset = queue_offset

    # Building.

    def append_records(self, run: Run, rows: Int64Array, codes: Int64Array) -> list[OutOfOrder]:
        """Append the units of these records; skip repeats, and shift none."""
        units = self._units_of(run, rows, codes)
        wanted = (units["log_offset"] > self.max_physic_offset) & (units["queue_offset"] >= 0)
        self.append_units(units[wanted & (units["message_count"] >= 0)])
        return []

    def _units_of(self, run: Run, rows: Int64Array, codes: Int64Array) -> BatchUnitArray:
        return units_of_records(run, rows, codes)

    def append_units(self, units: BatchUnitArray) -> None:
        """Append units unchanged, to as many files as needed."""
        while len(units):
            file = self.files.last_file()
            room = (file.size - file.wrote) // BATCH_UNIT_SIZE
            part, units = units[:room], units[room:]
            file.reserve(file.wrote + part.nbytes)
            file.append(part.tobytes())
            self.max_physic_offset = int(part["log_offset"][-1])

    # Asking.

    def ends_before(self, log_offset: int) -> bool:
        return False

    def units_between(self, file: MappedFile, low: int, high: int) -> FileUnits:
        units = written_units(file)
        units = units[(units["log_offset"] >= low) & (units["log_offset"] < high)]
        columns = (units[name].astype(np.int64) for name in ("queue_offset", "log_offset", "size"))
        return FileUnits(*columns)

    def first_log_offset(self, file: MappedFile) -> int:
        units = written_units(file)
        return int(units["log_offset"][0]) if len(units) else -1

    def last_log_offset(self, file: MappedFile) -> int:
        return int(all_units(file)["log_offset"][-1])

    def units_from(self, queue_offset: int) -> Iterator[BatchUnit] | None:
        """Return the units from that of `queue_offset` to the end of its file; None without such a unit."""
        files = [file for file in self.files.files if file.readable_position]
        index = bisect_right(files, queue_offset, key=lambda file: unit_at(all_units(file), 0).queue_offset) - 1
        if index < 0:
            return None
        units = written_units(files[index])
        at = bisect_right(range(len(units)), queue_offset, key=lambda row: int(units["queue_offset"][row])) - 1
        if at < 0 or unit_at(units, at).next_queue_offset <= queue_offset:
            return None
        return (unit_at(units, row) for row in range(at, len(units)))

    def unit(self, queue_offset: int) -> QueueUnit | None:
        units = self.units_from(queue_offset)
        return QueueUnit(*next(units)[:3]) if units is not None else None

    def roll_next_file(self, queue_offset: int) -> int:
        """Return the first unit's queue offset of the next file, even if a file is missing between."""
        units = (unit for file in self.files.files for unit in written_units(file)[:1])
        return min((int(u["queue_offset"]) for u in units if u["queue_offset"] > queue_offset), default=self.max_offset)

    def read_range(self, queue_offset: int) -> memoryview | None:
        """Return None: batch units have 46 bytes, and `units_from` returns them."""
        return None

    def offset_by_time(
        self, time_ms: int, store_time: StoreTime, min_log_offset: int, line: BrokerLine = LINE_4_9
    ) -> int:
        """Return the queue offset of the first unit from `time_ms` on, in the last file begun by then."""
        files = [file for file in self.files.files if file.readable_position]
        if not files:
            return 0
        index = bisect_right(files, time_ms, key=lambda file: unit_at(all_units(file), 0).store_timestamp_ms) - 1
        units = written_units(files[max(0, index)])
        times = units["store_timestamp_ms"]
        at = bisect_left(range(len(units)), time_ms, key=lambda row: int(times[row]))
        return int(units["queue_offset"][min(at, len(units) - 1)])


def all_units(file: MappedFile) -> BatchUnitArray:
    """View every unit of a file; StoreIOError for unreadable pages."""
    file.require_written(_CHUNK_BYTES)
    return batch_units_of(file.buffer)


def written_units(file: MappedFile) -> BatchUnitArray:
    """Return the units of a file up to its end."""
    return all_units(file)[: file.readable_position // BATCH_UNIT_SIZE]


def unit_at(units: BatchUnitArray, row: int) -> BatchUnit:
    """Read one unit of an array."""
    return BatchUnit(*map(int, units[row].item()[:6]))
