"""Both recoveries of stores damaged at random, compared by bytes:

    python -m tests.runs.differential --reference CMD [--line 4.9|5.3] [--rounds N] [--seed N] [--only ROUND]

CMD is the real message store behind a command line (`CMD load --store DIR SIZES --then-close none|abort`, one JSON line
of what it loaded; REFSTORE_V=53 asks for the line 5.3). In every round a golden store is copied and damaged, then

    load     simulate says whether the broker starts, where its log ends, and every log and queue file with its size
    start    recover --as-broker leaves the broker's bytes in log, queues and index, but for the 8 zeroed at the cut
    recover  leaves other bytes only where a difference of store.verbs.recover.differences applies

With --property-crc the damaged store is one that our put wrote: the messages of the 5.3 archive, V2 records among them,
each record with a CRC of all of its bytes.

Prints every round that differs, with its seed, and a last line of counts; the exit code is 1 when any differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store.errors import StoreError
from store.verbs.recover.differences import Difference
from tests.support.golden import WITH_ANSWERS, Golden, copy_store, golden
from tests.support.putting import put_all
from tests.support.random_damage import KINDS, damage
from tests.support.simulating import simulate
from tests.support.stores import recover

FOLDERS = ("commitlog", "consumequeue")
CUT_SIZE = 8
SIZE_OPTIONS = {
    "mappedFileSizeCommitLog": "--commitlog-size",
    "mappedFileSizeConsumeQueue": "--cq-size",
    "maxHashSlotNum": "--slots",
    "maxIndexNum": "--index-num",
}
EXPLAINS_QUEUES = {
    Difference.ZEROED_UNITS,
    Difference.DELIVER_TIME,
    Difference.LOST_QUEUES,
    Difference.DAMAGED_UNITS,
    Difference.TORN_UNITS,
    Difference.MISPLACED_RECORD,
    Difference.RECORD_AT_QUEUE_END,
    Difference.ZERO_QUEUE_FILE,
}
EXPLAINS_INDEX = {
    Difference.RECORD_AT_QUEUE_END,
    Difference.LOST_INDEX,
    Difference.MISPLACED_RECORD,
    Difference.INDEX_PAST_END,
    Difference.REPEATED_KEYS,
}


@dataclass(frozen=True)
class Reference:
    """The real store."""

    command: Sequence[str]
    line: str

    def load(self, root: Path, archive: Golden, then: str) -> dict[str, Any]:
        """Loads the store in place; what it says of itself, loadOk False where its process ended otherwise."""
        done = subprocess.run(
            [*self.command, "load", "--store", str(root), *sizes_of(archive), "--then-close", then],
            env={**os.environ, "REFSTORE_V": self.line.replace(".", "")},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        try:
            return dict(json.loads(done.stdout.strip().splitlines()[-1]))
        except (IndexError, ValueError):
            return {"loadOk": False, "error": done.stderr.strip()[-300:]}


def sizes_of(archive: Golden) -> list[str]:
    """The options for the sizes of an archive's files."""
    return [word for name, option in SIZE_OPTIONS.items() for word in (option, str(archive.settings[name]))]


class Round:
    """One damaged store and its copies: one for each recovery."""

    module, kinds = "differential", KINDS
    recoveries: Sequence[bool] = (True, False)
    """Whether as a broker: those that are compared with the real one's."""

    def __init__(self, reference: Reference, archives: Sequence[Golden], number: int, folder: Path) -> None:
        rnd = random.Random(number)
        self.reference, self.folder = reference, folder
        self.archive = rnd.choice(archives)
        self.damaged = copy_store(self.archive.store, folder / "damaged")
        self.done = damage(self.damaged, rnd, self.kinds)
        self.faults: list[str] = []

    def run(self) -> list[str]:
        """Every disagreement, as a sentence."""
        self._compare_load()
        real = self._copy("real")
        if self.reference.load(real, self.archive, "abort").get("loadOk"):
            self._compare_start(real)
        return self.faults

    def _copy(self, name: str) -> Path:
        return copy_store(self.damaged, self.folder / name)

    def _compare_load(self) -> None:
        loaded = self._copy("loaded")
        said = simulate(self.damaged, self.reference.line, **self.archive.settings)
        real = self.reference.load(loaded, self.archive, "none")
        if said.starts != bool(real.get("loadOk")):
            self.faults.append(f"starts: {said.starts} ({said.reason}), really {real}")
            return
        if not said.starts:
            return
        if said.log_end != real["maxPhyOffsetAfterLoad"]:
            self.faults.append(f"log end: {said.log_end}, really {real['maxPhyOffsetAfterLoad']}")
        sizes = {file.file: file.size for file in said.files if file.action != "remove"}
        if sizes != sizes_in(loaded):
            self.faults.append(f"files: {sorted(set(sizes.items()) ^ set(sizes_in(loaded).items()))[:4]}")

    def _compare_start(self, real: Path) -> None:
        for as_broker in self.recoveries:
            name = "as broker" if as_broker else "recover"
            ours = self._copy(name)
            try:
                change, _ = recover(
                    ours, settings=self.archive.settings, compat=self.reference.line, as_broker=as_broker
                )
            except StoreError as error:
                self.faults.append(f"{name}: refused: {error}")
                continue
            end = int(change.report.log_end)
            applying = {Difference(row.difference) for row in change.report.differs_from_broker}
            differing = differing_files(real, ours, end, self.archive.settings["mappedFileSizeCommitLog"])
            if not as_broker and applying & EXPLAINS_QUEUES:
                differing = [path for path in differing if not path.startswith("consumequeue/")]
            if EXPLAINS_INDEX & applying:
                differing = [path for path in differing if path != "index"]
            if Difference.TORN_PROPERTIES in applying:
                differing = []
            if differing:
                self.faults.append(f"{name}: {len(differing)} files differ: {differing[:4]} ({sorted(applying)})")


