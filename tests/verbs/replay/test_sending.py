"""What each record becomes on its way: a table of them, and the bytes that a consumer sees."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from store.formats.body import LZ4, ZSTD, encode_body
from store.formats.host import Host
from store.formats.message import Message, StoredMessage, decode_record, encode_record
from store.formats.properties import encode_properties
from store.verbs.replay.sending import Chooser, Sending

HOST = Host.parse("10.0.0.1:10911")
STORED_MS = 1_700_000_000_000
LEVELS_MS = (1_000, 5_000, 10_000, 30_000)
HALF, OP, SCHEDULE = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"
TIMER = "rmq_sys_wheel_timer"
ORDERS = {"REAL_TOPIC": "Orders", "REAL_QID": "3"}


def stored(topic: str, properties: dict[str, str] | None = None, at: int = 0, **fields: Any) -> StoredMessage:
    """A record at log offset `at`, with UNIQ_KEY `K` unless the properties say otherwise."""
    named = {"UNIQ_KEY": "K", **(properties or {})}
    body, queue_offset = fields.pop("body", b"hello"), fields.pop("queue_offset", 0)
    message = Message(topic, body, properties=encode_properties({k: v for k, v in named.items() if v}), **fields)
    message.store_host = HOST
    data = encode_record(
        message,
        topic=topic.encode(),
        sys_flag=message.sys_flag,
        queue_offset=queue_offset,
        log_offset=at,
        store_timestamp_ms=STORED_MS,
    )
    return decode_record(data)


def chosen(*records: StoredMessage, **options: Any) -> tuple[list[Sending], dict[str, int]]:
    chooser = Chooser(levels_ms=LEVELS_MS, **options)
    sent = list(chooser.messages(records))
    return sent, dict(chooser.left_out)


SENT = {
    # A record, and topic, properties beside UNIQ_KEY, reconsume times and due time of what is sent.
    "a message": (stored("Orders", {"TAGS": "a", "KEYS": "k"}), ("Orders", {"TAGS": "a", "KEYS": "k"}, 0, 0)),
    "a committed message": (
        stored("Orders", {**ORDERS, "TRAN_MSG": "true", "PGROUP": "g"}, sys_flag=8),
        ("Orders", {"PGROUP": "g"}, 0, 0),
    ),
    "a committed message of 5.5": (
        stored("Orders", {"TRAN_MSG": "true", "PGROUP": "g"}, sys_flag=8),
        ("Orders", {"PGROUP": "g"}, 0, 0),
    ),
    "a delivered delayed message": (stored("Orders", {**ORDERS, "DELAY": "3"}), ("Orders", {}, 0, 0)),
    "a message waiting for a delay": (
        stored(SCHEDULE, {**ORDERS, "DELAY": "3"}),
        ("Orders", {}, 0, STORED_MS + 10_000),
    ),
    "a delay above the last level": (
        stored(SCHEDULE, {**ORDERS, "DELAY": "9"}),
        ("Orders", {}, 0, STORED_MS + 30_000),
    ),
    "a timer message": (stored(TIMER, {**ORDERS, "TIMER_OUT_MS": "1800000000000"}), ("Orders", {}, 0, 1800000000000)),
    "a retry": (
        stored("%RETRY%g", {"RETRY_TOPIC": "Orders"}, reconsume_times=2),
        ("%RETRY%g", {"RETRY_TOPIC": "Orders"}, 2, 0),
    ),
    "a retry waiting for its time": (
        stored(SCHEDULE, {"REAL_TOPIC": "%RETRY%g", "REAL_QID": "0", "DELAY": "4", "RETRY_TOPIC": "Orders"}),
        ("%RETRY%g", {"RETRY_TOPIC": "Orders"}, 0, STORED_MS + 30_000),
    ),
    "a dead letter": (
        stored("%DLQ%g", {"RETRY_TOPIC": "Orders", "REAL_TOPIC": "%RETRY%g", "DELAY": "4"}, reconsume_times=16),
        ("%RETRY%g", {"RETRY_TOPIC": "Orders"}, 0, 0),
    ),
    "a record of a batch or with a CRC": (
        stored("Orders", {"INNER_NUM": "3", "__CRC32#": "0000000001", "INNER_MULTI_QUEUE_OFFSET": "5"}),
        ("Orders", {}, 0, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SENT)
def test_a_record_is_sent_as(name: str) -> None:
    record, wanted = SENT[name]
    (one,), left_out = chosen(record)
    properties = {key: value for key, value in one.properties.items() if key != "UNIQ_KEY"}
    assert (one.topic, properties, one.reconsume_times, one.deliver_ms) == wanted
    assert (one.uniq_key, one.origin, one.sys_flag, left_out) == ("K", record.msg_id, 0, {})


@pytest.mark.parametrize(
    ("topic", "properties", "queue_id", "due_ms"),
    [
        (SCHEDULE, {**ORDERS, "DELAY": "1"}, 3, STORED_MS + 1_000),
        (SCHEDULE, {**ORDERS, "DELAY": "2"}, 3, STORED_MS + 5_000),
        (SCHEDULE, {**ORDERS, "DELAY": "4"}, 3, STORED_MS + 30_000),
        (SCHEDULE, {**ORDERS, "DELAY": "5"}, 3, STORED_MS + 30_000),
        (SCHEDULE, {**ORDERS, "DELAY": "0"}, 3, 0),
        (SCHEDULE, ORDERS, 3, 0),
        (SCHEDULE, {"REAL_TOPIC": "Orders", "DELAY": "1"}, 0, STORED_MS + 1_000),
        (SCHEDULE, {**ORDERS, "REAL_QID": "x", "DELAY": "1"}, 0, STORED_MS + 1_000),
        (TIMER, {**ORDERS, "DELAY": "1"}, 3, 0),
        (TIMER, {**ORDERS, "TIMER_OUT_MS": "9"}, 3, 9),
        (HALF, {**ORDERS, "DELAY": "1"}, 3, 0),
    ],
)
def test_a_waiting_message_has_its_queue_and_the_time_at_which_it_is_due(
    topic: str, properties: dict[str, str], queue_id: int, due_ms: int
) -> None:
    (one,), _ = chosen(stored(topic, properties), halves=True)
    assert (one.queue, one.deliver_ms) == (("Orders", queue_id), due_ms)


def test_without_the_delays_of_the_levels_a_message_is_due_at_once() -> None:
    (one,) = Chooser().messages([stored(SCHEDULE, {**ORDERS, "DELAY": "1"})])
    assert one.deliver_ms == 0


LEFT_OUT = {
    "half message": (stored(HALF, ORDERS), "half"),
    "prepared message of an old broker": (stored("Orders", sys_flag=4), "half"),
    "rolled-back message": (stored("Orders", sys_flag=12), "rolled-back"),
    "end of a transaction": (stored(OP, {"TAGS": "d"}, body=b"0"), "op"),
    "half checked too often": (stored("TRANS_CHECK_MAX_TIME_TOPIC", ORDERS), "discarded"),
    "placeholder": (stored("Orders", {"RMQCTL_LOST": "damaged"}), "placeholder"),
    "empty body": (stored("Orders", body=b""), "empty"),
    "body that is no zlib stream": (stored("Orders", body=b"hello", sys_flag=1), "unreadable"),
    "trace": (stored("RMQ_SYS_TRACE_TOPIC"), "system"),
    "check-point of a pop": (stored("rmq_sys_REVIVE_LOG_c"), "system"),
    "delayed message without its topic": (stored(SCHEDULE, {"DELAY": "3"}), "system"),
    "recall of a timer message": (stored(TIMER, {**ORDERS, "TIMER_DEL_UNIQKEY": "Orders+K"}), "recalled"),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_it_is_left_out_and_counted(name: str) -> None:
    record, kind = LEFT_OUT[name]
    assert chosen(record) == ([], {kind: 1})


def test_a_body_without_its_crc_is_left_out() -> None:
    record = stored("Orders", body=b"hello")
    damaged = decode_record(record.raw.replace(b"hello", b"jello"))
    assert chosen(damaged) == ([], {"damaged": 1})


COPIES = {
    "the delivered copy of a delayed message": (
        [stored(SCHEDULE, {**ORDERS, "DELAY": "3"}), stored("Orders", {**ORDERS, "DELAY": "3"}, 500)],
        {"delayed": 1},
    ),
    "the copy before the message that waits": (
        [stored("Orders", {**ORDERS, "DELAY": "3"}), stored(SCHEDULE, {**ORDERS, "DELAY": "3"}, 500)],
        {"delayed": 1},
    ),
    "the message of a retry": (
        [stored("Orders"), stored("%RETRY%g", {"RETRY_TOPIC": "Orders"}, 500, reconsume_times=1)],
        {"retried": 1},
    ),
    "the message of a dead letter": (
        [stored("Orders"), stored("%DLQ%g", {"RETRY_TOPIC": "Orders"}, 500)],
        {"retried": 1},
    ),
}


@pytest.mark.parametrize("name", COPIES)
def test_one_of_two_is_sent(name: str) -> None:
    records, left_out = COPIES[name]
    sent, found = chosen(*records)
    assert ([one.topic for one in sent], found) == (["Orders"], left_out)


HALVES = {
    "nothing ended it": ([], ["Orders"], {}),
    "it was committed": ([stored("Orders", ORDERS, 500, sys_flag=8)], ["Orders"], {"half": 1}),
    "it was rolled back": ([stored(OP, {"TAGS": "d", "UNIQ_KEY": ""}, 500, body=b"7")], [], {"op": 1, "ended": 1}),
    "another was rolled back": ([stored(OP, {"UNIQ_KEY": ""}, 500, body=b"1,6")], ["Orders"], {"op": 1}),
    "5.4 ended its transaction": (
        [stored("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", {"UNIQ_KEY": "", "__transactionId__": "X"}, 500)],
        [],
        {"op": 1, "ended": 1},
    ),
    "5.4 ended another transaction": (
        [stored("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", {"UNIQ_KEY": "", "__transactionId__": "Y"}, 500)],
        ["Orders"],
        {"op": 1},
    ),
    "5.4 ended none": (
        [stored("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", {"UNIQ_KEY": ""}, 500)],
        ["Orders"],
        {"op": 1},
    ),
    "it was checked and put back": (
        [stored(OP, {"UNIQ_KEY": ""}, 500, body=b"7"), stored(HALF, ORDERS, 600, queue_offset=8)],
        ["Orders"],
        {"op": 1, "half": 1},
    ),
    "it was checked too often": (
        [stored(OP, {"UNIQ_KEY": ""}, 500, body=b"7"), stored("TRANS_CHECK_MAX_TIME_TOPIC", ORDERS, 600)],
        ["Orders"],
        {"op": 1, "discarded": 1},
    ),
}


@pytest.mark.parametrize("name", HALVES)
def test_a_half_message_with_half_is_sent_unless(name: str) -> None:
    others, topics, left_out = HALVES[name]
    half = stored(HALF, {**ORDERS, "__transactionId__": "X"}, queue_offset=7)
    sent, found = chosen(half, *others, halves=True)
    assert ([one.topic for one in sent], found) == (topics, left_out)


def test_a_recalled_timer_message_is_left_out() -> None:
    timer = {**ORDERS, "TIMER_OUT_MS": "1800000000000"}
    recalls = [stored(TIMER, {**timer, "TIMER_DEL_UNIQKEY": text}, 500) for text in ("Orders+K", "L")]
    sent, left_out = chosen(*(stored(TIMER, {**timer, "UNIQ_KEY": key}) for key in "KLM"), *recalls)
    assert ([one.uniq_key for one in sent], left_out) == (["M"], {"recalled": 4})


PLAIN = b"hello, hello, hello, hello"


@pytest.mark.parametrize(
    ("sys_flag", "body", "sent_flag", "sent_body"),
    [
        (0, PLAIN, 0, PLAIN),
        (1, zlib.compress(PLAIN), 1, zlib.compress(PLAIN)),
        (0x301, zlib.compress(PLAIN), 0x301, zlib.compress(PLAIN)),
        (0x101, encode_body(PLAIN, LZ4), 0, PLAIN),
        (0x201, encode_body(PLAIN, ZSTD), 0, PLAIN),
        (0x2 | 0x8, PLAIN, 0x2, PLAIN),
        (0x182, PLAIN, 0x102, PLAIN),
    ],
)
def test_a_consumer_of_any_version_sees_the_same_bytes(
    sys_flag: int, body: bytes, sent_flag: int, sent_body: bytes
) -> None:
    (one,), _ = chosen(stored("Orders", body=body, sys_flag=sys_flag))
    assert (one.sys_flag, one.body) == (sent_flag, sent_body)


def test_a_message_without_a_unique_key_gets_its_message_id() -> None:
    record = stored("Orders", {"UNIQ_KEY": ""}, 4096)
    (one,), _ = chosen(record)
    assert one.uniq_key == one.properties["UNIQ_KEY"] == record.msg_id == "0A00000100002A9F0000000000001000"


def test_topics_are_mapped_by_the_topic_that_the_producer_named() -> None:
    records = [
        stored("Orders", {"UNIQ_KEY": "1"}),
        stored(SCHEDULE, {**ORDERS, "DELAY": "1", "UNIQ_KEY": "2"}),
        stored("%DLQ%g", {"UNIQ_KEY": "3"}, reconsume_times=16),
        stored("Bills", {"UNIQ_KEY": "4"}),
    ]
    chooser = Chooser(levels_ms=LEVELS_MS, topics={"Orders": "Again", "%DLQ%g": "Orders", "None": "x"})
    sent = list(chooser.messages(records))
    assert chooser.mapped == {"Orders", "%DLQ%g"}
    assert [(one.uniq_key, one.topic, one.reconsume_times) for one in sent] == [
        ("1", "Again", 0),
        ("4", "Bills", 0),
        ("2", "Again", 0),
        ("3", "Orders", 0),
    ]
    assert [one.queue for one in sent] == [("Orders", 0), ("Bills", 0), ("Orders", 3), ("%DLQ%g", 0)]


def test_messages_that_differ_in_topic_key_or_body_have_other_keys_in_the_ledger() -> None:
    records = [
        stored("Orders"),
        stored("Orders", at=500),
        stored("Bills"),
        stored("Orders", {"UNIQ_KEY": "L"}),
        stored("Orders", body=b"jello"),
    ]
    keys = [one.key for one in chosen(*records)[0]]
    assert (keys[0] == keys[1], len(set(keys))) == (True, 4)
    # A ledger of an earlier run has this key.
    assert keys[0].hex() == "407525f3fe85c71a30794005aa545862"
