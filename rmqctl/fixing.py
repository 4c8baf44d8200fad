"""doctor --fix: runs the commands of doctor's plan, one after the other, each with its own question.

1. examine the store; the next step is the first mending command of the plan
2. ask the user to run a salvage first if the plan has one: it keeps records that the next step may cut
3. run the step as if it were typed; undo takes it back
4. continue at 1 until the plan is empty, or a command fails, or a step that has run is still in the plan
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace

import typer

from rmqctl.advice import SALVAGE, Step, say_step
from rmqctl.context import Session
from rmqctl.exit_codes import DECLINED, FINDINGS


def run_fixes(session: Session, plan: Callable[[], list[Step]], *, may_ask: bool) -> bool:
    """Run steps 1 to 4; return whether the user answered a question with no.

    plan     examines the store, and returns the commands for its faults
    may_ask  False for --yes: nothing is asked, and a plan with a salvage ends before it
    """
    session.store.require_folder()
    session.release_notes()
    if may_ask and not session.environment.can_ask:
        raise typer.BadParameter("this changes the store: give --yes, or look first without --fix")
    done: set[str] = set()
    while (step := _next(session, plan(), done, may_ask=may_ask)) is not None:
        if step.command == SALVAGE:
            return may_ask
        done.add(step.command)
        say_step(session, len(done), step)
        code = run_command(session, [*shlex.split(step.command), *([] if may_ask else ["--yes"])])
        if code > FINDINGS:
            if code != DECLINED:
                session.warn(f"{step.command} failed (exit code {code}); later steps were not run")
            return code == DECLINED
    if not done:
        session.note("note: nothing was changed: no command of the plan changes the store")
    return False


def _next(session: Session, plan: list[Step], done: set[str], *, may_ask: bool) -> Step | None:
    """Return the plan's first mending command, or the salvage if the user is to run that first.

    None, with a message, for a command that has run and is still needed.
    """
    for step in plan:
        if step.command == SALVAGE and SALVAGE not in done:
            done.add(SALVAGE)
            text = "`rmqctl salvage --to NEWSTORE` keeps what a later step may cut"
            if not (may_ask and session.ask(f"{text}. Go on without it?")):
                session.note(f"note: {text}; run it first")
                return step
        if step.can_be_undone and step.command in done:
            session.warn(f"{step.command} has run, but is still needed; later steps were not run")
            return None
        if step.can_be_undone:
            return step
    return None


def run_command(session: Session, words: list[str]) -> int:
    """Run another command on the same store, its result on stderr; return its exit code."""
    options = session.options
    given = [word for name, value in options.settings.items() for word in ("--set", f"{name}={value}")]
    given += ["--broker-conf", str(options.broker_conf)] if options.broker_conf is not None else []
    given += ["--scratch", str(options.scratch)] if options.scratch is not None else []
    environment = replace(session.environment, stdout=session.environment.stderr)
    return session.run(["--store", str(options.store), *given, *words], environment)
