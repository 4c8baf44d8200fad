"""Records of transactions: byte for byte those that real brokers wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import Message, StoredMessage, open_store
from store.broker_line import LINE_4_9, LINE_5_3, LINE_5_5
from store.engine.services.transaction_messages import (
    CHECK_TIMES,
    commit_message,
    half_message,
    immune_message,
    op_body,
    op_message,
    put_back_message,
)
from store.errors import BadRequest
from store.formats.message import TRANSACTION_COMMIT
from store.formats.properties import decode_properties
from store.formats.topics import HALF_TOPIC, OP_TOPIC
from store.structures.commitlog.rewritten import rewritten_records
from tests.engine.services.stores import NAMES, unpack

COPIED = ("topic", "queue_id", "body", "flag", "born_timestamp_ms", "born_host", "store_host", "reconsume_times")


def assert_same(message: Message, stored: StoredMessage) -> None:
    assert message.properties == stored.property_text
    assert {name: getattr(message, name) for name in COPIED} == {name: getattr(stored, name) for name in COPIED}
    assert (message.sys_flag, message.prepared_transaction_offset) == (
        stored.sys_flag,
        stored.prepared_transaction_offset,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_commit_is_the_record_that_the_real_broker_wrote(name: str, tmp_path: Path) -> None:
    root, _ = unpack(name, tmp_path)
    with open_store(root) as store:
        commits = [one for one in rewritten_records(store.opened.log) if one.sys_flag & 0xC == TRANSACTION_COMMIT]
        for commit in commits:
            half = store.lookup(commit.prepared_transaction_offset)
            assert half is not None
            assert_same(commit_message(half, store.opened.line), commit)
    assert commits


@pytest.mark.parametrize("name", NAMES)
def test_a_commit_of_5_5_is_that_of_5_3_without_its_real_topic_and_queue(name: str, tmp_path: Path) -> None:
    root, _ = unpack(name, tmp_path)
    with open_store(root) as store:
        half = next(iter(store.messages(HALF_TOPIC, 0)))
        before, after = (decode_properties(commit_message(half, one).properties) for one in (LINE_5_3, LINE_5_5))
    assert list(after.items()) == [
        (name, value) for name, value in before.items() if name not in ("REAL_TOPIC", "REAL_QID")
    ]
    assert len(after) == len(before) - 2


@pytest.mark.parametrize("name", NAMES)
def test_a_half_put_back_is_the_record_that_the_real_broker_wrote(name: str, tmp_path: Path) -> None:
    root, _ = unpack(name, tmp_path)
    before: dict[str | None, StoredMessage] = {}
    count = 0
    with open_store(root) as store:
        for half in store.messages(HALF_TOPIC, 0):
            if half.uniq_key in before:
                source = before[half.uniq_key]
                times = int(source.properties.get(CHECK_TIMES, "0")) + 1
                changed = {**source.properties, CHECK_TIMES: str(times)}
                assert_same(put_back_message(source, changed, store.opened.line), half)
                count += 1
            before[half.uniq_key] = half
    assert count > 0


@pytest.mark.parametrize("name", NAMES)
def test_an_op_record_is_the_one_that_the_real_broker_wrote(name: str, tmp_path: Path) -> None:
    root, _ = unpack(name, tmp_path)
    with open_store(root) as store:
        ops = list(store.messages(OP_TOPIC, 0))
        for op in ops:
            line, body = store.opened.line, op.body.decode()
            assert_same(op_message(body, op.store_host, op.born_timestamp_ms, line), op)
            assert "".join(op_body(int(half), line) for half in body.split(",") if half) == body
    assert ops


def test_a_half_loses_its_transaction_bits_and_its_delay_and_keeps_its_place() -> None:
    message = Message.of("Pay", "x", uniq_key="U", delay_level=3, queue_id=2, sys_flag=0x5, flag=7)
    old, new = (half_message(message, "PG", line, "U") for line in (LINE_4_9, LINE_5_3))
    assert (old.topic, old.queue_id, old.sys_flag, old.flag) == (HALF_TOPIC, 0, 0x1, 7)
    assert old.properties == b"REAL_TOPIC\x01Pay\x02TRAN_MSG\x01true\x02UNIQ_KEY\x01U\x02PGROUP\x01PG\x02REAL_QID\x012"
    assert b"__transactionId__\x01U\x02" in new.properties
    assert new.properties.endswith(b"\x02")


def test_the_4_9_half_has_its_properties_in_the_real_brokers_order(tmp_path: Path) -> None:
    root, _ = unpack("services", tmp_path)
    with open_store(root) as store:
        for half in store.messages(HALF_TOPIC, 0, max_count=18):
            own = {name: text for name, text in half.properties.items() if not name.startswith("REAL_")}
            sent = Message.of(
                half.properties["REAL_TOPIC"], half.body, properties=own, queue_id=int(half.properties["REAL_QID"])
            )
            assert half_message(sent, own["PGROUP"], LINE_4_9, "").properties == half.property_text


def stored(**properties: str) -> StoredMessage:
    from store.formats.message import decode_record, encode_record

    message = Message.of(HALF_TOPIC, "x", properties=properties, flag=7, reconsume_times=2)
    record = encode_record(
        message, topic=HALF_TOPIC.encode(), sys_flag=0, queue_offset=5, log_offset=900, store_timestamp_ms=1
    )
    return decode_record(record)


def test_a_half_put_back_loses_flag_and_reconsume_times() -> None:
    copy = put_back_message(stored(A="1"), {"A": "1"}, LINE_4_9)
    assert (copy.flag, copy.reconsume_times) == (0, 0)


def test_a_half_that_waits_for_its_own_time_remembers_its_first_place() -> None:
    first = immune_message(stored(A="1"), {"A": "1"}, LINE_4_9)
    second = immune_message(stored(A="1"), {"A": "1", "TRAN_PREPARED_QUEUE_OFFSET": "3"}, LINE_4_9)
    assert set(first.properties.split(b"\x02")) == {b"A\x011", b"WAIT\x01false", b"TRAN_PREPARED_QUEUE_OFFSET\x015"}
    assert b"TRAN_PREPARED_QUEUE_OFFSET\x013" in second.properties


def test_a_half_without_its_place_cannot_be_committed() -> None:
    with pytest.raises(BadRequest, match="no REAL_TOPIC, or no REAL_QID"):
        commit_message(stored(REAL_TOPIC="T"), LINE_4_9)
