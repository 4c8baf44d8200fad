"""Whether the segments lie end to end, each of the same size."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.store_reader import StoredFile, StoreReader
from store.structures.commitlog.segment_list import segment_list_findings
from store.structures.findings import EMPTY_SEGMENT, FOREIGN_FILE, MISSING_SEGMENT, ODD_SIZE, WRONG_SIZE

EMPTY = "a 4.9 broker does not start with it, a 5.3 one deletes it"


TOO_LARGE = "and a segment has 2147483647 at most; no broker starts with it"


def odd(size: int) -> str:
    unless = f"unless its mappedFileSizeCommitLog is {size}, no broker starts with it"
    return f"as few brokers give a segment, and no other file shows the size: {unless}"


def segments(*places: tuple[int, int]) -> list[StoredFile]:
    return [StoredFile(f"commitlog/{start:020d}", start, size, 0) for start, size in places]


@pytest.mark.parametrize(
    ("places", "usual", "found"),
    [
        ([(0, 100), (100, 100)], 0, []),
        ([(100, 100), (200, 100)], 0, []),
        ([(0, 100), (101, 100)], 0, [(MISSING_SEGMENT, 100, "the log goes from 100 to 101: 1 byte is not there")]),
        ([(0, 100), (300, 100)], 0, [(MISSING_SEGMENT, 100, "the log goes from 100 to 300: 200 bytes are not there")]),
        (
            [(0, 100), (99, 100), (200, 100)],
            0,
            [
                (FOREIGN_FILE, 99, "begins at 99, inside of the segment before it, which ends at 100"),
                (MISSING_SEGMENT, 199, "the log goes from 199 to 200: 1 byte is not there"),
            ],
        ),
        (
            [(0, 100), (7, 10), (100, 100)],
            0,
            [
                (WRONG_SIZE, 7, "10 bytes, expected 100; no broker starts with it"),
                (FOREIGN_FILE, 7, "begins at 7, inside of the segment before it, which ends at 100"),
            ],
        ),
        *(
            (
                [(0, size), (100, 100), (200, 100)],
                0,
                [(WRONG_SIZE, 0, f"{size} bytes, expected 100; no broker starts with it")],
            )
            for size in (1, 99, 101, 120, 250)
        ),
        (
            [(0, 101), (101, 100), (201, 100)],
            0,
            [(WRONG_SIZE, 0, "101 bytes, expected 100; no broker starts with it")],
        ),
        (
            [(0, 80), (90, 100), (190, 100)],
            0,
            [
                (WRONG_SIZE, 0, "80 bytes, expected 100; no broker starts with it"),
                (MISSING_SEGMENT, 80, "the log goes from 80 to 90: 10 bytes are not there"),
            ],
        ),
        ([(0, 100), (100, 99)], 0, [(WRONG_SIZE, 100, "99 bytes, expected 100; no broker starts with it")]),
        ([(0, 99)], 100, [(WRONG_SIZE, 0, "99 bytes, expected 100; no broker starts with it")]),
        ([(0, 99)], 99, []),
        ([(0, 1000)], 0, [(ODD_SIZE, 0, f"1000 bytes, {odd(1000)}")]),
        ([(0, 1044)], 0, [(ODD_SIZE, 0, f"1044 bytes, {odd(1044)}")]),
        ([(0, 1024)], 0, []),
        *(([(0, size)], 0, []) for size in (1 << 30, 100 << 20, 1500 << 20, 4_096_000)),
        *(
            ([(0, size)], 0, [(ODD_SIZE, 0, f"{size} bytes, {odd(size)}")])
            for size in ((1 << 30) - 4096, (1 << 30) + 1024, (100 << 20) - 1024)
        ),
        *(([(0, size)], 0, [(WRONG_SIZE, 0, f"{size} bytes, {TOO_LARGE}")]) for size in (1 << 31, 5 << 30)),
        (
            [(0, 1 << 31), (1 << 31, 1 << 31)],
            0,
            [(WRONG_SIZE, start, f"{1 << 31} bytes, {TOO_LARGE}") for start in (0, 1 << 31)],
        ),
        (
            [(0, 1 << 31), (1 << 31, 1024)],
            0,
            [(WRONG_SIZE, 0, f"{1 << 31} bytes, expected 1024, {TOO_LARGE}")],
        ),
        ([(2048, 1024)], 0, []),
        ([(1024, 2048)], 0, [(ODD_SIZE, 1024, f"2048 bytes, {odd(2048)}")]),
        ([(0, 100), (100, 0)], 0, [(EMPTY_SEGMENT, 100, f"0 bytes, expected 100; {EMPTY}")]),
        ([(7, 0)], 0, [(EMPTY_SEGMENT, 7, f"0 bytes; {EMPTY}")]),
        (
            [(0, 0), (100, 100)],
            0,
            [
                (ODD_SIZE, 100, f"100 bytes, {odd(100)}"),
                (WRONG_SIZE, 0, "0 bytes, expected 100; no broker starts with it"),
                (MISSING_SEGMENT, 0, "the log goes from 0 to 100: 100 bytes are not there"),
            ],
        ),
    ],
)
def test_segments_have_one_size_and_lie_end_to_end(
    places: list[tuple[int, int]], usual: int, found: list[tuple[str, int, str]], tmp_path: Path
) -> None:
    rows = segment_list_findings(StoreReader(str(tmp_path)), segments(*places), usual)
    assert [(row.kind, row.offset, row.detail) for row in rows] == found
