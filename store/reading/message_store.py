"""MessageStore: one store, opened for reading.

How a message is found:

    get → ConsumeQueue (the record's log offset) → CommitLog (the record)
    query → IndexService (log offsets) → CommitLog (the records, compared with the key)

store/engine/open.py opens a store; writable_store.py has the store that accepts messages.

Source: DefaultMessageStore (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from store.broker_line import BrokerLine
from store.config import StoreConfig
from store.errors import BadRequest, DamagedRecord, StoreClosed, WrongKind
from store.files import lost_pages
from store.formats.given import check_get, check_number, check_query, check_queue, check_text
from store.formats.index_page import TAGS_TYPE
from store.formats.message import StoredMessage
from store.formats.wording import amount
from store.layout import StoreLayout
from store.opened.arguments import checks_arguments
from store.opened.checkpoint import StoreCheckpoint
from store.opened.opened_store import OpenedStore
from store.opened.view import CurrentView
from store.reading.get import get_message
from store.reading.stores import END_OF_TIME_MS, ReadableStore
from store.structures.commitlog.readable_log import ReadableLog
from store.structures.consumequeue.queue_set import QueueState
from store.structures.get_result import CopiesOfQueues, CopyOfQueue, GetResult, GetStatus, MessageFilter
from store.structures.index.index_service import IndexService, QueryOffsets

if TYPE_CHECKING:
    from store.formats.run import Run
    from store.structures import TimerReview
    from store.structures.delayoffsets.review import DelayedMessage, DelayLevel

QUERY_ROUNDS = 3
_Ask = Callable[[str, str, int, int, int], QueryOffsets]
"""A query: topic, key, most hits, first and last store time → log offsets."""


@dataclass(slots=True)
class QueryResult:
    """Messages for a key, oldest first, and the names of the searched index files."""

    messages: list[StoredMessage] = field(default_factory=list)
    index_files: list[str] = field(default_factory=list)
    last_update_timestamp_ms: int = 0
    last_update_log_offset: int = 0
    damaged: list[DamagedRecord] = field(default_factory=list)
    """One entry for all hits of the index without a readable record."""
    is_limited: bool = False
    """Whether the search ended at the number of hits, so that other messages may have the key."""

    @property
    def damaged_count(self) -> int:
        return sum(damage.record_count for damage in self.damaged)


class MessageStore(ReadableStore):
    """One store, opened for reading. All methods may be called from several threads.

    reopen  opens the store again, for refresh()
    """

    def __init__(self, opened: OpenedStore, reopen: Callable[[], OpenedStore] | None = None) -> None:
        self.layout: StoreLayout = opened.layout
        self.config: StoreConfig = opened.config
        self.line: BrokerLine = opened.line
        """The broker version whose rules the store follows."""
        self.notes: list[str] = []
        """Remarks for a reader about the state of this view."""
        self._current = CurrentView(opened)
        self._reopen = reopen
        self._open = True
        self._copies: tuple[OpenedStore, list[CopiesOfQueues]] | None = None

    # Reading.

    def get(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, message_filter: MessageFilter | None = None
    ) -> GetResult:
        """Return the result of one broker call: messages of one queue from a queue offset on.

        >>> import tempfile
        >>> from store import Message, open_store
        >>> with open_store(f"{tempfile.mkdtemp()}/store", read_only=False) as store:
        ...     result = store.put(Message.of("Orders", "hello"))
        ...     store.catch_up()
        ...     found = store.get("Orders", 0, offset=0)
        ...     found.status.name, found.next_offset, [message.body for message in found.messages]
        ('FOUND', 1, [b'hello'])
        """
        check_get(topic, queue_id, offset, max_count)
        if message_filter is not None and not hasattr(message_filter, "matches_tags_code"):
            raise WrongKind(f"message_filter is not a filter, but {type(message_filter).__name__}")
        with self._current.reading() as opened:
            copy = self._copy_of(opened, topic, queue_id)
            if copy is not None:
                return copy.get(offset, max_count, self.config, message_filter)
            queue = opened.queues.find(topic, queue_id)
            seen = lost_pages.count()
            result = get_message(opened.log, queue, offset, max_count, self.config, message_filter)
            lost_pages.require_none_since(seen)
            return result

    def _copy_of(self, opened: OpenedStore, topic: str, queue_id: int) -> CopyOfQueue | None:
        """Return the copy of a queue that a broker reads instead; None without one."""
        if self._copies is None or self._copies[0] is not opened:
            self._copies = opened, [room.CopiedQueues(opened) for room in opened.rooms_with("get", "CopiedQueues")]
        found = (copies.find(topic, queue_id) for copies in self._copies[1])
        return next((one for one in found if one is not None), None)

    def _read_on(
        self, topic: str, queue_id: int, offset: int, max_count: int, message_filter: MessageFilter | None
    ) -> GetResult:
        """Make one call of a series; reading continues after a hole, while a broker's consumer would loop."""
        answer = self.get(topic, queue_id, offset, max_count, message_filter)
        if answer.status is GetStatus.OFFSET_FOUND_NULL and answer.next_offset <= offset:
            with self._current.reading() as opened:
                queue = opened.queues.find(topic, queue_id)
                answer.next_offset = queue.pass_hole(offset) if queue is not None else answer.next_offset
        return answer

    def _read_run(self, topic: str, queue_id: int, offset: int, max_count: int) -> tuple[Run, GetResult] | None:
        from store.reading.record_runs import read_run

        with self._current.reading() as opened:
            if self._copy_of(opened, topic, queue_id) is not None:
                return None
            return read_run(opened.log, opened.queues.find(topic, queue_id), offset, max_count)

    def lookup(self, log_offset: int, size: int | None = None) -> StoredMessage | None:
        """Return the message at a log offset, None outside of the log and at the unused rest of a segment.

        DamagedRecord if the bytes are no record.
        """
        check_number("log_offset", log_offset, 64)
        if size is not None:
            check_number("size", size, least=0)
        with self._current.reading() as opened:
            return _lookup(opened.log, log_offset, size)

    def record_start(self, log_offset: int) -> int | None:
        """Return the log offset of the record around `log_offset`, None without one."""
        check_number("log_offset", log_offset, 64)
        with self._current.reading() as opened:
            return opened.log.start_around(log_offset)

    def is_in_blank(self, log_offset: int) -> bool:
        """Return whether a log offset is in the unused rest of a segment."""
        check_number("log_offset", log_offset, 64)
        with self._current.reading() as opened:
            return opened.log.is_in_blank(log_offset)

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
        """Return messages by key, as DefaultMessageStore.queryMessage finds them.

        `verify` drops hash collisions.
        With `by_tags` the key is the tags of the messages; BadRequest for a store of a broker before 5.4. The message
        database is searched if there are no index files, and the log if neither has entries. With `in_database` only
        the database is searched, as in a broker: it may lack entries that a killed broker had not flushed. BadRequest
        for a store without such a database.

        >>> import tempfile
        >>> from store import Message, open_store
        >>> with open_store(f"{tempfile.mkdtemp()}/store", read_only=False) as store:
        ...     result = store.put(Message.of("Orders", "hello", keys=["order-1"]))
        ...     store.catch_up()
        ...     [message.body for message in store.query("Orders", "order-1").messages]
        [b'hello']
        """
        flags = {"verify": verify, "by_tags": by_tags, "in_database": in_database}
        check_query(topic, key, max_count, begin_ms, end_ms, **flags)
        with self._current.reading() as opened:
            if by_tags and not opened.line.indexes_tags:
                raise BadRequest(f"a {opened.line} broker has no tags in its index", code="no-tags-in-index")
            if in_database:
                ask, name = _index_in_database(opened, by_tags=by_tags), key
            else:
                ask, name = self._index(opened).query, f"{TAGS_TYPE}#{key}" if by_tags else key
            result, last_ms = QueryResult(), end_ms
            for _ in range(QUERY_ROUNDS):
                found = ask(topic, name, max_count, begin_ms, last_ms)
                result.index_files = [path.name for path in found.files]
                result.is_limited = len(found.log_offsets) >= min(max_count, opened.config.max_msgs_num_batch)
                if not found.log_offsets:
                    break
                result.last_update_timestamp_ms = found.last_update_timestamp_ms
                result.last_update_log_offset = found.last_update_log_offset
                hits = [(log_offset, _at_hit(opened.log, log_offset)) for log_offset in sorted(found.log_offsets)]
                messages = [message for _, message in hits if message is not None]
                result.damaged = _damage_of_hits(opened.log, [at for at, message in hits if message is None])
                if messages:
                    last_ms = messages[0].store_timestamp_ms
                result.messages = [one for one in messages if not verify or _is_asked(one, topic, key, by_tags=by_tags)]
                if result.messages or last_ms < begin_ms:
                    break
        return result

    def _index(self, opened: OpenedStore) -> IndexService:
        return opened.index

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        """Return the queue offset for a store time; 0 for an unknown queue."""
        check_queue(topic, queue_id)
        check_number("time_ms", time_ms, 64)
        with self._current.reading() as opened:
            queue, log = opened.queues.find(topic, queue_id), opened.log
            if queue is None:
                return 0
            return queue.offset_by_time(time_ms, log.store_timestamp, log.min_offset, opened.line)

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Return the store time of a queue's first message, -1 without one."""
        check_queue(topic, queue_id)
        with self._current.reading() as opened:
            queue = opened.queues.find(topic, queue_id)
            unit = queue.unit(queue.min_offset) if queue is not None else None
            return opened.log.store_timestamp(unit.log_offset, unit.size) if unit is not None else -1

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of a queue's first message; 0 for an unknown queue."""
        check_queue(topic, queue_id)
        with self._current.reading() as opened:
            queue = opened.queues.find(topic, queue_id)
            return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of a queue's next message; 0 for an unknown queue."""
        check_queue(topic, queue_id)
        with self._current.reading() as opened:
            queue = opened.queues.find(topic, queue_id)
            return queue.max_offset if queue is not None else 0

    def queues(self) -> list[QueueState]:
        """Return every queue, by topic and queue id."""
        with self._current.reading() as opened:
            return sorted(opened.queues.states())

    def topics(self) -> list[str]:
        """Return the topics that have queues."""
        with self._current.reading() as opened:
            return opened.queues.topics()

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues."""
        check_text("topic", topic)
        with self._current.reading() as opened:
            return opened.queues.queue_ids(topic)

    @property
    def min_log_offset(self) -> int:
        with self._current.reading() as opened:
            return opened.log.min_offset

    @property
    def max_log_offset(self) -> int:
        with self._current.reading() as opened:
            return opened.log.max_offset

    @property
    def checkpoint(self) -> StoreCheckpoint:
        return self._current.opened.checkpoint

    @property
    def opened(self) -> OpenedStore:
        """The opened file sets, only for the engine: they change between releases, and a refresh closes them."""
        return self._current.opened

    @checks_arguments
    def delays(self, time_ms: int) -> tuple[list[DelayLevel], list[DelayedMessage]]:
        """Return the delay levels in use, and every delayed message, as of `time_ms`."""
        from store.structures.delayoffsets.review import review_delays

        with self._current.reading() as opened:
            return review_delays(opened, time_ms)

    @checks_arguments
    def timers(self, time_ms: int) -> TimerReview:
        """Return the state of every timer message (5.x) at `time_ms`."""
        from store.structures import review_timers

        with self._current.reading() as opened:
            return review_timers(opened, time_ms)

    @checks_arguments
    def locate(self, log_offset: int, size: int = 0) -> tuple[Path, int]:
        """Return the segment file and the position in it of a log offset.

        BadRequest for an offset in no segment.
        The next `size` bytes are populated; StoreIOError for unreadable ones.
        """
        with self._current.reading() as opened:
            file = opened.log.segments.find_by_offset(log_offset)
        if file is None:
            raise BadRequest(f"log offset {log_offset} lies in no segment", file=self.layout.commitlog)
        position = log_offset - file.file_start
        file.raw(position, position + size)
        return file.path, position

    def refresh(self) -> None:
        """Load writes of other processes since this read-only store was opened.

        Running calls in other threads continue with the old state.
        """
        self._require_open()
        if self._reopen is not None:
            self._current.replace(self._reopen())

    # Ending.

    def describe_findings(self) -> list[str]:
        """Return sentences for people on damage and disorder found so far in queues built from the log."""
        return self._current.opened.queues.describe_findings()

    def close(self) -> None:
        """Close the store. Closing twice is fine."""
        self._open = False
        self._current.close()

    def _require_open(self) -> None:
        if not self._open:
            raise StoreClosed("the store is closed", file=self.layout.root)


def _lookup(log: ReadableLog, log_offset: int, size: int | None = None) -> StoredMessage | None:
    return log.lookup(log_offset, size) if 0 <= log_offset < log.max_offset else None


def _at_hit(log: ReadableLog, log_offset: int) -> StoredMessage | None:
    """Return the message at an index entry's log offset, None without a record there."""
    try:
        return _lookup(log, log_offset)
    except DamagedRecord:
        return None


