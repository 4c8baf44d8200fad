"""doctor: everything that is wrong with a store, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.advice import CUT, Fault, Remedies, Step, fault_of, step_of
from rmqctl.changing import Yes
from rmqctl.commands.simulate import unseen_in_words
from rmqctl.context import Session
from rmqctl.exit_codes import DECLINED, FINDINGS, OK
from rmqctl.fixing import run_fixes
from rmqctl.hints import hint_for, with_hint
from rmqctl.options import StartingLine, StartingLineOption
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from store.verbs import Diagnosis, Examination

EXAMPLES = ("rmqctl --store /data/store doctor", "rmqctl --store /data/store --format json doctor --compat all")
EXIT_CODES = {1: "Something is wrong."}
FILES = ("commitlog", "consumequeue", "index", "checkpoint", "config")
SEE_ALSO = ("info", "check", "simulate", "config check", "lag", "salvage")
LABELS = ("number", "rank", "area", "what")
FailOn = Annotated[
    int, typer.Option(min=1, max=4, metavar="RANK", help="Exit with 1 only for findings of this rank or worse.")
]
Fix = Annotated[bool, typer.Option("--fix", help="Run the commands that mend, one after the other.")]
COLUMNS = ("rank", "what", "count", "detail", "command")


def run(
    ctx: typer.Context,
    compat: StartingLineOption = None,
    fail_on: FailOn = 4,
    fix: Fix = False,
    yes: Yes = False,
) -> Result:
    """List everything that is wrong, the worst first.

    Runs info, check, simulate, config check and lag, and looks for placeholders of a salvage. Each finding has the
    command that mends or explains it, its cost, and whether undo can reverse it. Ranks: 1 a broker does not start, 2
    messages are lost or will be, 3 consumers or queries get wrong results, 4 good to know.

    Nothing is written without --fix, which runs the mending commands in order. Each shows its plan and asks first; the
    first that fails, or is answered with no, ends the run. Exit code 1 when something is wrong.
    """
    session: Session = ctx.obj
    declined = fix and run_fixes(session, lambda: plan_for(examine_store(session, compat)), may_ask=not yes)
    found = examine_store(session, compat)
    if found.info.holder is not None:
        session.note(f"{found.info.holder.describe()} holds the store: no start was simulated")
    for remark in found.remarks:
        session.note(remark)
    first = remedies_for(found).first
    rows = [_row(session, number, one, first(one.code, one.subject)) for number, one in enumerate(found.diagnoses, 1)]
    facts = {
        "worst_rank": found.worst,
        "finding_count": len(rows),
        "compat": found.info.line.name,
        "message_count": found.info.message_count if found.info.are_queues_read else None,
        "checked_bytes": found.checked_bytes,
        "lost_messages": sum(start.lost.messages for start in found.starts),
    }
    tables = [Table("diagnoses", rows, COLUMNS), Table("commands", [step._asdict() for step in plan_for(found)])]
    code = DECLINED if declined else FINDINGS if 0 < found.worst <= fail_on else OK
    tables = tables if rows else tables[:1]
    return Result("doctor", facts, tables, code, _verdict(found), labels=LABELS, is_plan=True, main_facts=("compat",))


def examine_store(session: Session, compat: StartingLine | None) -> Examination:
    """Examine the store of --store, with a progress bar."""
    from store.broker_line import BROKER_LINES
    from store.opened import make_layout
    from store.verbs import examine

    settings = session.store.settings()
    lines = tuple(BROKER_LINES) if compat is StartingLine.ALL else (compat.value,) if compat is not None else ()
    with session.progress("examining the store") as bar:
        (root, fs), clock = session.store.reached, session.environment.clock_ms
        layout = make_layout(root, settings, fs)
        return examine(layout, settings, clock, lines=lines, fs=fs, on_progress=bar.update)


def _verdict(found: Examination) -> str:
    if not found.worst:
        amount = "the log alone" if found.info.holds_log_alone else count(found.info.message_count, "message")
        return f"a sound {found.info.line} store with {amount}"
    newer = f"; a {found.info.kind}, which is only read" if found.info.newer_files else ""
    words = {1: "a broker does not start", 2: "messages are lost", 3: "something is wrong", 4: "something to know"}
    what = loss_on_restart(found) or f"{words[found.worst]}: {worst_in_words(found)}"
    return f"{what}; {count(len(found.diagnoses), 'finding')}{newer}"


def worst_in_words(found: Examination) -> str:
    """Return the worst diagnosis in words; findings of check and traps have theirs in the detail."""
    worst = found.diagnoses[0]
    if worst.area == "check":
        return worst.detail.partition("; ")[0]
    return worst.detail if worst.area == "simulate" else worst.what


def loss_on_restart(found: Examination) -> str:
    """Return the loss by a restart in words if no diagnosis has a worse rank, else an empty text."""
    losing = {one.lost.messages: one for one in found.starts if one.starts and one.lost.messages}
    worst = next((one for one in found.diagnoses if one.area == "simulate" and one.count in losing), None)
    if worst is None or (found.diagnoses[0].rank, worst.rank) != (2, 2):
        return ""
    start = losing[worst.count]
    intact = start.lost.intact
    unseen = f"; {unseen_in_words(start)}" if start.unseen else ""
    return f"{count(worst.count, 'message')} would be lost on restart, {intact or 'none'} can be salvaged{unseen}"


def remedies_for(found: Examination) -> Remedies:
    """Return the commands for all faults; in a group member's log only the group truncates."""
    faults: list[Fault] = [(one.code, one.subject) for one in found.info.problems]
    faults += [(one.code, one.subject) for one in found.diagnoses]
    faults += [fault_of(one.kind, one.topic, one.queue_id) for one in found.findings]
    return Remedies(faults, [] if found.info.layout.has_plain_log else [CUT])


def plan_for(found: Examination) -> list[Step]:
    """Return the commands to run, in order; check and simulate have run already."""
    return remedies_for(found).plan(done=("check", *(["simulate"] if found.starts else [])))


def _row(session: Session, number: int, one: Diagnosis, command: str) -> dict[str, Any]:
    step = step_of(command) if command else None
    is_whole = command and session.format.is_for_programs
    # For people the column `command` is enough.
    is_repeated = not is_whole and hint_for(one.code, one.subject) == f"run `rmqctl {command}`"
    return {
        "number": number,
        "rank": int(one.rank),
        "area": one.area,
        "what": one.what,
        "count": one.count,
        "detail": one.detail if is_repeated else with_hint(one.detail, one.code, one.subject),
        "command": f"rmqctl --store {session.store.place} {command}" if is_whole else command,
        "cost": step.cost if step else None,
        "can_be_undone": step.can_be_undone if step else None,
    }
