"""The literal that a regular expression needs is in each of its matches."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.verbs.find.literal import required_literal

PIECES = ["a", "bc", "needle", ".", "*", "+", "?", "{2}", "{0,1}", "{", "}", "|", "(", ")", "[ab]", "\\d", "\\."]
PIECES += ["\\x61", "^", "$", "\\b", "(?i)", "(?=a)", "\\", ",", "\u00e4"]


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("nothing.like.this", "nothing"),
        (r"amount: \d{4}", "amount: "),
        ("ab*cde", "cde"),
        ("abc{0,2}", "ab"),
        (r"1\.25 euros", "25 euros"),
        ("^start", "start"),
        ("one|other", ""),
        ("(?i)case", ""),
        (r"\x61bc", ""),
        ("[abc]def", ""),
    ],
)
def test_it_is_the_longest_piece_that_no_match_lacks(pattern: str, literal: str) -> None:
    assert required_literal(pattern.encode()) == literal.encode()


@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join), st.text("abcdeln,{}.1A\u00e4", max_size=30))
def test_no_match_is_without_it(pattern: str, text: str) -> None:
    try:
        compiled = re.compile(pattern.encode())
    except re.error:
        return
    match = compiled.search(text.encode())
    assert match is None or required_literal(pattern.encode()) in match.group()
