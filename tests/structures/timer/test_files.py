"""The timer's files as arrays: precision, live slots, chains, and which slots lead through all of their units."""

from __future__ import annotations

import json
import struct
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.timer.files import (
    CHECK_SIZE,
    CHECK_USED,
    DELETE,
    MAX_MAGIC,
    METRICS,
    NO_FILES,
    NO_POSITION,
    ROLL,
    SLOT_COUNT,
    SLOT_DTYPE,
    UNIT_DTYPE,
    UNIT_SIZE,
    WHEEL_SIZE,
    TimerCheckpoint,
    TimerFiles,
    _sparse,
    metrics_fault,
    read_timer_files,
)

SECOND = 1_700_000_000


def slots_of(*rows: tuple[int, int, int, int]) -> np.ndarray:
    """Slots of (time, first, last, num)."""
    return np.array([(*row, 0) for row in rows], SLOT_DTYPE)


def units_of(*rows: tuple[int, int, int]) -> np.ndarray:
    """Units of (slot's time in ms, previous position, magic), written a second before they are due."""
    return np.array(
        [(UNIT_SIZE, previous, magic, time - 1000, 1000, 0, 0, 0, 0) for time, previous, magic in rows], UNIT_DTYPE
    )


def files_of(wheel: np.ndarray, units: np.ndarray, read_time_ms: int = 0) -> TimerFiles:
    positions = np.arange(len(units), dtype=np.int64) * UNIT_SIZE
    return TimerFiles(wheel, TimerCheckpoint(read_time_ms), units, positions)


ONE, TWO = SECOND * 1000, SECOND * 1000 + 1000
WHEEL = slots_of((0, 0, 0, 0), (SECOND, 0, 104, 2), (SECOND + 1, 52, 52, 1))
UNITS = units_of((ONE, -1, 0), (TWO, -1, 0), (ONE, 0, 0))
SOUND = files_of(WHEEL, UNITS)


def test_a_slot_leads_from_its_newest_unit_to_its_first() -> None:
    assert SOUND.used_slots.tolist() == [1, 2]
    assert SOUND.slot_times_ms.tolist() == [ONE, TWO, ONE]
    assert SOUND.by_slot.tolist() == [0, 2, 1]
    assert SOUND.before.tolist() == [NO_POSITION, NO_POSITION, 0]
    assert (SOUND.chain(1), SOUND.chain(2)) == ([2, 0], [1])
    assert SOUND.are_whole(SOUND.used_slots).tolist() == [True, True]
    assert [SOUND.row_at(position) for position in (-1, 0, 1, 52, 104, 105, 156)] == [None, 0, None, 1, 2, None, None]


@pytest.mark.parametrize(
    ("wheel", "units"),
    [
        (slots_of((SECOND, 0, 104, 3)), UNITS),
        (slots_of((SECOND, 0, 104, 1)), UNITS),
        (slots_of((SECOND, 52, 104, 2)), UNITS),
        (slots_of((SECOND, 0, 52, 2)), UNITS),
        (slots_of((SECOND + 2, 0, 104, 2)), UNITS),
        (slots_of((SECOND, 0, 104, 2)), units_of((ONE, -1, 0), (TWO, -1, 0), (ONE, 52, 0))),
        (slots_of((SECOND, 0, 104, 2)), units_of((ONE, 5, 0), (TWO, -1, 0), (ONE, 0, 0))),
        (slots_of((SECOND, 0, 104, 2)), units_of((ONE, -1, 0), (TWO, -1, 0), (ONE, 0, DELETE))),
    ],
)
def test_a_slot_with_another_count_end_or_way_is_not_whole(wheel: np.ndarray, units: np.ndarray) -> None:
    assert files_of(wheel, units).are_whole(np.array([0])).tolist() == [False]


def test_a_deletion_counts_one_less() -> None:
    units = units_of((ONE, -1, 0), (TWO, -1, 0), (ONE, 0, DELETE))
    assert files_of(slots_of((SECOND, 0, 104, 0)), units).are_whole(np.array([0])).tolist() == [True]


def test_a_fault_in_one_slot_is_none_in_the_next() -> None:
    units = units_of((ONE, 7, 0), (TWO, -1, 0), (ONE, 0, 0))
    assert files_of(WHEEL, units).are_whole(np.array([1, 2])).tolist() == [False, True]


