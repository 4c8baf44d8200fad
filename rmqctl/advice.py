"""The commands to run on a store's faults, in the order that loses nothing.

A fault of the engine (an error, a problem, a finding, a trap) has a code and a subject, such as topic and queue. Every
command that shows faults takes the commands, their costs and their order from here.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
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
    "timeline-again": (MESSAGE_DATABASE,),
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
OF_A_FOLDER = tuple(step.command for step in _STEPS if step.command != "salvage")
"""Commands that take a store's folder, and no segment file."""

RECORDS_PAST_THE_END = {"stale-tail", "loses-intact", "bad-crc"}
"""Faults that show whole records past the log's end: recover leaves them in the last segment, and CUT clears them."""

CUT_WITH_THE_LOG = ("index-ahead",)
"""Faults that recover mends: it builds the index to the end at which it truncates the log."""


class Effect(NamedTuple):
    """The effect of one fault on the commands for the others.

    withheld   commands that do harm beside it, or are refused
    unmended   kinds that no command mends beside it
    recovered  kinds that recover mends with it
    """

    withheld: tuple[str, ...] = ()
    unmended: tuple[str, ...] = ()
    recovered: tuple[str, ...] = ()


_EFFECTS = {
    # A rebuild shifts the entries after a missing segment or record, and after a leap again.
    "missing-segment": Effect((QUEUES, ONE_QUEUE)),
    "missing-record": Effect((QUEUES,)),
    "queue-leap": Effect(unmended=("queue-shift",)),
    "newer": Effect(MENDING),
    "no-log": Effect(MENDING),
    # No change opens a segment of another length.
    "wrong-size": Effect(MENDING),
    "empty-segment": Effect(recovered=("unit-nowhere", "index-entry-nowhere", "checkpoint-ahead")),
}

SHOWN_PAST_THE_END = {"stale-tail", "unit-nowhere"}
"""Faults that together show a lost end of the log, not leftovers: queues point to what a truncation would remove."""


def commands_for(code: str, subject: Sequence[object] = ()) -> tuple[str, ...]:
    """Return the commands for a fault, in order, without `rmqctl --store DIR`."""
    in_hint = HINTS.get(code, "").partition("`rmqctl ")[2].partition("`")[0]
    commands = COMMANDS.get(code) or ((in_hint,) if in_hint else ())
    return tuple(command.format(*(shlex.quote(str(part)) for part in subject)) for command in commands)


def command_for(code: str, subject: Sequence[object] = ()) -> str:
    """Return the command to run first; empty without one."""
    return next(iter(commands_for(code, subject)), "")


def mended_by(kind: str, topic: str | None) -> str | None:
    """Return the command that mends a kind of findings, None without one.

    topic   the topic of a finding in a queue's file, None for another file
    """
    last = COMMANDS.get(kind, ("",))[-1]
    return last if last in MENDING else (MENDED_IN_QUEUES.get(kind) if topic is not None else None)


def fault_of(kind: str, topic: str | None, queue_id: int | None) -> Fault:
    """Return the fault of a finding; a queue file of a wrong length has a code of its own."""
    return ("queue-file-size", (topic, queue_id)) if kind in MENDED_IN_QUEUES and topic is not None else (kind, ())


def step_of(command: str) -> Step:
    """Return the command with its cost and whether it can be undone."""
    known = _known(command)
    return Step(command, known.cost, None if command.endswith("--dry-run") else known.can_be_undone)


def _known(command: str) -> Step:
    return next((step for step in _STEPS if command.startswith(step.command)), Step(""))


class Remedies:
    """The commands for the faults of one store, each fault beside the others.

    withheld  commands that would harm this store, beside those that its faults forbid
    """

    def __init__(self, faults: Iterable[Fault] = (), withheld: Iterable[str] = ()) -> None:
        self.faults: dict[Fault, None] = {}
        self._withheld = set(withheld)
        self._unmended: set[str] = set()
        self._recovered: set[str] = set()
        for fault in faults:
            self.add(fault)

    def add(self, fault: Fault) -> None:
        """Take one more fault."""
        self.faults[fault] = None
        effect = _EFFECTS.get(fault[0], Effect())
        self._withheld.update(effect.withheld)
        self._unmended.update(effect.unmended)
        self._recovered.update(effect.recovered)

    def first(self, code: str, subject: Sequence[object] = ()) -> str:
        """Return the command to run first on a fault; empty without one."""
        return self._unless_harmful(code, command_for(code, subject))

    def mending(self, kind: str, topic: str | None) -> str | None:
        """Return the command that mends a kind of findings, None without one; topic as in mended_by."""
        return self._unless_harmful(kind, mended_by(kind, topic) or "") or None

    def plan(self, done: Collection[str] = ()) -> list[Step]:
        """Return the commands in order: each once, none that another covers, none of those that are done."""
        wanted = self._wanted()
        kept = [
            command
            for command in wanted
            if not any(command.startswith(f"{other} ") for other in wanted) and command not in done
        ]
        names = [step.command for step in _STEPS]
        if "queue-file-size" in self._codes:
            # recover opens no queue with a file of a wrong length.
            at = names.index("recover")
            names[at:at] = ONE_QUEUE, QUEUES
        places = {c: next((at for at, name in enumerate(names) if c.startswith(name)), len(names)) for c in kept}
        return [step_of(command) for command in sorted(kept, key=places.__getitem__)]

    @property
    def _codes(self) -> set[str]:
        return {code for code, _ in self.faults}

    def _unless_harmful(self, code: str, command: str) -> str:
        command = "recover" if code in self._recovered else command
        return "" if code in self._unmended or self._is_withheld(command) else command

    def _is_withheld(self, command: str) -> bool:
        return _known(command).command in self._withheld

    def _wanted(self) -> list[str]:
        """Return the commands of all faults, without those that others make superfluous or harmful."""
        codes = self._codes
        wanted = self._commands(codes - self._unmended)
        if codes >= SHOWN_PAST_THE_END:
            wanted.append(SALVAGE)
        if sum(command.startswith(ONE_QUEUE) for command in wanted) > 1:
            wanted.append(QUEUES)
        wanted = [command for command in wanted if not self._is_withheld(command)]
        if "not-shut-down" in codes and any(command.startswith(MENDING) for command in wanted):
            wanted.append("recover")
        covered: set[str] = set()
        if "recover" in wanted:
            recovered = {*CUT_WITH_THE_LOG, *self._recovered}
            covered = {*self._commands(recovered)} - {*self._commands(codes - recovered)}
        if KEEP_INDEX in wanted:
            covered.add("recover")
        if not {"recover", KEEP_INDEX}.isdisjoint(wanted) and RECORDS_PAST_THE_END.isdisjoint(codes):
            # recover truncates the log at the same offset.
            covered.add(CUT)
        return [command for command in dict.fromkeys(wanted) if command not in covered]

    def _commands(self, codes: Collection[str]) -> list[str]:
        """Return the commands for faults with these codes, each once, in the order of the faults."""
        commands = (command for fault in self.faults if fault[0] in codes for command in commands_for(*fault))
        return list(dict.fromkeys(command.removesuffix(" --dry-run") for command in commands))


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
