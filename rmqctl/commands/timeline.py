"""timeline: the log over time."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from rmqctl.completion import complete_topic
from rmqctl.context import Session
from rmqctl.result import Result, Table
from rmqctl.show import count
from rmqctl.store_times import Since, Until, store_times

EXAMPLES = (
    "rmqctl --store /data/store timeline --by hour",
    "rmqctl --store /data/store timeline --topic Orders --by minute",
    "rmqctl --store /backup/00000000001073741824 timeline",
)
SEE_ALSO = ("usage",)
FILES = ("commitlog",)
BAR_WIDTH = 20


class Unit(StrEnum):
    """Values of --by."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


def run(
    ctx: typer.Context,
    by: Annotated[Unit, typer.Option(help="Time covered by a row.")] = Unit.MINUTE,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Count only this topic.", autocompletion=complete_topic)
    ] = None,
    since: Since = None,
    until: Until = None,
    gap: Annotated[int, typer.Option(min=1, metavar="SECONDS", help="List pauses longer than this.")] = 3600,
) -> Result:
    """Show messages and bytes over time.

    Scans the whole log, also past damage. Lists pauses, backward jumps of the broker's clock, and the last seconds with
    a message. Rows without messages are left out. --since and --until limit what is counted, not the jumps. --store can
    be one segment file.
    """
    session: Session = ctx.obj

    from store.verbs import build_timeline

    times = store_times(session, since, until)
    reader = session.store.open_reader(or_segment=True)
    with session.progress("reading the log", reader.log_size()) as bar:
        timeline = build_timeline(reader, by.value, topic, gap * 1000, bar.update, times)
    session.store.warn_of_damage([reader])
    if topic is not None and not timeline.messages:
        session.note(f"no message of topic {topic!r} was counted")
    most = max(timeline.messages.values(), default=1)
    rows = [
        {
            "start_ms": start,
            "message_count": messages,
            "size_bytes": size,
            "share": "█" * (messages * BAR_WIDTH // most),
        }
        for start, messages, size in timeline.rows()
    ]
    last = [{"start_ms": start, "message_count": count} for start, count in sorted(timeline.last_seconds.items())]
    message_count = sum(timeline.messages.values())
    facts = {
        "message_count": message_count,
        "size_bytes": sum(timeline.size_bytes.values()),
        "first_ms": timeline.first_ms,
        "last_ms": timeline.last_ms,
        "jump_count": timeline.jump_count,
    }
    jumps = [{**asdict(jump), "jump_seconds": (jump.after_ms - jump.before_ms) / 1000} for jump in timeline.jumps]
    tables = [Table("buckets", rows), Table("last_seconds", last), Table("jumps", jumps)]
    few = {0: "no pause or clock jump", 1: "1 pause or clock jump"}
    found = few.get(timeline.jump_count, f"{timeline.jump_count:,} pauses and clock jumps")
    verdict = f"{count(message_count, 'message')}; {found}"
    return Result("timeline", facts, tables, verdict=verdict)
