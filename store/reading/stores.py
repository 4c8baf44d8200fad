"""ReadableStore and LiveStore: the methods of a store, in this process or served by another.

ReadableStore   get messages                    MessageStore, and all of the next line
LiveStore       get and put messages            WritableStore, ServedStore, StoreClient
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from store.errors import BadRequest, quoted
from store.formats.java import LONG_MAX
from store.formats.message import Message, StoredMessage
from store.opened.arguments import checks_arguments
from store.reading.messages import MessageIterator
from store.structures.get_result import GetResult, MessageFilter

if TYPE_CHECKING:
    from store.formats.run import Run
    from store.reading.message_store import QueryResult
    from store.structures.commitlog.put_result import PutResult

END_OF_TIME_MS = LONG_MAX


@runtime_checkable
class ReadableStore(Protocol):
    """A store to get messages from."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @abstractmethod
    def get(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, message_filter: MessageFilter | None = None
    ) -> GetResult:
        """Return the result of one broker call: messages of one queue from a queue offset on."""

    @abstractmethod
    def lookup(self, log_offset: int) -> StoredMessage | None:
        """Return the message at a log offset, None outside of the log."""

    @abstractmethod
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
        """Return messages by key, or by tags (5.4 and later), as DefaultMessageStore.queryMessage finds them.

        in_database  search the message database (5.4 and later) instead of the index files
        """

    @abstractmethod
    def topics(self) -> list[str]:
        """Return the topics that have queues."""

    @abstractmethod
    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues."""

    @abstractmethod
    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of a queue's first message; 0 for an unknown queue."""

    @abstractmethod
    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of a queue's next message; 0 for an unknown queue."""

    @abstractmethod
    def offset_by_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        """Return the queue offset for a store time; 0 for an unknown queue."""

    @abstractmethod
    def close(self) -> None:
        """Close the store, or the connection to its owner."""

    @checks_arguments
    def messages(
        self,
        topic: str,
        queue_id: int,
        start: int | None = None,
        *,
        end: int | None = None,
        max_count: int | None = None,
        message_filter: MessageFilter | None = None,
        one_call: bool = False,
        only_sound: bool = False,
        outer: bool = False,
        must_exist: bool = True,
    ) -> MessageIterator:
        """Iterate over messages of one queue from a queue offset (default: its first) to the queue's end.

        >>> import tempfile
        >>> from store import Message, open_store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open_store(f"{folder}/store", read_only=False) as store:
        ...         results = [store.put(Message.of("T", f"message {number}")) for number in range(3)]
        ...         store.catch_up()
        ...         [message.body for message in store.messages("T", 0, start=1)]
        [b'message 1', b'message 2']

        end         the queue offset to end before
        must_exist  BadRequest with the code "unknown-topic" for a topic without queues; False: yield nothing
        """
        call = self.get if one_call else self._read_on
        # A queue with lost files is rebuilt on a request for it.
        if must_exist and not self.max_offset(topic, queue_id) and not self.queue_ids(topic):
            raise BadRequest(
                f"no topic is called {quoted(topic)}",
                hint="topics() lists those that have queues",
                code="unknown-topic",
            )
        first = self.min_offset(topic, queue_id) if start is None else start
        return MessageIterator(
            lambda offset, count: call(topic, queue_id, offset, count, message_filter),
            first,
            max_count=max_count,
            end=end,
            one_call=one_call,
            only_sound=only_sound,
            outer=outer,
            read_run=None if one_call or message_filter is not None else partial(self._read_run, topic, queue_id),
        )

    def _read_run(self, topic: str, queue_id: int, offset: int, max_count: int) -> tuple[Run, GetResult] | None:
        """Return sound records of a queue as columns, where the store has a way to; see record_runs.py."""
        return None

    def _read_on(
        self, topic: str, queue_id: int, offset: int, max_count: int, message_filter: MessageFilter | None
    ) -> GetResult:
        """Make one call of a series."""
        return self.get(topic, queue_id, offset, max_count, message_filter)


@runtime_checkable
class LiveStore(ReadableStore, Protocol):
    """A store to put messages into and get them from."""

    @abstractmethod
    def put(self, message: Message) -> PutResult:
        """Append one message; flushDiskType determines when it is durable."""

    def put_all(self, messages: Sequence[Message]) -> list[PutResult]:
        """Append messages in their order; each has its own result."""
        return [self.put(message) for message in messages]

    @abstractmethod
    def put_replayed(
        self, message: Message, *, as_stored: bool = True, store_timestamp_ms: int | None = None
    ) -> PutResult:
        """Append a message of another store, with that store's time if one is given."""

    @abstractmethod
    def flush(self) -> int:
        """Make all put messages, queues and index durable; return the log offset reached."""
