"""The commands to run on a store's faults, in the order that loses nothing.

A fault of the engine (an error, a problem, a finding, a trap) has a code and a subject, such as topic and queue. Every
command that shows faults takes the commands, their costs and their order from here.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Container, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rmqctl.hints import HINTS

if TYPE_CHECKING:
    from rmqctl.context import Session

SALVAGE, CUT, QUEUES, INDEX = "salvage --to NEWSTORE", "truncate-dirty", "rebuild --queues", "rebuild --index"
ONE_QUEUE = f"{QUEUES} --topic"
KEEP_INDEX = "recover --keep-index"
DELAY_OFFSETS = "rebuild delay-offsets"
TIMER, COMPACTION, CHECKPOINT = "rebuild timer", "rebuild compaction", "checkpoint rewrite"
MESSAGE_DATABASE, RESET_OFFSETS = "rebuild message-database", "config reset-offsets"
COMMANDS = {
    # Kinds of findings. The salvage comes first if a truncation would lose records that it keeps.
    "bad-crc": (SALVAGE, CUT),
    "bad-length": (SALVAGE, CUT),
    "bad-self-offset": (SALVAGE,),
    "missing-segment": (SALVAGE,),
    "stale-tail": ("stale", CUT),
    "wrong-size": ("simulate", SALVAGE),
    "empty-segment": ("recover",),
    "odd-size": (SALVAGE,),
    "queue-gap": (QUEUES,),
    "missing-record": (SALVAGE,),
    "queue-duplicate": (QUEUES,),
    "queue-shift": (QUEUES,),
    "missing-unit": (QUEUES,),
    "light-queues-without-files": (QUEUES,),
    "unit-differs": (QUEUES,),
    "unit-nowhere": (QUEUES,),
    "unit-wrong-record": (QUEUES,),
    "lost-extension": (QUEUES,),
    "unreadable-units": (QUEUES,),
    "unreadable-index": (INDEX,),
    "missing-index-entry": (INDEX,),
    "index-entry-nowhere": (INDEX,),
    "broken-chain": (INDEX,),
    "index-header": (INDEX,),
    "index-time": (INDEX,),
    "lost-index": (INDEX,),
    "index-ahead": (INDEX,),
    "timer-files": (TIMER,),
    "timer-wheel": (TIMER,),
    "timer-log": (TIMER,),
    "timer-stale": (TIMER,),
    "timer-again": (TIMER,),
    "timer-state": (TIMER,),
    "undeliverable-message": ("delay show", DELAY_OFFSETS),
    "compaction-files": (COMPACTION,),
    "compaction-leftover": (COMPACTION,),
    "compaction-position": (COMPACTION,),
    "compaction-uncopied": (COMPACTION,),
    "compaction-unit": (COMPACTION,),
    "message-database": (MESSAGE_DATABASE,),
    "message-entry-nowhere": (MESSAGE_DATABASE,),
    "missing-message-entry": (MESSAGE_DATABASE,),
    "checkpoint-ahead": (CHECKPOINT,),
    "checkpoint-invalid": (CHECKPOINT,),
    # Problems that `info` reads off the files.
    "unreadable": ("check",),
    "config-table": ("config check",),
    "damage": ("simulate",),
    "not-shut-down": ("simulate",),
    "no-log": ("quarantine list",),
    "no-queues": (f"{QUEUES} --dry-run",),
    "queue-file-lost": (ONE_QUEUE + " {0} --queue {1} --dry-run",),
    "index-file-lost": (f"{INDEX} --dry-run",),
    "extension-file-lost": ("recover --dry-run",),
    "queues-behind": ("check",),
    "queues-ahead": ("simulate",),
    "no-index": (f"{INDEX} --dry-run",),
    "no-checkpoint": ("checkpoint show",),
    "unreadable-queue": ("check",),
    # Traps and losses of a simulated start, and faults of consumer offsets.
    "no-start": ("simulate",),
    "loses-intact": (SALVAGE, CUT),
    "loses-damaged": ("recover",),
    "deleted-unconsumed": ("lag",),
    "unknown-topic": ("info",),
    "placeholder": ("get {0} --queue {1} --from {2}",),
    "reset-offset": (RESET_OFFSETS + " {0} --topic {1} --queue {2} --to last",),
}
"""The commands to run on a fault, in order. The last one mends; one before it shows or keeps what that would lose."""

MENDED_IN_QUEUES = {"wrong-size": QUEUES}
"""The command for kinds of findings that can be mended in a queue's files alone."""


