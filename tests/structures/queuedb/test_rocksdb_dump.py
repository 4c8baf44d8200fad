"""dump of queues in a RocksDB: what is rendered from arrays equals what is rendered entry by entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store.files.filesystem import Filesystem
from store.structures.queuedb.database import open_database
from store.structures.queuedb.keys import offset_key, unit_key
from store.structures.queuedb.runs import MalformedEntry, UnitRun, runs_of
from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five, five
from tests.support.rocksdb import edit

DUMP = ("dump", "consumequeue")
# Rows for --where are made from one entry each.
ENTRY_BY_ENTRY = ("--where", "true")
VALUE = bytes(28)
CHOICES: list[tuple[str, ...]] = [
    (),
    ("RockA",),
    ("RockA/0",),
    ("RockA/0", "--from", "5", "--to", "9"),
    ("--from", "20"),
    ("--limit", "0"),
    ("RockA/0", "--from", "1000"),
]


def spoil(root: Path) -> None:
    """Makes a unit behind the newest, a queue without a newest unit, and malformed keys and values."""

    def change(units: Any, offsets: Any) -> None:
        units[unit_key("RockA", 0, 900)] = VALUE
        units[unit_key('Ro,"ck%', 7, 1)] = VALUE
        units[b"no key"] = b"no value"
        units[unit_key("RockA", 0, 3) + b"\0"] = VALUE
        units[unit_key("RockA", 0, 4)] = b"short"

    edit(root, change)


@pytest.mark.turns(8)
@pytest.mark.parametrize("choice", CHOICES, ids=" ".join)
@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
@pytest.mark.parametrize("is_spoiled", [False, True])
def test_every_form_is_the_one_made_entry_by_entry(
    form: str, choice: tuple[str, ...], is_spoiled: bool, tmp_path: Path
) -> None:
    root = copy_of_five("rocksdb-aborted", tmp_path)
    if is_spoiled:
        spoil(root)
    fast, slow = (rmqctl("-f", form, *DUMP, *choice, *more, store=root) for more in ((), ENTRY_BY_ENTRY))
    assert (fast.code, fast.data, fast.err) == (slow.code, slow.data, slow.err)
    assert len(fast.data) > 20 or "1000" in choice


@pytest.mark.parametrize("limit", [1, 3, 20])
def test_a_limit_leaves_the_first_entries_and_says_so(limit: int) -> None:
    root = five("rocksdb-aborted") / "store"
    whole, run = (rmqctl("-f", "jsonl", *DUMP, *more, store=root) for more in ((), ("--limit", str(limit))))
    assert run.rows == whole.rows[:limit]
    assert f"only the first {limit} entr" in run.err


def test_stale_units_and_malformed_entries_are_shown(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    spoil(root)
    run = rmqctl("-f", "jsonl", *DUMP, store=root)
    odd = [(row["kind"], row.get("topic"), row.get("queue_offset")) for row in run.rows if row["kind"] != "unit"]
    assert sorted(odd, key=str) == [
        ("damage", None, None),
        ("damage", None, None),
        ("damage", None, None),
        ("stale", 'Ro,"ck%', 1),
        ("stale", "RockA", 900),
    ]
    assert run.code == 1


def test_a_topic_that_the_database_does_not_have_is_named() -> None:
    run = rmqctl("-f", "jsonl", *DUMP, "Nope/3", store=five("rocksdb") / "store")
    assert (run.code, "no queue Nope/3 is in the RocksDB" in run.err) == (2, True)


def test_runs_hold_each_queue_once_in_the_order_of_keys() -> None:
    queues = [("A", 0), ("A", 1), ("BB", 0)]
    pairs = [(unit_key(*queue, number), VALUE) for queue in queues for number in range(10_000)]
    found = [run for run in runs_of(pairs) if isinstance(run, UnitRun)]
    joined = {queue: [n for run in found if run[:2] == queue for n in run.queue_offsets.tolist()] for queue in queues}
    assert joined == {queue: list(range(10_000)) for queue in queues}


@pytest.mark.parametrize("bad", [(b"", VALUE), (b"short", VALUE), (unit_key("A", 0, 1), b""), (b"\0" * 20, VALUE)])
def test_a_malformed_entry_leaves_its_neighbours_as_they_are(bad: tuple[bytes, bytes]) -> None:
    good = [(unit_key("A", 0, number), VALUE) for number in (0, 2, 3)]
    found = list(runs_of(sorted([*good, bad])))
    assert [run for run in found if isinstance(run, MalformedEntry)] == [MalformedEntry(*bad)]
    numbers = [number for run in found if isinstance(run, UnitRun) for number in run.queue_offsets.tolist()]
    assert numbers == [0, 2, 3]


def test_the_units_of_a_queue_end_at_its_newest_and_pass_malformed_ones(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    edit(root, lambda units, offsets: units.__setitem__(unit_key("RockA", 0, 4), b"short"))
    database = open_database(root / "consumequeue", tmp_path / "scratch", Filesystem())
    newest = database.newest["RockA", 0].queue_offset
    assert database.units(("RockA", 0))["queue_offset"].tolist() == [*range(4), *range(5, newest + 1)]
    assert dict(database.offset_entries())[offset_key("RockA", 0, "max")]
