"""The property string: the broker's reading rule, and text that survives both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.properties import decode_properties, encode_properties, split_keys
from tests.support.golden import WITH_ANSWERS, golden, stored_properties

words = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        (b"", {}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01b\x02", {"a": "b"}),
        (b"a\x01\x02c\x01d", {"c": "d"}),
        (b"\x01b\x02c\x01d", {"c": "d"}),
        (b"no separator\x02c\x01d", {"c": "d"}),
        (b"c\x01first\x02c\x01last", {"c": "last"}),
        (b"a\x01b\x01c", {"a": "b\x01c"}),
    ],
)
def test_reading_follows_the_brokers_rule(stored: bytes, read: dict[str, str]) -> None:
    assert decode_properties(stored) == read


@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_the_map_is_the_one_the_broker_saw(name: str) -> None:
    for _, answer in golden(name).asked("get"):
        for message in answer["messages"]:
            raw = golden(name).record(message["commitLogOffset"])
            assert decode_properties(stored_properties(raw)) == message["properties"]


@given(st.dictionaries(words, words, max_size=8))
def test_reading_undoes_writing(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


def test_keys_are_split_at_single_spaces_and_empty_ones_skipped() -> None:
    assert list(split_keys(" a  b c ")) == ["a", "b", "c"]
