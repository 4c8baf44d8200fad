"""Timer messages: the state of every one is what the real service made of it."""

from __future__ import annotations

import json
import os
import struct
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import check, open_store
from store.formats.topics import TIMER_TOPIC
from store.structures.timer import files as timer_files
from store.structures.timer.message import TimerMessage, TimerState
from store.structures.timer.review import _copies_by_identity, _Review, review_timers
from tests.cli.running import rmqctl
from tests.support.answers import mismatches
from tests.support.five_stores import asked, copy_of_five, damage, five, lines

NAMES = ("timer", "timer-aborted", "timer-roll", "timer-rolled")


def messages_of(root: Path, at_ms: int = 0) -> list[TimerMessage]:
    with open_store(root) as store:
        return review_timers(store.opened, at_ms).messages


@pytest.mark.parametrize("name", NAMES)
def test_every_message_is_in_the_state_that_the_service_left_it_in(name: str) -> None:
    expected = json.loads((five(name) / "timers.json").read_text(encoding="utf-8"))["messages"]
    given = [_as_listed(message) for message in messages_of(five(name) / "store")]
    assert given == [{key: value for key, value in line.items() if key != "wantedMs"} for line in expected]


KILLED_AFTER_A_ROLL = [
    # read time before the one as left, in ms; queue offsets of timercheck; states that differ from those as left
    (0, 125, {}),
    (0, 124, {("pending", "duplicate"): 1}),
    (2000, 125, {("delivered", "duplicate"): 2}),
    (
        5000,
        125,
        {
            ("rolled", "duplicate"): 29,
            ("delivered", "duplicate"): 6,
            ("rolled", "delete"): 3,
            ("rolled", "deleteRolling"): 2,
        },
    ),
    (
        5000,
        89,
        {
            ("rolled", "duplicate"): 29,
            ("delivered", "duplicate"): 6,
            ("pending", "duplicate"): 25,
            ("rolled", "delete"): 3,
            ("rolled", "deleteRolling"): 2,
        },
    ),
]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("before_ms", "queue_offset", "changed"), KILLED_AFTER_A_ROLL)
def test_what_a_timercheck_of_before_a_roll_delivers_again_is_a_duplicate(
    before_ms: int, queue_offset: int, changed: dict[tuple[str, str], int], tmp_path: Path
) -> None:
    root = copy_of_five("timer-rolled", tmp_path)
    read_time_ms = struct.unpack(">q", (root / "config/timercheck").read_bytes()[:8])[0] - before_ms
    values = struct.pack(">qqqq", read_time_ms, 4664, queue_offset, queue_offset)
    damage(root, {"bytes": [["config/timercheck", 0, values.hex()]]})
    as_left = [one.state.value for one in messages_of(five("timer-rolled") / "store")]
    states = zip(as_left, (one.state.value for one in messages_of(root)), strict=True)
    assert Counter(pair for pair in states if pair[0] != pair[1]) == changed
    duplicates = sum(count for pair, count in changed.items() if pair[1] == "duplicate")
    run = rmqctl("--format", "json", "timer", "show", store=root)
    assert (run.code, run.json["counts"]["duplicate"]) == (int(duplicates > 0), duplicates)
    assert (run.json["read_time_ms"], run.json["slot_seconds"]) == (read_time_ms, 1.0)
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert [trap["name"] for trap in start["traps"]] == ["timer-again"] * bool(duplicates)
    assert [one.count for one in check(root) if one.kind == "timer-again"] == [duplicates] * bool(duplicates)
    said = rmqctl("--format", "json", "doctor", store=root).json["diagnoses"]
    again = [(one["area"], one["command"], one["rank"]) for one in said if one["what"] == "timer-again"]
    mend = f"rmqctl --store {root} rebuild timer"
    # What comes twice is not lost.
    assert again == ([("check", mend, 3)] if duplicates else [])


def test_a_message_names_nothing_that_is_not_known() -> None:
    times = {"deliver_timestamp_ms": -1, "slot_timestamp_ms": -1, "store_timestamp_ms": -1}
    places = {"timer_log_position": -1, "delivered_log_offset": -1, "queue_id": -1, "magic": -1, "roll_times": 0}
    names = {"topic": None, "uniq_key": None, "deletes": None, "is_overdue": False}
    message = TimerMessage(TimerState.LOST, 1, 2, 3)
    given = {"state": TimerState.LOST, "queue_offset": 1, "log_offset": 2, "size": 3}
    assert asdict(message) == given | times | places | names


def test_of_messages_that_are_alike_each_has_the_next_copy() -> None:
    def record(topic: str, log_offset: int, due: str = "7") -> Any:
        properties = {"REAL_TOPIC": "T", "TIMER_OUT_MS": due}
        return SimpleNamespace(topic=topic, uniq_key="U", properties=properties, log_offset=log_offset)

    review = object.__new__(_Review)
    records = [record("T", 1), record(TIMER_TOPIC, 2), record("T", 3), record("T", 4, "8"), record("T", 5)]
    review._copies = _copies_by_identity(records)
    messages = [TimerMessage(TimerState.PENDING, number, 0, 0) for number in range(4)]
    assert [review._has_copy(message, records[0]) for message in messages] == [True, True, True, False]
    assert [message.delivered_log_offset for message in messages] == [1, 3, 5, -1]


