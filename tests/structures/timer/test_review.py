"""The state of each timer message, from its unit, its slot, its copy, and how far the service has come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from store import Message, open_store
from store.formats.message import encode_record
from store.formats.queue_unit import UNIT
from store.formats.topics import TIMER_TOPIC
from store.structures.timer import review
from store.structures.timer.files import DELETE, NO_FILES, ROLL, SLOT_DTYPE, UNIT_DTYPE, TimerCheckpoint
from store.structures.timer.review import TimerReview, _Review, review_timers
from store.structures.timer.timeline import Timeline

READ_S = 1_700_000_000
"""The read time of the service; other times count seconds from it."""
NO_WHEEL = 99


class Unit(NamedTuple):
    """A unit of the timer log: its message, its slot's time in seconds from the read time, and its magic."""

    message: int
    slot_s: int
    magic: int = 1


def one(due_s: int = 5, *, key: str = "U", rolls: int = 0, deletes: str | None = None) -> dict[str, str]:
    properties = {"REAL_TOPIC": "T", "REAL_QID": "3", "UNIQ_KEY": key, "TIMER_OUT_MS": str((READ_S + due_s) * 1000)}
    properties |= {"TIMER_ROLL_TIMES": str(rolls)} if rolls else {}
    return properties | ({"TIMER_DEL_UNIQKEY": deletes} if deletes else {})


def reviewed(
    root: Path,
    messages: list[dict[str, str]],
    copies: list[dict[str, str]],
    units: list[Unit],
    taken_up: int,
    wheel: int,
    has_files: bool = True,
    **settings: object,
) -> list[tuple[str, int]]:
    """Each message's state, and the number of its copy, -1 without one."""
    log, places = b"", []
    for number, properties in enumerate([*copies, *messages]):
        topic = "T" if number < len(copies) else TIMER_TOPIC
        places.append(len(log))
        log += encode_record(
            Message.of(topic, b"x", properties=properties), topic=topic.encode(), sys_flag=0,
            queue_offset=max(0, number - len(copies)), log_offset=len(log), store_timestamp_ms=1,
        )  # fmt: skip
    ends = [*places[1:], len(log)]
    own = range(len(copies), len(places))
    queue = b"".join(UNIT.pack(places[row], ends[row] - places[row], 0) for row in own)
    for name, data in (("commitlog", log), (f"consumequeue/{TIMER_TOPIC}/0", queue)):
        path = root / name / "00000000000000000000"
        path.parent.mkdir(parents=True)
        path.write_bytes(data + bytes(200))
    rows = [(52, -1, one.magic, (READ_S + one.slot_s) * 1000, 0, places[own[one.message]], 1, 0, 0) for one in units]
    slots = [(READ_S + each.slot_s, 52 * row, 52 * row, 1, 0) for row, each in enumerate(units[:wheel])]
    files = replace(
        NO_FILES,
        wheel=np.array([(0, 0, 0, 0, 0), *slots], SLOT_DTYPE) if wheel else None,
        checkpoint=TimerCheckpoint(READ_S * 1000, 0, taken_up, taken_up),
        units=np.array(rows, UNIT_DTYPE),
        positions=np.arange(len(rows), dtype=np.int64) * 52,
    )
    with open_store(root, settings=settings) as store:
        found = store.opened.queues.find(TIMER_TOPIC, 0)
        assert found is not None
        given = list(_Review(store.opened, files if has_files else NO_FILES).messages(found))
    assert [one.queue_offset for one in given] == list(range(len(messages)))
    return [
        (each.state.value, places.index(each.delivered_log_offset) if each.delivered_log_offset >= 0 else -1)
        for each in given
    ]


