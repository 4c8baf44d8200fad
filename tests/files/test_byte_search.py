"""Positions of bytes within bounds, by libc and without it."""

from __future__ import annotations

import pytest

from store.files import byte_search
from store.files.byte_search import find_bytes

DATA = memoryview(b"ab.aab..aaaa")


@pytest.mark.parametrize("has_libc", [True, False])
@pytest.mark.parametrize(
    ("needle", "start", "stop", "found"),
    [
        (b"ab", 0, 12, [0, 4]),
        (b"ab", 1, 12, [4]),
        (b"ab", 4, 6, [4]),
        (b"ab", 4, 5, []),
        (b"ab", 0, 0, []),
        (b"aa", 0, 12, [3, 8, 10]),
        (b"aa", 9, 12, [9]),
        (b".", 2, 8, [2, 6, 7]),
        (b".", 3, 7, [6]),
        (b"x", 0, 12, []),
        (b"a", 11, 12, [11]),
    ],
)
def test_hits_are_within_the_bounds_and_do_not_overlap(
    has_libc: bool, needle: bytes, start: int, stop: int, found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_libc:
        monkeypatch.setattr(byte_search, "_MEMMEM", None)
    assert list(find_bytes(DATA, needle, start, stop)) == found
