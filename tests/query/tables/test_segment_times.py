"""Filters on store times, without Spark: the rows are those of a read of everything, whatever the clock did."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from store.files.store_reader import StoreReader
from store.formats.message import BORN_HOST_AT, BORN_HOST_IPV6
from store.formats.run import Run
from store.query.tables.request import Request
from store.query.tables.row_filter import Condition, Conditions
from store.query.tables.segment_times import BOUND_SLACK_US, CLOCK_SLACK_US, first_store_time_us, segment_times
from store.query.tables.shares import plan, read
from store.structures.commitlog.message_batch import TIMESTAMP
from store.structures.commitlog.scan import ScanRules
from store.structures.commitlog.slices import split, split_into, walk_slice
from tests.support.golden import copy_store, golden
from tests.support.logs import record

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000
SEGMENT_HOURS = 10
SCHEMA = pa.schema([("log_offset", pa.int64()), ("store_timestamp", TIMESTAMP)])

Clock = Callable[[int, float, float], float]
"""The hour on the clock when a record is stored: by its number, its segment's number, and the true hour."""


def store_with(root: Path, clock: Clock, mtimes: bool = True) -> StoreReader:
    """A store of nine segments, each of ten hours; `mtimes`: files were last changed at their last record's time."""
    copy_store(golden("many").store, root)
    files = StoreReader(str(root))
    for part in split_into(files.segments(), 1):
        rows = [(int(p), step.file_start + int(p)) for step in runs(files, part) for p in step.columns.position]
        number, path, hour = part.file_start // part.file_size, root / part.path, 0.0
        data = bytearray(path.read_bytes())
        for i, (position, log_offset) in enumerate(rows):
            hour = clock(i, number, log_offset / part.file_size * SEGMENT_HOURS)
            at = position + BORN_HOST_AT + 8
            data[at : at + 8] = (START_MS + int(hour * HOUR_MS)).to_bytes(8, "big")
        path.write_bytes(data)
        if mtimes:
            os.utime(path, (START_MS / 1000 + hour * 3600,) * 2)
    return StoreReader(str(root))


def runs(files: StoreReader, part: object) -> list[Run]:
    return [step for step in walk_slice(files, part, ScanRules()) if isinstance(step, Run)]  # type: ignore[arg-type]


def rows_of(files: StoreReader, conditions: list[Condition], parts: list[object]) -> list[tuple[int, int]]:
    request = Request.from_options({"path": files.address})
    batches = (batch for part in parts for batch in read(files, request, Conditions(conditions), part, SCHEMA))
    return [
        (offset, time.value)
        for batch in batches
        for offset, time in zip(batch.column(0).to_pylist(), batch.column(1), strict=True)
    ]


def hour(sign: str, number: float) -> list[Condition]:
    return [Condition("store_timestamp", sign, int((START_MS + number * HOUR_MS) * 1000))]


def planned(files: StoreReader, conditions: list[Condition]) -> list[object]:
    return list(plan(files, Request.from_options({"path": files.address}), Conditions(conditions)))


def is_complete(files: StoreReader) -> bool:
    """Are the rows of every time limit those of a read of all segments?"""
    return all(
        rows_of(files, limit, planned(files, limit)) == rows_of(files, limit, list(split(files.segments())))
        for number in range(-30, 130, 7)
        for sign in (">=", "<=")
        for limit in [hour(sign, number)]
    )


CLOCKS: dict[str, Clock] = {
    "right": lambda i, segment, true: true,
    "first record of a segment long ago": lambda i, segment, true: -9999 if (segment, i) == (1, 0) else true,
    "first record of a segment far ahead": lambda i, segment, true: 9999 if (segment, i) == (1, 0) else true,
    "first record of the last segment far ahead": lambda i, segment, true: 9999 if (segment, i) == (8, 0) else true,
    "first record of a segment a little early": lambda i, segment, true: 35 if (segment, i) == (4, 0) else true,
    "set back within a segment": lambda i, segment, true: true - 25 if true > 44 else true,
    "set back by minutes within a segment": lambda i, segment, true: true - 0.5 if 44 < true < 48 else true,
    "set back between segments": lambda i, segment, true: true - 25 if segment > 3 else true,
    "set back in the last segment": lambda i, segment, true: true - 5 if true > 82 else true,
    "ahead, then right": lambda i, segment, true: true + 500 if segment < 3 else true,
    "ahead at first": lambda i, segment, true: true + 500 if segment == 0 else true,
    "ahead at last": lambda i, segment, true: true + 500 if segment == 8 else true,
    "standing still": lambda i, segment, true: 40,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOCKS)
def test_a_limit_on_times_loses_no_row_whatever_the_clock_did(name: str, tmp_path: Path) -> None:
    assert is_complete(store_with(tmp_path / "store", CLOCKS[name]))


def test_a_segment_without_a_first_record_makes_all_be_read(tmp_path: Path) -> None:
    files = store_with(tmp_path / "store", CLOCKS["right"])
    with (tmp_path / "store" / files.segments()[4].path).open("r+b") as file:
        file.write(bytes(8))
    assert len(planned(files, hour(">=", 60))) == 9
    assert is_complete(files)