def _as_listed(message: TimerMessage) -> dict[str, object]:
    def known(number: int) -> int | None:
        return number if number >= 0 else None

    return {
        "state": message.state.value,
        "realTopic": message.topic,
        "realQueueId": message.queue_id,
        "uniqKey": message.uniq_key,
        "timerOutMs": message.deliver_timestamp_ms,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.log_offset,
        "size": message.size,
        "rollTimes": message.roll_times,
        "slotTimeMs": known(message.slot_timestamp_ms),
        "magic": known(message.magic),
        "timerLogPos": known(message.timer_log_position),
        "deliveredOffset": known(message.delivered_log_offset),
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_plain_answers_of_a_store_with_timers_are_those_of_the_broker(name: str) -> None:
    with open_store(five(name) / "store") as store:
        for kind in ("minmax", "get", "time", "query"):
            assert mismatches(store, asked(name, kind)) == []


@pytest.mark.parametrize("name", NAMES)
def test_what_was_due_when_the_service_went_on_is_what_it_delivered_then(name: str) -> None:
    resumed = lines(name, "resumed.jsonl")[0]
    due = [one for one in messages_of(five(name) / "store", resumed["readTimeMs"]) if one.is_overdue]
    delivered = {line[0] for line in resumed["delivered"]}
    assert delivered <= {one.uniq_key for one in due}


def test_messages_that_no_slot_leads_to_are_lost(tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    damage(root, {"remove": ["timerwheel"]})
    assert Counter(one.state.value for one in messages_of(root))["lost"] == 41


def test_a_copy_with_old_file_times_is_as_sound_as_the_store(tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    for path in root.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assert list(check(root)) == []


def test_the_command_shows_the_overdue_ones_of_a_topic() -> None:
    run = rmqctl("--store", five("timer") / "store", "timer", "show", "--at", "1795290771000", "--overdue",
                 "--topic", "TimerA", "--format", "json")  # fmt: skip
    assert run.code == 0
    assert {(row["state"], row["topic"], row["is_overdue"]) for row in run.json["messages"]} == {
        ("pending", "TimerA", True)
    }
    assert run.json["counts"]["pending"] == sum(
        one.topic == "TimerA" and one.state == "pending" for one in messages_of(five("timer") / "store")
    )


def test_messages_whose_units_are_lost_are_shown_without_them(tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    damage(root, {"remove": ["timerlog"]})
    shown = rmqctl("--format", "json", "timer", "show", store=root).json["messages"]
    assert {message["magic"] for message in shown} >= {None}
    # No start takes them up again.
    states = Counter(message["state"] for message in shown)
    assert states == {"lost": 41, "delivered": 21, "deleted": 3, "delete": 5}


@pytest.mark.parametrize(("asked_for", "hint"), [("timera", "did you mean 'TimerA'?"), ("Nope", "there are TimerA")])
def test_a_topic_without_timer_messages_is_said_with_those_that_have_some(asked_for: str, hint: str) -> None:
    run = rmqctl("timer", "show", "--topic", asked_for, store=five("timer") / "store")
    assert (run.code, run.err.count("\n")) == (0, 1)
    assert f"no timer message is for '{asked_for}'" in run.err
    assert hint in run.err


def test_a_pending_message_is_overdue_from_the_millisecond_after_its_time() -> None:
    root = five("timer").joinpath("store")
    pending = [one for one in messages_of(root) if one.state is TimerState.PENDING]
    first_ms = min(one.deliver_timestamp_ms for one in pending)
    overdue = {at_ms: {one.deliver_timestamp_ms for one in messages_of(root, at_ms) if one.is_overdue}
               for at_ms in (first_ms - 1, first_ms, first_ms + 1)}  # fmt: skip
    assert overdue == {first_ms - 1: set(), first_ms: set(), first_ms + 1: {first_ms}}
    assert {one.state for one in messages_of(root, 1 << 62) if one.is_overdue} == {TimerState.PENDING}


@pytest.mark.parametrize("at_once", [1, 2, 3, 1000])
def test_the_units_of_a_file_are_the_same_in_pieces_of_any_size(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    root = five("timer").joinpath("store")
    with open_store(root) as store:
        opened = store.opened
        whole = timer_files.read_timer_files(opened.layout, opened.fs, opened.config).units
        monkeypatch.setattr(timer_files, "_READ_AT_ONCE", at_once)
        again = timer_files.read_timer_files(opened.layout, opened.fs, opened.config).units
    assert len(whole) > 3
    assert again.tolist() == whole.tolist()
