"""put_many: columns of messages, encoded by a kernel straight into the map.

    1. the columns are checked, the kernel's arguments made once from them
    2. chunk by chunk, under the put lock: store time, queue offsets, then the kernel writes records into the segment
       until the chunk, the segment or the messages end
    3. `wrote` moves behind a whole chunk, so readers never see half a record

Source: CommitLog.MessageExtEncoder.encode, DefaultAppendMessageCallback.doAppend (4.9.8).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from store import kernels
from store.errors import BadRequest, StoreIOError
from store.files import lost_pages
from store.formats.columns import COLUMN_NAMES, Column, ScanOutcome
from store.formats.message import (
    BLANK_SIZE,
    BORN_HOST_IPV6,
    MAX_TOPIC_SIZE_V1,
    RECORD_MIN_SIZE,
    STORE_HOST_IPV6,
    host_flags,
)
from store.formats.properties import DELAY_MARK, PROPERTY_SEPARATOR
from store.formats.run import Int64Array
from store.kernels.encode import NUMBER_NAMES, STORE_HOST_AT
from store.structures.commitlog.bulk import MessageColumns, PutManyResult
from store.structures.commitlog.column_check import check_columns
from store.structures.commitlog.commit_log import CommitLog
from store.structures.commitlog.multi_dispatch import LIGHT_MARK
from store.structures.commitlog.put_result import no_segment
from store.structures.commitlog.scan import RUN_CAPACITY

# Two IPv6 hosts take 12 bytes each more than IPv4 ones.
_MOST_EXTRA = 24


def put_many(log: CommitLog, messages: MessageColumns) -> PutManyResult:
    """Appends columns of messages, each as `CommitLog.put` would store it.

    Refused ones are left out. Delayed messages and those for light queues have to be rewritten, so columns with any go
    one by one; so do those with a property CRC or a long topic (5.x), and all while old records lie past the end,
    where a chunk that is half written must not run into one.

    BadRequest when the columns don't hold together; then nothing is written.
    """
    check_columns(messages)
    result = PutManyResult.empty(len(messages))
    last = log.segments.last
    is_stale = last is not None and last.file_start == log.stale_segment
    has_v2 = any(len(topic.encode()) > MAX_TOPIC_SIZE_V1 for topic in messages.topics)
    has_light = log.light.is_on and messages.find_in_properties(LIGHT_MARK)
    if is_stale or has_v2 or has_light or log.rules.appends_crc or messages.find_in_properties(DELAY_MARK):
        return _put_one_by_one(log, messages, result)
    if log.rules.line.ends_with_separator:
        messages = _with_separators(messages)
    refused = log.rules.refuse_rows(messages)
    for row in np.flatnonzero(refused):
        result.refused[int(row)] = log.put(messages.message(int(row)))
    _BulkPut(log, messages, np.flatnonzero(~refused), result).run()
    return result


def _with_separators(messages: MessageColumns) -> MessageColumns:
    """The messages with a separator behind every property string, as a 5.3 broker stores them."""
    ends, data = messages.property_ends, np.frombuffer(messages.properties, np.uint8)
    lacks = np.flatnonzero(np.diff(ends))
    lacks = lacks[data[ends[lacks + 1] - 1] != ord(PROPERTY_SEPARATOR)]
    if not len(lacks):
        return messages
    added = np.zeros(len(ends), np.int64)
    added[lacks + 1] = 1
    longer = np.insert(data, ends[lacks + 1], ord(PROPERTY_SEPARATOR))
    return replace(messages, properties=memoryview(longer.tobytes()), property_ends=ends + np.cumsum(added))


def _put_one_by_one(log: CommitLog, messages: MessageColumns, result: PutManyResult) -> PutManyResult:
    for row in range(len(messages)):
        one = log.put(messages.message(row))
        result.log_offsets[row], result.queue_offsets[row] = one.log_offset, one.queue_offset
        result.sizes[row], result.store_timestamps_ms[row] = one.size, one.store_timestamp_ms
        if not one.is_ok:
            result.refused[row] = one
    return result


class _BulkPut:
    """One put_many under way: the kernel's arguments, made once, and where each chunk of messages landed."""

    def __init__(self, log: CommitLog, messages: MessageColumns, rows: Int64Array, result: PutManyResult) -> None:
        self.log = log
        self.messages = messages
        self.rows = rows
        self.result = result
        self.bodies, self.properties = messages.bodies, messages.properties
        topics = [topic.encode() for topic in messages.topics]
        self.topics = memoryview(b"".join(topics))
        self.topic_ends = np.concatenate(([0], np.cumsum([len(topic) for topic in topics]))).astype(np.int64)
        self.queue_keys, self.queue_of = messages.number_queues()
        born, stored = messages.born_host.encode(), messages.store_host.encode()
        self.hosts = memoryview(born.ljust(STORE_HOST_AT, b"\0") + stored.ljust(STORE_HOST_AT, b"\0"))
        self.columns = np.empty((len(COLUMN_NAMES), RUN_CAPACITY), np.int64)
        self.state = np.zeros(8, np.int64)
        self.next_size = RECORD_MIN_SIZE

    def run(self) -> None:
        """Chunk by chunk, each under the put lock for its own time only."""
        if not len(self.rows):
            return
        numbers, body_ends, property_ends = self._numbers()
        start = 0
        while start < len(self.rows):
            stop = min(start + RUN_CAPACITY, len(self.rows))
            try:
                with self.log.locked() as now_ms:
                    start += self._chunk(numbers[:, :stop], body_ends, property_ends, start, now_ms)
            except StoreIOError as error:
                lost_pages.require_none()
                self.result.refused |= dict.fromkeys(self.rows[start:].tolist(), no_segment(error))
                return

    def _numbers(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Numbers of the rows to store, as the kernel reads them; only these are copied for refused rows."""
        messages = self.messages
        numbers = np.zeros((len(NUMBER_NAMES), len(messages)), np.int64)
        for name, column in messages.numbers.items():
            numbers[NUMBER_NAMES.index(name)] = column
        numbers[NUMBER_NAMES.index("topic")] = messages.topic_of
        numbers[NUMBER_NAMES.index("queue")] = self.queue_of
        flags = host_flags(messages.born_host, messages.store_host)
        sys_flags = numbers[NUMBER_NAMES.index("sys_flag")]
        sys_flags &= ~(BORN_HOST_IPV6 | STORE_HOST_IPV6)
        sys_flags |= flags
        if len(self.rows) == len(messages):
            return numbers, messages.body_ends, messages.property_ends
        kept = MessageColumns.of([messages.message(int(row)) for row in self.rows])
        self.bodies, self.properties = kept.bodies, kept.properties
        return np.ascontiguousarray(numbers[:, self.rows]), kept.body_ends, kept.property_ends

    def _chunk(
        self, numbers: Int64Array, body_ends: Int64Array, property_ends: Int64Array, start: int, now_ms: int
    ) -> int:
        log = self.log
        numbers[NUMBER_NAMES.index("store_timestamp_ms"), start:] = now_ms
        file = log.file_for(self.next_size)
        file.reserve(min(file.size, file.wrote + _most_bytes(body_ends, property_ends, start, numbers.shape[1])))
        cells = [log.put_queue(self.messages.topics[int(key) >> 32], int(key) & 0xFFFFFFFF) for key in self.queue_keys]
        next_offsets = np.array([cell.queue_offset for cell in cells], np.int64)
        count = int(
            kernels.encode_records(
                file.write_buffer, file.wrote, file.file_start,
                self.bodies, body_ends, self.properties, property_ends,
                self.topics, self.topic_ends, self.hosts,
                numbers, start, next_offsets, self.columns, self.state,
            )
        )  # fmt: skip
        if not count and self.state[1] not in (ScanOutcome.BLANK, ScanOutcome.LIMIT):
            row = int(self.rows[start])
            raise BadRequest(f"the message in row {row} cannot be encoded: a part has a size that no record can hold")
        end = int(self.state[0])
        log.close_stale_tail(file, end)
        lost_pages.require_none()
        file.wrote = end
        file.store_timestamp_ms = now_ms
        for cell, next_offset in zip(cells, next_offsets.tolist(), strict=True):
            cell.move_to(next_offset)
        rows = self.rows[start : start + count]
        self.result.log_offsets[rows] = self.columns[Column.POSITION, :count] + file.file_start
        self.result.sizes[rows] = self.columns[Column.SIZE, :count]
        self.result.queue_offsets[rows] = self.columns[Column.QUEUE_OFFSET, :count]
        self.result.store_timestamps_ms[rows] = now_ms
        # The record that did not fit asks for its segment in the next chunk, which may fail without this one.
        self.next_size = int(self.state[3]) if self.state[1] == ScanOutcome.BLANK else RECORD_MIN_SIZE
        return count


def _most_bytes(body_ends: Int64Array, property_ends: Int64Array, start: int, stop: int) -> int:
    """The greatest number of bytes that the records of these rows and a blank behind them can take."""
    parts = body_ends[stop] - body_ends[start] + property_ends[stop] - property_ends[start]
    return int(parts) + (stop - start) * (RECORD_MIN_SIZE + MAX_TOPIC_SIZE_V1 + _MOST_EXTRA) + BLANK_SIZE