Fault = tuple[str, tuple[object, ...]]
"""The code of an error, a problem, a finding or a trap, and its subject."""


class Step(NamedTuple):
    """A command to run, after `rmqctl --store DIR`.

    can_be_undone  whether `undo` takes it back; None if it does not change the store
    """

    command: str
    cost: str = "only looks"
    can_be_undone: bool | None = None


_STEPS = (
    Step("undo", "moves files back"),
    Step("simulate"),
    Step("stale"),
    Step("delay show"),
    Step("salvage", "reads the whole log, writes a second store"),
    Step("recover", "truncates the log where a broker would", can_be_undone=True),
    Step(CUT, "removes all records past the offset", can_be_undone=True),
    Step(ONE_QUEUE, "reads the whole log, rewrites one queue", can_be_undone=True),
    Step(QUEUES, "reads the whole log, rewrites the queues", can_be_undone=True),
    Step(INDEX, "reads the whole log, rewrites the index", can_be_undone=True),
    Step(TIMER, "reads the whole log", can_be_undone=True),
    Step(MESSAGE_DATABASE, "reads the whole log, rewrites the database", can_be_undone=True),
    Step(COMPACTION, "reads the files concerned", can_be_undone=True),
    Step(CHECKPOINT, "reads the newest segments", can_be_undone=True),
    Step(DELAY_OFFSETS, "reads the whole log", can_be_undone=True),
    Step("rebuild topics", "reads the whole log", can_be_undone=True),
    Step(RESET_OFFSETS, "rewrites the consumer offsets", can_be_undone=True),
)
"""The order of a plan: commands that show, that keep, that mend the log, derived files, tables. Others only read."""

MENDING = tuple(step.command for step in _STEPS if step.can_be_undone)
WITHHELD = {
    "missing-segment": (QUEUES, ONE_QUEUE),
    "missing-record": (QUEUES,),
    "newer": MENDING,
    "no-log": MENDING,
    "wrong-size": MENDING,
}
"""Commands that do harm beside a fault, or are refused.

A rebuild shifts the entries after a missing segment or record. No change opens a segment of another length.
"""

NOT_MENDED = {"queue-leap": ("queue-shift",)}
"""Kinds that no command mends beside a fault: a rebuild shifts the entries after a leap again."""

SHOWN_PAST_THE_END = {"stale-tail", "unit-nowhere"}
"""Faults that together show a lost end of the log, not leftovers: queues point to what a truncation would remove."""

CUT_WITH_THE_LOG = ("index-ahead",)
"""Faults that recover mends: it builds the index to the end at which it truncates the log."""

PAST_AN_EMPTY_SEGMENT = (*CUT_WITH_THE_LOG, "unit-nowhere", "index-entry-nowhere", "checkpoint-ahead")
"""Faults that recover mends where the log ends at a segment of 0 bytes."""


def commands_for(code: str, subject: Sequence[object] = ()) -> tuple[str, ...]:
    """Return the commands for a fault, in order, without `rmqctl --store DIR`."""
    in_hint = HINTS.get(code, "").partition("`rmqctl ")[2].partition("`")[0]
    commands = COMMANDS.get(code) or ((in_hint,) if in_hint else ())
    return tuple(command.format(*(shlex.quote(str(part)) for part in subject)) for command in commands)


def command_for(code: str, subject: Sequence[object] = ()) -> str:
    """Return the command to run first; empty without one."""
    return next(iter(commands_for(code, subject)), "")


def is_mended_with_the_log(code: str, beside: Container[str]) -> bool:
    """Return whether recover mends a fault with another fault, a log that ends at a segment of 0 bytes."""
    return code in (PAST_AN_EMPTY_SEGMENT if "empty-segment" in beside else ())


