"""Findings on queues in a RocksDB: the units of three messages, and each value that differs from the log's."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store import CheckOptions, check, salvage
from store.formats.topics import SCHEDULE_TOPIC
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE, BatchUnitArray
from store.structures.findings import Finding
from store.structures.queuedb import check as checks
from store.structures.queuedb.check import POISON, _Check, _Log
from store.structures.queuedb.keys import Place
from store.structures.queuedb.runs import MalformedEntry
from store.structures.queuedb.units import UnitMaker
from tests.support.five_stores import five, fivefive
from tests.support.golden import copy_store

T = "T", 0
ROWS = [(100, 100, 7, 1, 0), (200, 100, 8, 2, 1), (300, 100, 9, 3, 2)]
START, END = 100, 400


def units_of(rows: list[tuple[int, ...]]) -> BatchUnitArray:
    return np.array([(*row, 1, 0, 0) for row in rows], BATCH_UNIT_DTYPE)


class Database:
    """Units by queue, as a database of a broker gives them."""

    def __init__(self, units: dict[tuple[str, int], list[tuple[int, ...]]], **changed: Any) -> None:
        self.newest = {queue: Place(rows[-1][0], rows[-1][4]) for queue, rows in units.items() if rows}
        self.newest |= changed.get("newest", {})
        self.oldest = changed.get("oldest", {})
        self.checkpoint = changed.get("checkpoint", END)
        self.malformed = changed.get("malformed", [])
        self._runs, self._units = changed.get("runs", []), units

    def units(self, queue: tuple[str, int]) -> BatchUnitArray:
        return units_of(self._units.get(queue, []))

    def runs(self) -> list[object]:
        return list(self._runs)


def found(queue: tuple[str, int] = T, **changed: Any) -> list[str]:
    """The findings with some values changed: rows of the database and of the log, and what both remember."""
    log = _Log(
        UnitMaker(()),
        not changed.get("beside_files", False),
        False,
        changed.get("start", START),
        END,
        changed.get("queued_end", END),
    )
    log.units[queue] = [units_of(changed.get("log", ROWS))]
    log.poison = changed.get("poison", [])
    database = Database({queue: changed.get("rows", ROWS)}, **changed)
    one = _Check("rocks", cast(Any, database), log, changed.get("beside_files", False), changed.get("is_closed", True))
    return [
        f"{one.kind} {one.file} {one.offset} {one.topic} {one.queue_id} {one.count} {one.detail}" for one in one.run()
    ]


def row(number: int, place: int, value: int) -> list[tuple[int, ...]]:
    """The rows with one value changed."""
    return [(*one[:place], value, *one[place + 1 :]) if number == at else one for at, one in enumerate(ROWS)]


CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "as it was left": ({}, []),
    "a log offset": ({"rows": row(1, 0, 201)}, ["unit-differs rocks 1 T 0 1 log_offset 201 instead of 200"]),
    "a size": ({"rows": row(1, 1, 101)}, ["unit-differs rocks 1 T 0 1 size 101 instead of 100"]),
    "a tags code": ({"rows": row(1, 2, 9)}, ["unit-differs rocks 1 T 0 1 tags_code 9 instead of 8"]),
    "an address in the extension file": ({"rows": row(1, 2, -(1 << 63) + 40)}, []),
    "a store time": ({"rows": row(1, 3, 4)}, ["unit-differs rocks 1 T 0 1 store_timestamp_ms 4 instead of 2"]),
    "all but the queue offset": (
        {"rows": [ROWS[0], (201, 101, 9, 4, 1), ROWS[2]]},
        [
            (
                "unit-differs rocks 1 T 0 1 log_offset 201 instead of 200, size 101 instead of 100, tags_code "
                "9 instead of 8, store_timestamp_ms 4 instead of 2"
            )
        ],
    ),
    "a queue offset": (
        {"rows": [*ROWS[:2], (300, 100, 9, 3, 3)]},
        [
            "missing-unit rocks 2 T 0 1 the record at log offset 300 has no entry in the RocksDB",
            "unit-nowhere rocks 3 T 0 1 log offset 300 starts no record with this queue offset",
        ],
    ),
    "no first unit": (
        {"rows": ROWS[1:]},
        ["missing-unit rocks 0 T 0 1 the record at log offset 100 has no entry in the RocksDB"],
    ),
    "no unit between": (
        {"rows": [ROWS[0], ROWS[2]]},
        ["missing-unit rocks 1 T 0 1 the record at log offset 200 has no entry in the RocksDB"],
    ),
    "no last two units": (
        {"rows": ROWS[:1]},
        ["missing-unit rocks 1 T 0 2 the record at log offset 200 has no entry in the RocksDB"],
    ),
    "no units": ({"rows": []}, ["missing-unit rocks 0 T 0 3 the record at log offset 100 has no entry in the RocksDB"]),
    "no units, and a place": (
        {"rows": [], "newest": {T: Place(300, 2)}},
        [
            "missing-unit rocks 0 T 0 3 the record at log offset 100 has no entry in the RocksDB",
            "rocksdb-state rocks 2 T 0 1 max says (300, 2), the last entry None",
        ],
    ),
    "no units of what is not promised": ({"rows": ROWS[:1], "checkpoint": 200, "queued_end": 200}, []),
    "a unit behind the log's end": (
        {"rows": [*ROWS, (400, 100, 1, 4, 3)], "checkpoint": 400},
        ["rocksdb-state rocks 3 T 0 1 the last entry's record is at 400, CHECKPOINT_TOPIC says 400"],
    ),
    "a unit in front of the log": ({"rows": [(99, 1, 1, 1, -1), *ROWS]}, []),
    "a unit of no record": (
        {"rows": [*ROWS[:2], (250, 50, 1, 2, 7), ROWS[2]]},
        ["unit-nowhere rocks 7 T 0 1 log offset 250 starts no record with this queue offset"],
    ),
    "another newest log offset": (
        {"newest": {T: Place(301, 2)}},
        ["rocksdb-state rocks 2 T 0 1 max says (301, 2), the last entry (300, 2)"],
    ),
    "another newest queue offset": (
        {"newest": {T: Place(300, 3)}},
        ["rocksdb-state rocks 3 T 0 1 max says (300, 3), the last entry (300, 2)"],
    ),
    "a newest place at the log's start": (
        {"rows": [], "newest": {T: Place(100, 0)}, "log": []},
        ["rocksdb-state rocks 0 T 0 1 max says (100, 0), the last entry None"],
    ),
    "a newest place in front of the log": ({"rows": [], "newest": {T: Place(99, 0)}, "log": []}, []),
    "the start of a queue that goes on after its files": (
        {"rows": [], "newest": {T: Place(0, 2)}, "oldest": {T: Place(0, 3)}, "start": 0, "beside_files": True},
        [],
    ),
    "the same of another oldest unit": (
        {"rows": [], "newest": {T: Place(0, 2)}, "oldest": {T: Place(0, 2)}, "start": 0, "beside_files": True},
        ["rocksdb-state rocks 2 T 0 1 max says (0, 2), the last entry None"],
    ),
    "the same without an oldest unit": (
        {"rows": [], "newest": {T: Place(0, 2)}, "start": 0, "beside_files": True},
        ["rocksdb-state rocks 2 T 0 1 max says (0, 2), the last entry None"],
    ),
    "a checkpoint behind the log": (
        {"checkpoint": 401},
        ["rocksdb-state rocks 401 None None 1 CHECKPOINT_TOPIC says 401, the log ends at 400"],
    ),
    "a checkpoint before the newest record's end": (
        {"checkpoint": 399},
        [
            "rocksdb-state rocks 399 None None 1 CHECKPOINT_TOPIC says 399, the newest message ends at 400",
            "rocksdb-state rocks 2 T 0 1 the last entry's record is at 300, CHECKPOINT_TOPIC says 399",
        ],
    ),
    "the same of a killed broker": (
        {"checkpoint": 399, "is_closed": False},
        ["rocksdb-state rocks 2 T 0 1 the last entry's record is at 300, CHECKPOINT_TOPIC says 399"],
    ),
    "a checkpoint at the newest record's end": (
        {"checkpoint": 350, "queued_end": 350, "rows": ROWS[:2], "log": ROWS[:2]},
        [],
    ),
    "malformed keys": (
        {"malformed": [b"a", b"b"]},
        ["rocksdb-state rocks 0 None None 2 a key or a value is malformed"],
    ),
    "malformed values": (
        {"malformed": [b"a"], "runs": [MalformedEntry(b"", b""), object()]},
        ["rocksdb-state rocks 0 None None 2 a key or a value is malformed"],
    ),
    "a poison": (
        {"poison": [(POISON, 200, "it names light queues")]},
        ["light-queue-poison-rocksdb rocks 200 None None 1 it names light queues"],
    ),
    "a queue of files without units": ({"beside_files": True, "rows": []}, []),
    "a queue of files whose units begin later": ({"beside_files": True, "rows": ROWS[1:]}, []),
    "a queue of files that lacks a unit": (
        {"beside_files": True, "rows": [ROWS[0], ROWS[2]]},
        ["missing-unit rocks 1 T 0 1 the record at log offset 200 has no entry in the RocksDB"],
    ),
    "a delayed message's hash": ({"queue": (SCHEDULE_TOPIC, 0), "rows": row(1, 2, 9)}, []),
}


@pytest.mark.parametrize("name", CASES)
def test_each_value_that_contradicts_the_log_is_a_finding(name: str) -> None:
    changed, rows = CASES[name]
    assert found(**changed) == rows


@pytest.mark.parametrize("source", [five("rocksdb"), fivefive("rocksdbcq-separate")])
def test_with_the_store_type_of_a_database_old_queue_files_are_not_judged(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    root, new = copy_store(source / "store", tmp_path / "old"), tmp_path / "new"
    salvage(root, new)
    for folder in (new / "consumequeue").iterdir():
        shutil.copytree(folder, root / "consumequeue" / folder.name)
    newest = max((root / "consumequeue").glob("*/*/0*"))
    newest.write_bytes(bytes(newest.stat().st_size))
    assert "missing-unit" in [one.kind for one in check(root)]
    assert list(check(root, CheckOptions(settings={"storeType": "defaultRocksDB"}))) == []


@pytest.mark.parametrize(
    ("kind", "file", "topic", "alone", "beside_files"),
    [
        ("wrong-size", "/s/consumequeue_rocksdb/000001.log", "T", True, True),
        ("wrong-size", "/s/consumequeue_rocksdb/other", "T", False, False),
        ("wrong-size", "/s/other/000001.log", "T", False, False),
        ("wrong-size", "/s/consumequeue/T/0/00000000000000000000", "T", True, False),
        ("wrong-size", "/s/consumequeue/T", "T", True, False),
        ("wrong-size", "/s/commitlog/consumequeue", "T", False, False),
        ("missing-unit", "/s/commitlog/0", "T", True, False),
        ("queue-gap", "/s/commitlog/0", "T", False, False),
    ],
)
def test_a_database_answers_for_its_files_and_alone_for_all_queues(
    kind: str, file: str, topic: str, alone: bool, beside_files: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Finding(kind, file, 0, topic, 0)
    store: Any = SimpleNamespace(layout=None, fs=None)
    for name, value in {
        "queue_database": Path("/s/consumequeue_rocksdb"),
        "_is_there": True,
    }.items():
        monkeypatch.setattr(checks, name, lambda *given, value=value: value)
    for is_alone, expected in ((True, alone), (False, beside_files)):
        monkeypatch.setattr(checks, "_is_alone", lambda store, is_alone=is_alone: is_alone)
        assert checks.owned_by(store)(found) is expected
    monkeypatch.setattr(checks, "_is_there", lambda store: False)
    assert checks.owned_by(store)(found) is False
