"""End a transaction of a closed store, as its producer's answer would end it in a broker.

    commit      the commit record of the newest half, and op records
    rollback    op records

Op records list each half that the check pass has not reached, or else the newest half. A committed transaction without
an op record gets the op records alone, so that it is not committed twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from store.broker_line import LINE_4_9
from store.change.change import Change, PlanReport
from store.engine.services.transaction_messages import commit_message, op_body, op_message
from store.engine.services.transactions import Transaction, TransactionReview, TransactionState, review_transactions
from store.errors import BadRequest, UncleanStore
from store.formats.message import Message, StoredMessage
from store.formats.message_id import decode_message_id
from store.opened.opened_store import OpenedStore
from store.opened.staged import takes_path
from store.structures.registry import RESOLVE
from store.verbs.recover.append import plan_append, recover_to_append

_OPEN = (TransactionState.IN_DOUBT, TransactionState.INCONSISTENT)


@dataclass(frozen=True, slots=True)
class AppendedRecord:
    """A record that a plan appends to the log."""

    topic: str
    log_offset: int
    size: int


@dataclass
class ResolvePlan(PlanReport):
    """A transaction, its outcome, and the half messages that the op record ends."""

    transaction: str
    resolution: str
    state_before: str
    appended: list[AppendedRecord]
    half_log_offset: int
    half_queue_offsets: list[int]


@takes_path(RESOLVE)
def plan_resolve(opened: OpenedStore, transaction_id: str, *, commit: bool) -> Change[ResolvePlan]:
    """Plan the end of the transaction with this UNIQ_KEY, or with a half of this message id.

    BadRequest if there is none, or it has ended otherwise.
    """
    if opened.abort.exists():
        raise UncleanStore("the last owner did not shut down", file=opened.layout.abort, code="unclean-copy")
    found = recover_to_append(opened)
    review = review_transactions(opened)
    transaction = find_open_transaction(review, transaction_id, commit=commit)
    half = opened.log.lookup(transaction.halves[-1].log_offset)
    assert half is not None, "the review has read it"
    named = _halves_to_name(transaction, review)
    messages = _op_messages(opened, half, named)
    if commit and transaction.committed_log_offset < 0:
        messages.insert(0, commit_message(half, opened.line))
    resolution, state = "commit" if commit else "rollback", transaction.state.value
    report = ResolvePlan(transaction_id, resolution, state, [], half.log_offset, named)
    change, results = plan_append(opened, found, "transaction resolve", messages, report)
    report.appended = [
        AppendedRecord(message.topic, result.log_offset, result.size)
        for message, result in zip(messages, results, strict=True)
    ]
    return change


def find_open_transaction(review: TransactionReview, transaction_id: str, *, commit: bool) -> Transaction:
    """Return the transaction with this UNIQ_KEY, or with a half of this message id.

    BadRequest if there is none, or it has ended otherwise.
    """
    transaction = _find(review, transaction_id)
    _require_open(transaction, transaction_id, commit=commit)
    return transaction


def _find(review: TransactionReview, transaction_id: str) -> Transaction:
    log_offset = _log_offset(transaction_id)
    for one in review.transactions:
        if one.uniq_key == transaction_id or any(half.log_offset == log_offset for half in one.halves):
            return one
    raise BadRequest(f"no half message has the UNIQ_KEY or message id {transaction_id[:80]}", code="no-transaction")


def _log_offset(transaction_id: str) -> int | None:
    try:
        return decode_message_id(transaction_id)[1]
    except BadRequest:
        return None


def _require_open(transaction: Transaction, transaction_id: str, *, commit: bool) -> None:
    lacks_op = not any(half.has_op for half in transaction.halves)
    if transaction.state in _OPEN or (transaction.state is TransactionState.COMMITTED and commit and lacks_op):
        return
    raise BadRequest(f"the transaction {transaction_id} is {transaction.state.value} already", code="no-transaction")


def _halves_to_name(transaction: Transaction, review: TransactionReview) -> list[int]:
    checked_to = review.queues.checked_to
    ahead = [half.queue_offset for half in transaction.halves if half.queue_offset >= checked_to and not half.has_op]
    return ahead or [transaction.halves[-1].queue_offset]


def _op_messages(opened: OpenedStore, half: StoredMessage, named: list[int]) -> list[Message]:
    """Return one record for each half (4.9), or one for all (5.3).

    For a half in a database, its room makes the record.
    """
    for room in opened.rooms_with("halves", "op_message"):
        if room.has(half):
            return [room.op_message(half, opened.clock())]
    line, bodies = opened.line, [op_body(offset, opened.line) for offset in named]
    if line is not LINE_4_9:
        bodies = ["".join(bodies)]
    return [op_message(body, half.store_host, opened.clock(), line) for body in bodies]