CASES: dict[str, tuple[dict[str, Any], list[tuple[str, int]]]] = {
    "not read yet": ({"taken_up": 0}, [("pending", -1)]),
    "read, and neither a unit nor a copy": ({"taken_up": 1}, [("lost", -1)]),
    "due when it was read": ({"taken_up": 1, "copies": [one()]}, [("delivered", 0)]),
    "a copy in the log's first record, not read": ({"copies": [one()]}, [("duplicate", 0)]),
    "another's copies": ({"copies": [one(6), one(key="V")]}, [("pending", -1)]),
    "on the wheel": ({"taken_up": 1, "units": [Unit(0, 5)]}, [("pending", -1)]),
    "in the slot of the read time": ({"taken_up": 1, "units": [Unit(0, 0)]}, [("pending", -1)]),
    "in the last slot that fired": ({"taken_up": 1, "units": [Unit(0, -1)]}, [("lost", -1)]),
    "fired, with its copy": ({"taken_up": 1, "units": [Unit(0, -1)], "copies": [one()]}, [("delivered", 0)]),
    "not fired, with its copy": ({"taken_up": 1, "units": [Unit(0, 0)], "copies": [one()]}, [("duplicate", 0)]),
    "no slot leads to it": ({"taken_up": 1, "units": [Unit(0, 0)], "wheel": 0}, [("lost", -1)]),
    "its newest unit fired": (
        {"taken_up": 1, "units": [Unit(0, 5), Unit(0, -1)], "copies": [one()]}, [("delivered", 0)]
    ),
    "a rolling one that fired": ({"taken_up": 1, "units": [Unit(0, -1, ROLL)]}, [("rolled", -1)]),
    "a rolling one on the wheel": ({"taken_up": 1, "units": [Unit(0, 0, ROLL)]}, [("pending", -1)]),
    "a rolling one on the wheel, and its next record": (
        {"taken_up": 2, "messages": [one(), one(rolls=1)], "units": [Unit(0, 0, ROLL), Unit(1, 5)]},
        [("duplicate", -1), ("pending", -1)],
    ),
    "a next record of an earlier roll": (
        {"taken_up": 2, "messages": [one(rolls=2), one(rolls=1)], "units": [Unit(0, 0, ROLL), Unit(1, 5)]},
        [("pending", -1), ("pending", -1)],
    ),
    "a next record that is a delete": (
        {
            "taken_up": 2,
            "messages": [one(), one(rolls=1, deletes="W")],
            "units": [Unit(0, 0, ROLL), Unit(1, 5, DELETE)],
        },
        [("pending", -1), ("delete", -1)],
    ),
    "a delete in its slot": (
        {"taken_up": 2, "messages": [one(), one(deletes="T+U")], "units": [Unit(0, 5), Unit(1, 5, DELETE)]},
        [("deleted", -1), ("delete", -1)],
    ),
    "a delete that rolls in its slot": (
        {"taken_up": 2, "messages": [one(), one(deletes="T+U")],
         "units": [Unit(0, 0, ROLL), Unit(1, 0, DELETE | ROLL)]},
        [("deleteRolling", -1), ("delete", -1)],
    ),
    "a delete in another slot": (
        {"taken_up": 2, "messages": [one(), one(deletes="T+U")], "units": [Unit(0, 5), Unit(1, 4, DELETE)]},
        [("pending", -1), ("delete", -1)],
    ),
    "a delete of another time": (
        {"taken_up": 2, "messages": [one(), one(4, deletes="T+U")], "units": [Unit(0, 5), Unit(1, 5, DELETE)]},
        [("pending", -1), ("delete", -1)],
    ),
    "a delete of another key": (
        {"taken_up": 2, "messages": [one(), one(deletes="T+V")], "units": [Unit(0, 5), Unit(1, 5, DELETE)]},
        [("pending", -1), ("delete", -1)],
    ),
    "a unit that is no delete": (
        {"taken_up": 2, "messages": [one(), one(deletes="T+U")], "units": [Unit(0, 5), Unit(1, 5)]},
        [("pending", -1), ("delete", -1)],
    ),
    "a key without its topic, in a slot that fired": (
        {"taken_up": 2, "messages": [one(), one(deletes="U")], "units": [Unit(0, -1), Unit(1, -1, DELETE)]},
        [("deleted", -1), ("delete", -1)],
    ),
    "a key without its topic, in the slot of the read time": (
        {"taken_up": 2, "messages": [one(), one(deletes="U")], "units": [Unit(0, 0), Unit(1, 0, DELETE)]},
        [("pending", -1), ("delete", -1)],
    ),
    "a key without its topic, as a setting has it": (
        {"taken_up": 2, "messages": [one(), one(deletes="U")], "units": [Unit(0, 0), Unit(1, 0, DELETE)],
         "appendTopicForTimerDeleteKey": "false"},
        [("deleted", -1), ("delete", -1)],
    ),
    "a key with its topic, against a setting": (
        {"taken_up": 2, "messages": [one(), one(deletes="T+U")], "units": [Unit(0, 0), Unit(1, 0, DELETE)],
         "appendTopicForTimerDeleteKey": "false"},
        [("pending", -1), ("delete", -1)],
    ),
    "a delete of what was due when it was read": (
        {"taken_up": 2, "messages": [one(), one(deletes="T+U")]}, [("deleted", -1), ("delete", -1)]
    ),
    "a delete of what was delivered before": (
        {"taken_up": 2, "messages": [one(), one(deletes="T+U")], "copies": [one()]}, [("delivered", 0), ("delete", -1)]
    ),
    "a delete, without files": (
        {"has_files": False, "messages": [one(), one(deletes="T+U")]}, [("deleted", -1), ("delete", -1)]
    ),
    "a delete of another time, without files": (
        {"has_files": False, "messages": [one(), one(4, deletes="T+U")]}, [("pending", -1), ("delete", -1)]
    ),
    "a delete of another key, without files": (
        {"has_files": False, "messages": [one(), one(deletes="T+V")]}, [("pending", -1), ("delete", -1)]
    ),
    "a key without its topic, without files": (
        {"has_files": False, "messages": [one(), one(deletes="U")]}, [("pending", -1), ("delete", -1)]
    ),
    "a key without its topic, as a setting has it, without files": (
        {"has_files": False, "messages": [one(), one(deletes="U")], "appendTopicForTimerDeleteKey": "false"},
        [("deleted", -1), ("delete", -1)],
    ),
    "a delete of what was delivered, without files": (
        {"has_files": False, "messages": [one(), one(deletes="T+U")], "copies": [one()]},
        [("delivered", 0), ("delete", -1)],
    ),
    "a newer record, without files": (
        {"has_files": False, "messages": [one(), one(rolls=1)], "copies": [one()]}, [("rolled", -1), ("delivered", 0)]
    ),
    "a newer record of another time, without files": (
        {"has_files": False, "messages": [one(), one(4, rolls=1)]}, [("pending", -1), ("pending", -1)]
    ),
    "a newer delete, without files": (
        {"has_files": False, "messages": [one(deletes="V"), one(rolls=1, deletes="V"), one(rolls=2)]},
        [("rolled", -1), ("delete", -1), ("pending", -1)],
    ),
    "delivered once of two, without files": (
        {"has_files": False, "messages": [one(), one()], "copies": [one()]}, [("delivered", 0), ("pending", -1)]
    ),
    "a delete that is not read": (
        {"taken_up": 1, "messages": [one(), one(deletes="T+U")]}, [("lost", -1), ("delete", -1)]
    ),
    "read again after the last unit's message": (
        {"taken_up": 3, "messages": [one(key="A"), one(key="B"), one(key="C")],
         "units": [Unit(2, 5), Unit(1, 4)], "copies": []},
        [("lost", -1), ("pending", -1), ("duplicate", -1)],
    ),
}  # fmt: skip


