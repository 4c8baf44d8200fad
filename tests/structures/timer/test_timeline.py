"""Timers in the message database of 5.4 and later, and snapshots of the wheel."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import check, open_store, simulate
from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.messagedb.database import MessageDatabase
from store.structures.messagedb.keys import FAMILIES, SCAN_OFFSET, TIMELINE, TIMER, TimerEntry
from store.structures.timer import review
from store.structures.timer import timeline as room
from store.structures.timer.files import WHEEL_SIZE, read_timer_files
from store.structures.timer.show import describe
from store.structures.timer.timeline import Timeline, read_timeline
from store.verbs.rebuild.timer import plan_timer_rebuild
from tests.cli.running import rmqctl
from tests.support.five_stores import five, fivefive
from tests.support.golden import copy_store

pytest.importorskip("rocksdict")
AS_LEFT = {"delivered": 5, "deleted": 2, "rolled": 4, "delete": 3, "pending": 6}
FIRED_MS = 1795380329000


def states_of(root: Path, **settings: object) -> dict[str, int]:
    with open_store(root, settings=settings) as store:
        return dict(Counter(message.state.value for message in store.timers(0).messages))


def wheel_of(root: Path, **settings: object) -> str:
    return read_timer_files(StoreLayout(root), Filesystem(), StoreConfig().with_settings(settings)).wheel_name


def test_of_a_database_that_was_not_flushed_delivered_messages_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "read_timeline", lambda opened: None)
    assert states_of(fivefive("timer") / "store") == {"pending": 12, "duplicate": 5, "delete": 3}


def test_a_timeline_tells_the_states_that_the_broker_left() -> None:
    with open_store(fivefive("timer") / "store") as store:
        found = store.timers(FIRED_MS)
    assert Counter(message.state.value for message in found.messages) == AS_LEFT
    assert (found.read_time_ms, found.queue_offset, found.max_queue_offset) == (FIRED_MS, 20, 20)
    # The keys behind the timeline's checkpoint, with the newest record of each.
    pending = [message.log_offset for message in found.messages if message.state.value == "pending"]
    assert pending == [4339, 4590, 4841, 5092, 5343, 5576]


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        pytest.param({}, {}, id="as left"),
        pytest.param({"scan_offset": 19}, {"pending": 6}, id="one is not read, and has an entry"),
        pytest.param({"entries": {}}, {"pending": 0, "lost": 6}, id="no entry"),
        pytest.param({"entries": {}, "scan_offset": 18}, {"pending": 2, "lost": 4}, id="no entry, and two not read"),
        pytest.param({"fired_ms": FIRED_MS - 1000}, {"duplicate": 2, "delivered": 3}, id="a slice fires again"),
        pytest.param({"fired_ms": FIRED_MS - 999}, {}, id="the slice has fired"),
        pytest.param({"fired_ms": 1795385723000}, {}, id="up to the first that waits"),
        pytest.param({"fired_ms": 1795385723001}, {"pending": 4, "lost": 2}, id="the first two that wait have passed"),
    ],
)
def test_a_state_follows_from_entry_scan_and_checkpoint(
    change: Mapping[str, Any], differs: Mapping[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(opened: Any) -> Timeline:
        timeline = read_timeline(opened)
        assert timeline is not None
        return replace(timeline, **change)

    monkeypatch.setattr(review, "read_timeline", changed)
    wanted = {name: count for name, count in {**AS_LEFT, **differs}.items() if count}
    assert states_of(fivefive("timer") / "store") == wanted


def test_timers_that_come_again_are_foretold_where_the_queues_are_in_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_before(opened: Any) -> Timeline:
        timeline = read_timeline(opened)
        assert timeline is not None
        return replace(timeline, fired_ms=FIRED_MS - 1000)

    root, settings = copy_store(fivefive("timer") / "store", tmp_path / "store"), {"storeType": "defaultRocksDB"}
    shutil.rmtree(root / "consumequeue")
    assert rmqctl("--set", "storeType=defaultRocksDB", "rebuild", "--queues", "--yes", store=root).code == 0
    assert simulate(root, settings=settings).traps == []
    monkeypatch.setattr(review, "read_timeline", of_before)
    [trap] = simulate(root, settings=settings).traps
    assert (trap.code, trap.detail.partition(":")[0]) == (
        "timeline-again",
        "a start delivers or rolls 2 timer messages once more, the first at queue offset 2",
    )


def test_a_timeline_that_never_fired_is_a_trap(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfired(opened: Any) -> Timeline:
        timeline = read_timeline(opened)
        assert timeline is not None
        return replace(timeline, fired_ms=None)

    assert simulate(fivefive("timer") / "store").traps == []
    monkeypatch.setattr(review, "read_timeline", unfired)
    trap = simulate(fivefive("timer") / "store").traps[0]
    assert trap.code == "timeline-unfired"
    assert trap.detail == (
        "the timeline never fired: of its 10 messages a start delivers none that was due 10 seconds before it or "
        "earlier; the first is due at 1795380327000 ms"
    )


@pytest.mark.parametrize(("setting", "deleted"), [(None, "4"), ("false", "4"), ("true", "5")])
def test_a_delete_names_the_key_alone_or_its_topic_too(setting: str | None, deleted: str) -> None:
    settings = {"appendTopicForTimerDeleteKey": setting} if setting is not None else {}
    with open_store(fivefive("snapshot") / "store", settings=settings) as store:
        found = [message.uniq_key for message in store.timers(0).messages if message.state.value == "deleted"]
    assert found == [f"7F0000010012345600000000ABCD000{deleted}"]


# upgrade.jsonl: 5.5 delivered 24 messages to a queue that 5.3 delivers 22 to.
def test_a_5_5_wheel_delivers_what_5_3_has_deleted() -> None:
    found = {}
    for compat in ("5.3", "5.5"):
        with open_store(five("timer") / "store", compat=compat) as store:
            found[compat] = Counter(message.state.value for message in store.timers(0).messages)["deleted"]
    assert found == {"5.3": 3, "5.5": 1}


def test_the_newest_snapshot_is_the_wheel_where_it_leads_farther(tmp_path: Path) -> None:
    root = copy_store(fivefive("snapshot") / "store", tmp_path / "store")
    assert list(check(root)) == []
    assert wheel_of(root) == "timerwheel.780"
    assert wheel_of(root, timerWheelSnapshotFlush="true") == "timerwheel.780"
    assert wheel_of(root, timerWheelSnapshotFlush="false") == "timerwheel"
    shutil.copy(root / "timerwheel.780", root / "timerwheel")
    assert (wheel_of(root), wheel_of(root, timerWheelSnapshotFlush="true")) == ("timerwheel", "timerwheel.780")
    (root / "timerwheel.780").unlink()
    assert wheel_of(root, timerWheelSnapshotFlush="true") == "timerwheel.676"
    (root / "timerwheel.676").unlink()
    (root / "timerwheel.900.tmp").touch()
    assert wheel_of(root, timerWheelSnapshotFlush="true") == "timerwheel"


def test_a_snapshot_of_another_length_ends_a_start(tmp_path: Path) -> None:
    root = copy_store(fivefive("snapshot") / "store", tmp_path / "store")
    with (root / "timerwheel.780").open("r+b") as file:
        file.truncate(WHEEL_SIZE - 32)
    found = simulate(root, settings={"timerWheelSnapshotFlush": "true"})
    assert (found.starts, found.reason) == (
        False,
        f"timerwheel.780: {WHEEL_SIZE - 32} bytes instead of {WHEEL_SIZE}",
    )


def test_a_rebuilt_wheel_has_no_snapshot_beside_it(tmp_path: Path) -> None:
    root = copy_store(fivefive("snapshot") / "store", tmp_path / "store")
    before = states_of(root)
    with plan_timer_rebuild(root) as change:
        change.apply()
    assert sorted(path.name for path in root.glob("timerwheel*")) == ["timerwheel"]
    assert (states_of(root), list(check(root))) == (before, [])


MISSING = "timerlog missing: pending messages may be lost"


@pytest.mark.parametrize(
    ("numbers", "detail"),
    [
        pytest.param((5, 0, 0, 0), "unused: no timer message was ever taken up", id="a read time alone"),
        pytest.param((5, 1, 0, 0), MISSING, id="a position"),
        pytest.param((5, 0, 1, 0), MISSING, id="a queue offset"),
        pytest.param((5, 0, 0, 1), MISSING, id="the master's queue offset"),
        pytest.param(None, MISSING, id="a torn timercheck"),
    ],
)
def test_a_wheel_without_a_log_is_unused_or_has_lost_it(
    numbers: tuple[int, ...] | None, detail: str, tmp_path: Path
) -> None:
    root = copy_store(fivefive("plain") / "store", tmp_path / "store")
    data = b"" if numbers is None else b"".join(number.to_bytes(8, "big") for number in (*numbers, 0, 0, 0))
    (root / "config/timercheck").write_bytes(data)
    assert [one.detail for one in describe(StoreLayout(root), Filesystem())] == [detail]


ENTRY = TimerEntry(FIRED_MS, "K", 100, 5)


# Whether the setting is on, the entries of the database (None without one), its offsets, and the timeline.
@pytest.mark.parametrize(
    ("is_on", "entries", "longs", "timeline"),
    [
        (False, [ENTRY], {SCAN_OFFSET: 3}, None),
        (None, None, {}, None),
        (True, None, {}, Timeline({}, 7, None)),
        (None, [], {}, None),
        (True, [], {}, Timeline({}, 7, None)),
        (None, [b"torn"], {}, None),
        (None, [], {SCAN_OFFSET: 8}, Timeline({}, 8, None)),
        (None, [], {SCAN_OFFSET: 6}, Timeline({}, 7, None)),
        (None, [ENTRY], {}, Timeline({(FIRED_MS, "K"): ENTRY}, 7, None)),
        (True, [ENTRY], {SCAN_OFFSET: 8, TIMELINE: 9}, Timeline({(FIRED_MS, "K"): ENTRY}, 8, 9)),
    ],
)
def test_the_database_fires_timers_where_it_is_on_or_had_some(
    is_on: bool | None, entries: list[Any] | None, longs: dict[bytes, int], timeline: Timeline | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    families = {name: {} for name in FAMILIES}
    database = MessageDatabase(families, Path("s"))
    database.longs[TIMER], database.timers = longs, lambda: iter(entries or ())  # type: ignore[method-assign]
    opened: Any = SimpleNamespace(
        config=SimpleNamespace(timer_rocks_db_enable=is_on), layout=SimpleNamespace(root=Path("s")), fs=None
    )
    monkeypatch.setattr(room, "may_hold_entries", lambda layout, fs: entries is not None)
    monkeypatch.setattr(room, "open_database", lambda folder, scratch, fs: database)
    monkeypatch.setattr(room, "_scanned_by_wheel", lambda opened: 7)
    assert read_timeline(opened) == timeline


@pytest.mark.parametrize(
    ("offsets", "first"), [(None, 0), ((0, 3), 0), ((3, 0), 0), ((2, 3), 20), ((3, 2), 20), ((9, 9), 777)]
)
def test_a_wheel_reads_on_at_the_lower_offset_of_its_checkpoint(offsets: tuple[int, int] | None, first: int) -> None:
    units = {2: SimpleNamespace(log_offset=20), 3: SimpleNamespace(log_offset=30)}
    opened: Any = SimpleNamespace(
        queues=SimpleNamespace(find=lambda topic, queue_id: SimpleNamespace(unit=units.get)),
        log=SimpleNamespace(max_offset=777),
    )
    names = ("queue_offset", "master_queue_offset")
    checkpoint: Any = SimpleNamespace(**dict(zip(names, offsets, strict=True))) if offsets else None
    assert room._first_for_wheel(opened, checkpoint) == first
