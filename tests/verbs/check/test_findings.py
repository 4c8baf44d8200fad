"""How findings are grouped and sorted, where a log has no segment, and searches in rising columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from store.files.store_reader import StoredFile, StoreReader
from store.structures.findings import (
    BAD_CRC,
    KINDS,
    MISSING_SEGMENT,
    MISSING_UNIT,
    UNIT_NOWHERE,
    WRONG_SIZE,
    Finding,
    by_place,
    effect_on_start,
    group_findings,
)
from store.structures.index import rising
from store.structures.index.rising import RisingOffsets
from store.verbs.check.coverage import LogExtent, segment_list_findings


def test_findings_of_kinds_that_come_in_masses_are_one_for_each_place() -> None:
    found = [
        Finding(MISSING_UNIT, "b", 9, "T", 0, 2, "late"),
        Finding(MISSING_UNIT, "b", 7, "T", 0, 3, "z"),
        Finding(MISSING_UNIT, "b", 7, "T", 0, 1, "a"),
        Finding(MISSING_UNIT, "b", 7, "T", 1),
        Finding(MISSING_UNIT, "b", 7, "U", 0),
        Finding(UNIT_NOWHERE, "b", 7, "T", 0),
        Finding(MISSING_UNIT, "a", 8, "T", 0),
        Finding(BAD_CRC, "a", 8),
        Finding(BAD_CRC, "a", 5),
        Finding(BAD_CRC, "a", 5),
    ]
    assert group_findings(found) == group_findings(reversed(found)) == [
        Finding(BAD_CRC, "a", 5),
        Finding(BAD_CRC, "a", 5),
        Finding(BAD_CRC, "a", 8),
        Finding(MISSING_UNIT, "a", 8, "T", 0),
        Finding(MISSING_UNIT, "b", 7, "T", 0, 6, "a"),
        Finding(MISSING_UNIT, "b", 7, "T", 1),
        Finding(MISSING_UNIT, "b", 7, "U", 0),
        Finding(UNIT_NOWHERE, "b", 7, "T", 0),
    ]  # fmt: skip


def test_findings_are_sorted_by_place_and_then_by_what_people_see() -> None:
    one = Finding(MISSING_UNIT, "b", 7, "T", 0, detail="a")
    assert by_place(one) == ("b", 7, "b", MISSING_UNIT, "T", 0, "a")
    assert Finding(BAD_CRC, "b", 7).place == ("b", BAD_CRC, "", -1)
    assert (KINDS[BAD_CRC].is_single, KINDS[MISSING_UNIT].is_single) == (True, False)


@pytest.mark.parametrize(
    ("size", "is_last", "effect"),
    [
        (0, True, "a 4.9 broker does not start with it, a 5.3 one deletes it"),
        (1, True, "no broker starts with it"),
        (0, False, "no broker starts with it"),
    ],
)
def test_an_empty_last_file_stops_4_9_alone(size: int, is_last: bool, effect: str) -> None:
    assert effect_on_start(size, is_last=is_last) == effect


def segments(*places: tuple[int, int]) -> list[StoredFile]:
    return [StoredFile(f"commitlog/{start:020d}", start, size, 0) for start, size in places]


@pytest.mark.parametrize(
    ("places", "usual", "found"),
    [
        ([(0, 100), (100, 100)], 0, []),
        ([(100, 100), (200, 100)], 0, []),
        ([(0, 100), (101, 100)], 0, [(MISSING_SEGMENT, 100, "the log goes from 100 to 101: 1 byte is not there")]),
        ([(0, 100), (300, 100)], 0, [(MISSING_SEGMENT, 100, "the log goes from 100 to 300: 200 bytes are not there")]),
        ([(0, 100), (100, 99)], 0, [(WRONG_SIZE, 100, "99 bytes, expected 100; no broker starts with it")]),
        ([(0, 99)], 100, [(WRONG_SIZE, 0, "99 bytes, expected 100; no broker starts with it")]),
        ([(0, 99)], 0, []),
    ],
)
def test_segments_have_one_size_and_no_gaps(
    places: list[tuple[int, int]], usual: int, found: list[tuple[str, int, str]], tmp_path: Path
) -> None:
    rows = segment_list_findings(StoreReader(str(tmp_path)), segments(*places), usual)
    assert [(row.kind, row.offset, row.detail) for row in rows] == found


def missed(log: LogExtent, *offsets: int) -> list[int]:
    return [offset for offset in offsets if log.misses(np.array([offset]))[0]]


PLACES = (0, 99, 100, 199, 200, 299, 300, 399, 400)


@pytest.mark.parametrize(
    ("held", "horizon", "start", "missing"),
    [
        ([(100, 100), (300, 100)], None, 100, [200, 299, 400]),
        ([(100, 100), (300, 100)], 299, 100, [200]),
        ([(100, 100), (300, 100)], 400, 100, [200, 299]),
        ([], None, 0, [*PLACES]),
        ([], 300, 0, [0, 99, 100, 199, 200, 299]),
    ],
)
def test_offsets_in_no_segment_are_missed_but_for_expired_ones_and_a_writers(
    held: list[tuple[int, int]], horizon: int | None, start: int, missing: list[int]
) -> None:
    log = LogExtent(segments(*held), horizon)
    assert (log.start, missed(log, *PLACES)) == (start, missing)


@pytest.mark.parametrize(
    ("held", "low", "high", "may"),
    [
        ([(0, 100), (100, 100)], 0, 199, False),
        ([(0, 100), (100, 100)], 0, 200, True),
        ([(0, 100), (101, 100)], 0, 50, True),
        ([(100, 100)], 0, 150, False),
    ],
)
def test_a_range_inside_an_unbroken_run_misses_nothing(
    held: list[tuple[int, int]], low: int, high: int, may: bool
) -> None:
    assert LogExtent(segments(*held)).may_miss(np.array([low]), np.array([high])).tolist() == [may]


@pytest.mark.parametrize("at_once", [1, 2, 3, 1000])
def test_a_rising_column_is_searched_from_the_place_of_the_last_search(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rising, "_ROWS_AT_ONCE", at_once)
    column = np.array([10, 20, 20, 30, 50, 50, 70, 90, 110, 130])
    read: set[int] = set()
    for asked in ([5, 10, 11, 20, 21, 50, 130, 131], [131, 50, 49, 5], [20, 20, 70]):
        search = RisingOffsets(column, lambda first, behind: read.update(range(first, behind)))
        for log_offset in asked:
            row = search.row_of(log_offset)
            assert row == int(np.searchsorted(column, log_offset))
            assert search.found == (row, log_offset)
    assert read <= set(range(len(column)))
