"""CommitLog: appends messages as records, and reads a record at its offset.

How a message becomes a record (CommitLog.asyncPutMessage and DefaultAppendMessageCallback.doAppend, 4.9.8):

    1. checks (put_rules.py): topic and properties lengths      MESSAGE_ILLEGAL
    2. a delayed message goes to SCHEDULE_TOPIC_XXXX, queue level - 1; its real place moves into two properties
    3. sizes: body, record, segment                             MESSAGE_ILLEGAL, PROPERTIES_SIZE_EXCEEDED
    4. one kernel call (append_message) takes store time, queue offset and log offset, copies the bytes into the map (or
       the pool buffer) and then moves `wrote`: readers never see half a record
    5. a record that does not fit with 8 bytes to spare leaves a blank and starts the next segment, under the put lock

A usual message takes one compiled call, put_message, for all steps; other messages take these steps.

The kernel call holds the GIL from its first read to its last write, so putting threads need no lock. With a lock, a
thread that lost the GIL while holding it would stop all others. Batches, bulk puts and step 5 take the put lock and
close the gate that the kernel checks. With uncompiled kernels every put takes the lock.

Prepared and rolled-back messages have queue offset 0 and do not advance their queue.

If stale bytes follow the end of a truncated log, the 8 bytes after each new record are zeroed. So no old record is
read again. 4.9.8 does not zero them.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate

from store import kernels
from store.broker_line import LINE_4_9, BrokerLine
from store.config import StoreConfig
from store.errors import StoreClosed, StoreIOError
from store.files import lost_pages
from store.files.mapped_file import MappedFile
from store.files.mapped_file_queue import MappedFileQueue
from store.formats.given import check_message, check_messages, check_number
from store.formats.host import port_fault
from store.formats.inner_batch import at_queue_offset
from store.formats.message import (
    BLANK_SIZE,
    BORN_HOST_IPV6,
    INNER_BATCH,
    MAX_TOPIC_SIZE_V1,
    QUEUE_OFFSET_AT,
    STORE_HOST_IPV6,
    Message,
    encode_blank,
    encode_record,
    host_flags,
    is_queued,
    record_size,
)
from store.formats.properties import DELAY_MARK, MAX_PROPERTIES_SIZE
from store.formats.property_crc import PLACEHOLDER, with_crc
from store.kernels import append_message, put_message
from store.kernels.encode import LOST_PAGE
from store.kernels.native import clock_ms
from store.structures.commitlog.multi_dispatch import MultiDispatch
from store.structures.commitlog.put_queue import NO_PAGES, NO_TAIL, PutHosts, PutParts, PutQueue, PutTail
from store.structures.commitlog.put_result import PutResult, PutStatus, illegal, no_segment
from store.structures.commitlog.put_rules import PutRules
from store.structures.commitlog.readable_log import ReadableLog
from store.structures.commitlog.tail_pages import TailPages

HOST_FLAGS = BORN_HOST_IPV6 | STORE_HOST_IPV6
_ZEROS = bytes(BLANK_SIZE)
_LONG = struct.Struct(">q")
_GATE = struct.Struct(">qq")
# Finding a member of an enumeration takes 45 ns.
_OK = PutStatus.PUT_OK


def _alone_where_uncompiled(
    put: Callable[[CommitLog, Message], PutResult],
) -> Callable[[CommitLog, Message], PutResult]:
    """Make a put take the put lock if kernels are uncompiled: only compiled kernels hold the GIL."""
    if kernels.COMPILED:
        return put

    def put_alone(log: CommitLog, message: Message) -> PutResult:
        with log.put_lock:
            return put(log, message)

    return put_alone


class CommitLog(ReadableLog):
    """The log of one store. `segments` is its MappedFileQueue; `clock` gives milliseconds."""

    def __init__(
        self,
        segments: MappedFileQueue,
        config: StoreConfig,
        clock: Callable[[], int],
        line: BrokerLine = LINE_4_9,
        before_delay: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(segments)
        self.clock = clock
        self._segment_size = segments.file_size
        self.rules = PutRules(config, segments.file_size, line, before_delay)
        self.light = MultiDispatch(config, line)
        # Brokers that append a CRC append a separator too.
        self._is_verbatim = not line.ends_with_separator and not self.light.is_on
        self._max_body, self._max_record = self.rules.max_body, self.rules.max_record
        self.put_lock = threading.RLock()
        self.locked_since_ms = 0
        """When the running put took the lock; 0 while the lock is free."""
        self.inner_topics = frozenset[str]()
        """Topics whose queues take records of several messages (5.x)."""
        self.stale_segment = -1
        """Start of a segment in which old records lie past the log's end, -1 without one."""
        self._gate = bytearray(_GATE.size)
        """Whether a thread holds the log alone, and the newest store time; no put stores an earlier time."""
        self._flushes_by_time = not config.puts_wait_for_disk
        self._pages, self._is_closed = NO_PAGES, False
        self._queues: dict[tuple[str, int], PutQueue] = {}
        hosts = PutHosts.of(Message(""))
        given_clock = None if clock is clock_ms else clock
        self._parts = PutParts(self._queues, hosts, NO_TAIL, self._gate, given_clock, self._max_body, self._max_record)

    def close(self) -> None:
        """Close the segments; views that callers hold stay valid.

        The log drops its own views: otherwise a deleted file keeps its blocks until the next garbage collection.
        """
        self._is_closed = True
        self._parts, self._pages = self._parts._replace(tail=NO_TAIL), NO_PAGES
        super().close()

    # Queue offsets.

    def set_queue_offset(self, topic: str, queue_id: int, next_offset: int) -> None:
        """Set the queue offset of the queue's next message (CommitLog.recoverTopicQueueTable)."""
        self.put_queue(topic, queue_id).move_to(next_offset)

    def queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the queue's next message."""
        queue = self._queues.get((topic, queue_id))
        return queue.queue_offset if queue is not None else 0

    def put_queue(self, topic: str, queue_id: int) -> PutQueue:
        """Return the queue's cell; change it under the put lock only."""
        return self._queues.setdefault((topic, queue_id), PutQueue.of(topic))

    # Appending.

    @_alone_where_uncompiled
    def put(self, message: Message) -> PutResult:
        """Append one message. The flush service makes it durable."""
        if self._is_verbatim:
            try:
                result: PutResult | None = put_message(self._parts, message, PutResult, _OK, DELAY_MARK)
            except (AttributeError, OverflowError, TypeError):
                # _put_by_steps raises the error with the field's name.
                result = None
            if result is not None:
                return result
        return self._put_by_steps(message)

    def _put_by_steps(self, message: Message) -> PutResult:
        """Append one message of any kind; put_message takes the usual ones."""
        check_message(message)
        if fault := port_fault(message.born_host, message.store_host):
            return illegal(fault)
        queue = self._queues.get((message.topic, message.queue_id))
        if queue is None:
            if refused := self.rules.refuse_place(message.topic, message.queue_id):
                return illegal(refused)
            queue = self.put_queue(message.topic, message.queue_id)
        properties = message.properties
        # `in` first tries the mark as a number, and that exception takes 0.2 us.
        if properties and properties.find(DELAY_MARK) >= 0 and is_queued(message.sys_flag):
            if refused := self.rules.refuse_delayed(message):
                return illegal(refused)
            message = self.rules.delayed(message)
            queue = self.put_queue(message.topic, message.queue_id)
        if not self._is_verbatim:
            names = self.light.names_of(message)
            if names:
                return self._put_to_named(message, names)
            message = replace(message, properties=self.rules.as_stored(message.properties))
            if self.rules.appends_crc:
                return self.put_batch([message], is_batch=False)
        return self._append(message, queue, self._gate, self.clock())

    def _put_to_named(self, message: Message, names: list[str]) -> PutResult:
        with self.put_lock:
            result = self.light.put(
                message,
                names,
                lambda queue: self.queue_offset(*queue),
                lambda one: self.put_batch([one], is_batch=False),
            )
            for queue in self.light.queues_of(message, names) if result.is_ok else ():
                cell = self.put_queue(*queue)
                cell.move_to(cell.queue_offset + 1)
        return result

    def put_replayed(self, message: Message, *, as_stored: bool, store_timestamp_ms: int | None = None) -> PutResult:
        """Append a message of another store, with that store's time if one is given.

        as_stored  True: a delayed message is not delayed again, and a port that no client decodes is kept
        """
        check_message(message)
        if store_timestamp_ms is not None:
            check_number("store_timestamp_ms", store_timestamp_ms, 64)
        fault = "" if as_stored else port_fault(message.born_host, message.store_host)
        if refused := fault or self.rules.refuse_place(message.topic, message.queue_id):
            return illegal(refused)
        if not as_stored and DELAY_MARK in message.properties and is_queued(message.sys_flag):
            if refused := self.rules.refuse_delayed(message):
                return illegal(refused)
            message = self.rules.delayed(message)
        queue = self.put_queue(message.topic, message.queue_id)
        now_ms = self.clock() if store_timestamp_ms is None else store_timestamp_ms
        is_inner = message.sys_flag & INNER_BATCH
        if is_inner and message.topic not in self.inner_topics:
            return illegal(
                f"the queues of {message.topic} take no record of several messages: give the topic the queue.type in "
                "config/topics.json that it had in the other store"
            )
        with self.locked() if is_inner else self.put_lock:
            message, count = at_queue_offset(message, queue.queue_offset)
            # An extra gate, as the given time may be before the newest store time.
            result = self._append(message, queue, _open_gate(now_ms), now_ms)
            if count != 1 and result.is_ok:
                queue.move_to(result.queue_offset + count)
            return result

    def _append(self, message: Message, queue: PutQueue, gate: bytearray, now_ms: int) -> PutResult:
        hosts = self._parts.hosts
        if hosts.born is not message.born_host or hosts.stored is not message.store_host:
            hosts = PutHosts.of(message)
            # put_message takes further messages with these hosts, and checks no ports.
            if not port_fault(message.born_host, message.store_host):
                # This may overwrite another thread's new tail. file_for finds it again, as the old tail has no room.
                self._parts = self._parts._replace(hosts=hosts)
        body, properties = message.body, message.properties
        size = queue.base_size + hosts.extra_size + len(body) + len(properties)
        if size > self._max_record or len(body) > self._max_body or len(properties) > MAX_PROPERTIES_SIZE:
            return self.rules.too_large(message, size)
        born_ms = message.born_timestamp_ms

        def append(tail: PutTail, gate: bytearray, time_ms: int) -> int:
            position: int = append_message(
                gate, tail.wrote, tail.buffer, tail.file_start, tail.limit_position, queue.end, time_ms,
                queue.topic, body, properties, hosts.encoded,
                message.queue_id, message.flag, message.sys_flag & ~HOST_FLAGS | hosts.flags,
                time_ms if born_ms is None else born_ms, message.reconsume_times, message.prepared_transaction_offset,
            )  # fmt: skip
            if position == LOST_PAGE:
                lost_pages.require_none()
            return position

        try:
            tail = self._parts.tail
            position = append(tail, gate, now_ms)
            if position < 0:
                # No room in the segment, a locked log, or a clock that went back: try again under the lock.
                with self.locked() as locked_ms:
                    file = self.file_for(size)
                    tail = PutTail.of(file, file.write_buffer, self._pages)
                    now_ms = locked_ms if gate is self._gate else now_ms
                    position = append(tail, _open_gate(now_ms), now_ms)
                self._pages.go_ahead()
        except StoreIOError as error:
            lost_pages.require_none()
            return no_segment(error)
        if position < 0:
            return illegal("a part has a size that no record can hold")
        tail.file.store_timestamp_ms = now_ms
        queue_offset = _LONG.unpack_from(tail.buffer, position + QUEUE_OFFSET_AT)[0]
        log_offset = tail.file_start + position
        # The same as PutResult(...), in a third of the time.
        return _new(PutResult, (_OK, log_offset, size, queue_offset, now_ms, 1, "", message, ()))

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the put lock and close the gate; yield the store time of puts inside the block."""
        with self.put_lock:
            _GATE.pack_into(self._gate, 0, True, 0)
            self.locked_since_ms = now_ms = self.clock()
            try:
                yield now_ms
            finally:
                # Otherwise every later put would return OS_PAGECACHE_BUSY.
                self.locked_since_ms = 0
                _GATE.pack_into(self._gate, 0, False, now_ms)

    def put_batch(self, messages: Sequence[Message], *, is_batch: bool = True) -> PutResult:
        """Append messages of one queue back to back with one store time; all of them, or none.

        Their properties are stored unchanged; the caller has added the batch's own properties to them.

        is_batch  False for one message that is encoded whole before it is written, under the rules of a single put
        """
        check_messages(messages)
        if self.rules.appends_crc:
            stored = self.rules.as_stored
            messages = [replace(one, properties=stored(one.properties) + PLACEHOLDER) for one in messages]
        if is_batch:
            # MessageExtEncoder writes 0 for every message of a batch.
            messages = [replace(message, prepared_transaction_offset=0) for message in messages]
        refusal = self.rules.refuse_batch(messages, is_batch=is_batch)
        if refusal is not None:
            return refusal
        first = messages[0]
        topic = first.topic.encode()
        sys_flag = first.sys_flag & ~HOST_FLAGS | host_flags(first.born_host, first.store_host)
        v2 = len(topic) > MAX_TOPIC_SIZE_V1
        sizes = [record_size(len(m.body), len(topic), len(m.properties), sys_flag, v2=v2) for m in messages]
        if sum(sizes) + BLANK_SIZE > self._segment_size:
            return illegal(f"the batch has {sum(sizes)} bytes and does not fit into a segment")
        try:
            with self.locked() as now_ms:
                return self._append_batch(messages, topic, sys_flag, sizes, now_ms)
        except StoreIOError as error:
            lost_pages.require_none()
            return no_segment(error)

    def _append_batch(
        self, messages: Sequence[Message], topic: bytes, sys_flag: int, sizes: list[int], now_ms: int
    ) -> PutResult:
        first, size, queued = messages[0], sum(sizes), is_queued(sys_flag)
        queue = self.put_queue(first.topic, first.queue_id)
        file = self.file_for(size)
        position = file.wrote
        log_offset = file.file_start + position
        offsets = tuple(log_offset + before for before in accumulate(sizes[:-1], initial=0))
        records = [
            encode_record(
                message,
                topic=topic,
                sys_flag=sys_flag,
                queue_offset=queue.queue_offset + number if queued else 0,
                log_offset=offset,
                store_timestamp_ms=now_ms,
            )
            for number, (message, offset) in enumerate(zip(messages, offsets, strict=True))
        ]
        if self.rules.appends_crc:
            records = [with_crc(record) for record in records]
        self._write(file, position, b"".join(records))
        file.store_timestamp_ms = now_ms
        queue_offset = queue.queue_offset if queued else 0
        queue.move_to(queue.queue_offset + (len(messages) if queued else 0))
        return PutResult(PutStatus.PUT_OK, log_offset, size, queue_offset, now_ms, len(messages), "", first, offsets)

    def file_for(self, size: int) -> MappedFile:
        """Return a segment with room for `size` bytes and a blank of 8.

        A last segment without that room ends with a blank, and the next one is created.
        The bytes get blocks on the disk; StoreIOError when it is full."""
        if self._is_closed:
            raise StoreClosed("the store is closed", file=self.segments.folder)
        file = self._parts.tail.file
        space = self._segment_size - file.wrote if self._parts.tail is not NO_TAIL else 0
        if size + BLANK_SIZE > space:
            if space:
                self._end_segment(file, space)
            file = self.segments.last_file()
            self._pages = TailPages(file, flushes_by_time=self._flushes_by_time, before=self._pages)
            self._parts = self._parts._replace(tail=PutTail.of(file, file.write_buffer, self._pages))
            if size + BLANK_SIZE > self._segment_size - file.wrote:
                # The store was just opened, and its last segment is nearly full.
                return self.file_for(size)
        self._pages.reserve(file.wrote + size + BLANK_SIZE)
        return file

    def _end_segment(self, file: MappedFile, space: int) -> None:
        if space >= BLANK_SIZE:
            file.reserve(file.wrote + BLANK_SIZE)
            file.write_buffer[file.wrote : file.wrote + BLANK_SIZE] = encode_blank(space)
        file.wrote = self._segment_size

    def _write(self, file: MappedFile, position: int, record: bytes) -> None:
        buffer, end = file.write_buffer, position + len(record)
        # 8 bytes for a blank are always left, so this stays within the segment.
        self.close_stale_tail(file, end)
        buffer[position:end] = record
        lost_pages.require_none()
        file.wrote = end

    def close_stale_tail(self, file: MappedFile, end: int) -> None:
        """Zero the 8 bytes at `end`, so that no stale record is read there."""
        if file.write_buffer[end : end + BLANK_SIZE] != _ZEROS:
            file.write_buffer[end : end + BLANK_SIZE] = _ZEROS


def _open_gate(newest_ms: int) -> bytearray:
    return bytearray(_GATE.pack(False, newest_ms))


_new = tuple.__new__
