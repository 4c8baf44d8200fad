"""A start of 5.5 beside a message database that is behind the log, ahead of it, or lost."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import simulate
from store.structures.messagedb import start
from tests.support.five_stores import five, fivefive, lose_database
from tests.support.golden import copy_store

pytest.importorskip("rocksdict")
HALVES = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
Damage = Callable[[Path], None]
INDEX_ON, TIMER_ON, TRANS_ON = ({f"{one}RocksDBEnable": True} for one in ("index", "timer", "trans"))
ACCELERATED = {"enableAcceleratedRecovery": True}
AHEAD = "of rocksdbstore reach {}, the log ends at {}: entries of cut records stay"
FORGOTTEN = (
    "rocksdbstore has no entries: a start forgets 6 open half messages, and checks none of them with its producer"
)
LOST_QUEUE = {
    "record-at-queue-end": "the record at log offset 5020 gets no entry",
    "lost-queue": f"{HALVES}, queue 0 lacks 11 entries and stays without: consumers do not see these messages, and "
    "their queue offsets are given a second time where they are the last",
}
LEFT_OUT = ", and messages that are put before there get none"


def index_ahead(log_end: int, end: int) -> dict[str, str]:
    """The trap of index files that end past the log's end."""
    return {"index-ahead": f"new messages from log offset {log_end} to {end} get no index entries"}


def whole(root: Path) -> None:
    """Leave the store as it is."""


def zeros_from(log_offset: int) -> Damage:
    def damage(root: Path) -> None:
        segment = root / "commitlog" / f"{0:020}"
        data = segment.read_bytes()
        segment.write_bytes(data[:log_offset] + bytes(len(data) - log_offset))

    return damage


def lost_and_cut_at(log_offset: int) -> Damage:
    def damage(root: Path) -> None:
        zeros_from(log_offset)(root)
        lose_database(root)

    return damage


def lost_with_the_queue_of_half_messages(root: Path) -> None:
    lose_database(root)
    shutil.rmtree(root / "consumequeue" / HALVES)


def lost_in_a_crash(root: Path) -> None:
    lose_database(root)
    (root / "abort").touch()


def crashed_at(log_offset: int) -> Damage:
    def damage(root: Path) -> None:
        (root / "abort").touch()
        page = (root / "checkpoint").read_bytes()
        (root / "checkpoint").write_bytes(page[:40] + log_offset.to_bytes(8, "big") + page[48:])

    return damage


# Where 5.5.0 began, and what its database lacked then or had too much: damaged.jsonl of each store. Of index-killed-wal
# it entered 10,232 of 12,000 keys that were missing.
@pytest.mark.parametrize(
    ("name", "settings", "damage", "outcome"),
    [
        pytest.param("index", INDEX_ON, whole, (0, 5074, 5257, {}), id="index whole"),
        pytest.param("index", INDEX_ON, lost_in_a_crash, (0, 0, 5257, {}), id="index lost in a crash"),
        pytest.param(
            "index",
            INDEX_ON,
            lose_database,
            (0, 5258, 5257, {"message-database-behind": "the index in rocksdbstore reaches 0: a start enters records "
             "from 5257 on, and never 73 keys before there"}),
            id="index lost",
        ),
        pytest.param(
            "index",
            INDEX_ON,
            lost_and_cut_at(5073),
            (0, 5258, 5073, {"message-database-behind": "the index in rocksdbstore reaches 0: a start enters records "
             "from 5073 on, and never 70 keys before there"}),
            id="index lost, and the last record",
        ),
        pytest.param(
            "index-killed-wal",
            {},
            whole,
            (720896, 720896, 1258204, {"message-database-behind": "the index in rocksdbstore reaches 627824: a start "
             "enters records from 720896 on, and never 1,768 keys before there"}),
            id="index more than ten segments behind",
        ),
        pytest.param("index-killed", {}, whole, (0, 0, 5257, {}), id="index empty, in a log of one segment"),
        pytest.param(
            "index",
            {},
            zeros_from(4741),
            (0, 5074, 4741, {"message-database-ahead": f"the keys {AHEAD.format(5073, 4741)}{LEFT_OUT}"}
             | index_ahead(4741, 5073)),
            id="index ahead",
        ),
        pytest.param(
            "index",
            {},
            zeros_from(5073),
            (0, 5074, 5073, {"message-database-ahead": f"the keys {AHEAD.format(5073, 5073)}"}),
            id="index ahead by one record",
        ),
        pytest.param(
            "index",
            {"indexRocksDBEnable": False},
            zeros_from(4741),
            (0, 5258, 4741, index_ahead(4741, 5073)),
            id="index off",
        ),
        pytest.param(
            "trans",
            {},
            zeros_from(4722),
            (0, 5021, 4722, {"message-database-ahead": f"the half messages {AHEAD.format(5020, 4722)}{LEFT_OUT}"}
             | index_ahead(4722, 5020)),
            id="half messages ahead",
        ),
        pytest.param("trans", TRANS_ON, lose_database, (0, 5326, 5325, {"half-messages-forgotten": FORGOTTEN}),
                     id="half messages lost"),
        pytest.param(
            "trans",
            TRANS_ON,
            lost_with_the_queue_of_half_messages,
            (0, 5021, 5325, LOST_QUEUE | {"half-messages-forgotten": FORGOTTEN}),
            id="half messages lost, and their queue",
        ),
        pytest.param(
            "timer",
            {},
            zeros_from(5092),
            (0, 5810, 5092, {"message-database-ahead": "the timers of rocksdbstore reach queue offset 20, their queue "
             "ends at 17: timers that are put before there may never be due"} | index_ahead(5092, 5576)),
            id="timers ahead",
        ),
        pytest.param(
            "timer",
            TIMER_ON,
            lose_database,
            (0, 5810, 5809, {"timeline-again": "a start delivers or rolls 11 timer messages once more, the first at "
             "queue offset 0: rocksdbstore lacks what the timer did with them"}),
            id="timers lost",
        ),
        pytest.param(
            "timer",
            {"timerRocksDBEnable": False},
            whole,
            (0, 5810, 5809, {}),
            id="timers off",
        ),
        pytest.param("plain", ACCELERATED, crashed_at(5073), (5073, 5073, 5257, {}), id="accelerated at a record"),
        pytest.param("plain", ACCELERATED, crashed_at(5000), (5000, 5000, 5000, {}), id="accelerated inside a record"),
        pytest.param("plain", ACCELERATED, whole, (0, 5258, 5257, {}), id="accelerated after a shutdown"),
    ],
)  # fmt: skip
def test_a_start_is_foretold(
    name: str, settings: dict[str, object], damage: Damage, outcome: tuple[object, ...], tmp_path: Path
) -> None:
    root = copy_store(fivefive(name) / "store", tmp_path / "store")
    damage(root)
    found = simulate(root, compat="5.5", settings=settings)
    traps = {trap.code: trap.detail for trap in found.traps}
    assert (found.start_segment, found.entered_from, found.log_end, traps) == outcome


