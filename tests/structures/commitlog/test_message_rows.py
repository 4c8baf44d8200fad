"""Columns of records, built at once, hold what each record holds when it is decoded alone."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.body import compression_of, decode_body
from store.formats.host import Host
from store.formats.message import Message, StoredMessage, decode_record, encode_record, host_flags
from store.formats.run import Run
from store.structures.commitlog.gather import hex_text, ints, longs, slices
from store.structures.commitlog.message_batch import LAST_TIME_MS, TIMESTAMP, MessageRows, _times, row_limits
from store.structures.commitlog.property_map import PropertyTable, split_words
from store.structures.commitlog.scan import scan_segment
from tests.support.logs import properties
from tests.support.small_log import SmallSegment

HOSTS = [Host(b"\x01\x02\x03\x04", 10911), Host(b"\x05\x06\x07\x08", -1), Host(bytes(range(16)), 7)]
START = 1 << 33
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("topic", "msg_id", "uniq_key", "tags", "born_host", "store_host")),
        *((name, pa.int64()) for name in ("queue_id", "queue_offset", "log_offset", "size", "flag", "sys_flag")),
        *((name, pa.int64()) for name in ("reconsume_times", "prepared_transaction_offset", "body_crc", "body_size")),
        *((name, TIMESTAMP) for name in ("born_timestamp", "store_timestamp")),
        *((name, pa.string()) for name in ("compression", "body_state", "body_problem")),
        *((name, pa.binary()) for name in ("body", "record", "property_bytes")),
        ("keys", pa.list_(pa.string())), ("properties", pa.map_(pa.string(), pa.string())),
        ("crc_ok", pa.bool_()), ("outer_queue_offset", pa.int64()),
    ]
)  # fmt: skip

messages = st.builds(
    Message,
    topic=st.sampled_from(["T", "Тема", "t" * 130]),
    body=st.sampled_from([b"", b"body", b"\x78\x9c\x4b\x4c\x4a\x06\x00\x02\x4d\x01\x27"]),
    queue_id=st.integers(0, 9),
    properties=properties,
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    sys_flag=st.sampled_from([0, 1, 2, 4, 0x101, 0x401]),
    born_timestamp_ms=st.integers(0, 1 << 42),
    born_host=st.sampled_from(HOSTS),
    store_host=st.sampled_from(HOSTS),
    reconsume_times=st.integers(-(1 << 31), (1 << 31) - 1),
    prepared_transaction_offset=st.integers(-(1 << 63), (1 << 63) - 1),
)


def rows_of(many: list[Message]) -> MessageRows:
    data = b"".join(
        encode_record(
            message, topic=message.topic.encode(), queue_offset=number, log_offset=START,
            store_timestamp_ms=1000 + number,
            sys_flag=message.sys_flag | host_flags(message.born_host, message.store_host),
        )
        for number, message in enumerate(many)
    )  # fmt: skip
    run = next(scan_segment(SmallSegment(memoryview(data), file_start=START)))
    assert isinstance(run, Run)
    return MessageRows(run.buffer, START, run.columns)


def row_of(one: StoredMessage, log_offset: int) -> dict[str, Any]:
    """A row by the record's own fields."""
    compression, named = compression_of(one.sys_flag), one.properties
    return {
        "topic": one.topic, "msg_id": (one.store_host.encode() + log_offset.to_bytes(8, "big")).hex().upper(),
        "uniq_key": named.get("UNIQ_KEY"), "tags": named.get("TAGS"), "born_host": str(one.born_host),
        "store_host": str(one.store_host), "queue_id": one.queue_id, "queue_offset": one.queue_offset,
        "log_offset": log_offset, "size": one.size, "flag": one.flag, "sys_flag": one.sys_flag,
        "reconsume_times": one.reconsume_times, "prepared_transaction_offset": one.prepared_transaction_offset,
        "body_crc": one.body_crc, "body_size": len(one.body),
        "born_timestamp": EPOCH + datetime.timedelta(milliseconds=one.born_timestamp_ms),
        "store_timestamp": EPOCH + datetime.timedelta(milliseconds=one.store_timestamp_ms),
        "compression": compression, "body_state": "plain" if compression is None else "stored",
        "body_problem": decode_body(one.body, one.sys_flag).problem or None, "body": one.body, "record": one.raw,
        "property_bytes": None if is_told_by(named, one.property_text) else one.property_text,
        "keys": one.keys, "properties": sorted(named.items()), "crc_ok": True, "outer_queue_offset": None,
    }  # fmt: skip


def is_told_by(named: dict[str, str], stored: bytes) -> bool:
    """Whether a map has as many bytes as the string, which is UTF-8."""
    try:
        stored.decode()
    except UnicodeDecodeError:
        return False
    said = sum(len(name.encode()) + len(value.encode()) + 2 for name, value in named.items()) - bool(named)
    return said == len(stored)


def test_reconsume_times_are_those_of_each_record_whatever_its_hosts() -> None:
    pairs = [(born, store) for born in HOSTS for store in HOSTS]
    many = [
        Message("T", b"", born_host=born, store_host=store, reconsume_times=7 + n)
        for n, (born, store) in enumerate(pairs)
    ]
    assert rows_of(many).batch(pa.schema([SCHEMA.field("reconsume_times")])).to_pydict() == {
        "reconsume_times": list(range(7, 7 + len(pairs)))
    }


