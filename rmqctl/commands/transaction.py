"""transaction: the outcome of transactions."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.changing import ChangeOptions, changes_store, run_change
from rmqctl.context import Session
from rmqctl.exit_codes import DECLINED, FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.show import list_some
from rmqctl.staged import planning

if TYPE_CHECKING:
    from store import StoredMessage
    from store.engine.services import Transaction, TransactionReview
    from store.engine.serving import StoreClient

EXAMPLES = {
    "transaction show": (
        "rmqctl --store /data/store transaction show",
        "rmqctl --store /data/store transaction show --state in-doubt --older-than 1h",
    ),
    "transaction resolve": (
        "rmqctl --store /data/store transaction resolve 7F0000010001 --commit --dry-run",
        "rmqctl --store /data/store transaction resolve 7F0000010001 --rollback --yes",
    ),
}
SEE_ALSO = {
    "transaction show": ("transaction resolve", "delay show", "get"),
    "transaction resolve": ("transaction show", "undo"),
}
COLUMNS = (
    "state", "uniq_key", "topic", "producer_group", "born_timestamp_ms", "committed_log_offset", "check_times",
    "half_count",
)  # fmt: skip
OP_WAIT_S = 5.0
"""Longest wait for an op record: a 5.x broker collects them for 3 s (transactionOpBatchInterval)."""
COLUMNS_OF_WARNED = ("state", "uniq_key", "warnings", *COLUMNS[2:])


def run_show(
    ctx: typer.Context,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="Only of this producer group.")] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only transactions older than this: 30s, 15m, 2h.")
    ] = None,
    state: Annotated[str | None, typer.Option(metavar="STATE", help="Only transactions of this state.")] = None,
) -> Result:
    """Show transactions and the outcome of each.

    States: committed; rolled-back; discarded (after too many checks); in-doubt (the broker will ask the producer);
    inconsistent (the check is past it, and no record shows its end). They are read from half records, op records and
    commit records. Exit code 1 when a transaction is inconsistent or has a warning.
    """
    session: Session = ctx.obj
    born_before_ms = None if older_than is None else _born_before(session, older_than)

    from store.engine.services import TransactionState, review_transactions

    if state is not None and state not in list(TransactionState):
        raise typer.BadParameter(f"{state!r} is not one of {', '.join(TransactionState)}", param_hint="--state")
    opened = session.store.open()
    session.store.warn_of_unloaded(opened, "consumerOffset.json")
    review = review_transactions(opened)
    chosen = [
        one
        for one in review.transactions
        if group in (None, one.producer_group) and (born_before_ms is None or one.born_timestamp_ms < born_before_ms)
    ]
    if group is not None and not any(one.producer_group == group for one in review.transactions):
        _tell_of_groups(session, group, review)
    counts = Counter(one.state.value for one in chosen)
    queues = review.queues
    facts = {
        "counts": {name.value: counts[name] for name in TransactionState},
        "half_backlog": queues.half_max_offset - queues.checked_to,
        "op_backlog": queues.op_max_offset - (queues.op_min_offset if queues.op_offset is None else queues.op_offset),
        "half_and_op_queues": asdict(queues),
        "warnings": review.warnings,
    }
    for warning in review.warnings:
        session.warn(warning)
    rows = [_row(one) for one in chosen if state in (None, one.state)]
    columns = COLUMNS_OF_WARNED if any(row["warnings"] for row in rows) else COLUMNS
    wrong = counts[TransactionState.INCONSISTENT] or review.warnings or any(one.warnings for one in chosen)
    verdict = ", ".join(f"{counts[name]} {name}" for name in TransactionState if counts[name]) or "no transactions"
    return Result("transaction show", facts, [Table("transactions", rows, columns)], FINDINGS if wrong else OK, verdict)


def _born_before(session: Session, age: str) -> int:
    if not age[:1].isdigit():
        raise typer.BadParameter(f"{age!r} is not an age; write 30s, 15m, 2h, 3d", param_hint="--older-than")
    return session.parse_time(f"-{age}", "--older-than")


def _tell_of_groups(session: Session, group: str, review: TransactionReview) -> None:
    known = sorted({one.producer_group for one in review.transactions if one.producer_group is not None})
    others = f"; there are {list_some(known)}" if known else ""
    session.note(f"no transaction is of the producer group {group!r}{others}")


@changes_store
def run_resolve(
    ctx: typer.Context,
    consent: ChangeOptions,
    transaction_id: Annotated[
        str, typer.Argument(metavar="ID", help="UNIQ_KEY, or message id of the half message.", show_default=False)
    ],
    commit: Annotated[bool, typer.Option("--commit", help="Put the message into its topic.")] = False,
    rollback: Annotated[bool, typer.Option("--rollback", help="Roll the message back.")] = False,
) -> Result:
    """End a transaction in place of its producer.

    Appends the records of a broker after the producer's answer: with --commit the message in its topic, and in both
    cases the op record that ends the checks. Queues, index and checkpoint follow. The transaction must be in doubt or
    inconsistent; with --commit also a committed one without op record.

    If `rmqctl serve` has the store open, its process ends the transaction. undo does not reverse this command.
    """
    session: Session = ctx.obj
    if commit == rollback:
        raise typer.BadParameter("give one of --commit and --rollback")
    served = session.store.find_served()
    if served is not None:
        return _resolve_served(session, served, transaction_id, consent, commit=commit)

    from store.engine.services import plan_resolve

    with planning(session, consent, "resolve") as opened:
        change = plan_resolve(opened, transaction_id, commit=commit)
        return run_change(session, "transaction resolve", change, consent)


def _resolve_served(
    session: Session, served: StoreClient, transaction_id: str, consent: ChangeOptions, *, commit: bool
) -> Result:
    """End the transaction through the process that serves the store."""
    from store.engine.services import TransactionState, find_open_transaction, review_transactions
    from store.formats import OP_TOPIC

    if consent.quarantine is not None or not consent.keep:
        raise typer.BadParameter("nothing is removed from a served store; leave out --quarantine and --no-quarantine")
    review = review_transactions(session.store.open())
    transaction = find_open_transaction(review, transaction_id, commit=commit)
    half = transaction.halves[-1]
    facts: dict[str, Any] = {
        "applied": False,
        "transaction": transaction_id,
        "resolution": "commit" if commit else "rollback",
        "state_before": transaction.state.value,
        "half_log_offset": half.log_offset,
        "half_queue_offsets": [half.queue_offset],
    }
    question = f"{facts['resolution'].capitalize()} the half at log offset {half.log_offset}?"
    if consent.dry_run or not (consent.yes or session.ask(question)):
        verdict = f"would {facts['resolution']} the half at log offset {half.log_offset}"
        verdict = verdict if consent.dry_run else "nothing was changed"
        return _resolved(facts, [], OK if consent.dry_run else DECLINED, verdict)
    appended: list[dict[str, Any]] = []
    group, ops_before = transaction.producer_group or "", served.max_offset(OP_TOPIC, 0)
    with session.interrupts.deferred():
        # An already committed transaction gets the op record only.
        if commit and transaction.state is not TransactionState.COMMITTED:
            answer = served.transactions.commit(half.log_offset, group, is_answer=True)
            if answer.log_offset < 0:
                session.fail(f"the served store refused the message: {answer.status.value} {answer.reason}".rstrip())
                return _resolved(facts, [], FINDINGS, "nothing was changed")
            appended.append({"topic": transaction.topic, "log_offset": answer.log_offset, "size": answer.size})
        else:
            served.transactions.rollback(half.log_offset, group, is_answer=True)
        op = _find_op(served, ops_before, half.queue_offset)
    if op is None:
        session.note("note: the process writes the op record later, with others, as a 5.x broker does")
    else:
        appended.append({"topic": op.topic, "log_offset": op.log_offset, "size": op.size})
    done = "committed" if commit else "rolled back"
    verdict = f"process {served.process_id} has {done} the half at log offset {half.log_offset}"
    return _resolved({**facts, "applied": True, "change_id": None}, appended, OK, verdict)


def _find_op(served: StoreClient, start: int, half_queue_offset: int) -> StoredMessage | None:
    """Return the op record of the half message, from queue offset `start` on; None after OP_WAIT_S."""
    from store.formats import OP_TOPIC

    deadline = time.monotonic() + OP_WAIT_S
    while (rest := deadline - time.monotonic()) > 0 and served.wait_for_message(OP_TOPIC, 0, start, int(1000 * rest)):
        for op in served.messages(OP_TOPIC, 0, start=start):
            start = op.queue_offset + 1
            if str(half_queue_offset) in op.body.decode(errors="replace").split(","):
                return op
    return None


def _resolved(facts: dict[str, Any], appended: list[dict[str, Any]], exit_code: int, verdict: str) -> Result:
    tables = [Table("actions", [], ("action", "file", "size_bytes", "reason")), Table("appended", appended)]
    return Result("transaction resolve", facts, tables, exit_code, verdict)


def _row(transaction: Transaction) -> dict[str, Any]:
    from store.layout import parse_whole_number

    row = asdict(transaction) | {"state": transaction.state.value}
    for name in ("committed_log_offset", "discarded_log_offset"):
        row[name] = None if row[name] < 0 else row[name]
    queue_id = transaction.queue_id
    row["queue_id"] = parse_whole_number(queue_id or "")
    return row | {"half_count": len(transaction.halves), "check_times": transaction.halves[-1].check_times or 0}
