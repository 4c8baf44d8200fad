"""The op record of a half message that has moved: its new log offset, and all its other bytes."""

from __future__ import annotations

import pytest

from store import Message
from store.formats.message import decode_record, encode_record
from store.formats.properties import encode_properties
from store.formats.property_crc import PLACEHOLDER, has_own_crc, with_crc
from store.formats.topics import ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC
from store.structures.messagedb.moved import moved_end


def record(topic: str, offset: str, *, crc: bool = False) -> bytes:
    names = {"TRANS_OFFSETS": "5", "TRANS_OFFSET": offset, "TAGS": "d"}
    text = encode_properties(names) + (b"\x02" + PLACEHOLDER if crc else b"")
    message = Message(topic, b"\0", 3, text, 7, born_timestamp_ms=1)
    made = encode_record(
        message, topic=topic.encode(), sys_flag=0, queue_offset=4, log_offset=600, store_timestamp_ms=2
    )
    return with_crc(made) if crc else made


def moved(old: int) -> int:
    return {0: 1 << 30, 604: 605, 1 << 40: 9}.get(old, -1)


@pytest.mark.parametrize(
    ("topic", "old", "new"),
    [
        (ROCKSDB_OP_TOPIC, "0", "1073741824"),
        (ROCKSDB_OP_TOPIC, "604", "605"),
        (ROCKSDB_OP_TOPIC, "1099511627776", "9"),
        (ROCKSDB_OP_TOPIC, "603", "-1"),
        (ROCKSDB_OP_TOPIC, "-1", "-1"),
        (ROCKSDB_OP_TOPIC, "x", "x"),
        (ROCKSDB_HALF_TOPIC, "604", "604"),
        (ROCKSDB_OP_TOPIC + "2", "604", "604"),
    ],
)
@pytest.mark.parametrize("crc", [False, True])
def test_an_op_record_names_the_new_place_of_its_half(topic: str, old: str, new: str, crc: bool) -> None:
    found = moved_end(record(topic, old, crc=crc), moved)
    assert found == record(topic, new, crc=crc)
    assert decode_record(found).size == len(found)
    assert has_own_crc(found) == crc


def test_a_wrong_crc_of_its_own_stays_wrong() -> None:
    damaged = bytearray(record(ROCKSDB_OP_TOPIC, "604", crc=True))
    damaged[9] ^= 1
    assert not has_own_crc(moved_end(bytes(damaged), moved))
