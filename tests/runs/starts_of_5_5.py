"""What simulate foretells of a start of 5.5, held against the real classes' start, on golden stores damaged at random:

    python -m tests.runs.starts_of_5_5 --reference CMD [--rounds N] [--seed N]

CMD is the real 5.5.0 behind a command line: `CMD open,allq STORE OUT kill` starts it and lists every unit of every
queue. In each round the log's end, and the number of messages that no queue shows, are compared.
Prints every round that differs, with its seed, and a last line of counts; the exit code is 1 when any differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from store import simulate
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.structures.commitlog.resync import runs_between
from store.structures.commitlog.scan import ScanRules
from store.structures.consumequeue.numbering import QueueTable
from tests.support.five_stores import fivefive
from tests.support.golden import copy_store
from tests.support.random_damage import MORE_KINDS, damage

STORES = ("plain", "bulk")
LIMIT_S = 20

Queue = tuple[str, int]


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
    name = rnd.choice(STORES)
    damaged = copy_store(fivefive(name) / "store", folder / "damaged")
    if rnd.random() < 0.5:
        (damaged / "abort").touch()
    done = [name, *damage(damaged, rnd, MORE_KINDS)]
    said = simulate(damaged, compat="5.5", scratch=folder)
    real = copy_store(damaged, folder / "real")
    loaded, shown = start(command, real, folder / "answers")
    if said.starts != (loaded is not None):
        return done, [f"starts: {said.starts} ({said.reason}), really {loaded}"]
    if loaded is None:
        return done, []
    unseen = unseen_in(real, loaded["minPhy"], loaded["maxPhy"], shown)
    faults = [] if said.log_end == loaded["maxPhy"] else [f"log end: {said.log_end}, really {loaded['maxPhy']}"]
    return done, faults + ([] if said.unseen == unseen else [f"unseen: {said.unseen}, really {unseen}"])


def start(command: str, root: Path, answers: Path) -> tuple[dict[str, Any] | None, dict[Queue, set[int]]]:
    """What the real store says of its load, None where it does not start; and the log offsets of each queue's units."""
    words = [command, "open,allq", str(root), str(answers), "kill"]
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
    shown: dict[Queue, set[int]] = {}
    for line in lines:
        if "units" in line:
            topic, _, queue = line["queue"].rpartition("-")
            shown[topic, int(queue)] = {unit[1] for unit in line["units"]}
    return load, shown


def unseen_in(root: Path, first: int, stop: int, shown: dict[Queue, set[int]]) -> dict[Queue, int]:
    """Counts the messages of the real store's log that no unit of their queue names."""
    files = StoreReader(str(root), Filesystem())
    segments = [StoredSegment(files, file) for file in files.segments()]
    table, found = QueueTable(), Counter[Queue]()
    for run in runs_between(segments, max(first, 0), stop, rules=ScanRules(check_crc=False, accept_v2=True)):
        numbers = table.assign(run.buffer, run.array, run.count).tolist()
        for number, offset in zip(numbers, run.log_offsets.tolist(), strict=True):
            if number >= 0 and offset not in shown.get(table.names[number], set()):
                found[table.names[number]] += 1
    return dict(sorted(found.items()))


if __name__ == "__main__":
    sys.exit(main())
