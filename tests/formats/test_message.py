"""The commit-log record: golden bytes come out again, decoding undoes encoding, contradicting bytes are refused."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import BadRequest, DamagedRecord
from store.formats import message as layout
from store.formats.host import LOCALHOST, Host
from store.formats.message import (
    BLANK_MAGIC,
    Message,
    decode_record,
    encode_blank,
    encode_record,
    host_flags,
    is_indexed,
    is_queued,
    record_fields,
    record_size,
    store_timestamp_at,
    waiting_level,
)
from store.formats.message_id import create_unique_key, decode_message_id, encode_message_id
from store.formats.properties import decode_properties
from store.formats.property_crc import BLOCK_SIZE, PLACEHOLDER, has_own_crc, stored_crc, with_crc, without_crc
from tests.support.golden import WITH_ANSWERS, Golden, golden, messages_of

hosts = st.one_of(
    st.builds(Host, st.binary(min_size=4, max_size=4), st.integers(0, 65535)),
    st.builds(Host, st.binary(min_size=16, max_size=16), st.integers(0, 65535)),
)
longs = st.integers(-(1 << 63), (1 << 63) - 1)
ints = st.integers(-(1 << 31), (1 << 31) - 1)
messages = st.builds(
    Message,
    topic=st.text(min_size=1, max_size=60).filter(lambda topic: len(topic.encode("utf-8", "replace")) <= 300),
    body=st.binary(max_size=2000),
    queue_id=ints,
    properties=st.binary(max_size=500),
    flag=ints,
    sys_flag=st.sampled_from([0, 1, 2, 4, 8, 12]),
    born_timestamp_ms=longs,
    born_host=hosts,
    store_host=hosts,
    reconsume_times=ints,
    prepared_transaction_offset=longs,
)


@pytest.fixture(params=[name for name in WITH_ANSWERS if name not in ("torn", "corrupt-mid")])
def archive(request: pytest.FixtureRequest) -> Golden:
    return golden(request.param)


def test_encoding_what_was_decoded_gives_the_brokers_bytes(archive: Golden) -> None:
    for put in archive.puts():
        for raw in put.records:
            assert encode_again(raw) == raw


def test_decoding_finds_what_was_handed_over(archive: Golden) -> None:
    for put in archive.puts():
        for message, raw in zip(messages_of(put), put.records, strict=True):
            stored = decode_record(raw)
            assert (stored.body, stored.flag, stored.born_host) == (
                message.body,
                message.flag,
                message.born_host,
            )
            assert (stored.size, stored.store_timestamp_ms) == (len(raw), put.answer["storeTimestamp"])
            assert stored.is_crc_right


def test_a_message_id_is_the_brokers_and_leads_back(archive: Golden) -> None:
    for put in archive.puts():
        stored = [decode_record(raw) for raw in put.records]
        assert ",".join(record.msg_id for record in stored) == put.answer["msgId"]
        for record in stored:
            assert decode_message_id(record.msg_id) == (record.store_host, record.log_offset)


@given(messages, longs, st.integers(0, 1 << 62), longs)
def test_decoding_undoes_encoding(message: Message, queue_offset: int, log_offset: int, now_ms: int) -> None:
    topic = message.topic.encode("utf-8", "replace")
    sys_flag = message.sys_flag | host_flags(message.born_host, message.store_host)
    raw = encode_record(
        message,
        topic=topic,
        sys_flag=sys_flag,
        queue_offset=queue_offset,
        log_offset=log_offset,
        store_timestamp_ms=now_ms,
    )
    stored = decode_record(raw)
    v2 = len(topic) > 127
    assert len(raw) == record_size(len(message.body), len(topic), len(message.properties), sys_flag, v2=v2)
    assert (stored.topic.encode(), stored.body, stored.property_text) == (
        topic,
        message.body,
        message.properties,
    )
    assert (stored.queue_offset, stored.log_offset, stored.store_timestamp_ms) == (
        queue_offset,
        log_offset,
        now_ms,
    )
    assert (stored.born_host, stored.store_host) == (message.born_host, message.store_host)
    assert encode_again(raw) == raw


@given(st.data())
def test_damaged_bytes_are_refused_or_still_add_up(data: st.DataObject) -> None:
    raw = bytearray(golden("normal").record(0))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    for bytes_ in (bytes(raw), cut):
        with contextlib.suppress(DamagedRecord):
            assert decode_record(bytes_).size == len(bytes_)


def test_a_negative_topic_size_is_named_with_file_and_place() -> None:
    raw = bytearray(golden("normal").record(0))
    topic_at = 88 + len(b"hello 0")
    raw[topic_at] = 0x80
    with pytest.raises(DamagedRecord, match=r"some/file, offset 7: topic length is negative"):
        decode_record(bytes(raw), file="some/file", position=7)


def test_a_blank_is_its_size_and_the_blank_magic() -> None:
    assert encode_blank(268) == (268).to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big")


@pytest.mark.parametrize("text", ["", "xyz", "7F000001", "7F00000100002A9F00000000000000F5FF"])
def test_text_that_is_no_message_id_is_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest):
        decode_message_id(text)


@given(hosts, st.integers(0, (1 << 63) - 1))
def test_a_message_id_leads_back_for_any_host(host: Host, log_offset: int) -> None:
    assert decode_message_id(encode_message_id(host, log_offset)) == (host, log_offset)


def encode_again(raw: bytes) -> bytes:
    stored = decode_record(raw)
    message = Message(
        stored.topic,
        stored.body,
        stored.queue_id,
        stored.property_text,
        stored.flag,
        stored.sys_flag,
        stored.born_timestamp_ms,
        stored.born_host,
        stored.store_host,
        stored.reconsume_times,
        stored.prepared_transaction_offset,
    )
    return encode_record(
        message,
        topic=stored.topic.encode(),
        sys_flag=stored.sys_flag,
        queue_offset=stored.queue_offset,
        log_offset=stored.log_offset,
        store_timestamp_ms=stored.store_timestamp_ms,
    )


IPV4, IPV6 = Host(b"abcd", 1), Host(b"abcdefghijklmnop", 2)
SAMPLE = Message("T", b"body", 3, b"a\x01b", 4, 0, 5, IPV4, IPV4, 6, 7)


def sample(message: Message = SAMPLE, topic: bytes = b"T") -> bytes:
    flags = message.sys_flag | host_flags(message.born_host, message.store_host)
    return encode_record(message, topic=topic, sys_flag=flags, queue_offset=8, log_offset=9, store_timestamp_ms=1 << 40)


def test_the_places_of_fields_are_those_where_they_are_written() -> None:
    raw = sample(replace(SAMPLE, sys_flag=2))
    places = (("MAGIC", 4), ("FLAG", 4), ("QUEUE_OFFSET", 8), ("LOG_OFFSET", 8), ("SYS_FLAG", 4), ("BORN_TIMESTAMP", 8))
    starts = [(getattr(layout, f"{name}_AT"), size) for name, size in places]
    found = [int.from_bytes(raw[at : at + size], "big") for at, size in starts]
    assert found == [layout.MESSAGE_MAGIC_V1, 4, 8, 9, 2, 5]
    assert raw[layout.BORN_HOST_AT :][:4] == b"abcd"


@pytest.mark.parametrize("born", [IPV4, IPV6])
@pytest.mark.parametrize("store", [IPV4, IPV6])
@pytest.mark.parametrize("topic", [b"T" * 127, b"T" * 128])
def test_each_byte_of_a_record_is_in_one_field(born: Host, store: Host, topic: bytes) -> None:
    raw = sample(replace(SAMPLE, born_host=born, store_host=store), topic)
    fields = record_fields(raw)
    ends = list(accumulate(field.size for field in fields))
    assert [field.start for field in fields] == [0, *ends[:-1]]
    assert ends[-1] == len(raw)
    assert {field.name: field.value for field in fields} == {
        "size": len(raw), "magic": layout.MESSAGE_MAGIC_V2 if len(topic) > 127 else layout.MESSAGE_MAGIC_V1,
        "body_crc": decode_record(raw).body_crc, "queue_id": 3, "flag": 4, "queue_offset": 8, "log_offset": 9,
        "sys_flag": host_flags(born, store), "born_timestamp_ms": 5, "born_host": str(born),
        "store_timestamp_ms": 1 << 40, "store_host": str(store), "reconsume_times": 6,
        "prepared_transaction_offset": 7, "body_size": 4, "body": b"body", "topic_size": len(topic),
        "topic": topic.decode(), "properties_size": 3, "properties": {"a": "b"},
    }  # fmt: skip
    at = store_timestamp_at(host_flags(born, store))
    assert int.from_bytes(raw[at : at + 8], "big") == 1 << 40
    assert decode_record(raw).as_put() == replace(SAMPLE, topic=topic.decode(), sys_flag=host_flags(born, store),
                                                  born_host=born, store_host=store)  # fmt: skip


# Where a record's sizes stand, and what is said when they are a byte too large; the last is the record's own.
BEYOND = [(84, "body reaches beyond the record"), (92, "topic reaches beyond the record")]
BEYOND += [(94, "properties reach beyond the record"), (0, "total size differs from the sum of the fields")]


@pytest.mark.parametrize(("at", "reason"), BEYOND)
def test_a_part_ends_in_its_record(at: int, reason: str) -> None:
    raw = bytearray(sample(replace(SAMPLE, properties=b"")))
    width = {84: 4, 92: 1, 94: 2, 0: 4}[at]
    beyond = int.from_bytes(raw[at : at + width], "big") + {84: 6, 92: 3, 94: 1, 0: 1}[at]
    raw[at : at + width] = beyond.to_bytes(width, "big")
    with pytest.raises(DamagedRecord, match=reason):
        decode_record(bytes(raw))


@pytest.mark.parametrize(("size", "reason"), [(39, "unknown magic|too small"), (87, "too small"), (90, "too small")])
def test_a_record_cut_short_is_refused(size: int, reason: str) -> None:
    with pytest.raises(DamagedRecord, match=reason):
        decode_record(sample(replace(SAMPLE, body=b""))[:size])


@pytest.mark.parametrize(("body", "crc", "is_right"), [(b"", 5, True), (b"x", 5, False)])
def test_a_record_without_a_body_has_no_crc(body: bytes, crc: int, is_right: bool) -> None:
    raw = bytearray(sample(replace(SAMPLE, body=body)))
    raw[8:12] = crc.to_bytes(4, "big")
    assert decode_record(bytes(raw)).is_crc_right is is_right


@pytest.mark.parametrize(
    ("sys_flag", "queued", "indexed"), [(0, True, True), (4, False, True), (8, True, True), (0xC, False, False)]
)
def test_a_transactions_state_decides_over_queue_and_index(sys_flag: int, queued: bool, indexed: bool) -> None:
    assert (is_queued(sys_flag | 0x33), is_indexed(sys_flag | 0x33)) == (queued, indexed)


@pytest.mark.parametrize(("asked", "level"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_a_message_waits_at_most_at_the_last_level(asked: int, level: int) -> None:
    message = Message.of("T", delay_level=asked)
    assert waiting_level(message, 2) == level
    assert waiting_level(replace(message, sys_flag=4), 2) == 0


def test_a_message_has_the_properties_that_were_given_and_those_of_its_names() -> None:
    message = Message.of("T", "x", properties={"a": "b"}, keys=["k", "l"], tags="t", uniq_key="u", delay_level=1)
    assert message.properties == b"a\x01b\x02KEYS\x01k l\x02TAGS\x01t\x02UNIQ_KEY\x01u\x02DELAY\x011"
    assert Message.of("T").properties == Message.of("T", delay_level=0).properties == b""
    with pytest.raises(BadRequest, match="delay_level is less than 0: -1"):
        Message.of("T", delay_level=-1)
    with pytest.raises(BadRequest, match="separate properties"):
        Message.of("T", properties={"a": "b\x02"})


def test_a_message_has_the_local_host_and_a_brokers_port() -> None:
    host = Host.parse("127.0.0.1:10911")
    assert Message("T") == Message("T", b"", 0, b"", 0, 0, None, host, host, 0, 0)


@pytest.mark.parametrize(("at", "width"), [(84, 4), (90, 2)])
def test_a_negative_size_of_body_or_properties_is_zero(at: int, width: int) -> None:
    raw = bytearray(sample(replace(SAMPLE, body=b"", properties=b"")))
    raw[at : at + width] = (-1).to_bytes(width, "big", signed=True)
    assert (decode_record(bytes(raw)).body, decode_record(bytes(raw)).property_text) == (b"", b"")


def test_a_unique_key_holds_host_process_milliseconds_of_the_month_and_a_count() -> None:
    first_ms = int(time.mktime((2024, 2, 1, 0, 0, 0, 0, 0, -1))) * 1000
    keys = [bytes.fromhex(create_unique_key(now_ms)) for now_ms in (first_ms - 1, first_ms, first_ms + 86_400_007)]
    assert [key[:4] for key in keys] == [b"\x7f\x00\x00\x01"] * 3
    assert [int.from_bytes(key[10:14], "big") for key in keys] == [31 * 86_400_000 - 1, 0, 86_400_007]
    counts = [int.from_bytes(key[14:], "big") for key in keys]
    assert [(count - counts[0]) & 0xFFFF for count in counts] == [0, 1, 2]


def test_a_crc_block_is_of_the_bytes_before_it() -> None:
    raw = with_crc(sample(replace(SAMPLE, properties=PLACEHOLDER)))
    digits = str(layout.crc32(raw[:-BLOCK_SIZE]))[::-1].ljust(10, "0").encode()
    assert raw[-BLOCK_SIZE:] == b"__CRC32#\x01" + digits + b"\x02"
    assert (stored_crc(raw), has_own_crc(raw)) == (layout.crc32(raw[:-BLOCK_SIZE]), True)
    assert not has_own_crc(b"\x01" + raw[1:])


@pytest.mark.parametrize(
    "block", [b"_-CRC32#\x010000000000\x02", b"__CRC32#\x010000000000\x03", b"__CRC32#\x01000000000a\x02", b""]
)
def test_a_block_is_name_digits_and_separator(block: bytes) -> None:
    assert stored_crc(bytes(91) + block) is None
    assert stored_crc(bytes(91) + PLACEHOLDER) == 0


def test_a_block_that_comes_with_properties_is_removed() -> None:
    assert without_crc(b"a\x01b\x02" + PLACEHOLDER) == b"a\x01b"
    assert without_crc(b"a\x01b\x02") == b"a\x01b\x02"


# MessageSysFlag (5.3.3).
FLAGS = {
    "COMPRESSED": 0x1, "MULTI_TAGS": 0x2, "TRANSACTION_NONE": 0, "TRANSACTION_PREPARED": 0x4,
    "TRANSACTION_COMMIT": 0x8, "TRANSACTION_ROLLBACK": 0xC, "TRANSACTION_MASK": 0xC, "BORN_HOST_IPV6": 0x10,
    "STORE_HOST_IPV6": 0x20, "INNER_BATCH": 0x80,
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_of_a_message_is_the_brokers(name: str) -> None:
    assert getattr(layout, name) == FLAGS[name]


def test_a_message_of_a_topic_alone_has_zeros() -> None:
    made = Message("T")
    assert (made.body, made.queue_id, made.properties, made.flag, made.sys_flag) == (b"", 0, b"", 0, 0)
    assert (made.reconsume_times, made.prepared_transaction_offset) == (0, 0)
    assert (made.born_host, made.store_host) == (LOCALHOST, LOCALHOST)
    assert str(LOCALHOST) == "127.0.0.1:10911"


@pytest.mark.parametrize("size", [0, -1, -5])
def test_a_negative_size_of_a_body_is_none(size: int) -> None:
    raw = bytearray(encode_record(Message("T", b""), topic=b"T", sys_flag=0, queue_offset=0, log_offset=0,
                                  store_timestamp_ms=1))  # fmt: skip
    assert raw[84:88] == bytes(4)
    raw[84:88] = size.to_bytes(4, "big", signed=True)
    assert (decode_record(raw).topic, decode_record(raw).body) == ("T", b"")


@pytest.mark.parametrize(
    ("named", "key"),
    [
        ({"keys": ["a", "b"]}, "KEYS"),
        ({"tags": "t"}, "TAGS"),
        ({"uniq_key": "u"}, "UNIQ_KEY"),
        ({"delay_level": 3}, "DELAY"),
    ],
)
def test_a_property_and_its_argument_have_one_value(named: dict[str, Any], key: str) -> None:
    own = Message.of("T", **named)
    value = decode_properties(own.properties)[key]
    for same in (value, ""):
        assert Message.of("T", properties={key: same}, **named) == own
    [name] = named
    with pytest.raises(BadRequest, match=f"^{name} and the property {key} differ; leave one of them out$"):
        Message.of("T", properties={key: "other"}, **named)
