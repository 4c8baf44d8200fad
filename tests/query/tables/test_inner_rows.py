"""A row for each message of a run: of a record of several messages as of records of their own."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from store.formats.inner_batch import unwrap
from store.formats.message import StoredMessage, decode_record
from store.formats.run import Run
from store.query.tables.inner_rows import InnerRows, rows_of_messages
from store.structures.commitlog.scan import ScanRules, scan_segment
from tests.support.logs import record
from tests.support.small_log import SmallSegment

INNER = struct.Struct(">iiiii")


def inner(*bodies: bytes, properties: bytes = b"k\1v\2") -> bytes:
    sizes = [INNER.size + len(body) + 2 + len(properties) for body in bodies]
    return b"".join(
        INNER.pack(size, 0, 0, 9, len(body)) + body + struct.pack(">h", len(properties)) + properties
        for size, body in zip(sizes, bodies, strict=True)
    )


def several(*bodies: bytes, base: int = 40, topic: bytes = b"Topic") -> tuple[bytes, bytes, bytes, int]:
    names = b"INNER_BASE\1%d\2INNER_NUM\1%d\2" % (base, len(bodies))
    return topic, inner(*bodies), names, 0x80


ONE = b"Topic", b"alone", b"a\1b\2", 0
LONG = b"t" * 128, b"alone", b"", 0
BROKEN = b"Topic", inner(b"one")[:-1], b"INNER_BASE\x017\2INNER_NUM\x011\2", 0x80
LOGS: dict[str, list[tuple[bytes, bytes, bytes, int]]] = {
    "records alone": [ONE, LONG],
    "one of several": [several(b"a", b"", b"ccc")],
    "between others": [ONE, several(b"a", b"bb"), LONG],
    "at the end": [ONE, ONE, several(b"a")],
    "two in a row": [several(b"a"), several(b"bb", b"c", base=70), ONE],
    "topics of 127 and 128 bytes": [several(b"a", topic=b"t" * 127), several(b"a", topic=b"t" * 128)],
    "one that cannot be read": [ONE, BROKEN, several(b"a"), BROKEN],
}


def run_of(rows: list[tuple[bytes, bytes, bytes, int]]) -> Run:
    data = b""
    for number, (topic, body, properties, sys_flag) in enumerate(rows):
        data += record(
            topic, body, properties, position=len(data), sys_flag=sys_flag, queue_id=number, queue_offset=10 * number,
            store_timestamp_ms=1000 + number,
        )  # fmt: skip
    (run,) = (one for one in scan_segment(SmallSegment(memoryview(data)), rules=ScanRules()) if isinstance(one, Run))
    return run


def messages_of(run: Run, rows: list[tuple[bytes, bytes, bytes, int]]) -> list[StoredMessage]:
    records = [decode_record(bytes(run.record(row))) for row in range(run.count)]
    pairs = zip(records, rows, strict=True)
    return [each for one, row in pairs for each in (unwrap(one) if row[3] and row != BROKEN else [one])]


def texts(rows: InnerRows, at: str, size: str) -> list[bytes]:
    pairs = zip(getattr(rows.columns, at).tolist(), getattr(rows.columns, size).tolist(), strict=True)
    return [bytes(rows.buffer[start : start + length]) for start, length in pairs]


@pytest.mark.parametrize("name", LOGS)
def test_the_rows_are_the_messages_with_the_texts_where_the_columns_say(name: str) -> None:
    run = run_of(LOGS[name])
    rows, expected = rows_of_messages(run), messages_of(run, LOGS[name])
    assert [decode_record(data).body for data in texts(rows, "position", "size")] == [one.body for one in expected]
    assert texts(rows, "body_position", "body_size") == [one.body for one in expected]
    assert texts(rows, "topic_position", "topic_size") == [one.topic.encode() for one in expected]
    assert texts(rows, "properties_position", "properties_size") == [one.property_text for one in expected]
    for column in ("queue_id", "queue_offset", "log_offset", "sys_flag", "store_timestamp_ms", "body_crc"):
        assert getattr(rows.columns, column).tolist() == [getattr(one, column) for one in expected], column
    assert rows.log_offset.tolist() == [one.log_offset for one in expected]
    assert rows.outer_queue_offsets.to_pylist() == [one.outer_queue_offset for one in expected]


def test_some_of_the_rows_have_their_own_places() -> None:
    rows = rows_of_messages(replace(run_of(LOGS["between others"]), file_start=5000))
    assert rows.log_offset.tolist()[0] == 5000
    part = rows.slice(1, 3)
    assert texts(part, "body_position", "body_size") == [b"a", b"bb"]
    assert (part.outer_queue_offsets.to_pylist(), len(set(part.log_offset.tolist()))) == ([10, 10], 1)
