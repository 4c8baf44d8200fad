"""delay: the delivery of delayed messages, and the delay offsets where a broker continues it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.changing import ChangeOptions, changes_store, run_change
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.staged import planning

if TYPE_CHECKING:
    from store.engine.services import DelayedMessage, DelayLevel

EXAMPLES = {
    "delay show": (
        "rmqctl --store /data/store delay show",
        "rmqctl --store /data/store delay show --level 3 --at +10m --state due",
    ),
    "rebuild delay-offsets": (
        "rmqctl --store /data/store rebuild delay-offsets --dry-run",
        "rmqctl --store /data/store rebuild delay-offsets --yes",
    ),
}
SEE_ALSO = ("transaction show", "get")
COLUMNS = ("state", "level", "queue_offset", "deliver_timestamp_ms", "topic", "queue_id", "uniq_key", "log_offset")
WRONG_STATES = ("blocked", "duplicate", "lost")


def run_show(
    ctx: typer.Context,
    level: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only this level.")] = None,
    at: Annotated[str, typer.Option(metavar="TIME", help="The states at this time.")] = "now",
    state: Annotated[str | None, typer.Option(metavar="STATE", help="Only messages of this state.")] = None,
) -> Result:
    """Show delayed messages and their delivery.

    States: pending; due; delivered; assumed (delivered, and the copy has expired); duplicate (delivered, and will be
    delivered again); blocked (an earlier message of its level stops the service); lost (expired before delivery, or its
    record names no queue to deliver it to). Exit code 1 when a message is blocked, duplicate or lost.
    """
    session: Session = ctx.obj
    time_ms = session.parse_time(at, "--at")

    from store.engine.services import DelayState

    if state is not None and state not in list(DelayState):
        raise typer.BadParameter(f"{state!r} is not one of {', '.join(DelayState)}", param_hint="--state")
    opened = session.store.open()
    session.store.warn_of_unloaded(opened, "delayOffset.json")
    levels, messages = opened.delays(time_ms)
    levels = [one for one in levels if level in (None, one.level)]
    messages = [one for one in messages if level in (None, one.level)]
    counts = Counter(message.state.value for message in messages)
    facts = {"at_ms": time_ms, "counts": {name.value: counts[name] for name in DelayState}}
    shown = [_row(message) for message in messages if state in (None, message.state)]
    if counts[DelayState.DUPLICATE] and session.store.has_owner():
        session.note(
            "a running broker writes its offsets every ten seconds; duplicates come only if it is killed before that"
        )
    tables = [Table("messages", shown, COLUMNS), Table("levels", [_level_row(one, messages) for one in levels])]
    wrong = sum(counts[name] for name in WRONG_STATES)
    verdict = ", ".join(f"{counts[name]} {name}" for name in DelayState if counts[name]) or "no delayed messages"
    return Result("delay show", facts, tables, FINDINGS if wrong else OK, verdict)


@changes_store
def run_rewrite_offsets(ctx: typer.Context, consent: ChangeOptions) -> Result:
    """Write delay offsets that deliver nothing twice.

    A killed broker restarts with delay offsets up to ten seconds old and repeats the deliveries since then. This
    command sets each level in config/delayOffset.json to its first message that is not delivered yet. Messages that
    no broker can deliver count as delivered.
    """
    session: Session = ctx.obj
    from store.engine.services import plan_delay_offsets

    with planning(session, consent, "delay") as opened:
        change = plan_delay_offsets(opened, session.environment.clock_ms())
        return run_change(session, "rebuild delay-offsets", change, consent)


def _row(message: DelayedMessage) -> dict[str, Any]:
    row = asdict(message) | {"state": message.state.value}
    for name in ("log_offset", "delivered_log_offset", "queue_id"):
        row[name] = None if row[name] < 0 else row[name]
    return row


def _level_row(level: DelayLevel, messages: list[DelayedMessage]) -> dict[str, Any]:
    counts = Counter(message.state.value for message in messages if message.level == level.level)
    seconds = None if level.delay_ms is None else level.delay_ms // 1000
    offsets = {name: getattr(level, name) for name in ("min_offset", "max_offset", "saved_offset", "next_offset")}
    return {"level": level.level, "delay_seconds": seconds, **offsets, **counts}
