"""Which messages are refused, with which sentence, at the byte where a limit ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from store import Message, MessageColumns
from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.config import StoreConfig
from store.errors import BadRequest
from store.structures.commitlog.put_result import PutStatus
from store.structures.commitlog.put_rules import PutRules

SEGMENT, MOST_BODY = 1000, 400
CONFIG = replace(StoreConfig(), max_message_size=MOST_BODY)
T = Message("T", b"x")
IN_4_X = "the topic must have 1 to 127 bytes of UTF-8 in a 4.x store"
IN_NONE = "the topic must have 1 to 127 bytes of UTF-8"
IN_5_X = "the topic must have 1 to 255 bytes of UTF-8"
SENT = "the batch is sent as 401 bytes, maxMessageSize is 400"
LONG = "the record would have 993 bytes, the limit is 992"


def rules(line: BrokerLine = LINE_4_9) -> PutRules:
    return PutRules(CONFIG, SEGMENT, line)


@pytest.mark.parametrize(
    ("topic", "line", "reason"),
    [
        ("", LINE_4_9, IN_NONE), ("x" * 127, LINE_4_9, ""), ("x" * 128, LINE_4_9, IN_4_X), ("é" * 63, LINE_4_9, ""),
        ("é" * 64, LINE_4_9, IN_4_X), ("", LINE_5_3, IN_5_X), ("x" * 255, LINE_5_3, ""), ("x" * 256, LINE_5_3, IN_5_X),
        ("x" * 255, LINE_4_9, IN_4_X), ("x" * 256, LINE_4_9, IN_NONE),
        ("a/b", LINE_4_9, "no folder can have the topic's name: 'a/b'"),
        ("..", LINE_5_3, "no folder can have the topic's name: '..'"),
    ],
)  # fmt: skip
def test_a_topic_has_as_many_bytes_as_its_record_can_say(topic: str, line: BrokerLine, reason: str) -> None:
    assert rules(line).refuse_place(topic, 0) == reason
    assert rules(line).refuse_place(topic, -1) == "the queue id is negative: -1"


BATCH_LIMIT = MOST_BODY - 2 * 22
"""The bytes of two bodies and their properties in a batch of the greatest size."""
OTHERS = "all messages of a batch need the same topic and queue"


@pytest.mark.parametrize(
    ("messages", "is_batch", "reason"),
    [
        ([], True, "the batch is empty"),
        ([Message("", b"x")], True, IN_NONE),
        ([Message("T", b"x", -1)], True, "the queue id is negative: -1"),
        ([Message("T", b"x", 0)], True, None),
        ([T, Message("U", b"x")], True, OTHERS),
        ([T, Message("T", b"x", 1)], True, OTHERS),
        ([T, Message("T", b"x" * (BATCH_LIMIT - 1))], True, None),
        ([T, Message("T", b"x" * BATCH_LIMIT)], True, SENT),
        ([T, Message("T", b"x" * (BATCH_LIMIT - 4), 0, b"a\1b")], True, None),
        ([T, Message("T", b"x" * (BATCH_LIMIT - 3), 0, b"a\1b")], True, SENT),
        ([T, Message("T", b"x", sys_flag=4)], True, "a batch cannot be part of a transaction"),
        ([T, Message("T", b"x", sys_flag=4)], False, None),
        ([T, Message("T", b"x", 0, b"DELAY\x013")], True, "a batch cannot be delayed"),
        ([T, Message("T", b"x", 0, b"DELAY\x013")], False, None),
        ([T, Message("T", b"x" * 400)], False, None),
        ([T, Message("T", b"x" * 401)], False, "the body has 401 bytes, maxMessageSize is 400"),
        ([Message("T", b"x" * 400, 0, b"a\1" + b"b" * 498)], False, None),
        ([Message("T", b"x" * 400, 0, b"a\1" + b"b" * 499)], False, LONG),
    ],
)  # fmt: skip
def test_a_batch_is_refused_by_its_first_fault(messages: list[Message], is_batch: bool, reason: str | None) -> None:
    refused = rules().refuse_batch(messages, is_batch=is_batch)
    assert (refused and (refused.status, refused.reason)) == (reason and (PutStatus.MESSAGE_ILLEGAL, reason))


@pytest.mark.parametrize(
    ("properties", "stored"), [(b"", b""), (b"a\1b", b"a\1b\2"), (b"a\1b\2", b"a\1b\2"), (b"\2", b"\2")]
)
def test_5_x_ends_properties_with_a_separator(properties: bytes, stored: bytes) -> None:
    assert rules(LINE_5_3).as_stored(properties) == stored
    assert rules().as_stored(properties) == properties


def test_the_limit_that_a_message_exceeds_is_named() -> None:
    long = Message("T", b"x", 0, b"a\1" + b"b" * 32_766)
    found = rules().too_large(long, 1)
    assert (found.status, found.reason) == (
        PutStatus.MESSAGE_ILLEGAL, "the properties have 32768 bytes, the limit is 32767"
    )  # fmt: skip
    two_bytes = rules().too_large(Message("T", b"x", 0, b"a\1" + "é".encode() * 16_383), 1)
    assert (two_bytes.status, two_bytes.reason) == (
        PutStatus.PROPERTIES_SIZE_EXCEEDED, "the properties have 32768 bytes, the limit is 32767"
    )  # fmt: skip


@pytest.mark.parametrize(("given", "level"), [("1", 1), ("18", 18), ("19", 18), ("99", 18)])
def test_a_delayed_message_waits_in_its_level_with_its_place_as_properties(given: str, level: int) -> None:
    message = Message(
        "T", b"x", 5, b"DELAY\1" + given.encode(), 1, 2, 3, reconsume_times=6, prepared_transaction_offset=7
    )
    found = rules().delayed(message)
    assert (found.topic, found.queue_id, found.body) == ("SCHEDULE_TOPIC_XXXX", level - 1, b"x")
    parts = dict(part.split(b"\1") for part in found.properties.split(b"\2") if part)
    assert parts == {b"DELAY": str(level).encode(), b"REAL_TOPIC": b"T", b"REAL_QID": b"5"}
    names = ("flag", "sys_flag", "born_timestamp_ms", "born_host", "store_host", "reconsume_times",
             "prepared_transaction_offset")  # fmt: skip
    assert [getattr(found, name) for name in names] == [getattr(message, name) for name in names]


@pytest.mark.parametrize("properties", [b"", b"DELAY\x010", b"DELAY\x01-1"])
def test_a_message_without_a_level_stays(properties: bytes) -> None:
    message = Message("T", b"x", 5, properties)
    assert rules().delayed(message) is message


def test_rows_are_refused_at_the_same_bytes_as_single_messages() -> None:
    messages = [
        T,
        Message("T", b"x", -1),
        Message("T", b"x" * 400),
        Message("T", b"x" * 401),
        Message("T", b"x" * 400, 0, b"a\1" + b"b" * 498),
        Message("T", b"x" * 400, 0, b"a\1" + b"b" * 499),
        Message("x" * 128, b"x"),
    ]
    refused = rules().refuse_rows(MessageColumns.of(messages)).tolist()
    assert refused == [False, True, False, True, False, True, True]
    assert refused == [rules().refuse_batch([one], is_batch=False) is not None for one in messages]


@pytest.mark.parametrize("topic", ["a\1b", "a\2UNIQ_KEY\1evil"])
def test_a_topic_that_no_property_can_hold_is_not_delayed(topic: str) -> None:
    refused = "the topic of a delayed message holds the byte 1 or 2, which separate properties"
    assert rules().refuse_delayed(Message(topic, b"x", 5, b"DELAY\x011")) == refused
    assert rules().refuse_delayed(Message(topic, b"x", 5)) == rules().refuse_delayed(T) == ""


@pytest.mark.parametrize(
    ("level", "refused"),
    [
        ("1", ""),
        ("-1", ""),
        ("99", ""),
        ("abc", "the property DELAY is not a number: 'abc'"),
        ("3.5", "the property DELAY is not a number: '3.5'"),
        ("2147483648", "the property DELAY is not a number: '2147483648'"),
    ],
)
def test_a_delay_that_java_reads_as_no_number_is_refused(level: str, refused: str) -> None:
    assert rules().refuse_delayed(Message("T", b"x", 5, b"DELAY\x01" + level.encode())) == refused


def test_unknown_delays_are_asked_for_until_they_are_known() -> None:
    asked = list[bool]()

    def ask() -> None:
        asked.append(len(asked) < 2)
        if asked[-1]:
            raise BadRequest("two delays")

    found = PutRules(CONFIG, SEGMENT, before_delay=ask)
    delayed = Message("T", b"x", 5, b"DELAY\x011")
    assert [found.refuse_delayed(one) for one in (T, delayed, delayed, delayed, delayed)] == [
        "", "two delays", "two delays", "", ""
    ]  # fmt: skip
    assert asked == [True, True, False]
