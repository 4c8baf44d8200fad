"""The property string: the broker's reading rule, and text that survives both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.properties import (
    decode_properties,
    delay_level,
    encode_java_map,
    encode_properties,
    java_map_order,
    says_no_wait,
    split_keys,
)
from store.formats.topics import topic_fault
from store.formats.wording import amount, amount_is
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


# Hash codes of one letter are 97 to 122; of a map of 16 the first three quarters fill it.
LETTERS = [chr(code) for code in range(97, 110)]


@pytest.mark.parametrize(("count", "first"), [(12, "p"), (13, "`")])
def test_a_map_doubles_above_three_quarters(count: int, first: str) -> None:
    names = [*LETTERS[: count - 2], "p", "`"]
    order = java_map_order(names, 16)
    assert order == sorted(names, key=lambda name: ord(name) % (16 if count == 12 else 32))
    assert order[0] == first


def test_the_high_half_of_a_hash_code_counts_in_a_map() -> None:
    # Their hash codes are 99162322 and 113318802 (java.lang.String).
    assert java_map_order(["hello", "world"], 16) == ["world", "hello"]


# Letters a and p have the hash codes 97 and 112.
@pytest.mark.parametrize(
    ("ends", "capacity", "text"),
    [(True, None, b"a\x01v\x02p\x01v\x02"), (False, None, b"p\x01v\x02a\x01v"), (True, 16, b"p\x01v\x02a\x01v\x02")],
)
def test_a_map_is_written_in_its_lines_order(ends: bool, capacity: int | None, text: bytes) -> None:
    for names in ("ap", "pa"):
        assert encode_java_map(dict.fromkeys(names, "v"), ends_with_separator=ends, capacity=capacity) == text
    assert encode_java_map({}, ends_with_separator=ends) == b""


@pytest.mark.parametrize(("text", "level"), [(None, 0), ("", 0), ("x", 0), ("3", 3), ("-1", -1), ("2147483648", 0)])
def test_a_delay_level_is_an_int_or_none(text: str | None, level: int) -> None:
    assert delay_level({} if text is None else {"DELAY": text}) == level


@pytest.mark.parametrize(
    ("properties", "says"),
    [(b"", False), (b"WAIT\x01true", False), (b"WAIT\x01TRUE", False), (b"WAIT\x01false", True),
     (b"a\x01b\x02WAIT\x010", True), (b"XWAIT\x01false", False)],
)  # fmt: skip
def test_a_put_waits_unless_its_message_says_otherwise(properties: bytes, says: bool) -> None:
    assert says_no_wait(properties) is says


@pytest.mark.parametrize(
    ("topic", "fault"),
    [
        ("T" * 127, ""), ("T" * 128, "has 128 characters, and 127 is the limit"), ("%RETRY%" + "g" * 121, ""),
        ("%DLQ%" + "g" * 123, ""), ("%|aZ09_-", ""), ("SELF_TEST_TOPIC", "is the broker's own"),
        *((bad, "has characters other than ASCII letters, digits and % | _ -") for bad in ("a b", "é", "a.b")),
        ("", "is empty"),
    ],
)  # fmt: skip
def test_a_producer_sends_to_topics_that_a_broker_takes(topic: str, fault: str) -> None:
    assert topic_fault(topic) == fault


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(0, "message", "0 messages are"), (1, "index entry", "1 index entry is"),
     (2, "index entry", "2 index entries are"), (1234, "pass", "1,234 passes are")],
)  # fmt: skip
def test_a_count_and_its_noun_agree(number: int, noun: str, text: str) -> None:
    assert amount_is(number, noun) == text
    assert text.startswith(amount(number, noun))
