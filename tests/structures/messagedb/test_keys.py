"""Keys and values of the message database, against those of the real record classes (golden/fivefive)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from store.structures.messagedb.keys import (
    HalfEntry,
    IndexEntry,
    TimerEntry,
    decode_half,
    decode_index,
    decode_timer,
    hour_of,
    index_entries,
)
from tests.support.five_stores import fivefive_file

BYTES_THAT_ARE_NO_ENTRY = (b"", b"\0" * 7, b"\0" * 16, b"\0" * 8 + b"@T@K@k@U1" + b"\0" * 8, b"\0" * 8 + b"\xff@" * 5)


@cache
def vectors(kind: str) -> list[dict[str, Any]]:
    lines = fivefive_file("vectors.jsonl").read_text(encoding="utf-8").splitlines()
    return [vector for vector in map(json.loads, lines) if kind in vector]


def test_the_index_has_the_keys_that_the_real_class_makes() -> None:
    for vector in vectors("index"):
        topic, key, tags, time_ms, unique_key, offset = vector["index"]
        # The class is asked for one entry at a time: the key's, else the tags', else the unique key's.
        made = index_entries(topic, "", "" if key else tags or "", unique_key or "", offset, time_ms)
        made = [one._replace(kind="K", text=key) for one in made] if key else made
        found = made[0].encode() if made else (None, vector["value"])
        assert (found[0] and found[0].hex()) == vector["key"], vector
        if made and "@" not in topic:
            assert decode_index(*made[0].encode()) == made[0]


def test_timers_have_the_keys_that_the_real_class_makes() -> None:
    for vector in vectors("timer"):
        delivery_ms, unique_key, offset, size = vector["timer"]
        if vector["key"] is not None and vector["value"] is not None:
            entry = TimerEntry(delivery_ms, unique_key, size, offset)
            assert [part.hex() for part in entry.encode()] == [vector["key"], vector["value"]]
            assert decode_timer(*entry.encode()) == entry


def test_half_messages_have_the_keys_that_the_real_class_makes() -> None:
    for vector in vectors("trans"):
        offset, topic, unique_key, size, checks = vector["trans"]
        if vector["key"] is not None and vector["value"] is not None:
            entry = HalfEntry(offset, topic, unique_key, checks, size)
            assert [part.hex() for part in entry.encode()] == [vector["key"], vector["value"]]
            assert (decode_half(*entry.encode()) == entry) == vector["decodes"]


def test_an_hour_is_the_time_without_its_rest() -> None:
    assert [hour_of(vector["hour"]) for vector in vectors("hour")] == [vector["res"] for vector in vectors("hour")]


def test_a_text_with_the_mark_is_read_from_both_ends() -> None:
    entry = IndexEntry(3_600_000, "T", "K", "a@b@", "U1", 7, 3_600_001)
    assert decode_index(*entry.encode()) == entry


@pytest.mark.parametrize("key", BYTES_THAT_ARE_NO_ENTRY)
def test_bytes_that_are_no_entry_are_none(key: bytes) -> None:
    assert (decode_index(key, bytes(8)), decode_half(key, bytes(8))) == (None, None)
    assert decode_timer(key[:7], bytes(12)) is None


@pytest.mark.parametrize(
    ("decode", "entry", "size"),
    [
        (decode_index, IndexEntry(3_600_000, "T", "U", "", "u", 7, 0), 8),
        (decode_timer, TimerEntry(3_600_000, "", 0, 0), 12),
        (decode_half, HalfEntry(7, "T", "u", 0, 0), 8),
    ],
    ids=["index", "timer", "half"],
)
def test_the_shortest_key_is_read_and_a_value_has_one_size(decode: Any, entry: Any, size: int) -> None:
    key = entry.encode()[0]
    assert [decode(key, bytes(each)) for each in (size - 1, size, size + 1)] == [None, entry, None]
    assert decode(key[:-1], bytes(size)) is None


@pytest.mark.parametrize(
    ("text", "is_read"),
    [("@T@u", True), ("@T@", False), ("@@u", False), ("T@u", False), ("a@T@u", False), ("@T@u@", False)],
)
def test_the_key_of_a_half_message_has_two_texts(text: str, is_read: bool) -> None:
    assert decode_half(bytes(8) + text.encode(), bytes(8)) == (HalfEntry(0, "T", "u", 0, 0) if is_read else None)


@pytest.mark.parametrize(
    ("topic", "unique_key", "log_offset", "time_ms", "count"),
    [
        pytest.param("T", "u", 0, 3_600_000, 4, id="the first of the log and of the second hour"),
        pytest.param("T", "u", -1, 3_600_000, 0, id="of no place"),
        pytest.param("T", "u", 0, 3_599_999, 0, id="of the first hour"),
        pytest.param("T", "u", 0, -1, 0, id="before 1970"),
        pytest.param("T", "", 0, 3_600_000, 0, id="without a unique key"),
        pytest.param("", "u", 0, 3_600_000, 0, id="without a topic"),
    ],
)
def test_a_message_has_an_entry_of_each_key_its_tags_and_its_unique_key_or_none(
    topic: str, unique_key: str, log_offset: int, time_ms: int, count: int
) -> None:
    made = index_entries(topic, "b a  b", "t", unique_key, log_offset, time_ms)
    assert [(one.kind, one.text) for one in made] == [("K", "b"), ("K", "a"), ("T", "t"), ("U", "")][:count]
    assert {one[:2] + one[4:] for one in made} == ({(time_ms, topic, unique_key, 0, time_ms)} if made else set())
