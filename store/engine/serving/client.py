"""StoreClient: a client of a store that another process serves, through its control socket.

    with StoreClient.connect("/data/store") as store:
        store.put(Message.of("Orders", "hello"))
        store.flush()

The methods are those of WritableStore. The engine's errors are raised in the client. A connection answers one call
after the other; threads that put at the same time need a client each. The owner may end a quiet connection: the next
call connects again.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from store import errors
from store.engine.serving.filters import describe_filter
from store.engine.serving.frames import Frame, Head, pack_messages, receive_frame, send_frame, split_records
from store.engine.serving.place import connect_to, socket_path
from store.engine.serving.remote import RemoteFilters, RemoteTransactions, read_put_row
from store.errors import BadRequest, DamagedRecord, StoreClosed, StoreError
from store.formats.given import (
    check_flag,
    check_get,
    check_kind,
    check_number,
    check_query,
    check_queue,
    check_sequence,
    check_text,
)
from store.formats.message import Message, StoredMessage, decode_record
from store.opened.arguments import checks_arguments
from store.reading.message_store import QueryResult
from store.reading.stores import END_OF_TIME_MS, LiveStore
from store.structures.commitlog.put_result import PutResult
from store.structures.get_result import GetResult, GetStatus, MessageFilter

MOST_PUT_BYTES = 8 << 20
"""The most bytes of messages in one frame of put_all; one message may be larger."""
STOP_POLL_S = 0.02


class StoreClient(LiveStore):
    """One connection to the owner of a store."""

    def __init__(self, path: Path, connection: Any) -> None:
        self.path = path
        self._connection = connection
        self._lock = threading.Lock()
        hello = self._call({"call": "hello"}).head
        self.process_id: int = hello["process_id"]
        """The owner's process."""
        self.line: str = hello["line"]
        self.services: list[str] = hello["services"]
        self.delay_level_count: int = hello["delay_level_count"]
        self.transactions = RemoteTransactions(self._call)
        self.filters = RemoteFilters(self._call)

    @classmethod
    @checks_arguments
    def connect(cls, root: str | Path) -> Self:
        """Connect to the owner of the store at `root`; BadRequest if no process serves it."""
        client = cls.find(root)
        if client is None:
            raise BadRequest("no process serves this store", file=Path(root), code="not-served")
        return client

    @classmethod
    @checks_arguments
    def find(cls, root: str | Path) -> Self | None:
        """Connect likewise; None if no process serves the store, or this user may not connect."""
        path = socket_path(Path(root))
        connection = connect_to(path)
        return cls(path, connection) if connection is not None else None

    def close(self) -> None:
        """End the connection; the store is served further."""
        self._connection.close()

    # Putting.

    def put(self, message: Message) -> PutResult:
        """Append one message; the owner's flushDiskType decides whether it is durable at once."""
        return self.put_all([message])[0]

    def put_all(self, messages: Sequence[Message]) -> list[PutResult]:
        """Append messages in their order; each has its own result."""
        results: list[PutResult] = []
        start = size = 0
        check_sequence("messages", messages)
        for place, message in enumerate(messages):
            check_kind("message", message, Message)
            size += len(message.body) + len(message.properties)
            if size >= MOST_PUT_BYTES or place == len(messages) - 1:
                results += self._put(messages[start : place + 1], {})
                start, size = place + 1, 0
        return results

    def put_replayed(
        self, message: Message, *, as_stored: bool = True, store_timestamp_ms: int | None = None
    ) -> PutResult:
        """Append a message of another store, as WritableStore.put_replayed does."""
        check_kind("message", message, Message)
        check_flag("as_stored", as_stored)
        if store_timestamp_ms is not None:
            check_number("store_timestamp_ms", store_timestamp_ms, 64)
        options = {"is_replayed": True, "as_stored": as_stored, "store_timestamp_ms": store_timestamp_ms}
        return self._put([message], options)[0]

    def _put(self, messages: Sequence[Message], options: dict[str, Any]) -> list[PutResult]:
        rows, attachment = pack_messages(messages)
        answer = self._call({"call": "put", "messages": rows, **options}, attachment).head
        return [read_put_row(row, message) for message, row in zip(messages, answer["results"], strict=True)]

    # Getting.

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        message_filter: MessageFilter | None = None,
        *,
        group: str | None = None,
    ) -> GetResult:
        """Make one broker call, counted for the group."""
        check_get(topic, queue_id, offset, max_count)
        if group is not None:
            check_text("group", group)
        head = {"call": "get", "topic": topic, "queue_id": queue_id, "offset": offset, "max_count": max_count}
        options = {"filter": describe_filter(message_filter), **({"group": group} if group is not None else {})}
        answer = self._call(head | options)
        return _get_result(answer)

    def wait_for_message(
        self, topic: str, queue_id: int, offset: int, timeout_ms: int, message_filter: MessageFilter | None = None
    ) -> bool:
        """Wait for a message at `offset` or after it; False if the time is over, at most 60 seconds."""
        check_queue(topic, queue_id)
        check_number("offset", offset, 64)
        check_number("timeout_ms", timeout_ms, 64)
        head = {"call": "wait", "topic": topic, "queue_id": queue_id, "offset": offset, "timeout_ms": timeout_ms}
        return bool(self._call({**head, "filter": describe_filter(message_filter)}).head["has_come"])

    def lookup(self, log_offset: int) -> StoredMessage | None:
        """Return the message at a log offset, None if the log has none."""
        check_number("log_offset", log_offset, 64)
        answer = self._call({"call": "lookup", "log_offset": log_offset})
        return decode_record(answer.attachment) if answer.head["is_found"] else None

    def query(
        self,
        topic: str,
        key: str,
        max_count: int = 32,
        begin_ms: int = 0,
        end_ms: int = END_OF_TIME_MS,
        *,
        verify: bool = True,
        by_tags: bool = False,
        in_database: bool = False,
    ) -> QueryResult:
        """Return messages by key, as MessageStore.query finds them."""
        flags = {"verify": verify, "by_tags": by_tags, "in_database": in_database}
        check_query(topic, key, max_count, begin_ms, end_ms, **flags)
        head = {"call": "query", "topic": topic, "key": key, "max_count": max_count, "begin_ms": begin_ms}
        answer = self._call(head | {"end_ms": end_ms} | flags)
        found = answer.head
        names = ("index_files", "last_update_timestamp_ms", "last_update_log_offset", "is_limited")
        return QueryResult(_records(answer), **{name: found[name] for name in names}, damaged=_damaged(answer))

    def topics(self) -> list[str]:
        """Return the topics that have queues."""
        return list(self._call({"call": "topics"}).head["topics"])

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues."""
        check_text("topic", topic)
        return list(self._call({"call": "queues", "topic": topic}).head["queue_ids"])

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of a queue's first message; 0 for an unknown queue."""
        return self._offset("min_offset", topic, queue_id)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of a queue's next message; 0 for an unknown queue."""
        return self._offset("max_offset", topic, queue_id)

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        """Return the queue offset for a store time; 0 for an unknown queue."""
        check_queue(topic, queue_id)
        check_number("time_ms", time_ms, 64)
        head = {"call": "offset_by_time", "topic": topic, "queue_id": queue_id, "time_ms": time_ms}
        return int(self._call(head).head["offset"])

    def _offset(self, name: str, topic: str, queue_id: int) -> int:
        check_queue(topic, queue_id)
        return int(self._call({"call": "offsets", "topic": topic, "queue_id": queue_id}).head[name])

    # Keeping.

    @checks_arguments
    def stats(self, ring: str = "minute") -> Head:
        """Return the owner's report.

        It has `runtime`, `items`, `moments`, `flags`, `findings`, and the fields of ServedState.
        """
        return self._call({"call": "stats", "ring": ring}).head

    def flush(self) -> int:
        """Make everything put so far durable, and return the log's durable end."""
        return int(self._call({"call": "flush"}).head["log_offset"])

    @checks_arguments
    def stop(self, timeout_s: float = 60.0) -> bool:
        """Make the owner close the store; False if the lock is still held after `timeout_s` seconds."""
        from store.files.filesystem import Filesystem
        from store.files.lock import is_locked

        self._call({"call": "stop"})
        lock, deadline = self.path.parent.parent / "lock", time.monotonic() + timeout_s
        while is_locked(lock, Filesystem()):
            if time.monotonic() > deadline:
                return False
            time.sleep(STOP_POLL_S)
        return True

    def _call(self, head: dict[str, Any], attachment: bytes = b"") -> Frame:
        with self._lock:
            try:
                self._send(Frame(head, attachment))
                answer = receive_frame(self._connection)
            except OSError as error:
                raise self._lost(str(error)) from None
        if answer is None:
            raise self._lost("the connection was closed")
        if "error" in answer.head:
            raise _error(answer.head["error"])
        return answer

    def _send(self, request: Frame) -> None:
        try:
            send_frame(self._connection, request)
        except OSError:
            # The owner has ended the connection without reading the request. It may have sent a reason before.
            if not self._connection.recv(1, socket.MSG_PEEK):
                self._connect_again()
                send_frame(self._connection, request)

    def _connect_again(self) -> None:
        again = connect_to(self.path)
        if again is None:
            raise ConnectionError("the connection was closed")
        self._connection.close()
        self._connection = again
        send_frame(again, Frame({"call": "hello"}))
        hello = receive_frame(again)
        if hello is None or hello.head.get("process_id") != self.process_id:
            raise ConnectionError("another process serves the store")

    def _lost(self, reason: str) -> StoreClosed:
        hint = "it has ended; whether it took the last call is not known"
        return StoreClosed(f"the process that serves the store does not answer: {reason}", file=self.path, hint=hint)


def _get_result(answer: Frame) -> GetResult:
    head = answer.head
    result = GetResult(GetStatus(head["status"]), head["next_offset"], head["min_offset"], head["max_offset"])
    result.messages = _records(answer)
    result.size = head["size"]
    result.message_count = head["message_count"]
    result.damaged = _damaged(answer)
    return result


def _damaged(answer: Frame) -> list[DamagedRecord]:
    found = []
    for file, at, reason, code, record_count in answer.head["damaged"]:
        damage = DamagedRecord(reason, file=file or None, offset=at, code=code)
        damage.record_count = record_count
        found.append(damage)
    return found


def _records(answer: Frame) -> list[StoredMessage]:
    return [decode_record(record) for record in split_records(answer.head["sizes"], answer.attachment)]


def _error(described: dict[str, Any]) -> StoreError:
    kind = getattr(errors, str(described.get("class")), StoreError)
    if not (isinstance(kind, type) and issubclass(kind, StoreError)):
        kind = StoreError
    return kind(
        str(described.get("reason")),
        file=described.get("file"),
        offset=described.get("offset"),
        hint=described.get("hint"),
        code=described.get("code"),
        subject=tuple(described.get("subject") or ()),
    )
