"""lag: the consumer groups that are behind."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.completion import complete_group, complete_topic
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.show import count, count_is, did_you_mean, list_some, printable

if TYPE_CHECKING:
    from store.verbs import LagReport

EXAMPLES = (
    "rmqctl --store /data/store lag",
    "rmqctl --store /data/store lag --group billing --topic Orders --queues",
)
SEE_ALSO = ("clean-expired", "get")
FILES = ("config", "consumequeue", "commitlog")
GROUP_COLUMNS = ("group", "state", "lag", "lag_bytes", "lag_seconds", "deleted", "queue_count")
LABELS = ("group", "topic", "queue_id", "state")
COLUMNS = ("group", "topic", "queue_id", "state", "lag", "lag_bytes", "lag_seconds", "consumed_offset", "max_offset")
WRONG_STATES = ("below-min", "beyond-max", "no-queue")


def run(
    ctx: typer.Context,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Only this consumer group.", autocompletion=complete_group)
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Only this topic.", autocompletion=complete_topic)
    ] = None,
    queues: Annotated[bool, typer.Option("--queues", help="A row for each queue of a group.")] = False,
) -> Result:
    """Show how far each consumer group is behind.

    One row for each group, or with --queues for each queue, the worst first.

    Compares config/consumerOffset.json with the minimum and maximum of each queue: lag in messages, bytes and time.
    Uses its .bak if a broker would load that, and its .tmp if a broker would load neither. Also lists offsets outside
    of their queue, groups that never consumed, and messages in retry and dead-letter topics. Exit code 1 when an offset
    is outside of its queue, or when the group or topic is unknown.
    """
    session: Session = ctx.obj

    from store.verbs import review_lag

    report = review_lag(session.store.open(), group, topic)
    if report.source is None:
        session.warn("a broker would load no consumer offsets from config/; every group counts as never consumed")
    elif not report.is_loaded:
        session.warn(
            f"a broker would load no consumer offsets; these are from {report.source.path.name}, which it ignores"
        )
    unknown = _unknown(session, report, group, topic)
    wrong = sum(row.state in WRONG_STATES for row in report.queues)
    facts: dict[str, object] = {
        "offsets_file": str(report.source.path.name) if report.source else None,
        "group_count": len({row.group for row in report.queues}),
        "lag_messages": sum(max(0, row.lag) for row in report.queues),
        "deleted_unconsumed": sum(row.deleted for row in report.queues),
        "wrong_offset_count": wrong,
        "never_consumed": report.never_consumed,
    }
    if not report.queues and not session.format.is_for_programs:
        # Zeros would read as groups that are not behind.
        facts = {"never_consumed": report.never_consumed or None}
    topics = [
        {"topic": name, "kind": kind, "message_count": count}
        for kind, counts in (("retry", report.retry), ("dead-letter", report.dead_letter))
        for name, count in counts.items()
    ]
    by_queue = Table("queues", [asdict(row) for row in report.by_queue()], COLUMNS)
    by_group = Table("groups", [asdict(row) for row in report.by_group()], GROUP_COLUMNS)
    both = [by_queue, by_group] if queues else [by_group, by_queue]
    shown = both if session.format.is_for_programs else both[:1]
    tables = [*shown, Table("retry_topics", topics)]
    code = FINDINGS if wrong or unknown else OK
    return Result("lag", facts, tables, code, unknown or _verdict(report, wrong), labels=LABELS)


def _unknown(session: Session, report: LagReport, group: str | None, topic: str | None) -> str:
    """Return the verdict on a group or topic that is in no table and no queue; empty if both are known."""
    asked = (("consumer group", group, report.groups), ("topic", topic, report.topics))
    unknown = [(kind, name, known) for kind, name, known in asked if name is not None and name not in known]
    for kind, name, known in unknown:
        text = did_you_mean(name, known) or (f"; known are {list_some(sorted(known))}" if known else "")
        session.note(f"no {kind} is called {name!r}{text}")
    return "; ".join(f"no {kind} is called {printable(name)!r}" for kind, name, _ in unknown)


def _verdict(report: LagReport, wrong: int) -> str:
    behind = len({row.group for row in report.queues if row.lag > 0})
    groups = len({row.group for row in report.queues})
    if not groups:
        return "no consumer group has an offset"
    outside = f"{count_is(wrong, 'offset')} outside of the queue" if wrong else "all offsets are in their queues"
    return f"{behind} of {count(groups, 'group')} behind; {outside}"
