"""Encoding of many messages at once, and of one, gives the bytes that records have."""

from __future__ import annotations

import struct
from itertools import accumulate
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.columns import ScanOutcome
from store.kernels.encode import NUMBER_NAMES
from tests.support.guarded import GuardedBuffer
from tests.support.logs import parts, record
from tests.support.twice import COLUMN_COUNT, both, scan

FILE_START = 4096
HOSTS = bytes(40)
PAIRS = bytes(range(80))
"""Two pairs of hosts."""


def joined(items: list[bytes]) -> tuple[bytes, Any]:
    ends = np.array([0, *accumulate(map(len, items))], np.int64)
    return b"".join(items), ends


def encode(
    messages: list[dict[str, Any]], segment_size: int, *, start: int = 0, capacity: int = 100, hosts: bytes = HOSTS
) -> Any:
    """(segment, columns, next queue offsets, count, state) of both kinds of kernels."""
    topics = sorted({message["topic"] for message in messages})
    rows = {name: [0] * len(messages) for name in NUMBER_NAMES}
    rows["topic"] = [topics.index(message["topic"]) for message in messages]
    rows["queue"] = [message.get("queue_id", 0) + 1 for message in messages]
    rows["flag"] = [5] * len(messages)
    rows["born_timestamp_ms"] = [1] * len(messages)
    for name in ("queue_id", "sys_flag", "store_timestamp_ms", "hosts"):
        rows[name] = [message.get(name, 0) for message in messages]
    numbers = np.array(list(rows.values()), np.int64).reshape(len(NUMBER_NAMES), -1)
    bodies, body_ends = joined([message["body"] for message in messages])
    texts, property_ends = joined([message["properties"] for message in messages])
    names, topic_ends = joined(topics)

    def ask(kernels: ModuleType) -> Any:
        segment = bytearray(segment_size)
        columns, state = np.zeros((COLUMN_COUNT, capacity), np.int64), np.zeros(8, np.int64)
        offsets = np.full(8, 10, np.int64)
        count = kernels.encode_records(
            segment, 0, FILE_START, bodies, body_ends, texts, property_ends,
            names, topic_ends, hosts, numbers, start, offsets, columns, state,
        )  # fmt: skip
        return bytes(segment), columns[:, :count].T.tolist(), offsets.tolist(), count, state.tolist()[:4]

    return both(ask)


@given(st.lists(parts.filter(lambda part: len(part["topic"]) < 128), max_size=8))
def test_many_records_are_the_bytes_of_each_and_their_columns_those_of_a_scan(messages: list[dict[str, Any]]) -> None:
    messages = [message for message in messages if not message["properties"].count(b"DELAY")]
    expected, offsets = b"", [10] * 8
    for message in messages:
        queue, queued = message["queue_id"] + 1, message["sys_flag"] & 0xC in (0, 8)
        message = {**message, "queue_offset": offsets[queue] if queued else 0}
        offsets[queue] += queued
        expected += record(**message, position=FILE_START + len(expected))
    segment, columns, moved, count, state = encode(messages, len(expected) + 8)
    assert (segment[: len(expected)], count, moved) == (expected, len(messages), offsets)
    assert (state[0], state[1]) == (len(expected), ScanOutcome.LIMIT)
    assert [list(row) for row in scan(expected, check_crc=True).rows] == columns


MESSAGE = {"topic": b"T", "body": b"0123456789", "properties": b"K\x01v"}
SIZE = len(record(**MESSAGE))  # type: ignore[arg-type]


@pytest.mark.parametrize(("sys_flag", "born", "stored"), [(0, 8, 8), (0x10, 20, 8), (0x20, 8, 20), (0x30, 20, 20)])
@pytest.mark.parametrize("pair", [0, 1])
def test_a_record_has_the_hosts_of_its_pair(sys_flag: int, born: int, stored: int, pair: int) -> None:
    message = {**MESSAGE, "sys_flag": sys_flag, "hosts": pair}
    segment, columns, *_ = encode([message], 500, hosts=PAIRS)
    start = 40 * pair
    assert segment[48 : 48 + born] == PAIRS[start : start + born]
    assert segment[48 + born + 8 : 48 + born + 8 + stored] == PAIRS[start + 20 : start + 20 + stored]
    assert columns == [list(row) for row in scan(segment[: columns[0][1]], check_crc=True).rows]


@pytest.mark.parametrize(("spare", "fitting"), [(7, 2), (8, 3), (SIZE + 7, 3)])
def test_a_record_is_written_only_if_a_blank_still_fits_behind_it(spare: int, fitting: int) -> None:
    segment, _, _, count, state = encode([MESSAGE] * 9, 3 * SIZE + spare)
    assert (count, state[0], state[1], state[3]) == (fitting, fitting * SIZE, ScanOutcome.BLANK, SIZE)
    assert not any(segment[fitting * SIZE :])


def test_full_columns_stop_the_encoder_where_it_can_go_on() -> None:
    _, _, offsets, count, state = encode([MESSAGE] * 9, 100 * SIZE, capacity=4)
    assert (count, state[1], offsets[1]) == (4, ScanOutcome.FULL, 14)
    assert encode([MESSAGE] * 9, 100 * SIZE, start=4)[3] == 5


