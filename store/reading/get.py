"""get: the messages of one queue from a queue offset on, exactly as from one broker call.

    max == 0            NO_MESSAGE_IN_QUEUE     next 0
    offset < min        OFFSET_TOO_SMALL        next min
    offset == max       OFFSET_OVERFLOW_ONE     next offset
    offset > max        OFFSET_OVERFLOW_BADLY   next max
    no queue file       OFFSET_FOUND_NULL       next: start of the following queue file
    else                scan the units of this queue file: FOUND, NO_MATCHED_MESSAGE or MESSAGE_WAS_REMOVING

A call ends at the end of its queue file, or at a limit of messages, bytes or scanned units. Messages farther from the
log's end than accessMessageInMemoryMaxRatio of the machine's memory count as on disk, with lower limits.

Source: DefaultMessageStore.getMessage, isTheBatchFull (4.9.8).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from store.config import StoreConfig
from store.errors import DamagedRecord
from store.formats.message import decode_record
from store.formats.queue_unit import (
    BATCH_UNIT_SIZE,
    UNIT_SIZE,
    BatchUnit,
    ExtUnit,
    QueueUnit,
    decode_unit,
    is_ext_address,
)
from store.formats.wording import amount
from store.structures.commitlog.readable_log import ReadableLog
from store.structures.get_result import GetResult, GetStatus, MessageFilter

MAX_FILTERED_UNIT_BYTES = 16_000
_SKIP_NONE = -(1 << 63)


class Queue(Protocol):
    """The part of a ConsumeQueue that a get needs.

    Offsets are queue offsets.
    """

    @property
    def min_offset(self) -> int: ...

    @property
    def max_offset(self) -> int: ...

    @property
    def holds_batches(self) -> bool:
        """Whether a unit may have several messages; units_from then replaces read_range."""

    def units_from(self, queue_offset: int) -> Iterator[BatchUnit] | None:
        """Return the units from that of `queue_offset` to the end of its file."""

    def read_range(self, queue_offset: int) -> memoryview | None:
        """Return the written units from `queue_offset` to the end of its file, 20 bytes each."""

    def roll_next_file(self, queue_offset: int) -> int: ...

    def ext_unit(self, tags_code: int) -> ExtUnit | None:
        """Return the extension unit at the address in a tags code; None without one."""


def get_message(
    log: ReadableLog,
    queue: Queue | None,
    offset: int,
    max_count: int,
    config: StoreConfig,
    message_filter: MessageFilter | None = None,
    memory_size: Callable[[], int] | None = None,
) -> GetResult:
    """Return the result of one call of DefaultMessageStore.getMessage; `queue` is None if missing."""
    if queue is None or queue.max_offset == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    low, high = queue.min_offset, queue.max_offset
    if offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
    if offset == high:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
    if offset > high:
        return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
    call = _Call(log, queue, config, message_filter, (memory_size or physical_memory_size)())
    if queue.holds_batches:
        return call.run_over_batches(offset, max_count, GetResult(GetStatus.NO_MATCHED_MESSAGE, offset, low, high))
    units = queue.read_range(offset)
    if units is None:
        return GetResult(GetStatus.OFFSET_FOUND_NULL, queue.roll_next_file(offset), low, high)
    return call.run(units, offset, max_count, GetResult(GetStatus.NO_MATCHED_MESSAGE, offset, low, high))


def physical_memory_size() -> int:
    """Return the bytes of memory of this machine (StoreUtil.getTotalPhysicalMemorySize)."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(slots=True)
