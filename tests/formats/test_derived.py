"""Files as arrays over their bytes: units, entries, fillers, and leading units that have expired."""

from __future__ import annotations

import numpy as np
import pytest

from store.formats.derived import UNIT_DTYPE, entries_of, expired_count, is_of_record, is_pre_blank, units_of
from store.formats.index_page import IndexEntry
from store.formats.queue_unit import PRE_BLANK, QueueUnit


@pytest.mark.parametrize(("size", "count"), [(0, 0), (19, 0), (20, 1), (39, 1), (40, 2)])
def test_a_file_has_as_many_units_as_fit_whole(size: int, count: int) -> None:
    data = QueueUnit(5, 6, 7).encode() + QueueUnit(8, 9, -1).encode()
    assert units_of(data[:size]).tolist() == [(5, 6, 7), (8, 9, -1)][:count]


@pytest.mark.parametrize(
    ("size", "asked", "count"), [(0, 3, 0), (59, 3, 2), (60, 3, 3), (60, 2, 2), (60, 9, 3), (60, 0, 0)]
)
def test_an_index_has_the_entries_that_are_asked_for_and_fit(size: int, asked: int, count: int) -> None:
    entries = [IndexEntry(1, 2, 3, 4), IndexEntry(5, 6, 7, 8), IndexEntry(-1, 9, 0, 0)]
    data = bytes(40 + 4 * 7) + b"".join(one.encode() for one in entries)[:size]
    assert entries_of(data, 7, asked).tolist() == [tuple(one) for one in entries[:count]]


UNITS = [
    PRE_BLANK,
    QueueUnit(0, PRE_BLANK.size, 1),
    QueueUnit(1, PRE_BLANK.size, 0),
    QueueUnit(0, PRE_BLANK.size - 1, 0),
]


@pytest.mark.parametrize(
    ("unit", "is_one"),
    [
        (QueueUnit(0, 1, 0), True), (QueueUnit(-1, 1, 0), False), (QueueUnit(0, 0, 0), False),
        (QueueUnit(5, -1, 0), False), (QueueUnit(5, 1, -1), True), (PRE_BLANK, False),
    ],
)  # fmt: skip
def test_a_unit_of_a_record_is_written_and_not_pre_blank(unit: QueueUnit, is_one: bool) -> None:
    assert is_of_record(units_of(unit.encode())).tolist() == [is_one]


def test_a_pre_blank_unit_is_one_in_all_of_its_fields() -> None:
    assert is_pre_blank(units_of(b"".join(one.encode() for one in UNITS))).tolist() == [True, False, False, False]


FILLER = (0, PRE_BLANK.size, 0)


@pytest.mark.parametrize(
    ("rows", "log_start", "count"),
    [
        ([], 100, 0),
        ([(0, 50, 0), (50, 50, 0)], 0, 0),
        ([(0, 50, 0), (50, 50, 0)], 49, 0),
        ([(0, 50, 0), (50, 50, 0)], 50, 1),
        ([(0, 50, 0), (50, 50, 0)], 99, 1),
        ([(0, 50, 0), (50, 50, 0)], 100, 2),
        ([(100, 50, 0), (0, 50, 0)], 60, 0),
        ([(-1, 50, 0), (0, 50, 0)], 60, 0),
        ([(0, 0, 0), (0, 50, 0)], 60, 0),
        ([FILLER, FILLER], 1 << 40, 0),
        ([FILLER, (0, 50, 0), (50, 50, 0)], 50, 2),
        ([FILLER, (0, 50, 0), (50, 50, 0)], 49, 0),
    ],
)
def test_leading_units_expire_with_fillers_before_them(
    rows: list[tuple[int, int, int]], log_start: int, count: int
) -> None:
    units = np.array(rows, UNIT_DTYPE)
    assert expired_count(units, is_pre_blank(units), log_start) == count
