"""find_text finds what bytes.find finds."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from store import kernels

FEW_LETTERS = st.binary(max_size=90).map(lambda data: bytes(value % 3 for value in data))


@given(FEW_LETTERS, FEW_LETTERS.filter(len), st.integers(-2, 95), st.integers(-2, 95))
@example(b"xDELAY", b"DELAY", 0, 6)
@example(b"xDELAY", b"DELAY", 0, 5)
@example(b"xDELAY", b"x", 0, -1)
@example(b"xDELAYx", b"x", -1, 7)
def test_it_finds_the_first_place_between_two_bounds(data: bytes, text: bytes, start: int, stop: int) -> None:
    first, last = max(start, 0), min(max(stop, 0), len(data))
    assert kernels.find_text(data, text, start, stop) == data.find(text, first, last)


def test_an_empty_text_is_nowhere() -> None:
    assert kernels.find_text(b"abc", b"", 0, 3) == -1
