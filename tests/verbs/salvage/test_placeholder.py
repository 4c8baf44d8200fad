"""Placeholders: each has the shape by which the reader of its topic passes over it.

Topics of structures that only 5.x has want nothing more (5.5.0):

    RMQ_SYS_ROCKSDB_TRANS_*   without UNIQ_KEY and REAL_TOPIC no entry (TransMessageRocksDBStore.buildTransIndex)
    topics with compaction    without KEYS not copied to compactionLog/ (CompactionLog.asyncPutMessage)
    timers in a RocksDB       TIMER_DEL_UNIQKEY is never put (TimerMessageRocksDBStore.doPut)

CHECKPOINT_TOPIC is no topic, but a key in the RocksDB of queues (RocksDBConsumeQueueOffsetTable).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.store_reader import StoreReader
from store.formats.inner_batch import inner_batch_of
from store.formats.message import decode_record
from store.formats.topics import DISCARD_TOPIC
from store.setting_values import MAX_LONG
from store.verbs.salvage.placeholder import (
    LIGHT_TOPIC,
    Placeholder,
    encode_placeholder,
    find_placeholders,
    light_topic,
)

NOW_MS = 1_700_000_000_123
SHAPES = {
    "Orders": {},
    "%DLQ%group": {},
    "rmq_sys_REVIVE_LOG_cluster": {},
    "TRANS_CHECK_MAX_TIME_TOPIC": {},
    "OFFSET_MOVED_EVENT": {},
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC": {},
    "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC": {},
    "RMQ_SYS_TRANS_HALF_TOPIC": {},
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": {"TAGS": "d"},
    "SCHEDULE_TOPIC_XXXX": {"DELAY": "3", "REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
    "rmq_sys_wheel_timer": {"TIMER_OUT_MS": str(NOW_MS), "TIMER_DEL_UNIQKEY": "RMQCTL_LOST", "REAL_QID": "0"},
    "%RETRY%group": {"RETRY_TOPIC": "%RETRY%group"},
}


@pytest.mark.parametrize("topic", SHAPES)
def test_a_placeholder_has_a_body_and_what_the_reader_of_its_topic_wants(topic: str) -> None:
    record = decode_record(encode_placeholder(Placeholder(topic.encode(), 2, 7), 4096, NOW_MS))
    assert (record.topic, record.queue_id, record.queue_offset, record.log_offset) == (topic, 2, 7, 4096)
    assert (record.body, record.born_timestamp_ms, record.store_timestamp_ms) == (b"\0", 0, NOW_MS)
    assert record.properties == {"RMQCTL_LOST": "true", **SHAPES[topic]}


def test_a_placeholder_of_a_batch_queue_takes_all_offsets_of_its_gap_and_is_no_inner_batch_for_a_client(
    tmp_path: Path,
) -> None:
    data = encode_placeholder(Placeholder(b"Batched", 0, 7, offset_count=5), 0, NOW_MS)
    record = decode_record(data)
    assert (record.sys_flag, record.body) == (0, b"\0")
    assert record.properties == {"RMQCTL_LOST": "true", "INNER_BASE": "7", "INNER_NUM": "5"}
    assert inner_batch_of(record.properties) == (7, 5)
    (tmp_path / "commitlog").mkdir()
    data += encode_placeholder(Placeholder(b"Batched", 0, 3), len(data), NOW_MS)
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(data.ljust(4096, b"\0"))
    assert find_placeholders(StoreReader(str(tmp_path))) == {("Batched", 0, False): (3, 6)}


@pytest.mark.parametrize(("count", "more"), [(1, {}), (2, {"INNER_BASE": "7", "INNER_NUM": "2"})])
def test_a_placeholder_of_one_offset_names_no_count(count: int, more: dict[str, str]) -> None:
    record = decode_record(encode_placeholder(Placeholder(b"Batched", 0, 7, offset_count=count), 0, NOW_MS))
    assert record.properties == {"RMQCTL_LOST": "true", **more}


def test_what_was_discarded_is_no_placeholder(tmp_path: Path) -> None:
    data = encode_placeholder(Placeholder(b"T", 0, 3), 0, NOW_MS)
    data += encode_placeholder(Placeholder(DISCARD_TOPIC.encode(), 0, 5), len(data), NOW_MS)
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(data.ljust(4096, b"\0"))
    assert find_placeholders(StoreReader(str(tmp_path))) == {("T", 0, False): (3, 1)}


def test_placeholders_after_a_zeroed_record_head_are_counted(tmp_path: Path) -> None:
    data = b""
    for queue_offset in (3, 4, 5):
        data += encode_placeholder(Placeholder(b"T", 0, queue_offset), len(data), NOW_MS)
    size = len(data) // 3
    (tmp_path / "commitlog").mkdir()
    data = data[:size] + bytes(8) + data[size + 8 :]
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(data.ljust(4096, b"\0"))
    assert find_placeholders(StoreReader(str(tmp_path))) == {("T", 0, False): (3, 2)}


@pytest.mark.parametrize("topic", ["Orders", "rmq_sys_wheel_timer", "T" * 127, "T" * 128])
def test_its_size_does_not_depend_on_place_and_time(topic: str) -> None:
    sizes = {
        len(encode_placeholder(Placeholder(topic.encode(), 0, 7), *place)) for place in ((0, 0), (1 << 40, NOW_MS))
    }
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("topic", "names", "takes"),
    [
        ("Orders", 0, True),
        ("Orders", 99, True),
        ("Orders", 100, False),
        ("%LMQ%RMQCTL_LOST", 1, True),
        ("%RETRY%group", 0, False),
        ("rmq_sys_wheel_timer", 0, False),
        ("SCHEDULE_TOPIC_XXXX", 0, False),
        ("RMQ_SYS_TRANS_HALF_TOPIC", 0, False),
    ],
)
def test_it_takes_light_queues_where_a_broker_dispatches_to_them(topic: str, names: int, takes: bool) -> None:
    light = tuple((b"%%LMQ%%%0249d" % number, MAX_LONG) for number in range(names))
    placeholder = Placeholder(topic.encode(), 0, 7, light)
    record = decode_record(encode_placeholder(placeholder, 0, NOW_MS))
    assert placeholder.takes_light == takes
    assert record.properties.get("INNER_MULTI_DISPATCH", "").split(",")[:names] == [one.decode() for one, _ in light]


def test_placeholders_of_each_salvage_have_a_topic_of_their_own() -> None:
    topics = LIGHT_TOPIC, light_topic(0), light_topic(1), light_topic(12)
    assert topics == tuple(b"%%LMQ%%RMQCTL_LOST%03d" % number for number in (0, 0, 1, 12))


def test_padding_is_of_zeros_in_the_body() -> None:
    assert decode_record(encode_placeholder(Placeholder(b"T", 0, 7), 0, NOW_MS, padding=3)).body == bytes(4)
