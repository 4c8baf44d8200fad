"""The starts of 5.5 on stores with queues in files and in a RocksDB at once, recorded from the real classes:

    python -m tests.runs.both_kinds --reference CMD --to FOLDER

CMD is the real 5.5.0 behind a command line. It writes FOLDER/both-kinds.tar.xz: five stores of 14 or 28 segments, in
which a kind of queues begins late, ends early or is lost, and starts.jsonl, a line for each start after a shutdown or a
crash, with each kind assigned and read, with a sound log or a damaged body in its third last segment. A line has the
state; the log's end; the messages that no read queue shows, by queue.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from tests.runs.starts_of_5_5 import Place, Queue, unseen_in
from tests.support.golden import copy_store

NAME = "both-kinds"
FILES, DATABASE = "default", "defaultRocksDB"
_TWICE, _ROCKSDB = ("rocksdbCQDoubleWriteEnable=true",), (f"storeType={DATABASE}",)
STORES = {
    "store": (("bulk", _TWICE),),
    "late-database": (("bulk", ()), ("more", _TWICE)),
    "database-behind": (("bulk", _TWICE), ("bulk", ())),
    "files-behind": (("bulk", _TWICE), ("bulk", _ROCKSDB)),
    "no-database": (("bulk", ()),),
}
"""The steps of each store, and the settings of the broker that made them."""
_LIMIT_S = 40


class State(NamedTuple):
    """A store, the kinds of queues that are assigned and read, and what happened to it."""

    store: str
    assigned: str
    read: str
    crashed: bool
    damaged: bool

    @property
    def settings(self) -> dict[str, object]:
        """The settings of the start."""
        return {
            "rocksdbCQDoubleWriteEnable": "true",
            "combineAssignOffsetCQType": self.assigned,
            "combineCQPreferCQType": self.read,
        }


STATES = tuple(map(State._make, product(STORES, (FILES, DATABASE), (FILES, DATABASE), (False, True), (False, True))))


def main() -> int:
    parser = argparse.ArgumentParser(description="starts of the real 5.5.0 on queues that are written twice")
    parser.add_argument("--reference", required=True)
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, answers = Path(scratch) / NAME, Path(scratch) / "answers"
        folder.mkdir()
        for name, steps in STORES.items():
            for what, settings in steps:
                _run(given.reference, what, folder / name, answers, "normal", settings)
        lines = []
        for state in STATES:
            root = made(folder, state, Path(scratch) / "store")
            lines.append({**state._asdict(), **_start(given.reference, root, answers, state)})
            print(json.dumps(lines[-1]), flush=True)
            shutil.rmtree(root)
        (folder / "starts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        with tarfile.open(given.to / f"{NAME}.tar.xz", "w:xz") as archive:
            archive.add(folder, NAME)
    return 0


def made(folder: Path, state: State, root: Path) -> Path:
    """A store in a state, made of those in `folder`."""
    copy_store(folder / state.store, root)
    if state.crashed:
        (root / "abort").touch()
    if state.damaged:
        with sorted((root / "commitlog").iterdir())[-3].open("r+b") as segment:
            segment.seek(2160 * 3 + 200)
            segment.write(b"damage")
    return root


def _start(command: str, root: Path, answers: Path, state: State) -> dict[str, Any]:
    return started(command, root, answers, [f"{name}={one}" for name, one in state.settings.items()])


def started(command: str, root: Path, answers: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Return the end of the log and the messages that no queue shows, by queue, after a start with these settings."""
    said = _run(command, "open,cq", root, answers, "kill", settings)
    load = next((one for one in said if "load" in one), {"load": False})
    if not load["load"] or not any(one.get("start") == "ok" for one in said):
        return {"starts": False}
    shown: dict[Queue, set[Place]] = {}
    for line in said:
        if "units" in line:
            topic, _, queue = line["queue"].rpartition("-")
            shown[topic, int(queue)] = {(unit[1], unit[2]) for unit in line["units"] if unit and unit[2]}
    unseen = unseen_in(root, load["minPhy"], load["maxPhy"], shown)
    by_name = {f"{topic}-{queue}": count for (topic, queue), count in unseen.items()}
    return {"starts": True, "log_end": load["maxPhy"], "unseen": by_name}


def _run(command: str, what: str, root: Path, answers: Path, end: str, settings: Sequence[str]) -> list[dict[str, Any]]:
    answers.unlink(missing_ok=True)
    words = [command, what, str(root), str(answers), end, *settings]
    # Where its load fails, threads of it keep the process.
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            process.wait(_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    return [json.loads(line) for line in answers.read_text("utf-8").splitlines()] if answers.exists() else []


if __name__ == "__main__":
    sys.exit(main())