def test_an_accelerated_recovery_begins_where_the_queues_in_a_rocksdb_end() -> None:
    """upgrade.jsonl: 5.5.0 dispatched the records from 39650 on."""
    settings = {**ACCELERATED, "storeType": "defaultRocksDB"}
    found = simulate(five("rocksdb-aborted") / "store", compat="5.5", settings=settings)
    assert (found.start_segment, found.entered_from, found.log_end) == (39650, 39650, 57538)


# An accelerated recovery of 5.5.0 did not load these: damaged.jsonl of plain.
@pytest.mark.parametrize(
    ("log_offset", "reason"),
    [
        (0, "RuntimeException: Accelerated recovery is enabled but checkpoint's logicsPhysicalOffset is invalid"),
        (9_999_999, "IllegalArgumentException: the accelerated recovery begins at 9999999, past its segment"),
    ],
)
def test_an_accelerated_recovery_that_begins_nowhere_keeps_a_broker_from_starting(
    log_offset: int, reason: str, tmp_path: Path
) -> None:
    root = copy_store(fivefive("plain") / "store", tmp_path / "store")
    crashed_at(log_offset)(root)
    found = simulate(root, compat="5.5", settings=ACCELERATED)
    assert (found.starts, found.blocker[0], reason in found.reason) == (False, "accelerated-recovery", True)
    assert simulate(root, compat="5.5").log_end == 5257


# A whole 5.5.0 whose wheel had read nothing fired the 4 of 12 timers that were due after its read time.
@pytest.mark.parametrize(
    ("queue_offset", "masters", "read_time_ms", "count"),
    [
        (0, 0, 1795385723000, 0),
        (0, 0, 1795385723001, 2),
        (14, 14, 0, 0),
        (15, 15, 0, 1),
        (15, 14, 0, 0),
        (14, 15, 0, 0),
        (20, 20, 0, 6),
    ],
)
def test_a_wheel_does_not_fire_what_it_has_passed(
    queue_offset: int, masters: int, read_time_ms: int, count: int, tmp_path: Path
) -> None:
    root = copy_store(fivefive("timer") / "store", tmp_path / "store")
    checkpoint = struct.pack(">qqqq", read_time_ms, 156, queue_offset, masters)
    page = (root / "config/timercheck").read_bytes()
    (root / "config/timercheck").write_bytes(checkpoint + page[len(checkpoint) :])
    found = {trap.code: trap.detail for trap in simulate(root, settings={"timerRocksDBEnable": False}).traps}
    told = f"timerRocksDBEnable=false: the wheel does not fire {count} timer{'s' * (count > 1)} of rocksdbstore"
    assert found.get("timers-asleep") == (told if count else None)


# The last half message that the database knows, the place from which a start enters records, and how many it forgets.
@pytest.mark.parametrize(
    ("end", "entered_from", "count"),
    [
        (0, 0, None), (0, 1, 1), (0, 10, 1), (0, 11, 2), (0, 99, 4),
        (9, 10, 0), (9, 11, 1), (10, 11, 0), (10, 20, 0), (10, 21, 1), (10, 99, 2), (10, 10, None), (30, 20, None),
    ],
)  # fmt: skip
def test_half_messages_between_the_databases_end_and_a_starts_place_are_forgotten(
    end: int, entered_from: int, count: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None: the log is not read."""
    read: list[int] = []

    def runs_of_log(opened: object, log_end: int) -> list[str]:
        read.append(log_end)
        return ["run"]

    opened_halves = SimpleNamespace(halves={0: "a", 10: "b", 20: "c", 30: "d"}, take=lambda record: None)
    monkeypatch.setattr(start, "runs_of_log", runs_of_log)
    monkeypatch.setattr(start, "of_transactions", lambda run: ["record"])
    monkeypatch.setattr(start, "OpenHalves", lambda: opened_halves)
    found = [(one.code, one.detail) for one in start._forgotten_halves(cast(Any, None), end, 99, entered_from)]
    state = f"knows none past {end}" if end else "has no entries"
    number = f"{count} open half message{'s' * (count != 1)}"
    told = f"rocksdbstore {state}: a start forgets {number}, and checks none of them with its producer"
    assert (found, read) == ([("half-messages-forgotten", told)] if count else [], [] if count is None else [99])
