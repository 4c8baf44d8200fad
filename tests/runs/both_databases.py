"""The starts of 5.5 on stores damaged in both databases at once, made and recorded by the real classes:

    python -m tests.runs.both_databases --reference CMD --to FOLDER

CMD is the real 5.5.0 behind a command line. It writes FOLDER/both-databases.tar.xz: a store with queues, index and half
messages in databases (`store`), the same some 14 segments before (`before`), and starts.jsonl, a line for each start
on a store whose log is whole or cut at the earlier end, with each database as it is now, as it was, or gone, after a
shutdown or a crash. A line has the state; the log's end; the messages that no queue shows by queue; the keys that the
index lacks and the open half messages that are not known, when the start has shut down.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.structures.messagedb.database import open_database
from store.structures.messagedb.expect import OpenHalves, walk_records
from store.structures.messagedb.keys import HalfEntry
from tests.runs.starts_of_5_5 import Place, Queue, missing_keys, unseen_in
from tests.support.five_stores import lose_database
from tests.support.golden import copy_store

NAME = "both-databases"
SETTINGS = {
    "storeType": "defaultRocksDB",
    "useSeparateStorePathForRocksdbCQ": "true",
    "indexRocksDBEnable": "true",
    "indexFileWriteEnable": "false",
    "indexFileReadEnable": "false",
    "transRocksDBEnable": "true",
    "transWriteOriginTransHalfEnable": "false",
}
FOLDERS = {"queues": "consumequeue_rocksdb", "messages": "rocksdbstore"}
STATES = tuple(product(("whole", "cut"), ("now", "before", "gone"), ("now", "before", "gone"), (False, True)))
"""Log, queue database, message database, whether it crashed."""
LIMIT_S = 60


def main() -> int:
    parser = argparse.ArgumentParser(description="starts of the real 5.5.0 on stores damaged in both databases")
    parser.add_argument("--reference", required=True)
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / NAME
        folder.mkdir()
        _run(given.reference, "index,trans", folder / "store", folder / "out")
        copy_store(folder / "store", folder / "before")
        _run(given.reference, "bulk,halves,more", folder / "store", folder / "out")
        (folder / "out").unlink()
        lines = []
        for number, state in enumerate(STATES):
            root = damaged(folder, state, Path(scratch) / f"{number}")
            lines.append({**as_line(state), **start(given.reference, root, Path(scratch) / f"{number}.out")})
            print(json.dumps(lines[-1]), flush=True)
            shutil.rmtree(root)
        (folder / "starts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        with tarfile.open(given.to / f"{NAME}.tar.xz", "w:xz") as archive:
            archive.add(folder, NAME)
    return 0


def as_line(state: tuple[str, str, str, bool]) -> dict[str, Any]:
    """The state by names."""
    return dict(zip(("log", "queues", "messages", "crashed"), state, strict=True))


def damaged(folder: Path, state: tuple[str, str, str, bool], root: Path) -> Path:
    """A store in a state, made of the two in `folder`."""
    log, queues, messages, crashed = state
    copy_store(folder / "store", root)
    if log == "cut":
        shutil.rmtree(root / "commitlog")
        shutil.copytree(folder / "before" / "commitlog", root / "commitlog")
    for name, how in (("queues", queues), ("messages", messages)):
        if how == "gone" and name == "messages":
            lose_database(root)
        elif how != "now":
            shutil.rmtree(root / FOLDERS[name])
        if how == "before":
            shutil.copytree(folder / "before" / FOLDERS[name], root / FOLDERS[name])
    if crashed:
        (root / "abort").touch()
    return root


def start(command: str, root: Path, answers: Path) -> dict[str, Any]:
    """What became of the store."""
    said = _run(command, "cq", root, answers)
    load = next((one for one in said if "load" in one), {"load": False})
    if not load["load"] or not any(one.get("start") == "ok" for one in said):
        return {"starts": False}
    assert any(one.get("closed") == "ok" for one in said), said[-1]
    shown: dict[Queue, set[Place]] = {}
    for line in said:
        if "units" in line:
            topic, _, queue = line["queue"].rpartition("-")
            shown[topic, int(queue)] = {(unit[1], unit[2]) for unit in line["units"] if unit and unit[2]}
    unseen = unseen_in(root, load["minPhy"], load["maxPhy"], shown)
    return {
        "starts": True,
        "log_end": load["maxPhy"],
        "unseen": {f"{topic}-{queue}": count for (topic, queue), count in unseen.items()},
        "missing_keys": missing_keys(root, load["minPhy"], load["maxPhy"]),
        "forgotten_halves": _forgotten(root),
    }


def _forgotten(root: Path) -> int:
    """Open half messages of the log that the database does not know."""
    halves = OpenHalves()
    for record in walk_records(StoreReader(str(root), Filesystem())):
        halves.take(record)
    with tempfile.TemporaryDirectory() as scratch:
        database = open_database(root / "rocksdbstore", Path(scratch), Filesystem())
        known = {one.log_offset for one in database.halves() if isinstance(one, HalfEntry)}
    return len(halves.halves.keys() - known)


def _run(command: str, what: str, root: Path, answers: Path) -> list[dict[str, Any]]:
    words = [command, what, str(root), str(answers), "normal", *(f"{one}={value}" for one, value in SETTINGS.items())]
    subprocess.run(words, timeout=LIMIT_S * 3, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return [json.loads(line) for line in answers.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
