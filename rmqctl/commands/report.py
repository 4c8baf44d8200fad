"""report: one page about a store."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.commands.doctor import loss_on_restart, worst_in_words
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.querying import embedded_engine
from rmqctl.result import Result
from rmqctl.show import count

if TYPE_CHECKING:
    from rmqctl.report.contents import Usage
    from store.verbs import Examination, Timeline

EXAMPLES = ("rmqctl --store /data/store report --html /tmp/store.html",)
EXIT_CODES = {1: "The report was written, and something is wrong with the store."}
FILES = ("commitlog", "consumequeue", "index", "checkpoint", "config")
SEE_ALSO = ("doctor", "simulate", "usage", "timeline", "lag")
SECOND_MS, MINUTE_MS, HOUR_MS = 1000, 60_000, 3_600_000


def run(
    ctx: typer.Context,
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="The file for the page.")],
) -> Result:
    """Write one page about a store.

    Verdict, findings with the commands that mend them, the next start of each broker version, usage by topic, timeline,
    queue depth, lag, tables and settings. The page is one file without outside requests. It follows the reader's light
    or dark setting, tables can be sorted and filtered, and it prints well. The store is only read. Exit code 1 when
    something is wrong with it.
    """
    session: Session = ctx.obj
    if html.is_dir() or not html.absolute().parent.is_dir():
        raise typer.BadParameter(f"{html} is a folder, or its folder does not exist", param_hint="--html")
    session.refuse_inside(session.store.reached[0], html)

    from rmqctl.report.contents import sections_of
    from rmqctl.report.page import make_page
    from rmqctl.settings import with_sources
    from store.broker_line import BROKER_LINES
    from store.files import os_errors
    from store.opened import make_layout
    from store.verbs import examine

    given, clock = session.store.settings(), session.environment.clock_ms
    with session.progress("examining the store") as bar:
        root, fs = session.store.reached
        layout = make_layout(root, given, fs)
        found = examine(layout, given, clock, beside=tuple(BROKER_LINES), fs=fs, on_progress=bar.update)
    settings = [
        {"name": name, "value": value, "source": source}
        for name, (value, source) in with_sources(session, found.info.inferred).items()
    ]
    usage, timeline = _read_log(session, found)
    sections = list(sections_of(found, usage, timeline, settings))
    verdict = _verdict(found)
    place = session.options.uri or str(layout.root)
    page = make_page(_title(found, place), verdict, found.worst, _facts(found, clock()), sections)
    data = page.encode("utf-8", "replace")
    with os_errors(html, "write the report"):
        html.write_bytes(data)
    facts = {"file": str(html), "size_bytes": len(data), "worst_rank": found.worst}
    return Result("report", facts, [], FINDINGS if found.worst else OK, verdict.removesuffix("."))


def _read_log(session: Session, found: Examination) -> tuple[list[Usage], Timeline]:
    """Return usage by topic and the timeline, empty without segments."""
    from rmqctl.report.contents import Usage
    from store.verbs import Timeline, build_timeline

    if not found.info.log.segment_count:
        return [], Timeline("day")
    reader = session.store.open_reached()
    with session.progress("reading the log") as bar:
        timeline = build_timeline(reader, _unit(found), on_progress=bar.update)
    return [Usage(*row) for row in _usage_rows(session)], timeline


def _usage_rows(session: Session) -> list[tuple[str, int, int]]:
    query = "select topic, count(*) as messages, sum(size) as bytes from messages group by topic order by bytes desc"
    readers = session.store.open_readers([str(session.store.place)], any_size=True)
    with embedded_engine(session, readers, outer=True) as engine:
        _, rows = engine.query(query, limit=1 << 20)
    return [(row["topic"], int(row["messages"]), int(row["bytes"])) for row in rows]


def _unit(found: Examination) -> str:
    """Return the unit of the timeline's buckets, for at most 120 columns below days."""
    span = found.info.log.last_ms - found.info.log.first_ms
    units = (("second", SECOND_MS), ("minute", MINUTE_MS), ("hour", HOUR_MS))
    return next((name for name, size in units if span <= 120 * size), "day")


def _title(found: Examination, place: str) -> str:
    """Return the store's broker line, its absolute path or URI, and the host."""
    from store.layout import is_address

    host = "" if is_address(place) else f" on {platform.node()}"
    return f"RocketMQ {found.info.line} store {place}{host}"


def _verdict(found: Examination) -> str:
    amount = "the log alone"
    if not found.info.holds_log_alone:
        amount = f"{count(found.info.message_count, 'message')} in {count(found.info.topic_count, 'topic')}"
    if not found.worst:
        return f"A sound {found.info.line} store with {amount}."
    if loss := loss_on_restart(found):
        return f"{loss}. A {found.info.line} store with {amount}."
    what = worst_in_words(found)
    return f"{what[:1].upper()}{what[1:]}. A {found.info.line} store with {amount}."


def _facts(found: Examination, now_ms: int) -> dict[str, Any]:
    from store import __version__

    info, log = found.info, found.info.log
    return {
        "written_ms": now_ms,
        "written by": f"rmqctl {__version__}",
        "version": info.line.name,
        "shut down": info.abort_ms < 0 and info.holder is None,
        "lock held by": info.holder.describe() if info.holder is not None else "no process",
        "segments": log.segment_count,
        "log_bytes": log.size_bytes,
        "log end": log.end,
        "first_message_ms": log.first_ms if log.first_ms >= 0 else None,
        "last_message_ms": log.last_ms if log.last_ms >= 0 else None,
        "queues": len(info.queues),
        "index files": info.index.file_count,
        "free_bytes": info.free_bytes,
    }
