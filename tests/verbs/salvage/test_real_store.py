"""Salvages of damaged stores of 5.x under the real store classes: they show all messages, and leave a sound store."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from store import check, salvage
from tests.runs.forecast import unseen_in
from tests.runs.starts_of_5_5 import start
from tests.runs.starts_of_5_5 import unseen_in as unseen_in_5_5
from tests.support.five_stores import copy_of_five, fivefive, lose_database
from tests.support.golden import copy_store
from tests.support.random_damage import records
from tests.support.refstore import COMMAND_55, SETTINGS, ask, needs_refstore, needs_refstore55

Queue = tuple[str, int]


def zero_some(root: Path) -> None:
    """Zero eight records in a row."""
    places = records(root)
    for path, at, size in places[len(places) // 3 :][:8]:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes(size))


@needs_refstore
@pytest.mark.parametrize("keep_offsets", [False, True])
@pytest.mark.parametrize(
    ("name", "compat"),
    [
        ("lmq", None),
        # The reference gives no topic a queue type: these have a topic with records of several messages.
        ("rocksdb", "4.9"),
        ("rocksdb-aborted", "4.9"),
        ("rocksdb-double", None),
        ("timer", None),
        ("timer-rolled", None),
    ],
)
def test_5_3_shows_all_messages_of_a_salvaged_store_and_leaves_a_sound_one(
    name: str, compat: str | None, keep_offsets: bool, tmp_path: Path
) -> None:
    root, new = copy_of_five(name, tmp_path), tmp_path / "new"
    zero_some(root)
    salvage(root, new, settings=SETTINGS, keep_offsets=keep_offsets, compat=compat)
    state = ask("53", new)[0]
    gets = [
        {"op": "get", "topic": one["topic"], "queue": one["queueId"], "offset": offset, "max": 1}
        for one in state["queues"]
        for offset in range(one["min"], one["max"])
    ]
    shown: dict[Queue, set[bytes]] = {}
    for answer in ask("53", new, *gets)[2:]:
        asked = answer["req"]
        for one in answer["res"]["messages"]:
            shown.setdefault((asked["topic"], asked["queue"]), set()).add(base64.b64decode(one["raw"]))
    assert unseen_in(new, state["minPhyOffset"], state["maxPhyOffset"], shown, v2=True) == {}
    put = {"op": "put", "msg": {"topic": "T", "queueId": 0, "bodyText": "new"}}
    assert [one["res"]["status"] for one in ask("53", new, put)[2:]] == ["PUT_OK"]
    assert list(check(new)) == []


TRANSACTIONS = ("transRocksDBEnable=true", "transWriteOriginTransHalfEnable=false")
LIGHT = ("enableLmq=true", "enableMultiDispatch=true")
INDEX = ("indexRocksDBEnable=true", "indexFileWriteEnable=false", "indexFileReadEnable=false")


@needs_refstore55
@pytest.mark.parametrize("keep_offsets", [False, True])
@pytest.mark.parametrize(
    ("name", "switches", "loses_database"),
    [
        ("trans", TRANSACTIONS, False),
        ("trans", TRANSACTIONS, True),
        ("timer", ("timerRocksDBEnable=true",), False),
        ("timer", ("timerRocksDBEnable=true",), True),
        ("index-only", INDEX, False),
        ("snapshot", ("timerWheelSnapshotFlush=true",), False),
        ("rocksdbcq-separate", (), False),
        ("combine", ("rocksdbCQDoubleWriteEnable=true", *LIGHT), False),
        ("both-databases", (*INDEX, *TRANSACTIONS), False),
    ],
)
def test_5_5_shows_all_messages_of_a_salvaged_store_and_leaves_a_sound_one(
    name: str, switches: tuple[str, ...], loses_database: bool, keep_offsets: bool, tmp_path: Path
) -> None:
    root, new = copy_store(fivefive(name) / "store", tmp_path / "store"), tmp_path / "new"
    zero_some(root)
    if loses_database:
        lose_database(root)
    known = dict(one.split("=") for one in switches)
    salvage(root, new, settings={**SETTINGS, **known}, keep_offsets=keep_offsets)
    load, shown = start(COMMAND_55, new, tmp_path / "answers", switches or ("flushDiskType=ASYNC_FLUSH",))
    assert load is not None
    assert load["closed"]
    assert unseen_in_5_5(new, load["minPhy"], load["maxPhy"], shown) == {}
    assert list(check(new)) == []


@needs_refstore55
@pytest.mark.parametrize("keep_offsets", [False, True])
def test_keys_that_5_5_puts_into_its_database_alone_are_not_missing_in_a_salvaged_store(
    keep_offsets: bool, tmp_path: Path
) -> None:
    root, new = copy_store(fivefive("index-only") / "store", tmp_path / "store"), tmp_path / "new"
    zero_some(root)
    settings = {**SETTINGS, **dict(one.split("=") for one in INDEX)}
    salvage(root, new, settings=settings, keep_offsets=keep_offsets)
    load, _ = start(COMMAND_55, new, tmp_path / "answers", INDEX, "open,halves,allq")
    assert load is not None
    assert load["closed"]
    assert list(check(new)) == []
