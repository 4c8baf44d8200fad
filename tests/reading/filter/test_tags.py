"""Tag expressions: parsed as the client does, matched by hash as the broker does and by text as the client does."""

from __future__ import annotations

import pytest

from store.errors import BadRequest
from store.formats.java import string_hash
from store.reading.filter import TagExpression


@pytest.mark.parametrize("text", ["*", ""])
def test_a_star_and_nothing_match_every_message(text: str) -> None:
    expression = TagExpression(text)
    assert expression.matches_tags_code(0)
    assert expression.matches_properties({})


@pytest.mark.parametrize("text", ["A||B", " A || B ", "A || B ||", "|| B||A"])
def test_spaces_and_empty_parts_do_not_matter(text: str) -> None:
    assert TagExpression(text).tags == {"A", "B"}


def test_a_unit_matches_by_the_low_32_bits_of_its_tags_code() -> None:
    expression = TagExpression("polygenelubricants || x")
    assert string_hash("polygenelubricants") == -(1 << 31)
    assert expression.matches_tags_code(-(1 << 31))
    assert expression.matches_tags_code(1 << 31)
    assert not expression.matches_tags_code(0)


def test_tags_with_the_same_hash_are_told_apart_by_their_text() -> None:
    expression = TagExpression("Aa")
    assert expression.matches_tags_code(string_hash("BB"))
    assert not expression.matches_properties({"TAGS": "BB"})
    assert expression.matches_properties({"TAGS": "Aa"})


def test_a_message_without_tags_matches_no_tag() -> None:
    assert not TagExpression("A").matches_properties({})


@pytest.mark.parametrize("text", ["||", " ", " || || "])
def test_an_expression_without_a_tag_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="has no tag"):
        TagExpression(text)