def mended_by(kind: str, topic: str | None, *, beside: Container[str] = ()) -> str | None:
    """Return the command that mends a kind of findings, None without one.

    topic   the topic of a finding in a queue's file, None for another file
    beside  kinds of other findings in the store
    """
    if is_mended_with_the_log(kind, beside):
        return "recover"
    last = COMMANDS.get(kind, ("",))[-1]
    return last if last in MENDING else (MENDED_IN_QUEUES.get(kind) if topic is not None else None)


def fault_of(kind: str, topic: str | None, queue_id: int | None) -> Fault:
    """Return the fault of a finding; a queue file of a wrong length has a code of its own."""
    return ("queue-file-size", (topic, queue_id)) if kind in MENDED_IN_QUEUES and topic is not None else (kind, ())


def step_of(command: str) -> Step:
    """Return the command with its cost and whether it can be undone."""
    known = _known(command)
    return Step(command, known.cost, None if command.endswith("--dry-run") else known.can_be_undone)


def not_mended(codes: Iterable[str]) -> set[str]:
    """Return the kinds that no command mends beside these faults."""
    return {kind for code in codes for kind in NOT_MENDED.get(code, ())}


def is_withheld(command: str, withheld: Collection[str]) -> bool:
    """Return whether a command is withheld, with any options."""
    return _known(command).command in withheld


def _known(command: str) -> Step:
    return next((step for step in _STEPS if command.startswith(step.command)), Step(""))


def plan_of(faults: Iterable[Fault], withheld: Collection[str] = (), done: Collection[str] = ()) -> list[Step]:
    """Return the commands for one store's faults in order: each once, none that another covers.

    withheld  commands that would harm this store, beside those that its faults forbid
    done      commands that need not run again
    """
    faults = list(faults)
    left = not_mended(code for code, _ in faults)
    faults = [fault for fault in faults if fault[0] not in left]
    withheld = {*withheld, *(command for code, _ in faults for command in WITHHELD.get(code, ()))}
    wanted = dict.fromkeys(
        command.removesuffix(" --dry-run") for code, subject in faults for command in commands_for(code, subject)
    )
    if {code for code, _ in faults} >= SHOWN_PAST_THE_END:
        wanted[SALVAGE] = None
    if sum(command.startswith(ONE_QUEUE) for command in wanted) > 1:
        wanted[QUEUES] = None
    wanted = {command: None for command in wanted if not is_withheld(command, withheld)}
    if "not-shut-down" in dict(faults) and any(command.startswith(MENDING) for command in wanted):
        wanted["recover"] = None
    if "recover" in wanted:
        mended = PAST_AN_EMPTY_SEGMENT if "empty-segment" in dict(faults) else CUT_WITH_THE_LOG
        left = {command for code, subject in faults if code not in mended for command in commands_for(code, subject)}
        for command in {command for code in mended for command in commands_for(code)} - left:
            wanted.pop(command, None)
    if KEEP_INDEX in wanted:
        wanted.pop("recover", None)
    if not wanted.keys().isdisjoint(("recover", KEEP_INDEX)):
        # recover truncates the log at the same offset.
        wanted.pop(CUT, None)
    kept = [
        command
        for command in wanted
        if not any(command.startswith(f"{other} ") for other in wanted) and command not in done
    ]
    names = [step.command for step in _STEPS]
    if "queue-file-size" in dict(faults):
        # recover opens no queue with a file of a wrong length.
        at = names.index("recover")
        names[at:at] = ONE_QUEUE, QUEUES
    places = {c: next((at for at, name in enumerate(names) if c.startswith(name)), len(names)) for c in kept}
    return [step_of(command) for command in sorted(kept, key=places.__getitem__)]


def say_plan(session: Session, steps: Iterable[Step]) -> None:
    """Write the steps of a plan to stderr, a line each."""
    for number, step in enumerate(steps, 1):
        say_step(session, number, step)


def say_step(session: Session, number: int, step: Step) -> None:
    """Note one step of a plan; one that changes a store at a URI is for a copy of it."""
    of_copy = step.can_be_undone is not None and session.store.is_uri
    place = "COPY" if of_copy else session.store.place
    undone = "; undo takes it back" if step.can_be_undone else ""
    copied = "; COPY is this store in a folder of this machine" if of_copy else ""
    session.note(f"step {number}: rmqctl --store {place} {step.command} ({step.cost}{undone}{copied})")
