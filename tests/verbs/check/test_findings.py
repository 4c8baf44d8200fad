"""How findings are grouped and sorted, where a log has no segment, and searches in rising columns."""

from __future__ import annotations

import numpy as np
import pytest

from store.structures.findings import (
    BAD_CRC,
    KINDS,
    MISSING_UNIT,
    UNIT_NOWHERE,
    Finding,
    by_place,
    effect_on_start,
    group_findings,
)
from store.structures.index import rising
from store.structures.index.rising import RisingOffsets


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
