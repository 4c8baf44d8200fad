"""put_many: a kernel encodes columns of messages directly into the mapped segment.

    1. check the columns, and make the kernel's arguments from them once
    2. for each chunk, under the put lock: take store time and queue offsets; the kernel writes records into the segment
       until the chunk, the segment or the messages end
    3. move `wrote` past the whole chunk, so readers never see half a record

Source: CommitLog.MessageExtEncoder.encode, DefaultAppendMessageCallback.doAppend (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from store import kernels
from store.errors import BadRequest, StoreIOError
from store.files import lost_pages
from store.formats.columns import COLUMN_NAMES, Column, ScanOutcome
from store.formats.message import (
    BLANK_SIZE,
    BORN_HOST_IPV6,
    INNER_BATCH,
    MAX_TOPIC_SIZE_V1,
    RECORD_MIN_SIZE,
    STORE_HOST_IPV6,
    host_flags,
)
from store.formats.properties import DELAY_MARK, PROPERTY_SEPARATOR
from store.formats.run import Int64Array
from store.kernels.encode import NUMBER_NAMES, STORE_HOST_AT
from store.structures.commitlog.bulk import MessageColumns, PutManyResult
from store.structures.commitlog.column_check import check_columns, check_shape
from store.structures.commitlog.commit_log import CommitLog
from store.structures.commitlog.multi_dispatch import LIGHT_MARK
from store.structures.commitlog.put_result import PutResult, no_segment
from store.structures.commitlog.scan import RUN_CAPACITY

# Two IPv6 hosts take 12 bytes each more than IPv4 ones.
_MOST_EXTRA = 24
_STORE_TIME = NUMBER_NAMES.index("store_timestamp_ms")


def put_many(log: CommitLog, messages: MessageColumns) -> PutManyResult:
    """Append columns of messages, each as `CommitLog.put` would store it.

    Refused messages are left out. Columns are put one message at a time if any message is delayed or goes to light
    queues, as those are rewritten. So are columns with a property CRC (5.x), and those in `_needs_care`.
    BadRequest for inconsistent columns; then nothing is written.
    """
    check_columns(messages)
    has_light = log.light.is_on and messages.find_in_properties(LIGHT_MARK)
    is_rewritten = has_light or log.rules.appends_crc or messages.find_in_properties(DELAY_MARK)
    if is_rewritten or _needs_care(log, messages):
        return PutManyResult.of([log.put(messages.message(row)) for row in range(len(messages))])
    if log.rules.line.ends_with_separator:
        messages = _with_separators(messages)
    return _put_rows(log, messages, lambda row: log.put(messages.message(row)), as_stored=False)


def put_many_replayed(
    log: CommitLog, messages: MessageColumns, *, as_stored: bool, store_timestamps_ms: Int64Array | None = None
) -> PutManyResult:
    """Append columns of another store's messages, each as `CommitLog.put_replayed` would."""
    check_columns(messages)
    if store_timestamps_ms is not None:
        check_shape("store_timestamps_ms", store_timestamps_ms, len(messages))

    def put_one(row: int) -> PutResult:
        time_ms = None if store_timestamps_ms is None else int(store_timestamps_ms[row])
        return log.put_replayed(messages.message(row), as_stored=as_stored, store_timestamp_ms=time_ms)

    has_inner = (messages.numbers["sys_flag"] & INNER_BATCH).any()
    if has_inner or _needs_care(log, messages) or (not as_stored and messages.find_in_properties(DELAY_MARK)):
        return PutManyResult.of([put_one(row) for row in range(len(messages))])
    return _put_rows(log, messages, put_one, store_timestamps_ms, as_stored=as_stored)


def _needs_care(log: CommitLog, messages: MessageColumns) -> bool:
    """Return whether a topic is too long for V1, or old records lie past the log's end.

    A half-written chunk could join those old records.
    """
    last = log.segments.last
    is_stale = last is not None and last.file_start == log.stale_segment
    return is_stale or any(len(topic.encode()) > MAX_TOPIC_SIZE_V1 for topic in messages.topics)


def _put_rows(
    log: CommitLog,
    messages: MessageColumns,
    put_one: Callable[[int], PutResult],
    store_timestamps_ms: Int64Array | None = None,
    *,
    as_stored: bool,
) -> PutManyResult:
    """Append the accepted rows; `put_one` returns the refusal of each other row."""
    result = PutManyResult.empty(len(messages))
    refused = log.rules.refuse_rows(messages, as_stored=as_stored)
    for row in np.flatnonzero(refused).tolist():
        result.refused[row] = put_one(row)
    _BulkPut(log, messages, np.flatnonzero(~refused), result, store_timestamps_ms).run()
    return result


def _with_separators(messages: MessageColumns) -> MessageColumns:
    """Return the messages with a separator after every property string, as a 5.3 broker stores them."""
    ends, data = messages.property_ends, np.frombuffer(messages.properties, np.uint8)
    lacks = np.flatnonzero(np.diff(ends))
    lacks = lacks[data[ends[lacks + 1] - 1] != ord(PROPERTY_SEPARATOR)]
    if not len(lacks):
        return messages
    added = np.zeros(len(ends), np.int64)
    added[lacks + 1] = 1
    longer = np.insert(data, ends[lacks + 1], ord(PROPERTY_SEPARATOR))
    return replace(messages, properties=memoryview(longer.tobytes()), property_ends=ends + np.cumsum(added))


