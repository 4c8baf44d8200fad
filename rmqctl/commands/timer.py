"""timer: messages that are delivered at a given time (5.x)."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.changing import ChangeOptions, changes_store, run_change
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.show import did_you_mean, list_some
from rmqctl.staged import planning

if TYPE_CHECKING:
    from store.structures import TimerMessage

EXAMPLES = {
    "timer show": (
        "rmqctl --store /data/store timer show",
        "rmqctl --store /data/store timer show --topic Orders --at +10m --overdue",
    ),
    "rebuild timer": (
        "rmqctl --store /data/store rebuild timer --dry-run",
        "rmqctl --store /data/store rebuild timer --yes",
    ),
}
SEE_ALSO = ("delay show", "check")
COLUMNS = ("state", "queue_offset", "deliver_timestamp_ms", "topic", "queue_id", "uniq_key", "log_offset", "is_overdue")
WRONG_STATES = ("duplicate", "lost")
BY_LOG = (
    "without timerwheel, timerlog and timercheck, the states are those that the log shows: the read time and what a "
    "start delivers again (duplicate) are unknown"
)
UNKNOWN_WHEN_NEGATIVE = (
    "queue_id",
    "deliver_timestamp_ms",
    "slot_timestamp_ms",
    "magic",
    "timer_log_position",
    "delivered_log_offset",
)


def run_show(
    ctx: typer.Context,
    at: Annotated[str, typer.Option(metavar="TIME", help="The states at this time.")] = "now",
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only messages for this topic.")] = None,
    overdue: Annotated[bool, typer.Option("--overdue", help="Only pending messages that are due.")] = False,
) -> Result:
    """Show timer messages and their states (5.x).

    States: pending; rolled (put into the timer topic again, for a long delay); delivered; duplicate (delivered or
    rolled, and a start repeats it); deleted; delete (it deletes another message); deleteRolling (deleted once both have
    rolled); assumed (delivered, and the record has expired); lost (unreachable from the wheel, or no longer in the
    log). Exit code 1 when a message is duplicate or lost.
    """
    session: Session = ctx.obj
    time_ms = session.parse_time(at, "--at")

    from store.structures import TimerState

    review = session.store.open().timers(time_ms)
    messages = [one for one in review.messages if topic in (None, one.topic)]
    if topic is not None and review.messages and not messages:
        topics = sorted({one.topic for one in review.messages if one.topic})
        session.note(
            f"no timer message is for {topic!r}{did_you_mean(topic, topics) or f'; there are {list_some(topics)}'}"
        )
    if review.is_by_log and review.messages:
        session.note(BY_LOG)
    counts = Counter(message.state.value for message in messages)
    shown = [_row(message) for message in messages if message.is_overdue or not overdue]
    late = sum(message.is_overdue for message in messages)
    facts = {
        "at_ms": time_ms,
        "read_time_ms": review.read_time_ms or None,
        "timer_queue_offset": review.queue_offset,
        "timer_max_offset": review.max_queue_offset,
        "slot_seconds": review.precision_ms / 1000,
        "overdue_count": late,
        "counts": {state.value: counts[state] for state in TimerState},
    }
    verdict = ", ".join(f"{counts[state]} {state}" for state in TimerState if counts[state]) or "no timer messages"
    verdict += f"; {late} overdue" if late else ""
    wrong = sum(counts[name] for name in WRONG_STATES)
    return Result("timer show", facts, [Table("messages", shown, COLUMNS)], FINDINGS if wrong else OK, verdict)


@changes_store
def run_rebuild(
    ctx: typer.Context,
    consent: ChangeOptions,
    roll_window: Annotated[
        int, typer.Option("--roll-window", min=2, metavar="SLOTS", help="timerRollWindowSlot of the broker.")
    ] = 172_800,
) -> Result:
    """Rebuild the timer's files from its messages (5.x).

    Builds timerwheel, timerlog and timercheck from the messages of rmq_sys_wheel_timer in the log. A due message that
    was neither delivered nor deleted is delivered at the broker's start. Nothing is delivered twice.

    If rocksdbstore has the timers (5.4 and later, timerRocksDBEnable=true), it is rebuilt as by `rebuild
    message-database`; the wheel keeps the messages that are on it.
    """
    session: Session = ctx.obj
    from store.structures import plan_timer_rebuild

    with planning(session, consent, "timer") as opened:
        change = plan_timer_rebuild(opened, roll_window_slots=roll_window)
        return run_change(session, "rebuild timer", change, consent)


def _row(message: TimerMessage) -> dict[str, Any]:
    row = asdict(message) | {"state": message.state.value}
    for name in ("store_timestamp_ms", "deletes"):
        del row[name]
    return row | {name: None for name in UNKNOWN_WHEN_NEGATIVE if row[name] < 0}