def test_a_healthy_store_leaves_out_segments_on_either_side(tmp_path: Path) -> None:
    files = store_with(tmp_path / "store", CLOCKS["right"])
    numbers = [[p.log_start // p.file_size for p in planned(files, c)] for c in (hour(">=", 45), hour("<=", 45))]
    assert numbers == [[4, 5, 6, 7, 8], [0, 1, 2, 3, 4]]
    assert len(planned(files, hour(">=", 45) + hour("<=", 46))) == 1


def test_a_copy_without_its_files_times_is_read_from_the_start(tmp_path: Path) -> None:
    files = store_with(tmp_path / "store", CLOCKS["right"], mtimes=False)
    assert len(planned(files, hour(">=", 45))) == 9
    assert len(planned(files, hour("<=", 45))) == 5


def test_files_laid_out_ahead_of_the_log_do_not_stop_it(tmp_path: Path) -> None:
    files = store_with(tmp_path / "store", CLOCKS["right"])
    last = files.segments()[-1]
    (tmp_path / "store" / "commitlog" / f"{last.number + last.size:020d}").write_bytes(bytes(last.size))
    assert [p.log_start // p.file_size for p in planned(files, hour(">=", 45))] == [4, 5, 6, 7, 8, 9]


T = 1_700_000_000_000_000
"""A store time in \u00b5s."""


def segments_of(root: Path, *times: tuple[int | None, int]) -> StoreReader:
    """A store of segments with one record each, or none, by its store time and the time of its file's last change."""
    (root / "commitlog").mkdir(parents=True)
    for number, (first_us, changed_us) in enumerate(times):
        path = root / "commitlog" / f"{1000 * number:020d}"
        stored = bytes(8) if first_us is None else record(store_timestamp_ms=first_us // 1000, position=1000 * number)
        path.write_bytes(stored.ljust(1000, b"\0"))
        os.utime(path, ns=(0, changed_us * 1000))
    return StoreReader(str(root))


def times_of(files: StoreReader) -> list[tuple[int | None, int | None]]:
    return segment_times(files, files.segments())


NO_LIMITS = (None, None)


def test_times_may_be_off_by_an_hour_and_clocks_by_a_minute() -> None:
    assert (BOUND_SLACK_US, CLOCK_SLACK_US) == (3_600_000_000, 60_000_000)


@pytest.mark.parametrize(
    ("times", "limits"),
    [
        ([(T, T)], [(T, None)]),
        ([(T, T), (T + 5000, T + 5000)], [(T, T + 5000), (T + 5000, None)]),
        ([(T, T + 9000), (T + 5000, T + 9000)], [(T, T + 9000), (T + 5000, None)]),
        ([(T, T), (T, T), (None, T)], [(T, T), (T, None), NO_LIMITS]),
        ([(T, T), (None, T), (T, T)], [NO_LIMITS] * 3),
        ([(None, T)], [NO_LIMITS]),
        ([(T, T), (T - CLOCK_SLACK_US, T)], [(T - CLOCK_SLACK_US, T), (T - CLOCK_SLACK_US, None)]),
        ([(T, T), (T - CLOCK_SLACK_US - 1000, T)], [NO_LIMITS] * 2),
        ([(T, T - CLOCK_SLACK_US), (T, T)], [(T, T), (T, None)]),
        ([(T, T - CLOCK_SLACK_US - 1000), (T, T)], [NO_LIMITS] * 2),
        ([(T, T), (T, T - CLOCK_SLACK_US - 1000)], [NO_LIMITS] * 2),
        ([(-5000, T), (T, T)], [(-5000, T), (T, None)]),
    ],
)
def test_a_segment_has_the_times_from_its_first_record_to_the_next_ones_and_its_last_change(
    times: list[tuple[int | None, int]], limits: list[tuple[int | None, int | None]], tmp_path: Path
) -> None:
    wanted = [
        (first if first is None else first - BOUND_SLACK_US, last if last is None else last + BOUND_SLACK_US)
        for first, last in limits
    ]
    assert times_of(segments_of(tmp_path / "store", *times)) == wanted


@pytest.mark.parametrize("sys_flag", [0, BORN_HOST_IPV6])
@pytest.mark.parametrize(("missing", "first_us"), [(1, None), (0, T), (-8, T)])
def test_a_first_record_has_a_time_if_the_file_has_its_fixed_fields(
    sys_flag: int, missing: int, first_us: int | None, tmp_path: Path
) -> None:
    (tmp_path / "commitlog").mkdir()
    file = tmp_path / "commitlog" / f"{0:020d}"
    file.write_bytes(record(store_timestamp_ms=T // 1000, sys_flag=sys_flag)[: BORN_HOST_AT + 28 - missing])
    files = StoreReader(str(tmp_path))
    assert first_store_time_us(files, files.segments()[0]) == first_us
