"""Transactions: the half messages of a store, grouped into transactions, and the verdict on each.

    halves       units of RMQ_SYS_TRANS_HALF_TOPIC with one UNIQ_KEY: the first, and copies that checks put back
    op record    RMQ_SYS_TRANS_OP_HALF_TOPIC, tag d; its body lists half queue offsets: `17` (4.9) or `17,18,` (5.3)
    H, O         queue offsets of half and op queue that the check pass has reached (config/consumerOffset.json)

    a commit record whose prepared transaction offset is the log offset of a half    committed
    an op record lists a half                                                        rolled-back
    a record of the same UNIQ_KEY in TRANS_CHECK_MAX_TIME_TOPIC                      discarded
    the newest half is at H or after it                                             in-doubt
    else                                                                             inconsistent

The first line that holds is the verdict. A commit is written after its half and before its op record. So retention
cannot make a committed transaction look rolled back.

Source: TransactionalMessageServiceImpl, TransactionalMessageBridge, EndTransactionProcessor (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from store.engine.services.transaction_messages import CHECK_TIMES, OP_TAG, PRODUCER_GROUP
from store.formats.java import parse_long
from store.formats.message import TRANSACTION_COMMIT, TRANSACTION_MASK, StoredMessage
from store.formats.properties import PLACEHOLDER, REAL_QUEUE_ID, REAL_TOPIC
from store.formats.topics import DISCARD_TOPIC, HALF_TOPIC, HALF_TOPICS, OP_TOPIC
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.rewritten import queue_records, rewritten_records
from store.structures.registry import STRUCTURES
from store.structures.tables.consumer_offsets import ConsumerOffsets, read_consumer_offsets

if TYPE_CHECKING:
    from store.reading.message_store import MessageStore

CHECK_GROUP = "CID_RMQ_SYS_TRANS"


class TransactionState(StrEnum):
    """The verdict on a transaction."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled-back"
    DISCARDED = "discarded"
    IN_DOUBT = "in-doubt"
    INCONSISTENT = "inconsistent"


@dataclass(frozen=True, slots=True)
class Half:
    """One half record; `check_times` None when no check has counted yet."""

    queue_offset: int
    log_offset: int
    check_times: int | None
    has_op: bool


@dataclass(slots=True)
class Transaction:
    """One transaction. Absent offsets are -1, absent texts None."""

    state: TransactionState
    uniq_key: str | None
    topic: str | None
    queue_id: str | None
    producer_group: str | None
    born_timestamp_ms: int
    halves: list[Half]
    committed_log_offset: int = -1
    discarded_log_offset: int = -1
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TransactionQueues:
    """The progress of the check pass: H and O (None: never saved), and the ends of both queues."""

    half_offset: int | None
    half_min_offset: int
    half_max_offset: int
    op_offset: int | None
    op_min_offset: int
    op_max_offset: int

    @property
    def checked_to(self) -> int:
        """H; a check pass without a saved offset begins at the queue's first unit."""
        return self.half_min_offset if self.half_offset is None else self.half_offset


@dataclass(slots=True)
class TransactionReview:
    """Every transaction by its first half, and the faults of the two queues."""

    queues: TransactionQueues
    transactions: list[Transaction]
    warnings: list[str]


def review_transactions(store: MessageStore | OpenedStore) -> TransactionReview:
    """Return the verdict on each transaction of the store."""
    opened = store if isinstance(store, OpenedStore) else store.opened
    queues = _queues(opened, read_consumer_offsets(opened.layout.config, opened.fs))
    ops, warnings = _read_ops(opened, queues)
    commits: dict[int, list[StoredMessage]] = defaultdict(list)
    discarded: dict[object, StoredMessage] = {}
    for record in rewritten_records(opened.log):
        if record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT:
            commits[record.prepared_transaction_offset].append(record)
        elif record.topic == DISCARD_TOPIC:
            discarded[_identity(record)] = record
    found = [
        _judge(halves, ops, commits, discarded.get(identity), queues)
        for identity, halves in _grouped_halves(opened).items()
    ]
    found += _of_databases(opened, commits)
    return TransactionReview(queues, found, warnings)


def _of_databases(opened: OpenedStore, commits: Mapping[int, list[StoredMessage]]) -> Iterator[Transaction]:
    """Judge the half messages that a database keeps (5.4 and later)."""
    if not any(opened.queues.of_topic(one) for one in HALF_TOPICS if one != HALF_TOPIC):
        return
    # Not only of what is present: a backup has neither the database nor the folder of the queue.
    rooms = (one.furniture("halves") for one in STRUCTURES)
    for one in (one for room in rooms if room is not None for one in room.half_messages(opened)):
        committed = commits.get(one.record.log_offset, [])
        state = TransactionState.ROLLED_BACK if one.is_ended else TransactionState.IN_DOUBT
        state = TransactionState.DISCARDED if one.is_given_up else state
        half = Half(one.queue_offset, one.record.log_offset, one.checks, one.is_ended)
        found = _transaction(TransactionState.COMMITTED if committed else state, one.record, [half], committed)
        found.warnings = list(_warnings(found, committed))
        yield found


