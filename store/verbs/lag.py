"""lag: consumer groups against the queues they consume.

    consumed < min    messages were deleted before the group consumed them        below-min
    consumed = max    nothing is left to consume                                  ok
    consumed > max    the group waits for offsets that do not exist               beyond-max
    no queue          the queue was deleted                                       no-queue
    no queue, at 0    the queue was never written, as a group's retry topic       ok
    else              max - consumed messages are left                            behind

Offsets are queue offsets. Bytes are the sizes of the remaining records, from the queue's units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from store.broker_line import LINE_4_9
from store.formats.derived import units_of
from store.formats.topics import DLQ_PREFIX, RETRY_PREFIX
from store.reading.message_store import MessageStore
from store.structures.consumequeue.queue_set import QueueState
from store.structures.tables.config_file import ConfigCopy, read_config_file
from store.structures.tables.consumer_offsets import ConsumerOffsets, offsets_file, offsets_of, read_consumer_offsets
from store.structures.tables.fastjson import members
from store.verbs.queue_ends import QueueEnd


@dataclass(frozen=True, slots=True)
class QueueLag:
    """One consumer group on one queue.

    lag                   messages between the group's offset and the queue's maximum
    lag_bytes             bytes of the remaining messages, by their units
    lag_seconds           from the first remaining message to the newest message of the queue
    deleted               messages that were deleted before the group consumed them
    first_unconsumed_ms   store time of the first message left, -1 without one
    """

    group: str
    topic: str
    queue_id: int
    consumed_offset: int
    min_offset: int
    max_offset: int
    state: str
    lag: int = 0
    lag_bytes: int = 0
    lag_seconds: float = 0.0
    deleted: int = 0
    first_unconsumed_ms: int = -1


STATES = ("below-min", "no-queue", "beyond-max", "behind", "ok")
"""The worst first."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    """One consumer group over its queues.

    state        the worst of its queues
    wrong_offset_count  queues with a consumer offset outside of the queue
    lag_seconds  the greatest of its queues
    """

    group: str
    state: str
    lag: int
    lag_bytes: int
    lag_seconds: float
    deleted: int
    wrong_offset_count: int
    topic_count: int
    queue_count: int


@dataclass(frozen=True, slots=True)
class LagReport:
    """The lag of every group, and the groups and topics around it.

    source             the file with the offsets; None if none is readable
    is_loaded          whether a broker would load that file; it never reads .tmp
    never_consumed     groups of subscriptionGroup.json without an offset
    retry, dead_letter messages per retry and dead-letter topic
    groups, topics     every name in the tables and queues
    """

    queues: list[QueueLag]
    source: ConfigCopy | None
    never_consumed: list[str]
    retry: dict[str, int]
    dead_letter: dict[str, int]
    groups: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    is_loaded: bool = True

    def by_queue(self) -> list[QueueLag]:
        """Return the rows of the queues; the worst state first, then the most messages behind or beyond."""
        return sorted(self.queues, key=lambda row: (STATES.index(row.state), -abs(row.lag)))

    def by_group(self) -> list[GroupLag]:
        """Sum up each group; the worst state first, then the greatest lag."""
        queues: dict[str, list[QueueLag]] = {}
        for row in self.queues:
            queues.setdefault(row.group, []).append(row)
        found = (_sum_up(group, rows) for group, rows in queues.items())
        return sorted(found, key=lambda one: (STATES.index(one.state), -one.lag, one.group))


def _sum_up(group: str, rows: list[QueueLag]) -> GroupLag:
    return GroupLag(
        group,
        state=min((row.state for row in rows), key=STATES.index),
        lag=sum(max(0, row.lag) for row in rows),
        lag_bytes=sum(row.lag_bytes for row in rows),
        lag_seconds=max(row.lag_seconds for row in rows),
        deleted=sum(row.deleted for row in rows),
        wrong_offset_count=sum(row.state in STATES[:3] for row in rows),
        topic_count=len({row.topic for row in rows}),
        queue_count=len(rows),
    )


def review_lag(
    store: MessageStore,
    group: str | None = None,
    topic: str | None = None,
    ends: Iterable[QueueEnd | QueueState] | None = None,
) -> LagReport:
    """Return the lag of all groups and topics, or of one.

    ends  of all queues, if they are known; else the log's end is read for queues without a file
    """
    folder, fs = store.layout.config, store.opened.fs
    offsets, file = read_consumer_offsets(folder, fs), offsets_file(folder, fs)
    source = file.loaded or file.best(LINE_4_9)
    if source is not None and file.loaded is None:
        offsets |= offsets_of(source.document)
    rows = [
        _queue_lag(store, name, of_topic, queue_id, consumed)
        for (of_topic, name), queues in sorted(offsets.items())
        if group in (None, name) and topic in (None, of_topic)
        for queue_id, consumed in sorted(queues.items())
    ]
    counts = _messages_by_topic(store.queues() if ends is None else ends)
    never_consumed = _never_consumed(store, offsets)
    return LagReport(
        rows,
        source,
        [name for name in never_consumed if group in (None, name)],
        {name: count for name, count in counts if name.startswith(RETRY_PREFIX)},
        {name: count for name, count in counts if name.startswith(DLQ_PREFIX)},
        groups=frozenset((*never_consumed, *(name for _, name in offsets))),
        topics=frozenset((*(name for name, _ in counts), *(of_topic for of_topic, _ in offsets))),
        is_loaded=file.loaded is not None,
    )


def _queue_lag(store: MessageStore, group: str, topic: str, queue_id: int, consumed: int) -> QueueLag:
    low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    if not high:
        return QueueLag(group, topic, queue_id, consumed, 0, 0, "no-queue" if consumed else "ok")
    first = max(consumed, low)
    if consumed >= high:
        state = "ok" if consumed == high else "beyond-max"
        return QueueLag(group, topic, queue_id, consumed, low, high, state, lag=high - consumed)
    times = _store_time(store, topic, queue_id, first), _store_time(store, topic, queue_id, high - 1)
    return QueueLag(
        group,
        topic,
        queue_id,
        consumed,
        low,
        high,
        "below-min" if consumed < low else "behind",
        lag=high - first,
        lag_bytes=sum(_sizes(store, topic, queue_id, first, high)),
        lag_seconds=max(0, times[1] - times[0]) / 1000 if min(times) >= 0 else 0.0,
        deleted=max(0, low - consumed),
        first_unconsumed_ms=times[0],
    )


def _sizes(store: MessageStore, topic: str, queue_id: int, first: int, stop: int) -> Iterator[int]:
    """Yield the sums of record sizes in the units [first, stop), queue file by queue file."""
    queue = store.opened.queues.find(topic, queue_id)
    while queue is not None and queue.holds_batches and first < stop:
        units = [unit for unit in queue.units_from(first) or () if unit.queue_offset < stop]
        if not units:
            return
        yield sum(unit.size for unit in units)
        first = units[-1].next_queue_offset
    while queue is not None and first < stop:
        data = queue.read_range(first)
        if data is None or not len(data):
            return
        plain = units_of(data)[: stop - first]
        yield int(plain["size"].sum(dtype="i8"))
        first += len(plain)


def _store_time(store: MessageStore, topic: str, queue_id: int, queue_offset: int) -> int:
    queue, log = store.opened.queues.find(topic, queue_id), store.opened.log
    unit = queue.unit(queue_offset) if queue is not None else None
    return log.store_timestamp(unit.log_offset, unit.size) if unit is not None else -1


def _messages_by_topic(queues: Iterable[QueueEnd | QueueState]) -> list[tuple[str, int]]:
    counts = Counter[str]()
    for queue in queues:
        counts[queue.topic] += queue.max_offset - queue.min_offset
    return sorted(counts.items())


def _never_consumed(store: MessageStore, offsets: ConsumerOffsets) -> list[str]:
    groups = read_config_file(store.layout.config, "subscriptionGroup.json", store.opened.fs)
    table = members(groups.document.get("subscriptionGroupTable"))
    seen = {name for _, name in offsets}
    return sorted(name for name in table if name not in seen)