@pytest.mark.turns(4)
@pytest.mark.parametrize("case", CASES)
def test_a_state_follows_from_unit_slot_copy_and_progress(case: str, tmp_path: Path) -> None:
    given, found = CASES[case]
    usual: dict[str, Any] = {"messages": [one()], "copies": [], "units": [], "taken_up": 0, "wheel": NO_WHEEL}
    assert reviewed(tmp_path, **usual | given) == found


def test_a_store_without_timers_has_none_and_no_progress(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", read_only=False, services=[]):
        pass
    with open_store(tmp_path / "s") as store:
        assert review_timers(store.opened, 1) == TimerReview([], 0, 0, 0, 1000, is_by_log=True)


@pytest.mark.parametrize(
    ("timeline", "checkpoint", "progress"),
    [
        (Timeline({}, 3, None), None, (0, 3, 9, 1000)),
        (Timeline({}, 3, 55), SimpleNamespace(queue_offset=4), (55, 3, 9, 1000)),
        (None, SimpleNamespace(queue_offset=4), (77, 4, 9, 500)),
        (None, None, (77, 0, 9, 500)),
    ],
)
def test_the_progress_is_the_timeline_s_or_the_wheel_s(
    timeline: Timeline | None, checkpoint: Any, progress: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SimpleNamespace(checkpoint=checkpoint, read_time_ms=77, precision_ms=500, is_used=True)
    monkeypatch.setattr(review, "read_timer_files", lambda *arguments: files)
    monkeypatch.setattr(review, "read_timeline", lambda opened: timeline)
    monkeypatch.setattr(review, "_Review", lambda opened, files: None)
    opened: Any = SimpleNamespace(
        layout=None, fs=None, config=None, next_offset=None, queues=SimpleNamespace(find=lambda topic, queue_id: None),
        max_offset=lambda topic, queue_id: 9,
    )  # fmt: skip
    found = review.review_timers(opened, 5)
    assert found == review.TimerReview([], *progress, in_database=timeline is not None)
