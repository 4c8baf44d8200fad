"""The filter of a key: a message has it among its keys, or as its unique key."""

from __future__ import annotations

import pytest

from store.reading.filter import KeyExpression


@pytest.mark.parametrize(
    ("properties", "has_it"),
    [
        ({"KEYS": "k1"}, True),
        ({"KEYS": "a k1 b"}, True),
        ({"KEYS": "k12 k"}, False),
        ({"UNIQ_KEY": "k1"}, True),
        ({"TAGS": "k1"}, False),
        ({}, False),
    ],
)
def test_a_key_matches_as_a_whole(properties: dict[str, str], has_it: bool) -> None:
    assert KeyExpression("k1").matches_properties(properties) is has_it


def test_no_unit_tells_keys() -> None:
    assert KeyExpression("k1").matches_tags_code(0)