@pytest.mark.parametrize("part", [{"topic": b"t" * 128}, {"properties": b"p" * 32_768}])
def test_a_part_the_format_cannot_hold_is_refused_before_a_byte_is_written(part: dict[str, bytes]) -> None:
    segment, _, _, count, state = encode([{**MESSAGE, **part}], 1 << 16)
    assert (count, state[0], state[1], any(segment)) == (0, 0, ScanOutcome.DAMAGE, False)


CLOSED, LATEST_MS = 1, 7


def append_one(
    message: dict[str, Any],
    *,
    room: int = 8,
    at: int = 0,
    limit: int = 1 << 20,
    gate: tuple[int, int] = (0, 0),
    **wrong: int,
) -> tuple[int, bytes, tuple[int, ...]]:
    """(position, segment, (closed, newest store time, wrote, next queue offset)) of both kinds of kernels.

    A page without access follows the segment."""
    numbers = {
        "queue_id": message.get("queue_id", 0),
        "flag": 5,
        "sys_flag": message.get("sys_flag", 0),
        "born_timestamp_ms": 1,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
    } | wrong
    parts = [message[name] for name in ("topic", "body", "properties")]
    hosts = bytes(sum(20 if message.get("sys_flag", 0) & bit else 8 for bit in (0x10, 0x20)))
    size = len(record(**message)) + max(at, 0) + room
    now_ms = message.get("store_timestamp_ms", 0)

    def ask(kernels: ModuleType) -> tuple[int, bytes, tuple[int, ...]]:
        segment = GuardedBuffer(size).place(b"\xff" * size)
        cells = [bytearray(struct.pack(">q", value)) for value in (at, message.get("queue_offset", 0))]
        look = bytearray(struct.pack(">qq", *gate))
        position = kernels.append_message(
            look, cells[0], segment, FILE_START, limit, cells[1], now_ms, *parts, hosts, *numbers.values()
        )
        return position, bytes(segment), struct.unpack(">qqqq", look + cells[0] + cells[1])

    answer: tuple[int, bytes, tuple[int, ...]] = both(ask)
    return answer


@given(parts, st.integers(0, 50))
def test_one_record_is_its_bytes_and_zeros_behind_them(message: dict[str, Any], at: int) -> None:
    queued = message["sys_flag"] & 0xC in (0, 8)
    expected = record(**{**message, "queue_offset": message.get("queue_offset", 0) * queued}, position=FILE_START + at)
    position, segment, cells = append_one(message, at=at)
    assert segment == b"\xff" * at + expected + bytes(8)
    assert position == at
    newest_ms = message.get("store_timestamp_ms", 0)
    assert cells == (0, newest_ms, at + len(expected), message.get("queue_offset", 0) + queued)


@pytest.mark.parametrize(("room", "at", "result"), [(7, 0, -1), (8, 0, 0), (8, 3, 3), (8, -1, -1)])
def test_one_record_is_written_only_where_eight_bytes_more_fit(room: int, at: int, result: int) -> None:
    position, segment, cells = append_one(MESSAGE, room=room, at=at)
    assert position == result
    assert cells[2] == (at + SIZE if result >= 0 else at)
    assert result >= 0 or set(segment) == {0xFF}


@pytest.mark.parametrize(("limit", "result"), [(SIZE + 7, -1), (SIZE + 8, 0)])
def test_nothing_is_written_beyond_the_limit(limit: int, result: int) -> None:
    assert append_one(MESSAGE, room=100, limit=limit)[0] == result


@pytest.mark.parametrize(
    ("gate", "result"), [((CLOSED, 0), -3), ((0, LATEST_MS + 1), -4), ((0, LATEST_MS), 0), ((0, LATEST_MS - 1), 0)]
)
def test_a_closed_gate_and_a_store_time_before_the_newest_stop_a_put(gate: tuple[int, int], result: int) -> None:
    position, segment, cells = append_one({**MESSAGE, "store_timestamp_ms": LATEST_MS}, gate=gate)
    assert position == result
    assert result == 0 or (set(segment), cells) == ({0xFF}, (*gate, 0, 0))


@pytest.mark.parametrize(
    "wrong",
    [{"queue_id": 1 << 31}, {"flag": -(1 << 31) - 1}, {"reconsume_times": 1 << 40}, {"sys_flag": 0x10}],
)
def test_a_number_or_a_host_that_no_record_can_hold_is_refused(wrong: dict[str, int]) -> None:
    position, segment, cells = append_one(MESSAGE, **wrong)
    assert (position, set(segment), cells) == (-2, {0xFF}, (0, 0, 0, 0))


@pytest.mark.parametrize("size", [127, 128, 255, 256, 300, 32_767])
def test_a_topic_has_a_size_of_a_byte_or_in_v2_of_two(size: int) -> None:
    message = {**MESSAGE, "topic": b"t" * size, "store_timestamp_ms": 7}
    expected = record(**message, position=FILE_START)
    position, segment, cells = append_one(message)
    assert (position, segment) == (0, expected + bytes(8))
    assert cells == (0, 7, len(expected), 1)
