"""Messages of a record: those inside it that are wanted, else all of them, else its own."""

from __future__ import annotations

import struct

import pytest

from store.formats.message import INNER_BATCH, Message, decode_record, encode_record
from store.reading.inside import messages_inside

INNER = b"".join(struct.pack(">iiiii1sh", 23, 0, 0, 0, 1, body, 0) for body in (b"a", b"b", b"c"))


@pytest.mark.parametrize(
    ("sys_flag", "body", "wanted", "bodies"),
    [
        (INNER_BATCH, INNER, b"b", [b"b"]), (INNER_BATCH, INNER, b"x", [b"a", b"b", b"c"]),
        (INNER_BATCH, b"", b"x", [b""]), (INNER_BATCH, INNER[:-1], b"b", [INNER[:-1]]), (0, INNER, b"b", [INNER]),
    ],
)  # fmt: skip
def test_the_wanted_messages_of_a_record_stand_for_it(
    sys_flag: int, body: bytes, wanted: bytes, bodies: list[bytes]
) -> None:
    message = Message("T", body, properties=b"INNER_BASE\x010\x02INNER_NUM\x013")
    record = decode_record(
        encode_record(message, topic=b"T", sys_flag=sys_flag, queue_offset=0, log_offset=0, store_timestamp_ms=1)
    )
    assert [one.body for one in messages_inside(record, lambda one: one.body == wanted)] == bodies