class _Call:
    log: ReadableLog
    queue: Queue
    config: StoreConfig
    message_filter: MessageFilter | None
    memory_size: int
    outside: list[int] = field(default_factory=list)
    """Log offsets of units without a record in the log."""

    def run(self, units: memoryview, offset: int, max_count: int, result: GetResult) -> GetResult:
        log_end = self.log.max_offset
        in_memory_bytes = self.memory_size * self.config.access_message_in_memory_max_ratio // 100
        scanned = 0
        skip_before = _SKIP_NONE
        while scanned < len(units) and scanned < max(MAX_FILTERED_UNIT_BYTES, max_count * UNIT_SIZE):
            unit = decode_unit(units, scanned)
            scanned += UNIT_SIZE
            if unit.log_offset < skip_before:
                if unit.log_offset >= self.log.min_offset:
                    self.outside.append(unit.log_offset)
                continue
            on_disk = log_end - unit.log_offset > in_memory_bytes
            if self._is_full(result, unit.size, max_count, on_disk):
                scanned -= UNIT_SIZE
                break
            skip_before = self._collect(unit, result) if self._wants(unit, result) else skip_before
        result.next_offset = offset + scanned // UNIT_SIZE
        result.damaged += self._damage_of_units()
        return result

    def run_over_batches(self, offset: int, max_count: int, result: GetResult) -> GetResult:
        """Collect messages like `run`, over the units of a batch queue.

        `max_count` limits messages, but a record is never split (5.3.3).
        """
        units = self.queue.units_from(offset)
        if units is None:
            result.status, result.next_offset = GetStatus.OFFSET_FOUND_NULL, self.queue.roll_next_file(offset)
            return result
        filtered_bytes = max(MAX_FILTERED_UNIT_BYTES, max_count * BATCH_UNIT_SIZE)
        in_memory_bytes = self.memory_size * self.config.access_message_in_memory_max_ratio // 100
        log_end, taken = self.log.max_offset, 0
        for unit in units:
            if (unit.queue_offset - offset) * BATCH_UNIT_SIZE > filtered_bytes:
                break
            on_disk = log_end - unit.log_offset > in_memory_bytes
            if result.messages and (
                taken + unit.message_count > max_count or self._is_full(result, unit.size, max_count, on_disk)
            ):
                break
            result.next_offset = unit.queue_offset + unit.message_count
            plain = QueueUnit(unit.log_offset, unit.size, unit.tags_code)
            if self._wants(plain, result):
                before = len(result.messages)
                self._collect(plain, result)
                taken += unit.message_count * (len(result.messages) - before)
        result.message_count = taken
        result.damaged += self._damage_of_units()
        return result

    def _wants(self, unit: QueueUnit, result: GetResult) -> bool:
        """Return whether the unit's message must be read.

        Until a message is found, the last unit determines the status.
        """
        wanted = self.message_filter is None or self._matches(unit, self.message_filter)
        if not wanted and not result.messages:
            result.status = GetStatus.NO_MATCHED_MESSAGE
        return wanted

    def _matches(self, unit: QueueUnit, message_filter: MessageFilter) -> bool:
        if not is_ext_address(unit.tags_code):
            return message_filter.matches_tags_code(unit.tags_code)
        ext = self.queue.ext_unit(unit.tags_code)
        # If the extension unit is lost, the record still has its tags.
        return ext is None or message_filter.matches_tags_code(ext.tags_code, ext)

    def _collect(self, unit: QueueUnit, result: GetResult) -> int:
        """Add the unit's message; return the end of the log offsets to skip, or _SKIP_NONE."""
        record = self.log.read(unit.log_offset, unit.size)
        if record is None:
            if not result.messages:
                result.status = GetStatus.MESSAGE_WAS_REMOVING
            return self._pass_over(unit.log_offset)
        try:
            message = decode_record(record, position=unit.log_offset)
        except DamagedRecord as damage:
            result.damaged.append(damage)
            return _SKIP_NONE
        if self.message_filter is None or self.message_filter.matches(message):
            result.messages.append(message)
            result.size += unit.size
            result.status = GetStatus.FOUND
        elif not result.messages:
            result.status = GetStatus.NO_MATCHED_MESSAGE
        return _SKIP_NONE

    def _pass_over(self, log_offset: int) -> int:
        """Return the end of the log offsets to skip; remember a unit whose record has not expired.

        A broker always skips to the following segment. Here a damaged unit that points past the log's end skips
        nothing, as it would hide all later units.
        """
        log, size = self.log, self.config.mapped_file_size_commit_log
        if not 0 <= log_offset < log.min_offset:
            self.outside.append(log_offset)
            if not 0 <= log_offset < log.max_offset or log.read(log_offset, 1) is not None:
                return _SKIP_NONE
        return log_offset + size - log_offset % size

    def _damage_of_units(self) -> list[DamagedRecord]:
        """Return one DamagedRecord for all units outside of the log, as they may be many."""
        if not self.outside:
            return []
        more = f", as at {amount(len(self.outside) - 1, 'more place')}" if len(self.outside) > 1 else ""
        reason = f"a queue entry points to log offset {self.outside[0]}{more}, where the log has no record of this size"
        damage = DamagedRecord(reason, code="unit-outside")
        damage.record_count = len(self.outside)
        return [damage]

    def _is_full(self, result: GetResult, size: int, max_count: int, on_disk: bool) -> bool:
        if not result.messages:
            return False
        count = len(result.messages)
        if count >= max_count:
            return True
        config = self.config
        if on_disk:
            max_bytes = config.max_transfer_bytes_on_message_in_disk
            max_messages = config.max_transfer_count_on_message_in_disk
        else:
            max_bytes = config.max_transfer_bytes_on_message_in_memory
            max_messages = config.max_transfer_count_on_message_in_memory
        return result.size + size > max_bytes or count > max_messages - 1