@pytest.mark.parametrize(
    ("units", "rows"),
    [
        (UNITS, [2, 0]),
        (units_of((ONE, -1, 0), (TWO, -1, 0), (ONE, 52, 0)), [2]),
        (units_of((ONE, -1, 0), (TWO, -1, 0), (ONE, 104, 0)), [2]),
        (units_of((ONE, 104, 0), (TWO, -1, 0), (ONE, 0, 0)), [2, 0]),
        (units_of((ONE, -1, 0), (TWO, -1, 0), (ONE, 9, 0)), [2]),
        (UNITS[:2], []),
    ],
)
def test_a_chain_ends_at_another_slot_at_no_unit_and_where_it_would_turn(units: np.ndarray, rows: list[int]) -> None:
    assert files_of(slots_of((SECOND, 0, 104, 2)), units).chain(0) == rows


@pytest.mark.parametrize(
    ("time", "precision_ms"),
    [
        (9_999_999_999, 1000),
        (10_000_000_000, 100),
        (99_999_999_999, 100),
        (100_000_000_000, 10),
        (999_999_999_999, 10),
        (1_000_000_000_000, 1),
        (10_000_000_000_000, 1),
    ],
)
def test_the_precision_is_that_of_the_wheels_largest_time(time: int, precision_ms: int) -> None:
    assert files_of(slots_of((1, 0, 0, 1), (time, 0, 0, 1)), UNITS).precision_ms == precision_ms
    known = replace(files_of(slots_of((time, 0, 0, 1)), UNITS), known_precision_ms=10)
    assert known.precision_ms == min(precision_ms, 10)
    assert replace(NO_FILES, known_precision_ms=10).precision_ms == 10
    assert NO_FILES.precision_ms == files_of(slots_of((0, 0, 0, 0)), UNITS).precision_ms == 1000


@pytest.mark.parametrize(
    ("read_time_ms", "live"), [(0, [1, 2]), (ONE, [1, 2]), (ONE + 1, [2]), (TWO, [2]), (TWO + 1, [])]
)
def test_a_slot_at_the_read_time_has_not_fired(read_time_ms: int, live: list[int]) -> None:
    assert files_of(WHEEL, UNITS, read_time_ms).live_slots.tolist() == live


NONE = UNITS[:0]


@pytest.mark.parametrize(
    ("files", "queue_end", "lost"),
    [
        (replace(files_of(WHEEL, UNITS, 5), log_files={Path("0"): 1}), 3, []),
        (
            replace(files_of(WHEEL, UNITS, 5), wheel=None, log_files={Path("0"): 1}),
            3,
            [("timer-wheel-lost", "timerwheel is missing: most of 3 entries in the timer log are unreachable")],
        ),
        (
            replace(files_of(WHEEL, UNITS, 0), log_files={Path("0"): 1}),
            3,
            [
                (
                    "timer-check-lost",
                    (
                        "config/timercheck has no read time: what was due in the last 7 days is delivered again; all 3 "
                        "messages of the timer queue are processed again"
                    ),
                )
            ],
        ),
        (
            replace(files_of(WHEEL, UNITS), checkpoint=None, log_files={Path("0"): 1}),
            0,
            [
                (
                    "timer-check-lost",
                    "config/timercheck is missing or too short: what was due in the last 7 days is delivered again",
                )
            ],
        ),
        (files_of(WHEEL, NONE, 5), 0, [("timer-log-lost", "timerlog is missing: the messages of 2 slots are lost")]),
        (files_of(WHEEL, NONE, TWO + 1), 0, []),
        (replace(NO_FILES, checkpoint=TimerCheckpoint()), 0, []),
    ],
)
def test_each_part_that_is_lost_is_named_with_its_consequence(
    files: TimerFiles, queue_end: int, lost: list[tuple[str, str]]
) -> None:
    assert list(files.lost_parts(queue_end)) == lost


