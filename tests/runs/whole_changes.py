"""Changes to stores that brokers wrote, each done as a whole or not at all (tests/runs/nth_call.py).

A case makes a store on which its change has something to do, and plans and applies it. Clocks stand still, so that two
runs write the same bytes.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from store.change.change import Change
from store.change.quarantine import interrupted_change, list_quarantine, undo
from store.engine.services.resolve import plan_resolve
from store.engine.services.transactions import TransactionState, review_transactions
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.opened.detect import detect_line
from store.opened.staged import locked_store, staging
from store.structures.compaction.build import plan_compaction_mend
from store.verbs.rebuild.delay_offsets import plan_delay_offsets
from store.verbs.rebuild.timer import plan_timer_rebuild
from store.verbs.tables import plan_topics
from tests.engine.services.stores import unpack
from tests.support.five_stores import copy_of_five, damage, lines
from tests.support.snapshots import contents, differences
from tests.support.stores import LATER_MS, Clock, planning

Contents = dict[str, object]
NO_TOPICS = '{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":{}}'


class Case(NamedTuple):
    """A store made in a folder, and a change of it through a file system."""

    make: Callable[[Path], Path]
    apply: Callable[[Path, Filesystem], Change]


def broken_timer(folder: Path) -> Path:
    root = copy_of_five("timer", folder)
    damage(root, {"remove": ["config/timercheck", "timerlog"]})
    return root


def broken_compaction(folder: Path) -> Path:
    root = copy_of_five("compaction", folder)
    for line in lines("compaction", "damaged.jsonl"):
        if line["damage"]["name"] in (".delete left (full length)", "one cq file missing"):
            damage(root, line["damage"])
    (root / "compaction/position-checkpoint").write_text("no table")
    return root


def killed_services(folder: Path) -> Path:
    root, _ = unpack("services-aborted", folder)
    (root / "abort").unlink()
    return root


def without_topics(folder: Path) -> Path:
    root, _ = unpack("services", folder)
    (root / "config/topics.json").write_text(NO_TOPICS)
    return root


def applied(change: Change) -> Change:
    change.apply()
    return change


def rebuild_timer(root: Path, fs: Filesystem) -> Change:
    with planning(root, fs=fs, clock=Clock(), verb="timer") as opened:
        return applied(plan_timer_rebuild(opened))


def mend_compaction(root: Path, fs: Filesystem) -> Change:
    with locked_store(root, fs=fs) as (layout, fs), staging(layout, fs, "compaction", dry_run=False) as folder:
        return applied(plan_compaction_mend(layout, fs, folder))


def resolve_transaction(root: Path, fs: Filesystem, *, commit: bool) -> Change:
    """End the first transaction in doubt; one at most, as the command does."""
    with planning(root, fs=fs, clock=Clock(LATER_MS), verb="resolve") as opened:
        found = review_transactions(opened).transactions
        open_ones = [one.uniq_key for one in found if one.state is TransactionState.IN_DOUBT]
        return applied(plan_resolve(opened, str(open_ones[0]), commit=commit))


def rewrite_delay_offsets(root: Path, fs: Filesystem) -> Change:
    with planning(root, fs=fs, clock=Clock(LATER_MS), verb="delay") as opened:
        return applied(plan_delay_offsets(opened, LATER_MS))


def rebuild_topics(root: Path, fs: Filesystem) -> Change:
    with locked_store(root, fs=fs) as (layout, fs), staging(layout, fs, "topics", dry_run=False) as folder:
        line = detect_line(layout, fs)
        reader = StoreReader(str(root), fs)
        return applied(plan_topics(layout, reader, line, fs, staging=folder, now_ms=LATER_MS))


CASES: dict[str, Case] = {
    "timer rebuild": Case(broken_timer, rebuild_timer),
    "compaction mend": Case(broken_compaction, mend_compaction),
    "transaction commit": Case(
        lambda folder: unpack("services", folder)[0], functools.partial(resolve_transaction, commit=True)
    ),
    "transaction rollback": Case(
        lambda folder: unpack("services5", folder)[0], functools.partial(resolve_transaction, commit=False)
    ),
    "delay rewrite-offsets": Case(killed_services, rewrite_delay_offsets),
    "config rebuild-topics": Case(without_topics, rebuild_topics),
}


class Ends(NamedTuple):
    """The files of a store before its change and after it."""

    before: Contents
    after: Contents


@functools.cache
def ends_of(name: str) -> Ends:
    """Both ends of a case, from a run that nothing disturbs."""
    with tempfile.TemporaryDirectory() as folder:
        root = CASES[name].make(Path(folder))
        before = files_of(root)
        CASES[name].apply(root, Filesystem())
        ends = Ends(before, files_of(root))
    assert ends.before != ends.after, f"{name} changes nothing"
    return ends


def verify_whole(root: Path, name: str, operation: str, change: Change | None, *, has_ended: bool) -> None:
    """AssertionError unless the change is there as a whole, or undone and can be run again.

    A change that has taken a file for damaged, because it could not be read, must say so and bring it back.

    change     what the command carried out, where that is known
    has_ended  whether the command came to its end: the change is there then
    """
    ends, fs = ends_of(name), Filesystem()
    interrupted = interrupted_change(root, fs)
    if interrupted is not None:
        assert not has_ended, f"{operation}: the change has ended and looks interrupted"
        undo(root, interrupted.id, fs=fs)
        assert differences(ends.before, files_of(root)) == [], f"{operation}: not as before the change"
    elif change is not None and (change.damaged or change.remarks):
        undo(root, list_quarantine(root, fs=fs)[-1].id, fs=fs)
        assert differences(ends.before, files_of(root)) == [], f"{operation}: not as before the change"
        has_ended = False
    if not has_ended and files_of(root) == ends.before:
        CASES[name].apply(root, fs)
    assert differences(ends.after, files_of(root)) == [], f"{operation}: neither as before nor as after it"


def files_of(root: Path) -> Contents:
    """Every file but the empty one that is locked."""
    return {path: state for path, state in contents(root).items() if path != "lock"}
