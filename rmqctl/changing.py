"""The steps of every changing command: show the plan, ask or require --yes, apply, name the undo.

    --dry-run          prints the plan and changes nothing
    --yes              applies without asking
    --quarantine DIR   moves removed files to DIR (default STORE/.rmqctl/quarantine)
    --no-quarantine    deletes them instead

On a terminal the plan is shown, and a question asks for consent. Elsewhere a change without --yes is refused before
any work is done.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import DECLINED, FINDINGS, OK
from rmqctl.hints import describe
from rmqctl.options import require_folder
from rmqctl.output import Format, render
from rmqctl.result import Result, Table
from rmqctl.show import count, show_bytes

if TYPE_CHECKING:
    from store import Change, PlannedAction, PlanReport

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Apply the plan without asking.")]


def _quarantine_option(text: str) -> Any:
    return typer.Option(metavar="DIR", callback=require_folder, help=text, show_default="STORE/.rmqctl/quarantine")


Quarantine = Annotated[Path | None, _quarantine_option("Where to keep what is removed.")]
KeptIn = Annotated[Path | None, _quarantine_option("The --quarantine folder of the change.")]
NoQuarantine = Annotated[
    bool, typer.Option("--no-quarantine", help="Delete what is removed; the change cannot be undone.")
]

ForceEmptyLog = Annotated[
    bool, typer.Option("--force-empty-log", help="Continue although the commit log is empty and queues are not.")
]

SHOWN_STEPS = 10
"""Plans of more steps begin with their totals: a screen shows few of them."""


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The options of a change.

    keep  move removed files to quarantine; else delete them
    """

    dry_run: bool = False
    yes: bool = False
    quarantine: Path | None = None
    keep: bool = True

    def require_consent(self, session: Session) -> None:
        """Raise a usage error if --yes is missing and no terminal can be asked."""
        if not self.dry_run:
            session.store.require_folder()
        if not (self.dry_run or self.yes or session.environment.can_ask):
            raise typer.BadParameter("this changes the store: give --yes, or look first with --dry-run")


def changes_store(run: Callable[..., Result]) -> Callable[..., Result]:
    """Give a command the options of a change, after its own; its parameter `consent` gets them."""

    def with_options(
        ctx: typer.Context,
        *,
        dry_run: DryRun = False,
        yes: Yes = False,
        quarantine: Quarantine = None,
        no_quarantine: NoQuarantine = False,
        **own: object,
    ) -> Result:
        consent = ChangeOptions(dry_run, yes, quarantine, not no_quarantine)
        consent.require_consent(ctx.obj)
        return run(ctx=ctx, consent=consent, **own)

    _, *options, _ = inspect.signature(with_options, eval_str=True).parameters.values()
    signature = inspect.signature(run, eval_str=True)
    own = [one.replace(kind=one.KEYWORD_ONLY) for one in signature.parameters.values() if one.name != "consent"]
    functools.update_wrapper(with_options, run)
    # Typer reads the options of a command from it.
    with_options.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return with_options


def run_change(session: Session, command: str, change: Change[PlanReport], consent: ChangeOptions) -> Result:
    """Show `change`, ask for consent unless --yes is given, and apply it."""
    plan = _plan_result(command, change, consent)
    for remark in change.remarks:
        session.note(f"note: {remark}")
    for note in (*change.notes, *map(describe, change.damaged), *change.foreign):
        session.warn(note)
    if consent.dry_run or change.is_empty:
        change.close()
        return plan
    if not consent.yes:
        session.end_opening()
        render(plan, Format.TABLE, session.environment.stderr, session.look(color=False))
        if not session.ask(f"Apply these {len(change.actions)} steps?"):
            change.close()
            declined = dataclasses.replace(plan, exit_code=DECLINED, verdict="nothing was changed")
            return _without_plan(session, declined, {})
    session.release_notes()
    # A signal waits until the change is complete.
    with session.interrupts.deferred(), session.progress("applying", len(change.actions), "steps") as bar:
        change_id = change.apply(
            quarantine=consent.quarantine, keep=consent.keep, on_action=lambda action: bar.advance()
        )
    if change_id is not None:
        where = f" --quarantine {consent.quarantine.absolute()}" if consent.quarantine is not None else ""
        session.note(f"undo with: rmqctl --store {session.store.place} undo {change_id}{where}")
    facts = {**plan.read_facts(), "applied": True, "change_id": change_id}
    verdict = f"changed the store in {count(len(change.actions), 'step')}{_losses(change)}"
    applied = dataclasses.replace(plan, facts=facts, verdict=verdict)
    return applied if consent.yes else _without_plan(session, applied, {"change_id": change_id})


def _without_plan(session: Session, result: Result, facts: dict[str, Any]) -> Result:
    """Leave the plan out of a result for the terminal that has just shown it."""
    if session.format.is_for_programs or not session.environment.stdout.isatty():
        return result
    return dataclasses.replace(result, tables=[], facts=facts)


def _plan_result(command: str, change: Change[PlanReport], consent: ChangeOptions) -> Result:
    """Return the plan as a result.

    Its rows are read at once: after the change is applied, the sizes of removed files are unknown.
    """
    found = asdict(change.report)
    tables = [Table(name, value) for name, value in found.items() if _is_table(value)]
    # What is lost comes next to the steps.
    tables.sort(key=lambda table: table.name not in ("lost", "unconsumed"))
    facts = {name: value for name, value in found.items() if not _is_table(value)}
    rows = change.rows()
    tables.insert(0, Table("actions", rows, ("action", "file", "size_bytes", "reason")))
    is_lossy = bool(change.lost) and not consent.keep
    steps = f"would change the store in {count(len(rows), 'step')}{totals_of(rows)}{_losses(change)}"
    verdict = "nothing to change" if change.is_empty else steps
    has_findings = is_lossy or bool(change.notes or change.damaged or change.foreign)
    code = FINDINGS if has_findings else OK
    return Result(command, {"applied": False, **facts}, tables, code, verdict, is_plan=True)


def totals_of(rows: Sequence[PlannedAction]) -> str:
    """Return files and bytes by kind of step for plans of more than SHOWN_STEPS, else an empty text."""
    if len(rows) <= SHOWN_STEPS:
        return ""
    files, sizes = Counter[str](), Counter[str]()
    for row in rows:
        files[row["action"]] += 1
        sizes[row["action"]] += row["size_bytes"]
    parts = [f"{action} {count(files[action], 'file')}, {show_bytes(sizes[action])}" for action in files]
    return f" ({'; '.join(parts)})"


def _losses(change: Change[PlanReport]) -> str:
    from store.verbs.recover import Losses

    lost = sum(change.lost.values())
    gone = change.report.lost_messages if isinstance(change.report, Losses) else lost
    if gone > lost:
        # Of expiring messages only the unconsumed ones count as lost.
        return f"; {count(gone, 'message')} no longer shown, {lost or 'none'} of them known to be unconsumed"
    return f"; {count(lost, 'message')} no longer shown" if lost else "; no message is lost"


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, Mapping) for row in value)
