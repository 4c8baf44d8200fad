"""The places of a unit's fields, and which tags codes lead to an extension."""

from __future__ import annotations

import struct

import pytest

from store.formats import queue_unit
from store.formats.queue_unit import (
    BatchUnit,
    ExtUnit,
    QueueUnit,
    decode_ext_address,
    decode_ext_unit,
    encode_ext_address,
    is_ext_address,
)


def test_fields_have_the_places_of_the_format() -> None:
    assert (struct.calcsize(">q"), struct.calcsize(">qi")) == (queue_unit.SIZE_AT, queue_unit.TAGS_AT)
    assert (queue_unit.UNIT_SIZE, queue_unit.BATCH_UNIT_SIZE, queue_unit.EXT_UNIT_MIN_SIZE) == (20, 46, 20)
    assert (queue_unit.EXT_END_SIZE, queue_unit.EXT_END_MARK, queue_unit.EXT_END.pack(-1)) == (4, -1, b"\xff\xff")
    assert queue_unit.PRE_BLANK.encode() == bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)


@pytest.mark.parametrize(
    ("tags_code", "position"),
    [
        (-(1 << 63), 0),
        (-(1 << 63) + 1000, 1000),
        (-(1 << 31) - 1, (1 << 63) - (1 << 31) - 1),
        (-(1 << 31), None),
        (-1, None),
        (0, None),
        ((1 << 63) - 1, None),
    ],
)
def test_a_code_below_every_hash_is_an_address(tags_code: int, position: int | None) -> None:
    assert QueueUnit(0, 1, tags_code).ext_address == position
    assert is_ext_address(tags_code) is (position is not None)
    if position is not None:
        assert (encode_ext_address(position), decode_ext_address(tags_code)) == (tags_code, position)


@pytest.mark.parametrize(
    ("log_offset", "size", "is_written"), [(0, 1, True), (-1, 1, False), (0, 0, False), (5, -1, False), (5, 9, True)]
)
def test_a_unit_is_written_with_a_size_from_the_log_s_start_on(log_offset: int, size: int, is_written: bool) -> None:
    assert QueueUnit(log_offset, size, 7).is_written is is_written
    assert BatchUnit(log_offset, size, 0, 0, 7, 3).next_queue_offset == 10


UNIT = ExtUnit(5, 6, b"ab")


@pytest.mark.parametrize(
    ("data", "position", "found"),
    [
        (UNIT.encode(), 0, UNIT),
        (b"x" + UNIT.encode(), 1, UNIT),
        (UNIT.encode()[:-1], 0, None),
        (ExtUnit(5, 6, b"").encode(), 0, ExtUnit(5, 6, b"")),
        (ExtUnit(5, 6, b"").encode(), 1, None),
        (b"\0\x13" + bytes(16) + b"\xff\xff", 0, None),
        (b"\0\x15" + UNIT.encode()[2:], 0, None),
        (b"\0\x17" + UNIT.encode()[2:] + b"x", 0, None),
    ],
)
def test_an_extension_unit_has_its_size_and_its_bit_map_in_the_file(
    data: bytes, position: int, found: ExtUnit | None
) -> None:
    assert decode_ext_unit(data, position) == found