class PutAgain(Golden):
    """The messages of an archive, put by this store with settings of its own."""

    def __init__(self, archive: Golden, folder: Path, **settings: object) -> None:
        super().__init__(archive.name, folder)
        put_all(archive, self.store, **settings)


def archives_of(line: str, folder: Path, *, property_crc: bool) -> list[Golden]:
    """The stores to damage: the archives of a line, or what their messages make with a property CRC."""
    found = [golden(name) for name in WITH_ANSWERS if golden(name).compat == line]
    if not property_crc:
        return found
    return [PutAgain(archive, folder / archive.name, enabledAppendPropCRC=True) for archive in found]


def sizes_in(root: Path) -> dict[str, int]:
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.stat().st_size for path in paths}


def differing_files(real: Path, ours: Path, end: int, segment_size: int) -> list[str]:
    """Log, queue and index files that are not the same; index files by content, as their names are times."""
    cut = f"commitlog/{end - end % segment_size:020d}"
    names = sizes_in(real).keys() | sizes_in(ours).keys()
    position = {name: end % segment_size if name == cut else -1 for name in names}
    found = sorted(name for name in names if digest(real / name, position[name]) != digest(ours / name, position[name]))
    indexes = [sorted(digest(path, -1) for path in (root / "index").glob("*")) for root in (real, ours)]
    return found + (["index"] if indexes[0] != indexes[1] else [])


def digest(path: Path, cut: int) -> str:
    """Of the file's bytes without the 8 at the cut; empty for a file that is not there."""
    if not path.exists():
        return ""
    data = bytearray(path.read_bytes())
    if cut >= 0:
        data[cut : cut + CUT_SIZE] = bytes(CUT_SIZE)
    return hashlib.sha256(data).hexdigest()


def differs(reference: Reference, archives: Sequence[Golden], number: int, round_of: type[Round]) -> bool:
    """Runs one round and prints its faults."""
    folder = Path(tempfile.mkdtemp(prefix="differential-"))
    try:
        one = round_of(reference, archives, number, folder)
        faults = one.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for fault in faults:
        print(f"round {number}, {one.archive.name}, {', '.join(one.done) or 'no damage'}: {fault}", flush=True)
    return bool(faults)


def main(arguments: Sequence[str] | None = None, round_of: type[Round] = Round) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m tests.runs.{round_of.module}")
    parser.add_argument("--reference", required=True, metavar="CMD", help="the real store's command line")
    parser.add_argument("--line", choices=("4.9", "5.3"), default="4.9")
    parser.add_argument("--property-crc", action="store_true", help="of records with a CRC of all of their bytes (5.3)")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one round, by its number")
    options = parser.parse_args(arguments)
    reference = Reference(shlex.split(options.reference), options.line)
    numbers = [options.only] if options.only is not None else range(options.seed, options.seed + options.rounds)
    with tempfile.TemporaryDirectory(prefix="differential-") as scratch:
        archives = archives_of(options.line, Path(scratch), property_crc=options.property_crc)
        differing = sum(differs(reference, archives, number, round_of) for number in numbers)
    print(f"{len(numbers)} damaged stores recovered by {options.line} and here: {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