def _queues(opened: OpenedStore, offsets: ConsumerOffsets) -> TransactionQueues:
    half, op = opened.queues.find(HALF_TOPIC, 0), opened.queues.find(OP_TOPIC, 0)
    return TransactionQueues(
        offsets.get((HALF_TOPIC, CHECK_GROUP), {}).get(0),
        half.min_offset if half is not None else 0,
        half.max_offset if half is not None else 0,
        offsets.get((OP_TOPIC, CHECK_GROUP), {}).get(0),
        op.min_offset if op is not None else 0,
        op.max_offset if op is not None else 0,
    )


def _read_ops(opened: OpenedStore, queues: TransactionQueues) -> tuple[set[int], list[str]]:
    """Read the half queue offsets in op records, and the faults of op records."""
    named: set[int] = set()
    warnings: list[str] = []
    queue = opened.queues.find(OP_TOPIC, 0)
    for queue_offset, _, record in queue_records(opened.log, queue) if queue is not None else ():
        if record is None:
            warnings.append(f"op record {queue_offset} cannot be read")
            continue
        if PLACEHOLDER in record.properties:
            continue
        if record.tags != OP_TAG:
            warnings.append(f"op record {queue_offset} has the tag {record.tags}, not {OP_TAG}")
        for word in filter(None, record.body.decode("utf-8", "replace").split(",")):
            half = parse_long(word)
            if half is None or half < 0:
                warnings.append(f"op record {queue_offset} names {word[:40]!r}, which is no queue offset")
                continue
            named.add(half)
            if half >= queues.half_max_offset:
                warnings.append(
                    f"op record {queue_offset} names half {word}, the half queue ends at {queues.half_max_offset}: "
                    "the half log was cut"
                )
    return named, warnings


def _grouped_halves(opened: OpenedStore) -> dict[object, list[tuple[int, StoredMessage]]]:
    """Return the readable half records with their queue offsets, by identity.

    A salvage's placeholder is none.
    """
    groups: dict[object, list[tuple[int, StoredMessage]]] = defaultdict(list)
    queue = opened.queues.find(HALF_TOPIC, 0)
    for queue_offset, _, record in queue_records(opened.log, queue) if queue is not None else ():
        if record is not None and PLACEHOLDER not in record.properties:
            groups[_identity(record)].append((queue_offset, record))
    return groups


def _identity(record: StoredMessage) -> object:
    """Return the unique key, or else birth, real queue and body: a half and its copies share them."""
    names = (record.properties.get(name) for name in (REAL_TOPIC, REAL_QUEUE_ID, PRODUCER_GROUP))
    return record.uniq_key or (record.born_timestamp_ms, record.born_host, *names, record.body)


def _judge(
    records: list[tuple[int, StoredMessage]],
    ops: set[int],
    commits: dict[int, list[StoredMessage]],
    discarded: StoredMessage | None,
    queues: TransactionQueues,
) -> Transaction:
    halves = [
        Half(queue_offset, record.log_offset, parse_long(record.properties.get(CHECK_TIMES, "")), queue_offset in ops)
        for queue_offset, record in records
    ]
    committed = sorted(
        (commit for half in halves for commit in commits.get(half.log_offset, ())), key=lambda one: one.log_offset
    )
    found = _transaction(_state(halves, committed, discarded, queues), records[0][1], halves, committed)
    found.discarded_log_offset = discarded.log_offset if discarded is not None else -1
    found.warnings = list(_warnings(found, committed))
    return found


def _transaction(
    state: TransactionState, first: StoredMessage, halves: list[Half], committed: list[StoredMessage]
) -> Transaction:
    topic, queue_id, group = (first.properties.get(name) for name in (REAL_TOPIC, REAL_QUEUE_ID, PRODUCER_GROUP))
    commit = committed[0].log_offset if committed else -1
    return Transaction(state, first.uniq_key, topic, queue_id, group, first.born_timestamp_ms, halves, commit)


def _state(
    halves: list[Half], committed: list[StoredMessage], discarded: StoredMessage | None, queues: TransactionQueues
) -> TransactionState:
    if committed:
        return TransactionState.COMMITTED
    if any(half.has_op for half in halves):
        return TransactionState.ROLLED_BACK
    if discarded is not None:
        return TransactionState.DISCARDED
    is_open = halves[-1].queue_offset >= queues.checked_to
    return TransactionState.IN_DOUBT if is_open else TransactionState.INCONSISTENT


def _warnings(transaction: Transaction, committed: list[StoredMessage]) -> Iterator[str]:
    if committed and not any(half.has_op for half in transaction.halves):
        yield "committed, but no op record says so: the half will be checked again"
    if len(committed) > 1:
        places = ", ".join(str(one.log_offset) for one in committed)
        yield f"committed {len(committed)} times, at the log offsets {places}"
    if transaction.state is TransactionState.INCONSISTENT:
        yield "the check has passed the half message, and no record shows its end: op records are lost, or H was moved"
