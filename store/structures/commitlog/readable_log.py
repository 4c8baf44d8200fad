"""ReadableLog: read records by log offset."""

from __future__ import annotations

from collections.abc import Iterator

from store.errors import DamagedRecord
from store.files import lost_pages
from store.files.mapped_file_queue import MappedFileQueue
from store.formats.columns import DamageReason
from store.formats.message import (
    BLANK_MAGIC,
    BLANK_SIZE,
    RECORD_MIN_SIZE,
    StoredMessage,
    decode_record,
    store_timestamp_at,
)
from store.formats.run import Run
from store.structures.commitlog.resync import readable_behind
from store.structures.commitlog.scan import DEFAULT_RULES, Blank, ScanRules, Step, scan_log


class ReadableLog:
    """The reading half of one store's log. `segments` is its MappedFileQueue."""

    def __init__(self, segments: MappedFileQueue) -> None:
        self.segments = segments

    def close(self) -> None:
        """Close the segments; views that callers hold stay valid."""
        self.segments.close()

    @property
    def min_offset(self) -> int:
        """Start of the first segment, -1 without segments."""
        return self.segments.min_offset

    @property
    def start(self) -> int:
        """Start of the first segment, 0 without segments."""
        return max(self.min_offset, 0)

    @property
    def max_offset(self) -> int:
        """End of the readable bytes."""
        return self.segments.max_offset

    def read(self, log_offset: int, size: int) -> memoryview | None:
        """Return a view of `size` bytes at `log_offset`, without a copy; None unless all bytes are there."""
        file = self.segments.find_by_offset(log_offset, log_offset == 0)
        return file.read(log_offset - file.file_start, size) if file is not None else None

    def lookup(self, log_offset: int, size: int | None = None) -> StoredMessage | None:
        """Return the message at `log_offset`, None when no bytes are there, or a blank.

        Without `size` the record's own size counts.

        DamagedRecord with file and offset when the bytes are no record.
        """
        file = self.segments.find_by_offset(log_offset, log_offset == 0)
        if file is None:
            return None
        seen = lost_pages.count()
        position = log_offset - file.file_start
        if size is None:
            head = file.read(position, BLANK_SIZE)
            if head is None or int.from_bytes(head[4:], "big") == BLANK_MAGIC:
                return None
            size = int.from_bytes(head[:4], "big", signed=True)
        if size < RECORD_MIN_SIZE or size > file.readable_position - position:
            reason = DamageReason.BAD_SIZE if size < RECORD_MIN_SIZE else DamageReason.SIZE_BEYOND_SEGMENT
            raise DamagedRecord(f"{reason.describe()} ({size} bytes)", file=file.path, offset=position)
        record = file.read(position, size)
        message = decode_record(record, file=file.path, position=position) if record is not None else None
        lost_pages.require_none_since(seen)
        return message

    def start_around(self, log_offset: int) -> int | None:
        """Return the start of the record that contains `log_offset` after its first byte; None without one."""
        for step in self._steps_around(log_offset):
            if isinstance(step, Run) and step.end > log_offset:
                starts = step.log_offsets
                before = starts[starts <= log_offset].tolist()
                return before[-1] if before and before[-1] != log_offset else None
        return None

    def is_in_blank(self, log_offset: int) -> bool:
        """Return whether `log_offset` is in the unused rest of a segment."""
        places = [step.file_start + step.position for step in self._steps_around(log_offset) if isinstance(step, Blank)]
        return any(place <= log_offset for place in places)

    def _steps_around(self, log_offset: int) -> Iterator[Step]:
        """Scan the segment around `log_offset`, also after damage."""
        file = self.segments.find_by_offset(log_offset)
        return readable_behind([file], file.file_start, behind_end=False) if file is not None else iter(())

    def store_timestamp(self, log_offset: int, size: int) -> int:
        """Return a record's store time, -1 without a record (CommitLog.pickupStoreTimestamp, 4.9.8)."""
        record = self.read(log_offset, size)
        if record is None or len(record) < RECORD_MIN_SIZE:
            return -1
        return read_store_timestamp(record)

    def earliest_time(self) -> int:
        """Return the store time of the first record, -1 without one."""
        return self.store_timestamp(self.min_offset, RECORD_MIN_SIZE)

    def scan(self, log_offset: int | None = None, rules: ScanRules = DEFAULT_RULES) -> Iterator[Step]:
        """Scan the log from `log_offset` on."""
        return scan_log(self.segments.files, log_offset, rules=rules)


def read_store_timestamp(record: memoryview) -> int:
    """Return the store time field of a record."""
    sys_flag = int.from_bytes(record[36:40], "big")
    at = store_timestamp_at(sys_flag)
    return int.from_bytes(record[at : at + 8], "big", signed=True)
