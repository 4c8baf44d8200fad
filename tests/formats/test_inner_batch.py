"""Messages inside one record: where each begins and ends, and every field that may be damaged."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from store.errors import DamagedRecord
from store.formats.inner_batch import at_queue_offset, count_inner, inner_batch_of, inner_parts, unwrap
from store.formats.java import crc32
from store.formats.message import INNER_BATCH, Message, StoredMessage, decode_record, encode_record


def inner(body: bytes = b"", properties: bytes = b"", flag: int = 0, *, size: int | None = None,
          body_size: int | None = None, properties_size: int | None = None) -> bytes:  # fmt: skip
    size = 22 + len(body) + len(properties) if size is None else size
    head = struct.pack(">iiiii", size, 0, 0, flag, len(body) if body_size is None else body_size)
    return head + body + struct.pack(">h", len(properties) if properties_size is None else properties_size) + properties


def record(body: bytes, properties: bytes = b"INNER_NUM\x012\x02INNER_BASE\x0150") -> StoredMessage:
    message = Message("T", body, properties=properties)
    flags = INNER_BATCH | 0x40 | 0x8
    made = encode_record(message, topic=b"T", sys_flag=flags, queue_offset=7, log_offset=4096, store_timestamp_ms=5)
    return decode_record(made)


SOUND = inner(b"first", b"a\x01b", 3) + inner(b"", b"", -4) + inner(b"x", b"")


def test_each_message_has_its_own_flag_body_and_properties_and_the_records_other_fields() -> None:
    outer = record(SOUND)
    found = list(unwrap(outer))
    parts = [(b"first", b"a\x01b", 3), (b"", b"", -4), (b"x", b"", 0)]
    assert found == [
        replace(
            outer, queue_offset=50 + number, flag=flag, body=body, property_text=text, sys_flag=8,
            body_crc=crc32(body), outer_queue_offset=7,
        )
        for number, (body, text, flag) in enumerate(parts)
    ]  # fmt: skip
    assert count_inner(outer) == 3


def test_without_a_base_the_queue_offsets_begin_at_the_records_own() -> None:
    assert [one.queue_offset for one in unwrap(record(SOUND, b"INNER_NUM\x013"))] == [7, 8, 9]


def test_a_record_with_a_wrong_crc_keeps_it_in_each_message() -> None:
    wrong = replace(record(SOUND), body_crc=1)
    assert {one.body_crc for one in unwrap(wrong)} == {1}


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({}, None),
        ({"INNER_NUM": "2"}, None),
        ({"INNER_BASE": "2"}, None),
        ({"INNER_NUM": "x", "INNER_BASE": "1"}, None),
        *(({"INNER_NUM": str(count), "INNER_BASE": "9"}, (9, count)) for count in (-32767, 0, 1, 32767)),
        *(({"INNER_NUM": str(count), "INNER_BASE": "9"}, None) for count in (-32768, 32768)),
    ],
)
def test_a_record_of_several_messages_has_a_base_and_a_short_for_their_number(
    properties: dict[str, str], found: tuple[int, int] | None
) -> None:
    assert inner_batch_of(properties) == found


@pytest.mark.parametrize(
    ("properties", "found"),
    [({"INNER_NUM": "2"}, (7, 2)), ({"INNER_NUM": "2", "INNER_BASE": "9"}, (9, 2)), ({"INNER_BASE": "9"}, None)],
)
def test_the_queue_offset_of_a_record_with_the_flag_is_its_base_if_it_has_none(
    properties: dict[str, str], found: tuple[int, int] | None
) -> None:
    assert inner_batch_of(properties, 7) == found


LENGTH = len(inner(b"bb", b"cc"))
DAMAGED = [
    (b"x" * 21, "at byte 0 21 bytes are left, a message takes 22 at least", [(0, 21, 0, 0)]),
    (inner(b"bb", body_size=-1), "a message claims 24 bytes with a body of -1", [(20, 24, 0, 0)]),
    (inner(b"bb", body_size=3), "a message claims 24 bytes with a body of 3", [(20, 24, 0, 0)]),
    (inner(b"bb", size=25), "a message claims 25 bytes with a body of 2", [(20, 24, 0, 0)]),
    (inner(b"bb", size=23), "a message claims 23 bytes with a body of 2", [(20, 24, 0, 0)]),
    (inner(b"bb", b"cc", properties_size=-1), "a message of 26 bytes claims properties of -1",
     [(20, 22, 0, 0), (24, 26, 0, 0)]),
    (inner(b"bb", b"cc", properties_size=1), "a message of 26 bytes claims properties of 1",
     [(20, 22, 0, 0), (24, 26, 0, 0)]),
    (inner(b"bb", b"cc", properties_size=3), "a message of 26 bytes claims properties of 3",
     [(20, 22, 0, 0), (24, 26, 0, 0)]),
]  # fmt: skip


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize(("body", "fault", "parts"), DAMAGED)
def test_a_damaged_message_is_named_by_its_byte_and_the_rest_counts_as_a_body(
    body: bytes, fault: str, parts: list[tuple[int, int, int, int]], before: int
) -> None:
    first = inner(b"bb", b"cc") * before
    shifted = [(start + LENGTH * before, stop + LENGTH * before, 0, 0) for start, stop, _, _ in parts]
    whole = [(20, 22, 24, 26)] * before
    if "bytes are left" in fault:
        fault = fault.replace("byte 0", f"byte {LENGTH * before}")
    with pytest.raises(DamagedRecord, match=fault):
        list(unwrap(record(first + body)))
    assert list(inner_parts(first + body)) == [*whole, *shifted]


def test_the_parts_of_sound_messages_end_with_an_empty_body() -> None:
    body = inner(b"bb", b"cc") + inner()
    assert list(inner_parts(body)) == [(20, 22, 24, 26), (46, 46, 48, 48), (48, 48, 0, 0)]
    assert list(inner_parts(b"")) == [(0, 0, 0, 0)]
    assert list(unwrap(record(b""))) == []


def test_the_last_message_may_have_neither_body_nor_properties() -> None:
    assert [one.body for one in unwrap(record(inner(b"x") + inner()))] == [b"x", b""]
    with pytest.raises(DamagedRecord, match="at byte 22 21 bytes are left, a message takes 22 at least"):
        list(unwrap(record(inner() + inner()[:21])))


@pytest.mark.parametrize(
    ("sys_flag", "properties", "moved", "count"),
    [
        (INNER_BATCH, b"INNER_BASE\x017\x02INNER_NUM\x013\x02", b"INNER_BASE\x0140\x02INNER_NUM\x013\x02", 3),
        (INNER_BATCH, b"INNER_NUM\x011\x02INNER_BASE\x017", b"INNER_NUM\x011\x02INNER_BASE\x0140", 1),
        (INNER_BATCH, b"aINNER_BASE\x017\x02INNER_BASE\x017\x02INNER_NUM\x012", None, 2),
        # As a broker with queues in a RocksDB writes it.
        (INNER_BATCH, b"INNER_NUM\x013\x02", b"INNER_NUM\x013\x02INNER_BASE\x0140\x02", 3),
        (INNER_BATCH, b"INNER_NUM\x013", b"INNER_NUM\x013\x02INNER_BASE\x0140\x02", 3),
        (0, b"INNER_NUM\x013", b"INNER_NUM\x013", 1),
        (INNER_BATCH, b"INNER_BASE\x01x\x02INNER_NUM\x013", b"INNER_BASE\x01x\x02INNER_NUM\x013", 1),
        (0, b"INNER_BASE\x017\x02INNER_NUM\x013\x02", b"INNER_BASE\x017\x02INNER_NUM\x013\x02", 1),
        (INNER_BATCH, b"INNER_BASE\x017\x02INNER_NUM\x010", b"INNER_BASE\x017\x02INNER_NUM\x010", 1),
        (INNER_BATCH, b"", b"", 1),
    ],
)
def test_a_record_of_several_gets_the_queue_offset_as_its_base(
    sys_flag: int, properties: bytes, moved: bytes | None, count: int
) -> None:
    moved = b"aINNER_BASE\x017\x02INNER_BASE\x0140\x02INNER_NUM\x012" if moved is None else moved
    message = Message("T", b"body", 1, properties, sys_flag=sys_flag)
    assert at_queue_offset(message, 40) == (replace(message, properties=moved), count)