@pytest.mark.turns(3)
@given(st.lists(messages, min_size=1, max_size=6))
def test_each_row_of_the_columns_is_its_record(many: list[Message]) -> None:
    rows = rows_of(many)
    found = rows.batch(SCHEMA).to_pylist()
    for row in found:
        row["properties"] = sorted(row["properties"])
    assert found == [row_of(decode_record(row["record"]), row["log_offset"]) for row in found]
    assert len(found) == len(many)
    assert rows.slice(1, 2).batch(SCHEMA, with_body=False)["body"].null_count == len(many[1:2])
    last = rows.select(np.arange(rows.count) == rows.count - 1).batch(SCHEMA).to_pylist()[0]
    assert last["record"] == found[-1]["record"]


def test_rows_of_no_record_have_every_column() -> None:
    assert rows_of([Message("T")]).slice(0, 0).batch(SCHEMA).to_pylist() == []


def test_a_body_with_a_wrong_crc_is_told_by_its_row() -> None:
    rows = rows_of([Message("T", bytes([number])) for number in range(4)])
    damaged = bytearray(rows.buffer)
    for row in (1, 3):
        damaged[rows.columns.body_position[row]] ^= 1
    assert MessageRows(memoryview(damaged), START, rows.columns).crc_ok().to_pylist() == [True, False, True, False]


@pytest.mark.parametrize(("over", "is_null"), [(-1, False), (1024, True)])
def test_a_time_beyond_microseconds_of_64_bits_is_null(over: int, is_null: bool) -> None:
    times = np.array([LAST_TIME_MS + over, -LAST_TIME_MS - over], np.int64)
    assert _times(times).is_null().to_pylist() == [is_null] * 2


@pytest.mark.parametrize(
    ("most_rows", "most_bytes", "cuts"),
    [
        (9, 99, [0, 4]), (9, 40, [0, 4]), (9, 39, [0, 3, 4]), (2, 99, [0, 2, 4]), (3, 20, [0, 2, 4]),
        (9, 19, [0, 1, 2, 3, 4]), (9, 5, [0, 1, 2, 3, 4]), (1, 99, [0, 1, 2, 3, 4]),
    ],
)  # fmt: skip
def test_pieces_have_at_most_so_many_rows_and_bytes_but_one_row(
    most_rows: int, most_bytes: int, cuts: list[int]
) -> None:
    assert list(row_limits(np.array([10, 10, 10, 10]), most_rows, most_bytes)) == cuts


@pytest.mark.parametrize(("size", "count"), [(0, 0), (3, 0), (4, 1), (8, 2)])
def test_numbers_are_read_at_every_place_that_has_room(size: int, count: int) -> None:
    data = bytes(range(1, 9))[:size]
    places = np.arange(0, size - 3, 4) if size > 3 else np.empty(0, np.int64)
    assert ints(data, places).tolist() == [int.from_bytes(data[at : at + 4], "big") for at in places]
    assert len(ints(data, places)) == count
    assert longs(bytes(range(9)), np.array([0, 1])).tolist() == [0x0001020304050607, 0x0102030405060708]


def test_slices_are_the_bytes_at_rising_places_and_negative_sizes_are_empty() -> None:
    found = slices(b"abcdefgh", np.array([1, 3, 4, 6]), np.array([2, 0, -1, 2]))
    assert found.to_pylist() == [b"bc", b"", b"", b"gh"]
    assert slices(b"", np.array([], np.int64), np.array([], np.int64)).to_pylist() == []


def test_rows_of_bytes_are_hex() -> None:
    assert hex_text(np.array([[0x0F, 0xA0], [0xFF, 0x10]], np.uint8)).to_pylist() == ["0FA0", "FF10"]


@pytest.mark.parametrize(
    ("stored", "kept", "left"),
    [
        (b"", {}, None), (b"a\x01b", {"a": "b"}, None), (b"a\x01b\x02", {"a": "b"}, b"a\x01b\x02"),
        (b"a\x01b\x02c\x01d", {"a": "b", "c": "d"}, None), (b"a\x01", {}, b"a\x01"), (b"\x01b", {}, b"\x01b"),
        (b"a\x01b\x02a\x01c", {"a": "c"}, b"a\x01b\x02a\x01c"), (b"a\x01\xff", {"a": "\ufffd"}, b"a\x01\xff"),
        (b"x", {}, b"x"),
    ],
)  # fmt: skip
def test_properties_beside_others_are_told_apart(stored: bytes, kept: dict[str, str], left: bytes | None) -> None:
    table = PropertyTable(pa.array([b"a\x01z", stored, b"", b"q\x01r"], pa.binary()))
    assert [dict(one) for one in table.maps().to_pylist()] == [{"a": "z"}, kept, {}, {"q": "r"}]
    assert table.left_over().to_pylist() == [None, left, None, None]
    assert [None if one is None else one.decode("utf-8", "replace") for one in table.column(b"a").to_pylist()] == [
        "z", kept.get("a"), None, None,
    ]  # fmt: skip
    assert table.column(b"none").to_pylist() == [None] * 4


def test_keys_are_words_and_a_part_of_an_array_is_its_own() -> None:
    words = pa.array([b"left out", b"a  b ", None, b"", b"c"], pa.binary())
    assert split_words(words.slice(1)).to_pylist() == [["a", "b"], [], [], ["c"]]
    assert split_words(words.slice(0, 0)).to_pylist() == []
