"""The commit-log record: golden bytes come out again, decoding undoes encoding, contradicting bytes are refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import BadRequest, DamagedRecord
from store.formats.host import Host
from store.formats.message import (
    BLANK_MAGIC,
    Message,
    decode_record,
    encode_blank,
    encode_record,
    host_flags,
    record_size,
)
from store.formats.message_id import decode_message_id, encode_message_id
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
