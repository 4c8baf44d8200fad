"""stale: records past the log's end, and in quarantine."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.messages import message_line
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from store.files import Filesystem
    from store.verbs import StaleRecord

EXAMPLES = (
    "rmqctl --store /data/store stale",
    "rmqctl --store /data/store stale --state lost --to lost.jsonl",
)
EXIT_CODES = {1: "A stale record is lost: the live log does not have its message."}
FILES = ("commitlog",)
SEE_ALSO = ("simulate", "check", "put", "find")
COLUMNS = ("state", "log_offset", "topic", "queue_id", "queue_offset", "store_timestamp_ms", "live_log_offset", "file")


class State(StrEnum):
    """Values of --state."""

    DUPLICATE = "duplicate"
    OVERWRITTEN = "overwritten"
    LOST = "lost"


def run(
    ctx: typer.Context,
    state: Annotated[State | None, typer.Option(help="Only records of this state.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only records of this topic.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Records at most.", show_default="all")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write their messages to FILE, for put --input.")
    ] = None,
) -> Result:
    """List records left past a segment's end.

    An earlier recovery truncated the log and left bytes past its end, or moved a segment to quarantine. A record there
    is a duplicate (the log has the same message), overwritten (another message has its queue offset) or lost. --to
    writes the messages as JSON lines. Exit code 1 when one is lost.
    """
    session: Session = ctx.obj

    from store.verbs import find_stale

    root, fs = session.store.reached
    session.refuse_inside(root, to)
    reader = session.store.open_reached()
    with session.progress("reading the log", reader.log_size()) as bar:
        found = find_stale(reader, root, fs, bar.update)
    chosen = [one for one in found if state in (None, one.state.value) and topic in (None, one.topic)]
    states = Counter(one.state.value for one in chosen)
    if to is not None:
        _write(session, to, chosen[:limit], fs)
    lost = states["lost"]
    facts = {
        "stale_messages": len(chosen),
        "duplicate_messages": states["duplicate"],
        "overwritten_messages": states["overwritten"],
        "lost_messages": lost,
        "written_to": str(to) if to is not None else None,
    }
    verdict = f"{count(len(chosen), 'stale record')}, {lost} of them lost: their messages are nowhere else"
    verdict = verdict if chosen else "no stale records"
    table = Table("stale_records", [_row(session, one) for one in chosen[:limit]], COLUMNS)
    return Result("stale", facts, [table], FINDINGS if lost else OK, verdict)


def _write(session: Session, to: Path, records: list[StaleRecord], fs: Filesystem) -> None:
    if to.exists():
        raise typer.BadParameter(f"{to} exists", param_hint="--to")
    from store.files import os_errors

    with os_errors(to, "write the messages"), to.open("x", encoding="utf-8") as stream:
        for one in records:
            stream.write(message_line(one.read(fs)) + "\n")
    session.note(f"{count(len(records), 'message')} written to {to}")


def _row(session: Session, one: StaleRecord) -> dict[str, Any]:
    root = session.store.reached[0].absolute()
    file = one.file.relative_to(root) if one.file.is_relative_to(root) else one.file
    return {
        "state": one.state.value,
        "log_offset": one.log_offset,
        "size": one.size,
        "topic": one.topic,
        "queue_id": one.queue_id,
        "queue_offset": one.queue_offset,
        "store_timestamp_ms": one.store_timestamp_ms,
        "uniq_key": one.uniq_key,
        "live_log_offset": one.live_log_offset if one.live_log_offset >= 0 else None,
        "file": str(file),
        "position": one.position,
    }