class _BulkPut:
    """One running put_many: the kernel's arguments, and the result that each chunk fills in."""

    def __init__(
        self,
        log: CommitLog,
        messages: MessageColumns,
        rows: Int64Array,
        result: PutManyResult,
        store_timestamps_ms: Int64Array | None,
    ) -> None:
        self.log = log
        self.messages = messages
        self.rows = rows
        self.result = result
        self.bodies, self.properties = messages.bodies, messages.properties
        topics = [topic.encode() for topic in messages.topics]
        self.topics = memoryview(b"".join(topics))
        self.topic_ends = np.concatenate(([0], np.cumsum([len(topic) for topic in topics]))).astype(np.int64)
        self.queue_keys, self.queue_of = messages.number_queues()
        self.times = store_timestamps_ms
        self.pairs, self.pair_of = messages.host_pairs()
        hosts = [host.encode().ljust(STORE_HOST_AT, b"\0") for pair in self.pairs for host in pair]
        self.hosts = memoryview(b"".join(hosts))
        self.columns = np.empty((len(COLUMN_NAMES), RUN_CAPACITY), np.int64)
        self.state = np.zeros(8, np.int64)
        self.next_size = RECORD_MIN_SIZE

    def run(self) -> None:
        """Put the chunks; the put lock is free between two chunks."""
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
        """Return numbers, body ends and property ends of the rows to store, as the kernel reads them.

        If rows are refused, bodies and properties of the others are copied.
        """
        messages = self.messages
        numbers = np.zeros((len(NUMBER_NAMES), len(messages)), np.int64)
        for name, column in messages.numbers.items():
            numbers[NUMBER_NAMES.index(name)] = column
        numbers[NUMBER_NAMES.index("topic")] = messages.topic_of
        numbers[NUMBER_NAMES.index("queue")] = self.queue_of
        numbers[NUMBER_NAMES.index("hosts")] = self.pair_of
        if self.times is not None:
            numbers[_STORE_TIME] = self.times
        sys_flags = numbers[NUMBER_NAMES.index("sys_flag")]
        sys_flags &= ~(BORN_HOST_IPV6 | STORE_HOST_IPV6)
        sys_flags |= np.array([host_flags(*pair) for pair in self.pairs], np.int64)[self.pair_of]
        if len(self.rows) == len(messages):
            return numbers, messages.body_ends, messages.property_ends
        self.bodies, body_ends = _kept(messages.bodies, messages.body_ends, self.rows)
        self.properties, property_ends = _kept(messages.properties, messages.property_ends, self.rows)
        return np.ascontiguousarray(numbers[:, self.rows]), body_ends, property_ends

    def _chunk(
        self, numbers: Int64Array, body_ends: Int64Array, property_ends: Int64Array, start: int, now_ms: int
    ) -> int:
        log = self.log
        if self.times is None:
            numbers[_STORE_TIME, start:] = now_ms
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
        if count:
            file.store_timestamp_ms = int(self.columns[Column.STORE_TIMESTAMP_MS, count - 1])
        for cell, next_offset in zip(cells, next_offsets.tolist(), strict=True):
            cell.move_to(next_offset)
        rows = self.rows[start : start + count]
        self.result.log_offsets[rows] = self.columns[Column.POSITION, :count] + file.file_start
        self.result.sizes[rows] = self.columns[Column.SIZE, :count]
        self.result.queue_offsets[rows] = self.columns[Column.QUEUE_OFFSET, :count]
        self.result.store_timestamps_ms[rows] = self.columns[Column.STORE_TIMESTAMP_MS, :count]
        # The next chunk makes the segment for the record that did not fit: if that fails, this chunk stays stored.
        self.next_size = int(self.state[3]) if self.state[1] == ScanOutcome.BLANK else RECORD_MIN_SIZE
        return count


def _kept(data: Any, ends: Int64Array, rows: Int64Array) -> tuple[memoryview, Int64Array]:
    """Copy the parts of some rows into one buffer, and return it with their ends."""
    starts, stops = ends[rows].tolist(), ends[rows + 1].tolist()
    kept_ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(ends[rows + 1] - ends[rows], out=kept_ends[1:])
    parts = (data[start:stop] for start, stop in zip(starts, stops, strict=True))
    return memoryview(b"".join(parts)), kept_ends


def _most_bytes(body_ends: Int64Array, property_ends: Int64Array, start: int, stop: int) -> int:
    """Return the most bytes that the records of these rows and a blank after them can take."""
    parts = body_ends[stop] - body_ends[start] + property_ends[stop] - property_ends[start]
    return int(parts) + (stop - start) * (RECORD_MIN_SIZE + MAX_TOPIC_SIZE_V1 + _MOST_EXTRA) + BLANK_SIZE