@pytest.mark.parametrize(
    ("wheel_size", "log_files", "faults"),
    [
        (0, {}, []),
        (WHEEL_SIZE, {"a": 5, "b": 5}, []),
        (WHEEL_SIZE - 1, {}, [("timerwheel", f"{WHEEL_SIZE - 1} bytes instead of {WHEEL_SIZE}")]),
        (0, {"a": 5, "b": 4, "c": 5}, [("timerlog/b", "4 bytes instead of 5")]),
        (0, {"a": 5, "b": 4}, [("timerlog/b", "4 bytes instead of 5")]),
    ],
)
def test_files_of_another_length_keep_a_broker_from_starting(
    wheel_size: int, log_files: dict[str, int], faults: list[tuple[str, str]]
) -> None:
    sizes = {Path(name): size for name, size in log_files.items()}
    assert list(replace(NO_FILES, wheel_size=wheel_size, log_files=sizes).start_faults()) == faults


def test_the_files_are_read_up_to_the_first_unit_that_is_none(tmp_path: Path) -> None:
    layout = StoreLayout(tmp_path)
    for folder in ("timerlog/9", "config"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "timerwheel").write_bytes(WHEEL.tobytes() + b"\0")
    (tmp_path / "config/timercheck").write_bytes(struct.pack(">7q", 1, 2, 3, 4, 5, 6, 7))
    log = UNITS.tobytes()
    (tmp_path / "timerlog/00000000000000000000").write_bytes(log + bytes(16))
    (tmp_path / "timerlog/00000000000000001000").write_bytes(log[:52] + bytes(52) + log[:52] + bytes(16))
    (tmp_path / "timerlog/00000000000000002000").write_bytes(log[:52] + bytes(15))
    (tmp_path / "timerlog/foreign").write_bytes(log)
    found = read_timer_files(layout, Filesystem(), StoreConfig())
    assert found.positions.tolist() == [0, 52, 104, 1000]
    assert found.units.tolist() == [*UNITS.tolist(), UNITS.tolist()[0]]
    assert found.checkpoint == TimerCheckpoint(1, 2, 3, 4, 5, 6, 7)
    assert [(path.name[-4:], size) for path, size in found.log_files.items()] == [
        ("0000", 172),
        ("1000", 172),
        ("2000", 67),
    ]
    assert found.wheel is not None
    assert (found.wheel.tolist(), found.wheel_size, found.is_used) == (WHEEL.tolist(), 97, True)
    (tmp_path / "config/timercheck").write_bytes(bytes(55))
    assert read_timer_files(layout, Filesystem(), StoreConfig()).checkpoint is None


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("count", [4, 5])
def test_a_log_is_read_whole_in_pieces_of_any_size(
    at_once: int, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.structures.timer.files._READ_AT_ONCE", at_once)
    (tmp_path / "timerlog").mkdir()
    units = units_of(*[(ONE, row - 1, 1) for row in range(count)], (ONE, 0, 16), (ONE, 0, 1))
    (tmp_path / "timerlog/0").write_bytes(units.tobytes() + bytes(16))
    found = read_timer_files(StoreLayout(tmp_path), Filesystem(), StoreConfig()).units
    assert found["previous"].tolist() == [row - 1 for row in range(count)]


def test_a_timer_that_never_saved_has_a_timercheck_of_zeros() -> None:
    assert astuple(TimerCheckpoint()) == (0,) * 7


@pytest.mark.parametrize("size", [0, 1, 100, 101, 8192, 8195, 9000])
def test_a_file_that_grows_is_read_up_to_the_size_it_had(size: int, tmp_path: Path) -> None:
    path = tmp_path / "timerwheel"
    with path.open("wb") as file:
        file.write(b"x" * 100)
        file.seek(8192)
        file.write(b"end")
    assert bytes(_sparse(path, Filesystem(), size)) == path.read_bytes()[:size].ljust(size, b"\0")


@pytest.mark.parametrize("magic", [-1, 0, 15, 16])
def test_a_unit_has_a_magic_of_0_to_15(magic: int, tmp_path: Path) -> None:
    (tmp_path / "timerlog").mkdir()
    (tmp_path / "timerlog/0").write_bytes(units_of((ONE, -1, magic)).tobytes() + bytes(16))
    assert len(read_timer_files(StoreLayout(tmp_path), Filesystem(), StoreConfig()).units) == (0 <= magic <= 15)


def test_a_store_without_them_has_no_timer(tmp_path: Path) -> None:
    found = read_timer_files(StoreLayout(tmp_path), Filesystem(), StoreConfig())
    assert (found.is_used, found.wheel, found.checkpoint, found.read_time_ms, len(found.units)) == (
        False,
        None,
        None,
        0,
        0,
    )


VERSION = {"counter": 1, "stateVersion": 2, "timestamp": 3}


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"dataVersion": VERSION, "timingCount": {}}, ""),
        ({"dataVersion": VERSION, "timingCount": {"T": {"count": 1, "timeStamp": 2}}}, ""),
        (
            {"dataVersion": VERSION, "timingCount": {"T": {"count": "1", "timeStamp": 2}}},
            "a count or time is no number",
        ),
        ({"dataVersion": {**VERSION, "counter": True}, "timingCount": {}}, "a count or time is no number"),
        ({"dataVersion": VERSION, "timingCount": {"T": {"count": 1}}}, "no table of counts"),
        ({"dataVersion": {}, "timingCount": {}}, "no table of counts"),
        ({"dataVersion": VERSION}, "no table of counts"),
        ([], "no table of counts"),
    ],
)
def test_metrics_are_numbers_by_topic(document: object, fault: str) -> None:
    assert metrics_fault(json.dumps(document).encode()) == fault


