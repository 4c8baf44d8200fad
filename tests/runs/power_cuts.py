"""Cut the power at random operations, recover what the disk then holds, and compare with what was promised.

    python -m tests.runs.power_cuts --cuts 10000 --seed 7        prints one line for each hundred cuts

A run works on a simulated disk (tests/support/simulated_disk.py): it makes a store, puts with sync or async flush, and
then recovers, rebuilds, truncates, cleans, undoes, rewrites the checkpoint or purges; or it changes a store that a
broker wrote (whole_changes.py), or makes a store of another's records (copied_stores.py). For each cut the disk as it
would be found is copied. Then
    1. a change that was cut short is undone, and the store is recovered
    2. every message that was promised is there, at its queue offset, with its body: one put with sync flush that was
       acknowledged, or any put before a shutdown that came to its end; what truncate or clean takes is not promised
    3. every record that is served is one that was put, whole; one that nobody was promised may be torn where no CRC
       covers it (tests/runs/served_records.py)
    4. check finds nothing, but what such a record says wrongly, keys that were indexed before the starting segment,
       which a rebuild of the index brings back, and records that a cut has left past the log's end
    5. a change of a broker's store is there as a whole, or undone and can be run again
    6. a store made of another's records keeps the promises of copied_stores.py
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from store import open_store
from store.change.quarantine import interrupted_change, purge, undo
from store.change.workspace import staging_folder
from store.config import StoreConfig
from store.errors import NotAStore
from store.files.filesystem import Filesystem
from store.files.lock import AbortMarker
from store.files.store_reader import StoreReader
from store.formats.checkpoint_page import CheckpointPage
from store.structures.commitlog.put_result import PutStatus
from store.structures.findings import (
    CHECKPOINT_AHEAD,
    CHECKPOINT_INVALID,
    LOST_INDEX,
    MISSING_INDEX_ENTRY,
    STALE_TAIL,
    Finding,
)
from store.verbs.check.check import check_files
from store.verbs.clean.plan import plan_cleaning
from store.verbs.rebuild.local import rebuild_locally
from store.verbs.rebuild.publish import plan_publish
from store.verbs.rebuild.scope import RebuildScope
from store.verbs.recover.checkpoint_plan import plan_checkpoint
from tests.runs.copied_stores import COPIES, RunCopy, run_copy, verify_copy
from tests.runs.served_records import records_of, torn_records, unexplained
from tests.runs.whole_changes import CASES, verify_whole
from tests.support.simulated_disk import Cut, SimulatedDisk
from tests.support.stores import SMALL, Clock, planning, recover, text_message, truncate

CUTS_PER_RUN = 20
QUEUES = 2
INDEX_KINDS = {LOST_INDEX, MISSING_INDEX_ENTRY}
FAR_FUTURE_MS = 4_000_000_000_000
SMALLER = {**SMALL, "mappedFileSizeCommitLog": 4096, "flushIntervalCommitLog": 1, "flushIntervalConsumeQueue": 1}


@dataclass(slots=True)
class Promises:
    """Messages that must be there after a cut: (queue, queue offset) → body; `maybe` are put and not promised yet."""

    kept: dict[tuple[int, int], bytes] = field(default_factory=dict)
    maybe: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def witness(self) -> dict[tuple[int, int], bytes]:
        return dict(self.kept)


@dataclass(slots=True)
class Work:
    """A run: the store on its disk, and what it has promised."""

    root: Path
    disk: Filesystem
    promises: Promises
    chance: random.Random
    clock: Clock = field(default_factory=Clock)
    written: dict[int, bytes] = field(default_factory=dict)

    def put(self, count: int, flush: str) -> None:
        """Puts and shuts down."""
        settings = {**SMALLER, "flushDiskType": flush}
        with open_store(
            self.root, settings=settings, read_only=False, recover=True, clock=self.clock, fs=self.disk
        ) as store:
            for number in range(count):
                self.clock.now_ms += 1000
                message = text_message(number, queue_id=number % QUEUES, body_size=self.chance.randrange(20, 200))
                result = store.put(message)
                if result.status is not PutStatus.PUT_OK:
                    continue
                place = (message.queue_id, result.queue_offset)
                (self.promises.kept if flush == "SYNC_FLUSH" else self.promises.maybe)[place] = message.body
        self.promises.kept |= self.promises.maybe
        self.written |= records_of(self.root)

    def recover(self) -> str | None:
        AbortMarker(self.root / "abort", self.disk).create()
        return recover(self.root, mode="abnormal", settings=SMALLER, fs=self.disk)[1]

    def rebuild(self) -> str | None:
        return rebuild(self.root, self.disk, self.clock)

    def truncate(self) -> str | None:
        with open_store(self.root, settings=SMALLER) as store:
            places = {place: store.get("T", *place, 1).messages[0].log_offset for place in sorted(self.promises.kept)}
        cut_at = self.chance.choice(sorted(places.values()))
        self.promises.kept = {place: body for place, body in self.promises.kept.items() if places[place] < cut_at}
        return truncate(self.root, cut_at, settings=SMALLER, fs=self.disk)[1]

    def clean(self) -> str | None:
        self.promises.kept.clear()
        with planning(self.root, settings=SMALLER, fs=self.disk) as opened:
            return plan_cleaning(opened, now_ms=FAR_FUTURE_MS, reserved_hours=0, force=True).apply()

    def rewrite_checkpoint(self) -> str | None:
        """Of a checkpoint that promises too much."""
        descriptor = self.disk.open_write(self.root / "checkpoint")
        self.disk.write(descriptor, 0, CheckpointPage(FAR_FUTURE_MS, FAR_FUTURE_MS, FAR_FUTURE_MS).encode())
        self.disk.fdatasync(descriptor)
        with planning(self.root, settings=SMALLER, fs=self.disk) as opened:
            return plan_checkpoint(opened).apply()

    def purge(self) -> None:
        change_id = self.truncate()
        if change_id is not None:
            purge(self.root, [change_id], fs=self.disk)

    def undo(self) -> None:
        kept = dict(self.promises.kept)
        change_id = self.truncate()
        if change_id is not None:
            undo(self.root, change_id, fs=self.disk)
        self.promises.kept = kept


WORKS: dict[str, Callable[[Work], object]] = {
    "put sync": lambda work: work.put(20, "SYNC_FLUSH"),
    "put async": lambda work: work.put(20, "ASYNC_FLUSH"),
    "recover": Work.recover,
    "rebuild": Work.rebuild,
    "truncate": Work.truncate,
    "clean": Work.clean,
    "undo": Work.undo,
    "checkpoint rewrite": Work.rewrite_checkpoint,
    "purge": Work.purge,
}
NAMES = [*WORKS, *CASES, *COPIES]


class Run(NamedTuple):
    """The cuts of a run, the number of its operations, every record that it put, by log offset, and its store."""

    cuts: list[Cut]
    operation_count: int
    written: dict[int, bytes]
    store: Path = Path("store")


def run(folder: Path, name: str, cuts: range | list[int], chance: random.Random) -> Run:
    """One run of a work."""
    promises = Promises()
    (folder / "disk").mkdir(parents=True)
    disk = SimulatedDisk(folder / "disk", folder / "cuts", cuts=cuts, chance=chance, witness=promises.witness)
    work = Work(folder / "disk" / "store", disk, promises, chance)
    try:
        if not name.startswith("put"):
            work.put(20, "SYNC_FLUSH")
        WORKS[name](work)
    finally:
        disk.close()
    return Run(disk.taken, len(disk.operations), work.written)


def run_whole(folder: Path, name: str, cuts: range | list[int], chance: random.Random) -> Run:
    """One run of a change to a store that a broker wrote; the last cut comes after its end."""
    (folder / "disk").mkdir(parents=True)
    made = CASES[name].make(folder / "disk")
    has_ended = False
    disk = SimulatedDisk(folder / "disk", folder / "cuts", cuts=cuts, chance=chance, witness=lambda: has_ended)
    try:
        CASES[name].apply(made, disk)
        has_ended = True
        disk.cut_now()
    finally:
        disk.close()
    return Run(disk.taken, len(disk.operations), {}, made.relative_to(folder / "disk"))


def run_one(folder: Path, name: str, cuts: range | list[int], chance: random.Random) -> Run | RunCopy:
    """One run of any of NAMES."""
    runs = {**dict.fromkeys(WORKS, run), **dict.fromkeys(CASES, run_whole)}
    return runs.get(name, run_copy)(folder, name, cuts, chance)


def verify_run(name: str, ran: Run | RunCopy, cut: Cut) -> None:
    """AssertionError where a cut of this run broke a promise."""
    if isinstance(ran, RunCopy):
        verify_copy(name, ran.source, cut)
    elif name in WORKS:
        verify(cut, ran.written)
    else:
        verify_whole(cut.root / ran.store, name, cut.operation, None, has_ended=cut.witness)


def verify(cut: Cut, written: Mapping[int, bytes] | None = None) -> None:
    """AssertionError when a promise was broken or the store does not recover.

    written  every record that was put, by log offset; without them none may be torn
    """
    root, fs = cut.root / "store", Filesystem()
    try:
        change = interrupted_change(root, fs)
        if change is not None:
            undo(root, change.id, fs=fs)
        recover(root, mode="auto", settings=SMALLER)
    except NotAStore:
        assert not cut.witness, f"{cut.operation}: no store is left of {len(cut.witness)} promised messages"
        return
    if {finding.kind for finding in _findings(root)} & INDEX_KINDS:
        # Like a broker, recover indexes from the starting segment on only.
        rebuild(root, fs, Clock(), RebuildScope(queues=False))
    with open_store(root, settings=SMALLER) as store:
        for (queue_id, queue_offset), body in cut.witness.items():
            found = store.get("T", queue_id, queue_offset, 1).messages
            assert [message.body for message in found] == [body], f"{cut.operation}: {queue_id}/{queue_offset} is lost"
    torn = {} if written is None else torn_records(root, written, cut.witness.values())
    findings = unexplained(_findings(root), torn)
    assert findings == [], f"{cut.operation}: {findings}"


def _findings(root: Path) -> list[Finding]:
    # A truncation leaves the checkpoint's times, which `checkpoint rewrite` mends.
    fine = {STALE_TAIL, CHECKPOINT_AHEAD}
    checkpoint = root / "checkpoint"
    if not checkpoint.exists() or not checkpoint.stat().st_size:
        # Nothing was put yet.
        fine.add(CHECKPOINT_INVALID)
    return [finding for finding in check_files(StoreReader(str(root))) if finding.kind not in fine]


def rebuild(root: Path, fs: Filesystem, clock: Clock, scope: RebuildScope | None = None) -> str | None:
    """Rebuilds queues and index in place, or one of them; gives the id to undo it by."""
    scope = scope or RebuildScope()
    staging = staging_folder(root, "rebuild")
    config = StoreConfig().with_settings(SMALLER)
    rebuild_locally(StoreReader(str(root), fs), staging, config, scope, clock=clock, fs=fs)
    return plan_publish(root, staging, scope, fs).apply()


def power_cuts(folder: Path, count: int, seed: int, names: Collection[str] = NAMES) -> Iterator[str]:
    """So many cuts, verified; gives the name of the work for each. AssertionError names the seed of its run."""
    chance, done, lengths = random.Random(seed), 0, dict[str, int]()
    while done < count:
        for name in names:
            run_seed = chance.randrange(1 << 32)
            length = lengths.get(name)
            wanted = min(CUTS_PER_RUN, count - done)
            cuts = [] if length is None else chance.sample(range(1, length), min(wanted, length - 1))
            ran = run_one(folder / "run", name, cuts, random.Random(run_seed))
            lengths[name] = ran.operation_count
            for cut in ran.cuts[: count - done]:
                try:
                    verify_run(name, ran, cut)
                except Exception as error:
                    raise AssertionError(f"{name}, run seed {run_seed}, cuts {cuts}, {cut.root}") from error
                done += 1
                yield name
            shutil.rmtree(folder / "run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=10_000)
    parser.add_argument("--work", action="append", choices=NAMES)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="power-cuts-"))
    number = 0
    for number, name in enumerate(power_cuts(folder, options.cuts, options.seed, options.work or NAMES), 1):
        if number % 100 == 0:
            print(f"{number} cuts, the last one in {name}", flush=True)
    shutil.rmtree(folder)
    print(f"{number} cuts: nothing promised was lost, every store recovered, check found nothing")


if __name__ == "__main__":
    main()