def _index_in_database(opened: OpenedStore, *, by_tags: bool) -> _Ask:
    """Return the query of the index in the store's database."""
    room = next(opened.rooms_with("query", "query"), None)
    if room is None:
        raise BadRequest("the store has no database with an index", file=opened.layout.root, code="no-index-database")

    def query(topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> QueryOffsets:
        span_ms = begin_ms, end_ms
        return cast(QueryOffsets, room.query(opened.layout, opened.fs, topic, key, max_count, span_ms, by_tags))

    return query


def _damage_of_hits(log: ReadableLog, log_offsets: list[int]) -> list[DamagedRecord]:
    """Return one DamagedRecord for all hits inside the log without a record; expired hits do not count."""
    inside = [log_offset for log_offset in log_offsets if log.min_offset <= log_offset < log.max_offset]
    if not inside:
        return []
    more = f", as at {amount(len(inside) - 1, 'more place')}" if len(inside) > 1 else ""
    reason = f"the index names log offset {inside[0]} for the key{more}, where no record can be read"
    damage = DamagedRecord(reason, code="entry-outside")
    damage.record_count = len(inside)
    return [damage]


def _is_asked(message: StoredMessage, topic: str, key: str, *, by_tags: bool) -> bool:
    has_name = key == message.tags if by_tags else key == message.uniq_key or key in message.keys
    return message.topic == topic and has_name
