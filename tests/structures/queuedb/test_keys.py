"""Keys and values of a queue database: to the byte, and every other length or mark is malformed."""

from __future__ import annotations

import pytest

from store.structures.queuedb.keys import (
    OffsetKey,
    Place,
    UnitKey,
    decode_long,
    decode_offset_key,
    decode_place,
    decode_unit_key,
    encode_long,
    encode_place,
    last_key,
    offset_key,
    queue_prefix,
    unit_key,
)

UNIT = b"\0\0\0\1\1T\1\0\0\0\7\1\0\0\0\0\0\0\0\5"
MAX = b"\0\0\0\1\1T\1max\1\0\0\0\7"
MIN = MAX.replace(b"max", b"min")


def test_a_units_key_is_topic_queue_and_queue_offset_with_marks_between() -> None:
    assert unit_key("T", 7, 5) == UNIT
    assert queue_prefix("T", 7) == UNIT[:-8]
    assert last_key("T", 7) == UNIT[:-8] + b"\xff" * 8
    assert decode_unit_key(UNIT) == UnitKey("T", 7, 5)
    assert unit_key("ü", 0, 0)[:8] == b"\0\0\0\2\1\xc3\xbc\1"


def test_an_offset_key_names_newest_or_oldest_before_the_queue() -> None:
    assert (offset_key("T", 7, "max"), offset_key("T", 7, "min")) == (MAX, MIN)
    assert decode_offset_key(MAX) == OffsetKey("T", "max", 7)
    assert decode_offset_key(MIN) == OffsetKey("T", "min", 7)


@pytest.mark.parametrize("topic", ["", "T", "ü%RETRY%", "x" * 300])
@pytest.mark.parametrize(("queue_id", "queue_offset"), [(0, 0), (-1, -1), ((1 << 31) - 1, (1 << 63) - 1)])
def test_keys_are_read_back_as_they_are_made(topic: str, queue_id: int, queue_offset: int) -> None:
    assert decode_unit_key(unit_key(topic, queue_id, queue_offset)) == UnitKey(topic, queue_id, queue_offset)
    assert decode_offset_key(offset_key(topic, queue_id, "min")) == OffsetKey(topic, "min", queue_id)


@pytest.mark.parametrize("key", [UNIT, MAX])
def test_a_key_of_another_length_or_with_another_mark_is_malformed(key: bytes) -> None:
    decode = decode_unit_key if key is UNIT else decode_offset_key
    wrong = [key[:size] for size in range(len(key))]
    wrong += [key + b"\0"]
    marks = (4, 6, 11) if key is UNIT else (4, 6, 10)
    wrong += [key[:at] + b"\2" + key[at + 1 :] for at in marks]
    wrong += [key[:3] + bytes([size]) + key[4:] for size in (0, 2, 255)] + [b"\xff" * 4 + key[4:]]
    wrong += [key[:5] + b"\xff" + key[6:], MAX.replace(b"max", b"mid") if key is MAX else MAX]
    assert [decode(one) for one in wrong] == [None] * len(wrong)


def test_a_name_of_a_negative_size_is_malformed() -> None:
    for decode, key in ((decode_unit_key, unit_key("", 7, 5)), (decode_offset_key, offset_key("", 7, "max"))):
        assert decode(key) is not None
        assert [decode(size + key[4:]) for size in (b"\xff" * 4, b"\x80\0\0\0")] == [None, None]


@pytest.mark.parametrize("size", [0, 7, 8, 9, 15, 16, 17])
def test_values_have_eight_or_sixteen_bytes(size: int) -> None:
    data = bytes(range(1, size + 1))
    assert decode_long(data) == (int.from_bytes(data, "big") if size == 8 else None)
    expected = Place(int.from_bytes(data[:8], "big"), int.from_bytes(data[8:], "big"))
    assert decode_place(data) == (expected if size == 16 else None)


def test_values_are_read_back_as_they_are_made() -> None:
    assert decode_place(encode_place(Place(-1, 1 << 62))) == Place(-1, 1 << 62)
    assert decode_long(encode_long(-5)) == -5
