"""ConsumeQueue: the units of one (topic, queue id), in a MappedFileQueue of their own.

    queue_offset x 20 = byte address in the queue = file_start + position

`max_physic_offset` is the log offset after the last record that has a unit; a record that ends at or before it is
treated as a repeat. After a restart `recover` finds it. If the log ends earlier, `truncate_dirty_logic_files` moves it
back. Both only move positions: stale units after them stay on disk, as in a broker.

A queue whose first messages have expired begins with pre-blank units up to its first live unit.

One difference from a broker concerns a last file whose first unit was never written. A broker's truncation treats
that zero unit and all units after it as live; the queue's next message may get a queue offset one too high.

Source: ConsumeQueue (4.9.8); search by time also of 5.3.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from store import kernels
from store.broker_line import LINE_4_9, BrokerLine
from store.errors import BadRequest, StoreError
from store.files.mapped_file import MappedFile
from store.files.mapped_file_queue import MappedFileQueue
from store.formats.columns import COLUMN_NAMES
from store.formats.derived import units_of
from store.formats.queue_unit import (
    PRE_BLANK,
    UNIT_SIZE,
    BatchUnit,
    ExtUnit,
    QueueUnit,
    decode_ext_address,
    decode_unit,
    is_ext_address,
)
from store.formats.run import Int64Array, Run
from store.structures.consumequeue.consume_queue_ext import ConsumeQueueExt, lacks_extension
from store.structures.consumequeue.out_of_order import OutOfOrder
from store.structures.consumequeue.time_search import StoreTime, first_at_or_after, nearest_by_time
from store.structures.consumequeue.unit_array import (
    FIRST_UNITS,
    LAST_ADDRESS,
    FileUnits,
    UnitArray,
    count_before,
    extension_positions,
    first_log_offset,
    is_written,
    last_ext_address,
    unit_array,
    units_between,
    written_count,
)

SIZE, LOG_OFFSET, QUEUE_OFFSET = (COLUMN_NAMES.index(name) for name in ("size", "log_offset", "queue_offset"))
# The number of newest files that recovery reads.
RECOVER_FILES = 3


class ConsumeQueue:
    """One queue.

    Offsets named queue_offset count units; `max_physic_offset` is a log offset, -1 for none.
    """

    holds_batches = False
    """Whether a unit may hold several messages; then a queue offset is no position."""

    def __init__(
        self,
        topic: str,
        queue_id: int,
        files: MappedFileQueue,
        ext: ConsumeQueueExt | None = None,
        line: BrokerLine = LINE_4_9,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self.ext = ext
        self._line = line
        self.max_physic_offset = -1
        self.failure: StoreError | None = None
        """The error that makes the queue unreadable, if any."""
        self.is_cut_short = False
        """Whether a truncation at a damaged unit removed valid units after it."""
        self._min_address = 0
        self.had_units = False
        """Whether `recover` found files: their units may be damaged and point anywhere."""

    def __repr__(self) -> str:
        return f"ConsumeQueue({self.topic}, {self.queue_id}, {self.min_offset}..{self.max_offset})"

    def empty_files(self) -> list[Path]:
        """Return the paths of empty last files; the queue leaves them out."""
        return [files.empty_last for files in self._file_sets if files.empty_last is not None]

    @property
    def min_offset(self) -> int:
        """Queue offset of the first live message."""
        return self._min_address // UNIT_SIZE

    @property
    def max_offset(self) -> int:
        """Queue offset of the next message."""
        return self.files.max_offset // UNIT_SIZE

    @property
    def next_offset(self) -> int:
        """Queue offset after the last appended unit."""
        return self.files.max_wrote_offset // UNIT_SIZE

    @property
    def built_to(self) -> int:
        """Log offset after the last record that has a unit, -1 without units."""
        return self.max_physic_offset

    # After a restart.

    def recover(self) -> int:
        """Find the end: scan written units from the third last file on. Return max_physic_offset."""
        files = self.files.files
        if not files:
            return self.max_physic_offset
        self.had_units = True
        ext_end = 1
        for file in files[-RECOVER_FILES:]:
            units = unit_array(file)
            count = written_count(units)
            if count:
                self._note_end(units, count - 1)
                ext_end = last_ext_address(units[:count], ext_end, self.ext)
            end = file.file_start + count * UNIT_SIZE
            if count < len(units):
                break
        self.files.flushed_where = self.files.committed_where = end
        self.files.truncate_dirty_files(end)
        if self.ext is not None:
            self.ext.recover()
            self.ext.truncate_by_max_address(ext_end)
        return self.max_physic_offset

    def truncate_dirty_logic_files(self, log_offset: int, *, as_broker: bool = False) -> None:
        """Truncate the units of records at or after `log_offset`, from the newest file backwards.

        as_broker  treats the first unit of the last kept file as written, even if it is not
        """
        self.max_physic_offset = log_offset
        while (file := self.files.last) is not None:
            units = unit_array(file)
            count = count_before(units, log_offset)
            if as_broker and not count and units["log_offset"][0] < log_offset:
                count = 1 + count_before(units[1:], log_offset)
            cut = units[count : file.readable_position // UNIT_SIZE]
            self.is_cut_short |= bool(
                ((cut["log_offset"] >= 0) & (cut["log_offset"] < log_offset) & (cut["size"] > 0)).any()
            )
            if count or not (as_broker or is_written(units[0])):
                file.set_positions(count * UNIT_SIZE)
                if count:
                    self._note_end(units, count - 1)
                return
            self.files.delete_last_file()
        if self.is_cut_short:
            self.max_physic_offset = -1

    def has_lost_extension(self, min_log_offset: int) -> bool:
        """Return whether a unit at or after `min_log_offset` refers to a missing extension unit."""
        return lacks_extension(self.ext, (extension_positions(file, min_log_offset) for file in self.files.files))

    def has_cut_units(self) -> bool:
        """Return whether a written unit follows the queue's end."""
        last = self.files.last
        return last is not None and last.wrote < last.size and is_written(unit_array(last)[last.wrote // UNIT_SIZE])

    def begins_last_file_unwritten(self) -> bool:
        """Return whether the last file has units but its first unit was never written."""
        last = None if self.holds_batches else self.files.last
        return last is not None and last.wrote >= UNIT_SIZE and not is_written(unit_array(last)[0])

    def clear_cut_units(self) -> bool:
        """Zero the units past the end, so that no recovery counts them; return True if there were any."""
        if not self.has_cut_units():
            return False
        file = self.files.last_file()
        stale = np.flatnonzero(np.frombuffer(file.buffer[file.wrote :], np.uint8))
        end = file.wrote + int(stale[-1]) + 1
        file.reserve(end)
        file.write_buffer[file.wrote : end] = bytes(end - file.wrote)
        return True

    def correct_min_offset(self, min_log_offset: int) -> None:
        """Move the queue's start to its first file's first unit at or after `min_log_offset`.

        If the newest unit is before that offset, 4.9 keeps the start and 5.3 moves it to the queue's end.
        """
        first, last = self.files.first, self.files.last
        if first is None or last is None:
            return
        # Reading the newest unit maps its file: done only if the version needs it and the log has expired records.
        if self._line.begins_expired_queue_at_end and min_log_offset and last.readable_position:
            newest = unit_array(last)["log_offset"][last.readable_position // UNIT_SIZE - 1]
            if self._line.begins_at_end(int(newest), min_log_offset):
                self.begin_at(self.max_offset)
                return
        units = units_of(first.head(FIRST_UNITS * UNIT_SIZE))
        if not (units["log_offset"] >= min_log_offset).any():
            units = unit_array(first)[: first.readable_position // UNIT_SIZE]
        live = units["log_offset"] >= min_log_offset
        if not live.any():
            return
        index = int(np.argmax(live))
        self._min_address = first.file_start + index * UNIT_SIZE
        tags_code = int(units["tags_code"][index])
        if self.ext is not None and is_ext_address(tags_code):
            self.ext.truncate_by_min_address(tags_code)

    def begin_at(self, queue_offset: int) -> None:
        """Move the queue's beginning to `queue_offset`."""
        self._min_address = queue_offset * UNIT_SIZE

    # Building.

    def put(self, log_offset: int, size: int, tags_code: int, queue_offset: int) -> OutOfOrder | None:
        """Append the unit of one record (ConsumeQueue.putMessagePositionInfo); a repeat is skipped."""
        end = log_offset + size
        # A sum past Long.MAX_VALUE is negative in a broker, and the record counts as a repeat.
        if end <= self.max_physic_offset or end > LAST_ADDRESS:
            return None
        expected = queue_offset * UNIT_SIZE
        if not 0 <= expected < LAST_ADDRESS - self.files.file_size:
            # Only a damaged record has such a queue offset; no file name can hold its address.
            return OutOfOrder(self.topic, self.queue_id, queue_offset, self.max_offset)
        file = self.files.last_file(expected)
        finding = None
        if file.first_created_in_queue and queue_offset and not file.wrote:
            self._start_at(file, expected)
        elif queue_offset:
            current = file.file_start + file.wrote
            if expected < current:
                if self.unit(queue_offset) == QueueUnit(log_offset, size, tags_code):
                    return None
                return OutOfOrder(self.topic, self.queue_id, queue_offset, current // UNIT_SIZE, has_unit=False)
            if expected != current:
                finding = OutOfOrder(self.topic, self.queue_id, queue_offset, current // UNIT_SIZE)
        self.max_physic_offset = end
        file.append(QueueUnit(log_offset, size, tags_code).encode())
        return finding

    def append_encoded(self, units: memoryview) -> None:
        """Append 20-byte units that continue the queue, as kernels.find_break has checked."""
        done = 0
        while done < len(units):
            file = self.files.last_file()
            stop = min(len(units), done + (file.size - file.wrote) // UNIT_SIZE * UNIT_SIZE)
            file.append(units[done:stop])
            done = stop
            # Updated per file, so that a retry after a failure skips the units already appended.
            last = decode_unit(units[done - UNIT_SIZE : done])
            self.max_physic_offset = last.log_offset + last.size

    def rewrite(self, queue_offset: int, unit: QueueUnit) -> None:
        """Overwrite the unit at `queue_offset`."""
        address = queue_offset * UNIT_SIZE
        held = self.files.find_by_offset(address)
        if held is None:
            raise BadRequest(f"{self!r} has no entry {queue_offset}")
        file = self.files.writable_file(held)
        position = address - file.file_start
        file.write_buffer[position : position + UNIT_SIZE] = unit.encode()
        if address + UNIT_SIZE == self.files.max_offset:
            self.max_physic_offset = unit.log_offset + unit.size

    def append_records(self, run: Run, rows: Int64Array, codes: Int64Array) -> list[OutOfOrder]:
        """Append consecutive units in one call, others one by one; return the shifted messages."""
        shifted: list[OutOfOrder] = []
        units = memoryview(bytearray(len(rows) * UNIT_SIZE))
        at, stop = 0, len(rows)
        while at < stop:
            end = kernels.find_break(rows, at, stop, run.array, self.next_offset, self.max_physic_offset)
            if end > at:
                size = kernels.write_units(units, 0, rows, at, end, run.array, codes)
                self.append_encoded(units[:size])
                at = end
            else:
                row = int(rows[at])
                log_offset, size, queue_offset = run.array[[LOG_OFFSET, SIZE, QUEUE_OFFSET], row].tolist()
                finding = self.put(log_offset, size, int(codes[row]), queue_offset)
                shifted += [finding] if finding is not None else []
                at += 1
        return shifted

    def _start_at(self, file: MappedFile, address: int) -> None:
        """Fill a queue's very first file with pre-blank units up to `address`."""
        self._min_address = address
        self.files.flushed_where = self.files.committed_where = address
        count = (address - file.file_start) // UNIT_SIZE
        file.append(PRE_BLANK.encode() * count)
        file.committed = file.flushed = file.wrote

    # Asking.

    def read_range(self, queue_offset: int) -> memoryview | None:
        """Return the written units from `queue_offset` to the end of its file; None if there are none."""
        address = queue_offset * UNIT_SIZE
        file = self.files.find_by_offset(address) if address >= self._min_address else None
        if file is None:
            return None
        position = address - file.file_start
        units = file.read(position, file.readable_position - position)
        return units if units is not None and len(units) else None

    def ends_before(self, log_offset: int) -> bool:
        """Return whether no unit points at or after `log_offset`; False if the units came from files."""
        return not self.had_units and self.max_physic_offset <= log_offset

    def units_between(self, file: MappedFile, low: int, high: int) -> FileUnits:
        """Copy the columns of a file's units that point into log offsets low … high - 1."""
        return units_between(file, low, high)

    def first_log_offset(self, file: MappedFile) -> int:
        """Return the log offset in a file's first unit of a record, -1 if it has none."""
        return first_log_offset(file)

    def last_log_offset(self, file: MappedFile) -> int:
        """Return the log offset in the last unit of a full file."""
        return int(unit_array(file)["log_offset"][-1])

    def units_from(self, queue_offset: int) -> Iterator[BatchUnit] | None:
        """Return the batch units from `queue_offset` to the end of its file; None in a plain queue."""
        return None

    def unit(self, queue_offset: int) -> QueueUnit | None:
        units = self.read_range(queue_offset)
        return decode_unit(units) if units is not None else None

    def roll_next_file(self, queue_offset: int) -> int:
        """Return the queue offset at the start of the next file."""
        per_file = self.files.file_size // UNIT_SIZE
        return queue_offset + per_file - queue_offset % per_file

    def pass_hole(self, queue_offset: int) -> int:
        """Return the queue offset after a hole, to continue reading."""
        return self.roll_next_file(queue_offset)

    def real_tags_code(self, tags_code: int) -> int:
        """Return the tags code; if it is an address, read it from the extension unit."""
        unit = self.ext_unit(tags_code)
        return unit.tags_code if unit is not None else tags_code

    def ext_unit(self, tags_code: int) -> ExtUnit | None:
        """Return the extension unit at the address in the tags code; None without one."""
        if self.ext is None or not is_ext_address(tags_code):
            return None
        return self.ext.read(decode_ext_address(tags_code))

    def offset_by_time(
        self, time_ms: int, store_time: StoreTime, min_log_offset: int, line: BrokerLine = LINE_4_9
    ) -> int:
        """Return the queue offset of the message stored at `time_ms`, or near it.

        store_time  store time of the record at (log offset, size), negative when there is none
        line        4.9: the nearest in the first file modified at or after that time; 5.3: the first at or after it
        """
        if line.searches_lower_bound:
            return first_at_or_after(self, time_ms, store_time)
        return nearest_by_time(self, time_ms, store_time, min_log_offset)

    # Keeping.

    def waits_for_flush(self, least_pages: int) -> bool:
        return any(files.waits_for_flush(least_pages) for files in self._file_sets)

    def flush(self, least_pages: int) -> bool:
        """Flush the units; return True if nothing was flushed."""
        unmoved = [files.flush(least_pages) for files in self._file_sets]
        return all(unmoved)

    def destroy(self) -> None:
        """Delete every file of the queue."""
        for files in self._file_sets:
            files.destroy()
        self.max_physic_offset = -1
        self._min_address = 0

    def close(self) -> None:
        for files in self._file_sets:
            files.close()

    @property
    def _file_sets(self) -> list[MappedFileQueue]:
        return [self.files] if self.ext is None else [self.files, self.ext.files]

    def _note_end(self, units: UnitArray, index: int) -> None:
        self.max_physic_offset = int(units["log_offset"][index]) + int(units["size"][index])
