"""The log over time."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.engine.open import open_store
from store.files.store_reader import StoreReader
from store.formats.run import Run
from store.query import timeline as timelines
from store.query.timeline import (
    END_OF_TIME_MS,
    LAST_SECONDS,
    MAX_JUMPS,
    UNITS_MS,
    Jump,
    Timeline,
    _add_jumps,
    _add_run,
    build_timeline,
)
from store.structures.commitlog.scan import ScanRules, scan_segment
from tests.support.golden import golden
from tests.support.small_log import SmallLog, SmallSegment
from tests.support.stores import SMALL, Clock, text_message


def timeline(name: str, unit: str = "second", topic: str | None = None, gap_ms: int = 3_600_000) -> Timeline:
    return build_timeline(StoreReader(str(golden(name).store)), unit, topic, gap_ms)


def test_every_message_is_in_the_bucket_of_its_store_time() -> None:
    found = timeline("many")
    with open_store(golden("many").store) as store:
        for start, messages, size in found.rows():
            assert messages > 0 < size
            assert start % 1000 == 0
        assert sum(found.messages.values()) >= sum(one.max_offset - one.min_offset for one in store.queues())


def test_a_topic_is_counted_alone() -> None:
    whole, alone = timeline("normal"), timeline("normal", topic="TopicA")
    assert 0 < sum(alone.messages.values()) < sum(whole.messages.values())
    assert not timeline("normal", topic="Nothing").messages


def test_pauses_longer_than_the_gap_are_named() -> None:
    found = timeline("many", gap_ms=500)
    assert found.jump_count == len(found.jumps)
    assert [(jump.kind, jump.after_ms - jump.before_ms) for jump in found.jumps] == [("pause", 4501)] * 2


def test_the_last_seconds_are_counted_one_by_one() -> None:
    found = timeline("many", "day")
    assert len(found.messages) == 1 < len(found.last_seconds) <= 10


def test_every_bucket_has_its_messages_and_bytes() -> None:
    log = SmallLog()
    places = [*log.put_many(3), log.put("U"), log.put()]
    times = [5_000, 5_999, 6_000, 5_500, 1_700_000]
    found = Timeline("second")
    _add_run(found, run_of(log, times), "no such topic")
    assert (found.first_ms, found.last_ms) == (None, None)
    _add_run(found, run_of(log, times), None)
    sizes = [behind - at for at, behind in zip(places, [*places[1:], log.end], strict=True)]
    assert list(found.rows()) == [
        (5000, 3, sizes[0] + sizes[1] + sizes[3]),
        (6000, 1, sizes[2]),
        (1_700_000, 1, sizes[4]),
    ]
    assert (found.first_ms, found.last_ms) == (5_000, 1_700_000)
    _add_run(found, run_of(log, [4_000] * 5), "U")
    assert next(iter(found.rows())) == (4000, 1, sizes[3])
    assert (found.first_ms, found.last_ms) == (4_000, 1_700_000)
    assert UNITS_MS == {"second": 1000, "minute": 60 * 1000, "hour": 3600 * 1000, "day": 24 * 3600 * 1000}


@pytest.mark.parametrize(("count", "first"), [(9, 0), (10, 0), (11, 1), (12, 2)])
def test_the_last_ten_seconds_with_a_message_are_kept(count: int, first: int) -> None:
    log, found = SmallLog(), Timeline("day")
    log.put_many(count)
    _add_run(found, run_of(log, [2000 * number for number in range(count)]), None)
    assert found.last_seconds == {2000 * number: 1 for number in range(first, count)}


@pytest.mark.parametrize(
    ("times", "before", "jumps"),
    [
        ([100, 100, 200], -1, []),
        ([100, 200], 99, []),
        ([100, 201], -1, [("pause", 1, 100, 201)]),
        ([100, 99], -1, [("clock-back", 1, 100, 99)]),
        ([100, 100], 101, [("clock-back", 0, 101, 100)]),
        ([200, 200], 99, [("pause", 0, 99, 200)]),
        ([200, 200], 0, [("pause", 0, 0, 200)]),
    ],
)
def test_a_jump_is_a_step_back_or_one_longer_than_the_gap(
    times: list[int], before: int, jumps: list[tuple[str, int, int, int]]
) -> None:
    log, found = SmallLog(), Timeline("second")
    places = log.put_many(len(times))
    _add_jumps(found, run_of(log, times), before, 100)
    assert found.jumps == [Jump(kind, places[row], *both) for kind, row, *both in jumps]
    assert found.jump_count == len(jumps)


def test_the_first_thousand_jumps_are_kept_and_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "MAX_JUMPS", 3)
    log, found = SmallLog(), Timeline("second")
    log.put_many(3)
    for _ in range(3):
        _add_jumps(found, run_of(log, [5, 4, 3]), -1, 100)
    assert (len(found.jumps), found.jump_count) == (3, 6)


@pytest.mark.parametrize(
    ("span", "counted"),
    [
        ((0, END_OF_TIME_MS), [-5, 0, 100, 200]),
        ((0, 200), [0, 100, 200]),
        ((1, END_OF_TIME_MS), [100, 200]),
        ((100, 200), [100, 200]),
        ((101, 200), [200]),
        ((100, 199), [100]),
        ((0, 0), [0]),
        ((201, 300), []),
    ],
)
def test_messages_are_counted_from_the_first_to_the_last_time(span: tuple[int, int], counted: list[int]) -> None:
    log, found = SmallLog(), Timeline("second")
    log.put_many(4)
    _add_run(found, run_of(log, [-5, 0, 100, 200]), None, span)
    assert sum(found.messages.values()) == len(counted)
    assert (found.first_ms, found.last_ms) == ((counted[0], counted[-1]) if counted else (None, None))


def test_a_first_time_of_0_stays_the_first() -> None:
    log, found = SmallLog(), Timeline("second")
    log.put_many(1)
    for time_ms in (0, 500, 100):
        _add_run(found, run_of(log, [time_ms]), None)
    assert (found.first_ms, found.last_ms, found.messages) == (0, 500, {0: 3})


def test_a_thousand_jumps_are_kept_and_every_time_that_a_record_can_have_is_counted() -> None:
    assert (MAX_JUMPS, LAST_SECONDS, END_OF_TIME_MS) == (1000, 10, (1 << 63) - 1)


@pytest.fixture(scope="module")
def hourly(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Two segments, with a damaged body; the second message comes an hour after the first, the third 1 ms later."""
    root, clock, places = tmp_path_factory.mktemp("hourly") / "store", Clock(), list[int]()
    with open_store(root, settings=SMALL, read_only=False, clock=clock) as store:
        for number in range(100):
            places.append(store.put(text_message(number)).log_offset)
            clock.now_ms += {0: 3_600_000, 1: 3_600_001}.get(number, 1000)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(places[50] + 100)
        file.write(b"~~")
    return root, places


