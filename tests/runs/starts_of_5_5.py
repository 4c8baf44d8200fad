"""A start of 5.5 as simulate foretells it and `recover --as-broker` makes it, held against the real classes' start:

    python -m tests.runs.starts_of_5_5 --reference CMD [--rounds N] [--seed N]

CMD is the real 5.5.0 behind a command line: `CMD open,allq STORE OUT kill` starts it and lists every unit of every
queue. In each round a golden store is damaged at random, and compared are the log's end, the number of messages that no
queue shows and, with the index in rocksdbstore, the number of keys that it lacks when the real store has shut down; the
bytes of log, queues and index files; and, when the real store has started on what was recovered, all index entries and
half messages of the database.
Prints every round that differs, with its seed, and a last line of counts; the exit code is 1 when any differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from store import simulate
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.index_page import FIRST_INDEX_COUNT, HEADER_SIZE
from store.layout import StoreLayout
from store.structures.commitlog.resync import runs_between
from store.structures.commitlog.scan import ScanRules
from store.structures.consumequeue.numbering import QueueTable
from store.structures.messagedb.database import may_hold_entries, open_database
from store.structures.messagedb.expect import records_of
from store.structures.messagedb.keys import IndexEntry
from tests.runs.differential import differing_files
from tests.support.five_stores import fivefive, lose_database
from tests.support.golden import copy_store
from tests.support.random_damage import MORE_KINDS, damage
from tests.support.stores import recover

INDEXED = ("index", "index-killed-wal")
STORES = {
    "plain": (),
    "bulk": (),
    "index": ("indexRocksDBEnable=true",),
    "index-killed-wal": ("indexRocksDBEnable=true",),
    "trans": ("transRocksDBEnable=true", "transWriteOriginTransHalfEnable=false"),
}
"""The settings of the broker that wrote each."""
LIMIT_S = 20
INDEX_COUNT_AT = HEADER_SIZE - 4
SEGMENT_SIZE = 65536
TOLD = {
    "mappedFileSizeCommitLog": SEGMENT_SIZE,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 500,
    "maxIndexNum": 1000,
    "indexFileWriteEnable": True,
}
"""What the brokers that wrote them were told, and what none of the files may tell any more."""

Queue = tuple[str, int]
Place = tuple[int, int]
"""Log offset and size of a record."""


def main() -> int:
    parser = argparse.ArgumentParser(description="simulate against the start of the real 5.5.0")
    parser.add_argument("--reference", required=True)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    differs = 0
    for number in range(given.seed, given.seed + given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            done, faults = try_round(given.reference, number, Path(folder))
        differs += bool(faults)
        for fault in faults:
            print(f"seed {number} ({', '.join(done)}): {fault}", flush=True)
    print(f"{given.rounds} rounds, {differs} differ")
    return int(bool(differs))


def try_round(command: str, number: int, folder: Path) -> tuple[list[str], list[str]]:
    """The damage of one round, and every disagreement as a sentence."""
    rnd = random.Random(number)
    name = rnd.choice(list(STORES))
    settings = STORES[name]
    damaged = copy_store(fivefive(name) / "store", folder / "damaged")
    if rnd.random() < 0.5:
        (damaged / "abort").touch()
    done = [name, *damage(damaged, rnd, MORE_KINDS)]
    if settings and rnd.random() < 0.3:
        lose_database(damaged)
        done.append("lose-database")
    known = dict(one.split("=") for one in settings if "RocksDB" in one)
    said = simulate(damaged, compat="5.5", scratch=folder, settings=known)
    real = copy_store(damaged, folder / "real")
    loaded, shown = start(command, real, folder / "answers", settings)
    if said.starts != (loaded is not None):
        return done, [f"starts: {said.starts} ({said.reason}), really {loaded}"]
    if loaded is None:
        return done, []
    unseen = unseen_in(real, loaded["minPhy"], loaded["maxPhy"], shown)
    faults = [] if said.log_end == loaded["maxPhy"] else [f"log end: {said.log_end}, really {loaded['maxPhy']}"]
    faults += [] if said.unseen == unseen else [f"unseen: {said.unseen}, really {unseen}"]
    # A listing that fails ends the real store before it has flushed the index.
    if name in INDEXED and loaded["closed"]:
        details = [trap.detail for trap in said.traps if trap.code == "message-database-behind"]
        counts = [int(found[1].replace(",", "")) for one in details if (found := re.search(r"never ([\d,]+) key", one))]
        really = missing_keys(real, loaded["minPhy"], loaded["maxPhy"])
        faults += [] if sum(counts) == really else [f"keys that the index lacks: {sum(counts)}, really {really}"]
    ours = copy_store(damaged, folder / "ours")
    faults += files_recovered_otherwise(real, ours, known)
    if settings and not faults:
        start(command, ours, folder / "again", settings)
        missing, more = keys_of(real) - keys_of(ours), keys_of(ours) - keys_of(real)
        faults += [f"as broker, then started: {len(missing)} keys missing, {len(more)} more"] if missing or more else []
    return done, faults


def files_recovered_otherwise(real: Path, ours: Path, settings: dict[str, str]) -> list[str]:
    """The files that `recover --as-broker` leaves otherwise than the real start."""
    try:
        change, _ = recover(ours, settings={**TOLD, **settings}, compat="5.5", as_broker=True)
    except StoreError as error:
        return [f"as broker: refused: {error}"]
    for root in (real, ours):
        close_index(root)
    differing = differing_files(real, ours, int(change.report.log_end), SEGMENT_SIZE)
    return [f"as broker: {len(differing)} files differ: {differing[:4]}"] if differing else []


def close_index(root: Path) -> None:
    """Give each index file without entries the count that a stop writes; a start leaves it as it is."""
    for path in (root / "index").glob("*"):
        with path.open("r+b") as file:
            file.seek(INDEX_COUNT_AT)
            if file.read(4) == bytes(4):
                file.seek(INDEX_COUNT_AT)
                file.write(FIRST_INDEX_COUNT.to_bytes(4, "big"))


def keys_of(root: Path) -> set[object]:
    """The entries of the index and the half messages in the database."""
    if not may_hold_entries(StoreLayout(root), Filesystem()):
        return set()
    with tempfile.TemporaryDirectory() as scratch:
        database = open_database(root / "rocksdbstore", Path(scratch), Filesystem())
        return {*database.index(), *database.halves()}


def missing_keys(root: Path, first: int, stop: int) -> int:
    """Count the keys of the log's records that the index in the database lacks.

    Damage changes a record's keys where it flips a bit in them: a record that has entries under others lacks none.
    """
    files = StoreReader(str(root), Filesystem())
    segments = [StoredSegment(files, file) for file in files.segments()]
    runs = runs_between(segments, max(first, 0), stop, rules=ScanRules(check_crc=False, accept_v2=True))
    wanted = {entry for run in runs for record in records_of(run) for entry in record.index_entries()}
    with tempfile.TemporaryDirectory() as scratch:
        database = open_database(root / "rocksdbstore", Path(scratch), Filesystem())
        found = {entry for entry in database.index() if isinstance(entry, IndexEntry)}
    entered = {entry.log_offset for entry in found}
    return sum(entry.log_offset not in entered for entry in wanted - found)


def start(
    command: str, root: Path, answers: Path, settings: Sequence[str], steps: str = "open,allq"
) -> tuple[dict[str, Any] | None, dict[Queue, set[Place]]]:
    """What the real store says of its load, None where it does not start; and the places that each queue names."""
    words = [command, steps, str(root), str(answers), "normal" if settings else "kill", *settings]
    # Where its load fails, threads of it keep the process.
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    lines = [json.loads(line) for line in answers.read_text("utf-8").splitlines()] if answers.exists() else []
    load = next((line for line in lines if "load" in line), None)
    if load is None or not load["load"] or not any(line.get("start") == "ok" for line in lines):
        return None, {}
    load["closed"] = any(line.get("closed") == "ok" for line in lines)
    shown: dict[Queue, set[Place]] = {}
    for line in lines:
        if "units" in line:
            topic, _, queue = line["queue"].rpartition("-")
            # A unit without bytes shows nothing.
            shown[topic, int(queue)] = {(unit[1], unit[2]) for unit in line["units"] if unit and unit[2]}
    return load, units_in_files(root) | shown


def units_in_files(root: Path) -> dict[Queue, set[Place]]:
    """The places that each queue's units on disk name: the real store's listing ends at a queue that it can't read."""
    found: dict[Queue, set[Place]] = {}
    for path in root.glob("consumequeue/*/*/*"):
        units = struct.iter_unpack(">qiq", path.read_bytes())
        queue = path.parts[-3], int(path.parts[-2])
        found.setdefault(queue, set()).update((offset, size) for offset, size, _ in units if size > 0)
    return found


def unseen_in(root: Path, first: int, stop: int, shown: dict[Queue, set[Place]]) -> dict[Queue, int]:
    """Counts the messages of the real store's log that no unit of their queue names."""
    files = StoreReader(str(root), Filesystem())
    segments = [StoredSegment(files, file) for file in files.segments()]
    table, found = QueueTable(), Counter[Queue]()
    for run in runs_between(segments, max(first, 0), stop, rules=ScanRules(check_crc=False, accept_v2=True)):
        numbers = table.assign(run.buffer, run.array, run.count).tolist()
        places = zip(run.log_offsets.tolist(), run.columns.size.tolist(), strict=True)
        for number, place in zip(numbers, places, strict=True):
            if number >= 0 and place not in shown.get(table.names[number], set()):
                found[table.names[number]] += 1
    return dict(sorted(found.items()))


if __name__ == "__main__":
    sys.exit(main())
