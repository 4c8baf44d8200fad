"""info: a store's kind, sizes and state, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.advice import Remedies, command_for
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from store.verbs import Problem, StoreInfo

EXAMPLES = ("rmqctl --store /data/store info", "rmqctl --store /data/store --format json info")
EXIT_CODES = {1: "Something is missing, incomplete or damaged."}
SEE_ALSO = ("check", "simulate", "dump", "config settings")
MAIN_FACTS = (
    "compat", "is_closed", "lock_holder", "log_bytes", "log_end", "last_ms", "topic_count",
    "message_count", "queues_built_to", "disk_used_percent", "next_command",
)  # fmt: skip
"""The facts on a terminal: with verdict and problems they fit 80 columns and 24 lines."""
Settings = Annotated[bool, typer.Option("--settings", help="Also show settings that differ from their default.")]


def run(ctx: typer.Context, show_settings: Settings = False) -> Result:
    """Show a store's kind, sizes and state.

    Version and the sign for it, sizes, offsets, first and last time, topics, queues, index, lock owner, free space.
    Also missing or incomplete parts, and the next command. Reads file lists, headers and the log's tail. A log of up to
    1 GiB is read whole, to find lost files of queues and index. Also works on damaged stores that other commands
    refuse. Exit code 1 when something is missing, incomplete or damaged.

    message_count counts queue entries. `salvage`, `simulate` and `usage` count records, which include half and
    rolled-back messages that are in no queue.
    """
    session: Session = ctx.obj

    from rmqctl.settings import with_sources
    from store.opened import make_layout
    from store.verbs import look_at_store

    given = session.store.settings()
    root, fs = session.store.reached
    info = look_at_store(make_layout(root, given, fs), given, fs)
    if not info.is_walked:
        session.note("note: the log was not read for lost files of queues and index; `rmqctl check` reads it")
    settings = [
        {"name": name, "value": value, "source": source}
        for name, (value, source) in with_sources(session, info.inferred).items()
    ]
    structures = [{"name": one.name, "file": one.file, "detail": one.detail} for one in info.structures]
    tables = [
        Table("problems", [_row(problem) for problem in info.problems], ("what", "detail", "command")),
        Table("structures", structures, is_detail=bool(info.problems and structures)),
        *([Table("settings", settings)] if show_settings or session.format.is_for_programs else []),
    ]
    if not session.format.is_for_programs:
        tables = [table for table in tables if table.rows]
    code = FINDINGS if info.problems else OK
    facts = _facts(session, info)
    return Result("info", facts, tables, code, _verdict(info), is_summary=True, main_facts=MAIN_FACTS)


def _verdict(info: StoreInfo) -> str:
    amount = "which holds the log alone" if info.holds_log_alone else "its queues can't be read"
    if info.are_queues_read:
        amount = f"{count(info.message_count, 'message')} in the queues of {count(info.topic_count, 'topic')}"
        if info.unflushed_count:
            amount += f", and {info.unflushed_count} of the newest segment with no entry on the disk yet"
    missing = f"nothing that {info.line} knows is missing" if info.newer_files else "nothing is missing"
    problems = count(len(info.problems), "problem") if info.problems else missing
    return f"a {info.kind}, {amount}; {problems}"


def _row(problem: Problem) -> dict[str, str]:
    command = command_for(problem.code, problem.subject)
    return {"what": problem.what, "detail": problem.detail, "command": command}


def _next_command(info: StoreInfo) -> str:
    """Return the first step of the plan for all problems, else `check`."""
    steps = Remedies((one.code, one.subject) for one in info.problems).plan()
    return steps[0].command if steps else "check"


def _amounts(info: StoreInfo) -> dict[str, int | None]:
    """Return the numbers of topics, queues and messages; None if queues are unreadable."""
    amounts = {
        "topic_count": info.topic_count,
        "queue_count": len(info.queues),
        "message_count": info.message_count,
    }
    return dict(amounts) if info.are_queues_read else dict.fromkeys(amounts)


def _facts(session: Session, info: StoreInfo) -> dict[str, Any]:
    log, holder, is_local = info.log, info.holder, session.options.uri is None
    return {
        "compat": info.line.name,
        "compat_sign": next(iter(info.traces), "no trace of a 5.x broker"),
        "is_closed": info.abort_ms < 0 and holder is None,
        "abort_ms": info.abort_ms if info.abort_ms >= 0 else None,
        "lock_holder": holder.describe() if holder is not None else None,
        "owner_process": holder.process_id if holder is not None else None,
        "segment_count": log.segment_count,
        "log_bytes": log.size_bytes,
        "min_log_offset": log.min_offset,
        "log_end": log.end,
        "first_ms": log.first_ms if log.first_ms >= 0 else None,
        "last_ms": log.last_ms if log.last_ms >= 0 else None,
        **_amounts(info),
        "queues_built_to": info.queues_built_to,
        "index_file_count": info.index.file_count,
        "index_built_to": info.index.built_to,
        "trusted_time_ms": max(0, info.checkpoint_ms),
        "config_files": info.config_files,
        "free_bytes": info.free_bytes if is_local else None,
        "disk_used_percent": info.used_percent if is_local else None,
        "next_command": f"rmqctl --store {session.store.place} {_next_command(info)}",
    }