def wheel_file(path: Path, last: int | None) -> None:
    if last is not None:
        path.write_bytes(slots_of((0, 0, 0, 0), (SECOND, 0, last, 1)).tobytes())


@pytest.mark.parametrize(
    ("wheel", "snapshots", "flush", "read"),
    [
        (104, {}, None, "timerwheel"),
        (None, {}, None, "timerwheel"),
        (None, {}, True, "timerwheel"),
        (104, {52: 52}, None, "timerwheel"),
        (104, {104: 104}, None, "timerwheel"),
        (104, {105: 105}, None, "timerwheel.105"),
        (104, {52: 52}, True, "timerwheel.52"),
        (104, {105: 105}, False, "timerwheel"),
        (None, {52: 52}, None, "timerwheel.52"),
        (None, {0: 0}, None, "timerwheel.0"),
        (0, {1000: 1}, None, "timerwheel.1000"),
        (0, {999: 200, 1000: 100}, None, "timerwheel.1000"),
        (150, {999: 200, 1000: 100}, None, "timerwheel"),
    ],
)
def test_the_wheel_is_the_snapshot_or_the_one_that_leads_farther(
    wheel: int | None, snapshots: dict[int, int], flush: bool | None, read: str, tmp_path: Path
) -> None:
    wheel_file(tmp_path / "timerwheel", wheel)
    for number, last in snapshots.items():
        wheel_file(tmp_path / f"timerwheel.{number}", last)
    config = replace(StoreConfig(), timer_wheel_snapshot_flush=flush)
    found = read_timer_files(StoreLayout(tmp_path), Filesystem(), config)
    assert (found.wheel_name, found.wheel_size) == (read, 64 if (tmp_path / read).exists() else 0)


def test_a_wheel_without_a_slot_leads_as_far_as_an_unused_snapshot(tmp_path: Path) -> None:
    (tmp_path / "timerwheel").write_bytes(bytes(31))
    wheel_file(tmp_path / "timerwheel.0", 0)
    assert read_timer_files(StoreLayout(tmp_path), Filesystem(), StoreConfig()).wheel_name == "timerwheel"


def test_a_wheel_has_slots_for_two_weeks_and_a_timercheck_seven_numbers() -> None:
    assert (SLOT_COUNT, WHEEL_SIZE, CHECK_SIZE, CHECK_USED) == (1_209_600, 38_707_200, 4096, 56)
    assert (MAX_MAGIC, ROLL, DELETE, NO_POSITION, METRICS) == (15, 2, 4, -1, "config/timermetrics")


def test_each_part_alone_says_that_the_timer_was_used() -> None:
    assert not NO_FILES.is_used
    for part in ({"wheel": WHEEL}, {"checkpoint": TimerCheckpoint()}, {"log_files": {Path("0"): 1}}):
        assert replace(NO_FILES, **part).is_used
    assert (NO_FILES.used_slots.tolist(), NO_FILES.live_slots.tolist(), NO_FILES.wheel_size) == ([], [], 0)