def test_the_whole_log_is_read_past_damage_with_its_progress(hourly: tuple[Path, list[int]]) -> None:
    root, places = hourly
    done: list[int] = []
    found = build_timeline(StoreReader(str(root)), on_progress=done.append)
    assert (sum(found.messages.values()), found.unit, len(done)) == (100, "minute", 2)
    assert done[-1] == places[-1] + places[-1] - places[-2]
    assert done == sorted(set(done))
    first = 1_700_000_000_000
    assert found.jumps == [Jump("pause", places[2], first + 3_600_000, first + 7_200_001)]
    assert (found.first_ms, found.last_ms) == (first, first + 7_200_001 + 97_000)


def test_jumps_are_of_the_whole_log_over_its_segments(hourly: tuple[Path, list[int]]) -> None:
    root, places = hourly
    found = build_timeline(StoreReader(str(root)), gap_ms=999, topic="Nothing", times=(0, 1))
    steps = [3_600_000, 3_600_001, *[1000] * 97]
    assert [(one.log_offset, one.after_ms - one.before_ms) for one in found.jumps] == [
        *zip(places[1:], steps, strict=True)
    ]
    assert (found.jump_count, found.messages) == (99, {})


def run_of(log: SmallLog, times: list[int]) -> Run:
    """The log's records as one run, stored at these times."""
    (run,) = (
        one for one in scan_segment(SmallSegment(memoryview(log.data)), rules=ScanRules()) if isinstance(one, Run)
    )
    run.columns.store_timestamp_ms[:] = times
    return run
