"""simulate: show a broker's next start without making it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from rmqctl.advice import CUT, Remedies, say_plan
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.hints import hint_for, with_hint
from rmqctl.options import StartingLine, StartingLineOption
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from store.verbs.recover import SimulatedStart, Trap

EXAMPLES = (
    "rmqctl --store /data/store simulate",
    "rmqctl --store /data/store simulate --compat all",
    "rmqctl --store /data/store --format json simulate --compat 5.3",
)
UNCOMMITTED = "dledger-uncommitted"
SEE_ALSO = ("recover", "check", "checkpoint show")


def run(
    ctx: typer.Context,
    compat: StartingLineOption = None,
) -> Result:
    """Show a broker's next start without making it.

    Shows whether a broker of this version starts, where its recovery begins, where and why its log ends, and the change
    of each file. Losses are messages and bytes by topic and queue. Each has the number that is intact past the end, and
    the number that each consumer group had not consumed. As in `recover`, queue entries, index keys, and delayed
    messages that are delivered at once are counted too. Messages are records of the log, as in `salvage`, including
    half and rolled-back ones that are in no queue.

    Traps of the version are listed with the command that prevents them. Nothing is written. Exit code 1 when a version
    does not start, loses something or has a trap.
    """
    session: Session = ctx.obj

    from store.broker_line import BROKER_LINES
    from store.opened import make_layout

    session.store.warn_of_holder()
    names = list(BROKER_LINES) if compat is StartingLine.ALL else [compat.value if compat else None]
    outcomes = [simulated(session, name) for name in names]
    faults = [fault for one in outcomes for fault in one.faults]
    faults += [("not-shut-down", ())] if faults and any(one.mode == "abnormal" for one in outcomes) else []
    root, fs = session.store.reached
    is_plain = make_layout(root, session.store.settings(), fs).has_plain_log
    # In a group member's log only the group truncates.
    say_plan(session, Remedies(faults, [] if is_plain else [CUT]).plan(done=("simulate",)))
    is_sound = all(one.starts and not one.traps and one.lost.is_empty for one in outcomes)
    verdict = verdict_of(*outcomes)
    return Result("simulate", {}, _tables(outcomes), OK if is_sound else FINDINGS, verdict, is_plan=True)


def simulated(session: Session, line: str | None) -> SimulatedStart:
    """Return the simulated start of a broker of this line, with a progress bar."""
    from store import simulate

    root, fs = session.store.reached
    with session.progress(f"simulating {line}" if line else "simulating") as bar:
        return simulate(
            root,
            settings=session.store.settings(),
            clock=session.environment.clock_ms,
            compat=line,
            scratch=session.options.scratch,
            progress=bar.update,
            fs=fs,
        )


def _reason(one: SimulatedStart) -> str:
    return with_hint(one.reason, *one.blocker)


def _trap(trap: Trap) -> dict[str, str]:
    return {"name": trap.code, "detail": trap.detail, "remedy": hint_for(trap.code, trap.subject)}


def verdict_of(*outcomes: SimulatedStart) -> str:
    """Return the outcomes of starts in words; versions with the same one are named together."""
    lines: dict[str, list[str]] = {}
    for one in outcomes:
        lines.setdefault(_outcome(one), []).append(one.compat)
    return "; ".join(f"a {_listed(names)} broker {outcome}" for outcome, names in lines.items())


def _listed(names: list[str]) -> str:
    return " or ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])


def _outcome(one: SimulatedStart) -> str:
    if not one.starts:
        later = f"; without this file it loses {count(one.lost.messages, 'message')}" if one.lost.messages else ""
        return f"does not start: {_reason(one)}{later}"
    if one.lost.messages:
        said = f"loses {count(one.lost.messages, 'message')}, {one.lost.intact} of them intact past the end"
    elif not one.lost.is_empty:
        said = f"loses no message, but {_lost_beside_messages(one)}"
    elif one.unseen:
        return f"starts, but {unseen_in_words(one)}; the log ends at {one.log_end}"
    elif any(trap.code == UNCOMMITTED for trap in one.traps):
        said = "loses nothing; readers get nothing until the next put"
    else:
        traps = f", but meets {count(len(one.traps), 'trap')}" if one.traps else ""
        said = f"loses nothing{traps}; the log ends at {one.log_end}"
    return f"starts and {said}{f'; {unseen_in_words(one)}' if one.unseen else ''}"


def unseen_in_words(one: SimulatedStart) -> str:
    """Return the number of messages that no queue shows after a start."""
    return f"{count(sum(one.unseen.values()), 'message')} of the log will be in no queue"


def _lost_beside_messages(one: SimulatedStart) -> str:
    delayed, keys = one.lost.delayed, one.lost.index_keys
    said = [f"{count(delayed, 'delayed message')} delivered at once"] if delayed else []
    return " and ".join([*said, *([f"{count(keys, 'index key')} no longer found"] if keys else [])])


def _tables(outcomes: list[SimulatedStart]) -> list[Table]:
    changed = [
        {"compat": one.compat, "file": file.file, "action": file.action, "size_bytes": file.size}
        for one in outcomes
        for file in one.files
        if file.action != "keep"
    ]
    losses = [{"compat": one.compat, **asdict(one.lost.counts())} for one in outcomes]
    lost = [{"compat": one.compat, **asdict(row)} for one in outcomes for row in one.lost.queue_rows()]
    unconsumed = [{"compat": one.compat, **asdict(row)} for one in outcomes for row in one.lost.group_rows()]
    traps = [{"compat": one.compat, **_trap(trap)} for one in outcomes for trap in one.traps]
    shown = ("compat", "starts", "mode", "start_segment", "log_end", "cut_reason")
    return [
        Table("outcomes", [_as_json(one) for one in outcomes], shown),
        Table("traps", traps),
        Table("losses", losses, is_detail=all(one.lost.is_empty for one in outcomes)),
        Table("lost", lost),
        Table("unconsumed", unconsumed),
        Table("changed_files", changed),
    ]


def _as_json(one: SimulatedStart) -> dict[str, Any]:
    return {
        "compat": one.compat,
        "starts": one.starts,
        "reason": _reason(one),
        "mode": one.mode,
        "start_segment": one.start_segment if one.start_segment >= 0 else None,
        "start_reason": one.start_reason,
        "log_end": one.log_end if one.log_end >= 0 else None,
        "cut_reason": one.cut_reason,
        "files": [asdict(file) for file in one.files],
        "lost": {
            **{name.removeprefix("lost_"): value for name, value in asdict(one.lost.counts()).items()},
            "unconsumed": one.lost.by_group(),
            "queues": [asdict(row) for row in one.lost.queue_rows()],
        },
        "traps": [_trap(trap) for trap in one.traps],
    }
