"""Gaps of a salvaged log, one table: which file has them, where in it, and why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.formats.message import RECORD_MIN_SIZE
from store.verbs.salvage.grade import BlankEnd, SalvagedRun, Skipped
from store.verbs.salvage.log_gaps import Gap, LogCoverage, PlacedSource

SIZE = 1000


def run(file: str, start: int, stop: int, file_start: int) -> SalvagedRun:
    """Records over log offsets [start, stop) of a file that begins at `file_start`."""
    placed = SimpleNamespace(start=start, end=stop, file_start=file_start)
    return cast("SalvagedRun", SimpleNamespace(file=file, run=placed))


def source(start: int, stop: int = SIZE, size: int = SIZE) -> PlacedSource:
    """A segment of which `size` bytes are there, and nothing but zeros behind `stop`."""
    found: Any = SimpleNamespace(name=f"{start:020d}", window=SimpleNamespace(size=size), stop=stop, limit=start + SIZE)
    return found, start


A, B, C = (f"{n * SIZE:020d}" for n in range(3))
MISSING = "the file is missing"


def gaps(covered: list[tuple[str, int, int]], sources: list[PlacedSource], end: int, *skipped: Skipped) -> list[Gap]:
    coverage = LogCoverage()
    for file, start, stop in covered:
        coverage.add_run(run(file, start, stop, int(file)))
    for one in skipped:
        coverage.add_skipped(one)
    return coverage.gaps(sources, min((start for one, start in sources if one.stop), default=end), end)


@pytest.mark.parametrize(
    ("covered", "sources", "end", "found"),
    [
        ([(A, 0, SIZE)], [source(0)], SIZE, []),
        ([(A, 0, 500), (A, 500 + RECORD_MIN_SIZE - 1, SIZE)], [source(0)], SIZE, []),
        (
            [(A, 0, 500), (A, 500 + RECORD_MIN_SIZE, SIZE)],
            [source(0)],
            SIZE,
            [Gap(A, 500, 500, 500 + RECORD_MIN_SIZE, "bytes were removed from the file")],
        ),
        ([(A, 0, 500)], [source(0, stop=500)], 500 + RECORD_MIN_SIZE - 1, []),
        (
            [(A, 0, 500)],
            [source(0, stop=500)],
            500 + RECORD_MIN_SIZE,
            [Gap(A, 500, 500, 500 + RECORD_MIN_SIZE, "zeros")],
        ),
        ([(A, 200, SIZE)], [source(0)], SIZE, [Gap(A, 0, 0, 200, "bytes were removed from the file")]),
        (
            [(A, 0, 500)],
            [source(0, stop=500, size=500)],
            SIZE,
            [Gap(A, None, 500, SIZE, "the file ends at 500: it was cut")],
        ),
        ([(A, 0, SIZE), (C, 2000, 3000)], [source(0), source(2000)], 3000, [Gap(B, None, SIZE, 2000, MISSING)]),
        (
            [(A, 0, SIZE), (f"{3 * SIZE:020d}", 3000, 4000)],
            [source(0), source(3000)],
            4000,
            [Gap(B, None, SIZE, 3000, f"2 files are missing, up to {C}")],
        ),
        ([(A, 0, SIZE)], [source(0)], 2000, [Gap(B, None, SIZE, 2000, MISSING)]),
        ([(A, 0, SIZE)], [source(0)], 2001, [Gap(B, None, SIZE, 2001, f"2 files are missing, up to {C}")]),
        (
            [(A, 0, 500), (C, 2500, 3000)],
            [source(0, stop=500), source(2000)],
            3000,
            [
                Gap(A, 500, 500, SIZE, "zeros"),
                Gap(B, None, SIZE, 2000, MISSING),
                Gap(C, 0, 2000, 2500, "bytes were removed from the file"),
            ],
        ),
        ([(B, 1000, 2000)], [source(1000)], 2000, []),
        (
            [(B, 1000, 2000)],
            [source(1000)],
            4000,
            [Gap(C, None, 2000, 4000, f"2 files are missing, up to {3 * SIZE:020d}")],
        ),
        ([], [source(0, stop=0)], 0, []),
        (
            [(A, 0, SIZE), (f"{3 * SIZE:020d}", 3500, 4000)],
            [source(0), source(3000)],
            4000,
            [
                Gap(B, None, SIZE, 3000, f"2 files are missing, up to {C}"),
                Gap(f"{3 * SIZE:020d}", 0, 3000, 3500, "bytes were removed from the file"),
            ],
        ),
        (
            [(A, 0, 500)],
            [source(0, stop=1200, size=1200)],
            1200,
            [Gap(A, 500, 500, 1200, "bytes were removed from the file")],
        ),
    ],
)
def test_each_gap_names_its_file_and_the_reason(
    covered: list[tuple[str, int, int]], sources: list[PlacedSource], end: int, found: list[Gap]
) -> None:
    assert gaps(covered, sources, end) == found
    assert gaps(covered[::-1], sources, end) == found


@pytest.mark.parametrize(("log_offset", "reason"), [(499, None), (500, "noise"), (699, "noise"), (700, None)])
def test_a_gap_in_which_the_walk_skipped_bytes_has_their_place_and_reason(log_offset: int, reason: str | None) -> None:
    skipped = Skipped(A, 555, 560, log_offset, "noise")
    found = gaps([(A, 0, 500), (A, 700, SIZE)], [source(0)], SIZE, skipped)
    expected = Gap(A, 555, 500, 700, reason) if reason else Gap(A, 500, 500, 700, "bytes were removed from the file")
    assert found == [expected]
    coverage = LogCoverage()
    coverage.add_skipped(skipped)
    assert coverage.unlisted(found) == ([] if reason else [skipped])


def test_the_end_is_behind_the_last_covered_or_damaged_byte() -> None:
    coverage = LogCoverage()
    assert (coverage.end, coverage.covered_end) == (-1, -1)
    coverage.add_run(run(A, 0, 500, 0))
    coverage.add_skipped(Skipped(A, 600, 650, 600, ""))
    assert (coverage.end, coverage.covered_end) == (650, 500)
    coverage.add_blank(BlankEnd(A, 900, 900, 100))
    assert (coverage.end, coverage.covered_end) == (SIZE, SIZE)
    assert Gap(A, 5, 10, 25, "").size == 15


def test_a_gap_goes_on_in_the_file_whose_records_reached_it_first() -> None:
    coverage = LogCoverage()
    # Bytes were put into the first file; the second has a copy of its last records.
    coverage.add_run(run(A, 0, 500, -20))
    coverage.add_run(run(B, 300, 500, 300))
    coverage.add_run(run(A, 700, SIZE, -20))
    assert coverage.gaps([source(0)], 0, SIZE) == [Gap(A, 520, 500, 700, "bytes were removed from the file")]


def test_a_gap_after_a_blank_or_in_a_shifted_file_has_its_place_there() -> None:
    coverage = LogCoverage()
    coverage.add_run(run(A, 0, 500, 0))
    coverage.add_blank(BlankEnd(A, 520, 500, 100))
    coverage.add_run(run(B, 1000, 1500, 980))
    found = coverage.gaps([source(0), source(1000)], 0, 2000)
    reason = "bytes were removed from the file"
    assert found == [Gap(A, 620, 600, 1000, reason), Gap(B, 520, 1500, 2000, reason)]
