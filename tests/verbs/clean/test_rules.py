"""The broker's retention rules, one table a rule: what starts a pass, which segments go, which files end too early."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from store.broker_line import LINE_4_9, LINE_5_3
from store.config import StoreConfig
from store.verbs.clean.rules import (
    HOUR_MS,
    Retention,
    SegmentAge,
    Trigger,
    count_expired,
    describe_limits,
    find_trigger,
    judge_segments,
)

NOW_MS = 1_700_000_000_000
HOUR = time.localtime(NOW_MS // 1000).tm_hour
OTHER_HOUR = (HOUR + 1) % 24
RETENTION = replace(Retention.of(StoreConfig(), LINE_4_9), hours_of_day=frozenset({OTHER_HOUR}))
STOPS = replace(RETENTION, stops_at_forced=True)
ON = Trigger(("requested by hand",), forced=False)
FORCED = Trigger(("the disk",), forced=True)
OFF = Trigger((), forced=False)


@pytest.mark.parametrize(
    ("settings", "most_used"),
    [
        (75, 0.75),
        (10, 0.10),
        (9, 0.10),
        (0, 0.10),
        (95, 0.95),
        (96, 0.95),
        (100, 0.95),
        (11, 0.11),
        (94, 0.94),
        (-1, 0.10),
        (150, 0.95),
    ],
)
def test_disk_max_used_space_ratio_is_clamped_to_10_and_95(settings: int, most_used: float) -> None:
    config = StoreConfig(disk_max_used_space_ratio=settings)
    assert Retention.of(config, LINE_4_9).most_used == most_used
    assert Retention.of(config, LINE_5_3).most_used == most_used


@pytest.mark.parametrize(
    ("settings", "of_4_9", "of_5_3"), [(85, 0.85, 0.85), (86, 0.86, 0.85), (29, 0.29, 0.30), (30, 0.3, 0.3)]
)
def test_the_forced_ratio_is_clamped_to_30_and_85_by_5_3_alone(settings: int, of_4_9: float, of_5_3: float) -> None:
    config = StoreConfig(disk_space_clean_forcibly_ratio=settings)
    assert Retention.of(config, LINE_4_9).forced_above == of_4_9
    assert Retention.of(config, LINE_5_3).forced_above == of_5_3


@pytest.mark.parametrize(
    ("settings", "of_4_9", "of_5_3"), [(90, 0.9, 0.9), (91, 0.91, 0.9), (34, 0.34, 0.35), (35, 0.35, 0.35)]
)
def test_the_ratio_of_a_full_disk_is_clamped_to_35_and_90_by_5_3_alone(
    settings: int, of_4_9: float, of_5_3: float
) -> None:
    config = StoreConfig(disk_space_warning_level_ratio=settings)
    assert Retention.of(config, LINE_4_9).full_above == of_4_9
    assert Retention.of(config, LINE_5_3).full_above == of_5_3


@pytest.mark.parametrize(
    ("used", "forced", "full", "of_4_9", "of_5_3"),
    [
        (75, 85, 90, [], []),
        (96, 85, 90, ["diskMaxUsedSpaceRatio=96 is taken as 95"], ["diskMaxUsedSpaceRatio=96 is taken as 95"]),
        (75, 99, 90, [], ["diskSpaceCleanForciblyRatio=99 is taken as 85"]),
        (75, 85, 20, [], ["diskSpaceWarningLevelRatio=20 is taken as 35"]),
    ],
)
def test_a_ratio_that_is_taken_as_another_is_described(
    used: int, forced: int, full: int, of_4_9: list[str], of_5_3: list[str]
) -> None:
    config = StoreConfig(
        disk_max_used_space_ratio=used, disk_space_clean_forcibly_ratio=forced, disk_space_warning_level_ratio=full
    )
    for line, expected in ((LINE_4_9, of_4_9), (LINE_5_3, of_5_3)):
        assert describe_limits(config, line) == [f"{text}, as a broker does" for text in expected]


def test_the_rest_of_the_retention_is_as_the_settings_say() -> None:
    config = StoreConfig(file_reserved_time=5, delete_file_batch_max=3, clean_file_forcibly_enable=False)
    found = Retention.of(config, LINE_4_9)
    assert (found.reserved_hours, found.batch_size, found.may_force, found.stops_at_forced) == (5, 3, False, False)
    assert found.hours_of_day == {4}
    assert Retention.of(config, LINE_5_3, reserved_hours=0).reserved_hours == 0
    assert Retention.of(config, LINE_5_3).stops_at_forced


# Shares used of the log's and of the queues' partition: reasons, forced.
SPACE = [
    (0.75, 0.75, 0, False),
    (0.76, 0.0, 1, False),
    (0.0, 0.76, 1, False),
    (0.85, 0.0, 1, False),
    (0.86, 0.0, 1, True),
    (0.95, 0.95, 1, True),
    (0.0, 0.85, 1, False),
    (0.0, 0.86, 1, True),
    (-1.0, 0.0, 1, False),
    (0.0, -1.0, 1, False),
    # The log's partition is a reason already: the queues' one is not looked at.
    (0.76, 0.99, 1, False),
    (-1.0, 0.99, 1, False),
]


@pytest.mark.parametrize(("log", "queues", "reasons", "forced"), SPACE)
def test_a_partition_that_is_too_full_starts_a_pass(log: float, queues: float, reasons: int, forced: bool) -> None:
    for retention in (RETENTION, replace(RETENTION, stops_at_forced=True)):
        found = find_trigger(retention, NOW_MS, log, queues)
        assert (len(found.reasons), found.forced, found.is_on) == (reasons, forced, bool(reasons))


@pytest.mark.parametrize(
    ("line_5", "log", "queues", "is_on"),
    [
        (False, 0.88, 0.0, False),
        (True, 0.88, 0.0, True),
        (False, 0.0, 0.88, False),
        (True, 0.0, 0.88, True),
        (True, 0.85, 0.85, False),
    ],
)
def test_a_forced_ratio_below_the_highest_use_starts_a_pass_of_5_3_alone(
    line_5: bool, log: float, queues: float, is_on: bool
) -> None:
    retention = replace(RETENTION, most_used=0.95, stops_at_forced=line_5)
    found = find_trigger(retention, NOW_MS, log, queues)
    assert found.is_on == is_on
    assert found.forced == (max(log, queues) > 0.85)


def test_without_clean_file_forcibly_enable_nothing_is_forced() -> None:
    found = find_trigger(replace(RETENTION, may_force=False), NOW_MS, 0.99, 0.99)
    assert (found.is_on, found.forced) == (True, False)


@pytest.mark.parametrize(
    ("retention", "log", "by_hand", "expected"),
    [
        (RETENTION, 0.0, False, ()),
        (RETENTION, 0.0, True, ("requested by hand",)),
        (replace(RETENTION, hours_of_day=frozenset({HOUR})), 0.0, False, (f"hour {HOUR:02d} is in deleteWhen",)),
        (RETENTION, 0.80, False, ("the partition of the commit log is 80% full, more than 75%",)),
        (STOPS, 0.80, False, ("the partition of the commit log is 80% full, more than 75%",)),
        (RETENTION, -1.0, False, ("the use of the partition of the commit log is unknown",)),
    ],
)  # fmt: skip
def test_a_trigger_names_its_reasons(
    retention: Retention, log: float, by_hand: bool, expected: tuple[str, ...]
) -> None:
    assert find_trigger(retention, NOW_MS, log, 0.0, by_hand=by_hand).reasons == expected


def judged(ages_in_hours: list[float], trigger: Trigger = ON, passes: int = 1, batch_size: int = 10) -> str:
    """One letter a segment of 100 bytes, oldest first: D goes, k is kept."""
    segments = [SegmentAge(str(i), int(NOW_MS - age * HOUR_MS), 100) for i, age in enumerate(ages_in_hours)]
    found = judge_segments(segments, trigger, replace(RETENTION, batch_size=batch_size), NOW_MS, passes)
    return "".join("D" if verdict.goes else "k" for verdict in found)


@pytest.mark.parametrize(
    ("ages", "trigger", "expected"),
    [
        ([], ON, ""),
        ([100], ON, "k"),
        ([100], FORCED, "k"),
        ([100, 100], ON, "Dk"),
        ([72, 1], ON, "Dk"),
        ([71.99, 1], ON, "kk"),
        ([100, 100, 1], OFF, "kkk"),
        ([100, 1, 100, 1], ON, "Dkkk"),
        ([1, 100, 100], ON, "kkk"),
        ([1, 1, 1], FORCED, "DDk"),
        ([-5, 1], ON, "kk"),
        ([-5, 1], FORCED, "Dk"),
    ],
)
def test_segments_go_from_the_oldest_and_never_the_last(ages: list[float], trigger: Trigger, expected: str) -> None:
    assert judged(ages, trigger) == expected


@pytest.mark.parametrize(
    ("count", "passes", "batch_size", "deleted"),
    [(9, 1, 10, 8), (11, 1, 10, 10), (12, 1, 10, 10), (30, 2, 10, 20), (30, 3, 10, 29), (5, 1, 1, 1), (5, 2, 1, 2)],
)
def test_a_pass_deletes_at_most_its_batch(count: int, passes: int, batch_size: int, deleted: int) -> None:
    assert judged([100] * count, ON, passes, batch_size) == "D" * deleted + "k" * (count - deleted)


@pytest.mark.parametrize(
    ("enough", "at_any_age", "expected"),
    [
        (1, True, "Dkkkk"),
        (100, True, "Dkkkk"),
        (101, True, "DDkkk"),
        (400, True, "DDDDk"),
        (401, True, "DDDDk"),
        (100, False, "Dkkkk"),
        (400, False, "DDkkk"),
    ],
)
def test_bytes_to_free_take_the_place_of_a_batch(enough: int, at_any_age: bool, expected: str) -> None:
    assert judged([100, 100, 1, 1, 0], Trigger(("by hand",), at_any_age, enough), batch_size=1) == expected


def test_a_verdict_names_its_rule() -> None:
    segments = [
        SegmentAge(name, NOW_MS - hours * HOUR_MS, 100) for name, hours in (("a", 100), ("b", 1), ("c", 100), ("d", 0))
    ]
    rules = [verdict.rule for verdict in judge_segments(segments, ON, RETENTION, NOW_MS)]
    assert rules == [
        "modified 100.0 hours ago, kept for 72",
        "modified 1.0 hours ago, kept for 72",
        "an older segment is kept (b)",
        "the last segment is never deleted",
    ]
    assert judge_segments(segments, OFF, RETENTION, NOW_MS)[0].rule == "no trigger is active"
    assert judge_segments(segments, FORCED, RETENTION, NOW_MS)[1].rule == "the disk is too full for retention to count"
    asked = [verdict.rule for verdict in judge_segments(segments, Trigger(("by hand",), True, 150), RETENTION, NOW_MS)]
    assert asked[1:3] == ["requested by hand, at any age", "older segments have the bytes requested"]
    one = replace(RETENTION, batch_size=1)
    old = [replace(segment, mtime_ms=0) for segment in segments]
    assert judge_segments(old, ON, one, NOW_MS)[1].rule == "at most 1 file in 1 pass"
    assert judge_segments(old, ON, one, NOW_MS, 2)[2].rule == "at most 2 files in 2 passes"


@pytest.mark.parametrize(
    ("ends", "log_start", "count"),
    [
        ([], 100, 0),
        ([50], 100, 0),
        ([50, 60], 100, 1),
        ([50, 60, 70], 100, 2),
        ([50, 100, 120], 100, 1),
        ([99, 120], 100, 1),
        ([100, 120], 100, 0),
        ([120, 50, 60], 100, 0),
        ([50, 120, 60, 130], 100, 1),
    ],
)
def test_files_that_end_before_the_log_go_from_the_oldest_and_never_the_last(
    ends: list[int], log_start: int, count: int
) -> None:
    assert count_expired(ends, log_start) == count


@pytest.mark.parametrize("hours_later", range(0, 24, 5))
def test_the_hour_is_that_of_the_local_time(hours_later: int) -> None:
    now_ms = NOW_MS + hours_later * HOUR_MS
    for hour in range(24):
        found = find_trigger(replace(RETENTION, hours_of_day=frozenset({hour})), now_ms, 0.0, 0.0)
        assert found.is_on == (hour == time.localtime(now_ms / 1000).tm_hour)


@pytest.mark.parametrize(("age_ms", "goes"), [(72 * 3_600_000, True), (72 * 3_600_000 - 1, False)])
def test_a_segment_expires_at_the_millisecond(age_ms: int, goes: bool) -> None:
    segments = [SegmentAge("a", NOW_MS - age_ms, 100), SegmentAge("b", NOW_MS, 100)]
    assert judge_segments(segments, ON, RETENTION, NOW_MS)[0].goes == goes


def test_reasons_name_the_ratio_that_counts_and_ages_have_a_decimal() -> None:
    wide = replace(RETENTION, most_used=0.95)
    assert "more than 85%" in find_trigger(replace(wide, stops_at_forced=True), NOW_MS, 0.96, 0.0).reasons[0]
    assert "more than 95%" in find_trigger(wide, NOW_MS, 0.96, 0.0).reasons[0]
    half = [SegmentAge("a", NOW_MS - 5_400_000, 100), SegmentAge("b", NOW_MS, 100)]
    assert judge_segments(half, ON, RETENTION, NOW_MS)[0].rule == "modified 1.5 hours ago, kept for 72"


@pytest.mark.parametrize(
    ("used", "of_4_9", "of_5_3"),
    [(-0.01, True, True), (0.0, False, False), (0.4, False, False), (0.41, False, True), (0.6, False, True),
     (0.61, True, True)],
)  # fmt: skip
def test_space_is_short_above_the_ratio_and_in_5_3_above_the_forced_one(
    used: float, of_4_9: bool, of_5_3: bool
) -> None:
    found = [replace(one, most_used=0.6, forced_above=0.4).is_short(used) for one in (RETENTION, STOPS)]
    assert found == [of_4_9, of_5_3]
