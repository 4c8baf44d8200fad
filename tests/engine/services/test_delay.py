"""delay show: the fate of every delayed message, of real brokers' stores and of each state's own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store import open_store
from store.files.filesystem import Filesystem
from store.files.lock import StoreLock
from store.structures.delayoffsets.review import review_delays
from tests.cli.running import rmqctl
from tests.engine.services.stores import NAMES, NOW_MS, Builder, build, show, unpack

SECOND = 1000


@pytest.mark.parametrize("name", NAMES)
def test_the_fate_of_every_delayed_message_is_the_one_its_writer_knows(name: str, tmp_path: Path) -> None:
    root, expected = unpack(name, tmp_path)
    at_ms = max(one["storeTimestamp"] for one in expected["delayed"])
    shown = show(root, "delay", "show", "--at", at_ms, code=int(name.endswith("-aborted")))["messages"]
    found = {(one["level"], one["queue_offset"]): one for one in shown}
    assert len(found) == len(expected["delayed"])
    for one in expected["delayed"]:
        row = found[one["level"], one["queueOffset"]]
        assert row["log_offset"] == one["commitLogOffset"]
        assert row["delivered_log_offset"] == one["deliveredOffset"]
        assert (row["topic"], row["queue_id"]) == (one["realTopic"], one["realQueueId"])
        assert row["uniq_key"] == one["uniqKey"]
        assert (row["state"] in ("delivered", "duplicate")) == (one["state"] == "delivered")
        assert row["warnings"] == []


def test_a_closed_store_delivers_nothing_twice_and_a_killed_one_what_it_had_not_noted(tmp_path: Path) -> None:
    closed, _ = unpack("services", tmp_path)
    killed, _ = unpack("services-aborted", tmp_path)
    assert show(closed, "delay", "show")["counts"]["duplicate"] == 0
    assert show(killed, "delay", "show", code=1)["counts"]["duplicate"] == 5


def test_beside_a_running_owner_a_duplicate_is_said_to_need_a_kill(tmp_path: Path) -> None:
    killed, _ = unpack("services-aborted", tmp_path)
    note = "duplicates come only if it is killed"
    assert note not in rmqctl("delay", "show", store=killed).err
    lock = StoreLock(killed / "lock", Filesystem())
    lock.acquire()
    try:
        assert note in rmqctl("delay", "show", store=killed).err
    finally:
        lock.release()


def offsets(**table: int) -> dict[str, Any]:
    return {"delayOffset.json": {"offsetTable": {name.removeprefix("level"): value for name, value in table.items()}}}


Steps = Callable[[Builder], None]


def delayed(builder: Builder) -> None:
    builder.delay("A")


def delivered_in_time(builder: Builder) -> None:
    builder.delay("A")
    builder.clock.now_ms += SECOND
    builder.deliver("A")


def same_key_too_early(builder: Builder) -> None:
    builder.delay("A")
    builder.deliver("A")


def copy_in_another_topic(builder: Builder) -> None:
    builder.delay("A")
    builder.clock.now_ms += SECOND
    builder.deliver("A", topic="Other")


def without_queue_id(builder: Builder) -> None:
    builder.schedule(1, {"UNIQ_KEY": "A", "DELAY": "1", "REAL_TOPIC": "T"})


def placeholder_of_salvage(builder: Builder) -> None:
    builder.schedule(1, {"DELAY": "1", "REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"})


@pytest.mark.turns(2)
@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("steps", "saved", "after_ms", "compat", "state"),
    [
        (delayed, None, 0, "4.9", "pending"),
        (delayed, 0, SECOND - 1, "4.9", "pending"),
        (delayed, 0, SECOND, "4.9", "due"),
        (delayed, 1, SECOND, "4.9", "assumed"),
        (delayed, 99, SECOND, "4.9", "assumed"),
        (delivered_in_time, 1, 2 * SECOND, "4.9", "delivered"),
        (delivered_in_time, 0, 2 * SECOND, "4.9", "duplicate"),
        (same_key_too_early, 0, 2 * SECOND, "4.9", "due"),
        (copy_in_another_topic, 0, 2 * SECOND, "4.9", "due"),
        (without_queue_id, 0, 2 * SECOND, "4.9", "lost"),
        (without_queue_id, 0, 2 * SECOND, "5.3", "lost"),
        (without_queue_id, 1, 2 * SECOND, "5.3", "lost"),
        (placeholder_of_salvage, 0, 2 * SECOND, "4.9", "lost"),
        (placeholder_of_salvage, 0, 2 * SECOND, "5.3", "lost"),
    ],
)
def test_the_state_of_one_message(
    steps: Steps, saved: int | None, after_ms: int, compat: str, state: str, tmp_path: Path
) -> None:
    root = build(tmp_path / "store", steps, {} if saved is None else offsets(level1=saved))
    if compat == "5.3":
        (root / "timerwheel").touch()
    code = int(state in ("duplicate", "lost", "blocked"))
    (message,) = show(root, "delay", "show", "--at", NOW_MS + after_ms, code=code)["messages"]
    assert message["state"] == state


@pytest.mark.leaves_damage
def test_a_message_behind_one_that_waits_longer_is_blocked(tmp_path: Path) -> None:
    """The clock went back between the two puts."""

    def steps(builder: Builder) -> None:
        builder.clock.now_ms += 900
        builder.delay("late")
        builder.clock.now_ms -= 900
        builder.delay("early")

    root = build(tmp_path / "store", steps, offsets(level1=0))
    states = [one["state"] for one in show(root, "delay", "show", "--at", NOW_MS + SECOND, code=1)["messages"]]
    assert states == ["pending", "blocked"]


@pytest.mark.leaves_damage
def test_messages_behind_a_poisoned_record_are_blocked_in_4_9_and_due_in_5_3(tmp_path: Path) -> None:
    def steps(builder: Builder) -> None:
        without_queue_id(builder)
        builder.delay("B")

    root = build(tmp_path / "store", steps)
    at = ("--at", NOW_MS + 2 * SECOND)
    assert [one["state"] for one in show(root, "delay", "show", *at, code=1)["messages"]] == ["lost", "blocked"]
    (root / "timerwheel").touch()
    assert [one["state"] for one in show(root, "delay", "show", *at, code=1)["messages"]] == ["lost", "due"]


def test_what_was_deleted_before_it_was_delivered_is_lost(tmp_path: Path) -> None:
    def steps(builder: Builder) -> None:
        for number in range(300):
            builder.delay(f"K{number}")

    root = build(tmp_path / "store", steps, offsets(level1=3))
    (root / "commitlog" / f"{0:020d}").unlink()
    shutil.rmtree(root / "consumequeue")
    found = show(root, "delay", "show", "--at", NOW_MS, code=1)
    lost = [one["queue_offset"] for one in found["messages"] if one["state"] == "lost"]
    assert lost == list(range(3, found["levels"][0]["min_offset"]))
    assert found["counts"]["pending"] == 300 - found["levels"][0]["min_offset"]


def test_a_message_sent_twice_under_one_key_has_two_copies(tmp_path: Path) -> None:
    def steps(builder: Builder) -> None:
        for _ in range(2):
            builder.delay("A")
            builder.clock.now_ms += SECOND
            builder.deliver("A")

    messages = show(build(tmp_path / "store", steps, offsets(level1=2)), "delay", "show")["messages"]
    assert [one["state"] for one in messages] == ["delivered", "delivered"]
    assert messages[0]["delivered_log_offset"] < messages[1]["log_offset"] < messages[1]["delivered_log_offset"]


@pytest.mark.turns(2)
@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("properties", "code", "warning"),
    [
        ({"DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "0"}, 0, "the property DELAY is 3"),
        ({"DELAY": "1", "REAL_TOPIC": "T"}, 1, "REAL_QID is missing"),
        ({"DELAY": "1", "REAL_QID": "0"}, 1, "REAL_TOPIC is missing"),
    ],
)
def test_what_is_odd_about_a_message_is_said(
    properties: dict[str, str], code: int, warning: str, tmp_path: Path
) -> None:
    root = build(tmp_path / "store", lambda builder: builder.schedule(1, properties) and None)
    (message,) = show(root, "delay", "show", code=code)["messages"]
    assert any(warning in text for text in message["warnings"])


def test_a_level_that_is_not_configured_is_said(tmp_path: Path) -> None:
    root = build(tmp_path / "store", lambda builder: builder.delay("A", level=2) and None)
    (message,) = show(root, "--set", "messageDelayLevel=1s", "delay", "show")["messages"]
    assert any("level 2 is not configured" in text for text in message["warnings"])


def test_level_and_state_choose_messages(tmp_path: Path) -> None:
    def steps(builder: Builder) -> None:
        builder.delay("A", 1)
        builder.delay("B", 3)

    root = build(tmp_path / "store", steps)
    assert [one["uniq_key"] for one in show(root, "delay", "show", "--level", 3)["messages"]] == ["B"]
    at = ("--at", NOW_MS + 2 * SECOND)
    assert [one["uniq_key"] for one in show(root, "delay", "show", "--state", "due", *at)["messages"]] == ["A"]
    assert rmqctl("delay", "show", "--state", "gone", store=root).code == 2


def test_offsets_that_a_broker_would_not_load_are_said(tmp_path: Path) -> None:
    closed, _ = unpack("services", tmp_path)
    (closed / "config" / "delayOffset.json").write_text('{"offsetTable":{1:5')
    answer = rmqctl("delay", "show", store=closed)
    assert "delayOffset.json is damaged" in answer.err
    assert "a broker starts with an empty table" in answer.err


def test_a_saved_offset_of_a_level_that_does_not_exist_has_no_delay(tmp_path: Path) -> None:
    root = build(tmp_path / "store", lambda builder: builder.delay("A", level=1) and None)
    (root / "config").mkdir()
    (root / "config" / "delayOffset.json").write_text('{"offsetTable":{0:7,1:0,2:0,3:0}}')
    with open_store(root, as_is=True, settings={"messageDelayLevel": "1s 5s"}) as store:
        levels, _ = review_delays(store.opened, NOW_MS)
    assert [(one.level, one.delay_ms, one.saved_offset) for one in levels] == [
        (0, None, 7), (1, 1000, 0), (2, 5000, 0), (3, None, 0),
    ]  # fmt: skip
