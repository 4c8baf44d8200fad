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


@pytest.mark.parametrize(("size", "is_read"), [(7, False), (8, True), (9, False)])
def test_a_value_has_one_size(size: int, is_read: bool) -> None:
    key = IndexEntry(3_600_000, "T", "U", "", "U1", 7, 3_600_001).encode()[0]
    assert (decode_index(key, bytes(size)) is not None) == is_read
