"""Queues, units and index entries from whole logs, against the naive twin and the brokers' own files."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from store import kernels
from store.config import StoreConfig
from store.formats.columns import COLUMN_NAMES, Column
from store.kernels.index import MAX_KEYS_OF_RECORD
from store.kernels.queue_table import EMPTY, QUEUE_HASH, QUEUE_ROWS
from store.structures.consumequeue.numbering import QueueTable
from tests.support import naive
from tests.support.golden import ALL, golden
from tests.support.guarded import GuardedBuffer
from tests.support.logs import SCHEDULE, log_of, parts, record
from tests.support.twice import both, scan, uncompiled

LEVELS = [1000, 5000, 10000]


def queue_files(data: bytes, levels: list[int] = LEVELS) -> dict[tuple[bytes, int], bytes]:
    """The units of every queue, made by the kernels of both kinds."""
    columns = scan(data).matrix
    count = columns.shape[1]

    def ask(kernels: ModuleType) -> dict[tuple[bytes, int], bytes]:
        table = QueueTable()
        slots = table.assign(memoryview(data), columns, count)
        codes, order = np.zeros(count, np.int64), np.zeros(count, np.int64)
        starts = np.zeros(len(table) + 1, np.int64)
        kernels.tags_codes(data, columns, count, np.array(levels, np.int64), codes)
        kernels.order_by_queue(slots, count, len(table), order, starts)
        files = {}
        for number, queue in enumerate(table.queues):
            units = bytearray(20 * int(starts[number + 1] - starts[number]))
            end = kernels.write_units(units, 0, order, int(starts[number]), int(starts[number + 1]), columns, codes)
            assert end == len(units)
            files[queue] = bytes(units)
        return files

    found: dict[tuple[bytes, int], bytes] = both(ask)
    return found


def index_files(data: bytes, slot_count: int, capacity: int, key_room: int = 1 << 15) -> list[bytes]:
    """The index files of a segment, made by the kernels of both kinds."""
    columns = scan(data).matrix

    def ask(kernels: ModuleType) -> list[bytes]:
        size = 40 + 4 * slot_count + 20 * capacity
        files, header = [bytearray(size)], np.array([0, 0, 0, 0, 0, 1], np.int64)
        hashes, records, state = np.zeros(key_room, np.int64), np.zeros(key_room, np.int64), np.zeros(8, np.int64)
        while state[0] < columns.shape[1]:
            found = kernels.key_hashes(data, columns, int(state[0]), columns.shape[1], 0, hashes, records, state)
            at = 0
            while at < found:
                at = kernels.put_index_entries(
                    files[-1], slot_count, capacity, hashes, records, at, found, columns, header
                )
                if at < found:
                    files.append(bytearray(size))
                    header[:] = [header[1], header[1], header[3], header[3], 0, 1]
        return [bytes(file) for file in files]

    made: list[bytes] = both(ask)
    return made


def records_of(data: bytes) -> list[naive.Record]:
    return naive.scan(data, 0, len(data), True, False)[0]


@pytest.mark.parametrize("name", ALL)
def test_queue_units_of_golden_stores_are_the_twins(name: str) -> None:
    levels = list(StoreConfig().delay_levels_ms)
    for data in golden(name).log.values():
        assert queue_files(data, levels) == naive.queue_files(records_of(data), levels)


@pytest.mark.parametrize("name", ALL)
def test_index_files_of_golden_stores_are_the_twins(name: str) -> None:
    for data in golden(name).log.values():
        assert index_files(data, 500, 300) == naive.index_files(records_of(data), 500, 300)


@pytest.mark.parametrize("begin_ms", [-1, 0, 1, 2])
@pytest.mark.parametrize("passed_ms", [-1000, 0, 999, 1000, (1 << 31) * 1000 - 1, (1 << 31) * 1000])
def test_an_entry_has_the_seconds_since_its_files_begin(begin_ms: int, passed_ms: int) -> None:
    times = begin_ms, begin_ms + passed_ms
    data = log_of([{"properties": b"KEYS\x01k", "store_timestamp_ms": time_ms} for time_ms in times])
    assert index_files(data, 3, 10) == naive.index_files(records_of(data), 3, 10)


@given(st.lists(parts, max_size=12))
def test_queue_units_of_any_log_are_the_twins(log: list[dict[str, object]]) -> None:
    data = log_of(log)
    assert queue_files(data) == naive.queue_files(records_of(data), LEVELS)


@given(st.lists(parts, max_size=12), st.integers(1, 5), st.integers(2, 6))
def test_index_files_of_any_log_are_the_twins(log: list[dict[str, object]], slots: int, capacity: int) -> None:
    data = log_of(log)
    assert index_files(data, slots, capacity) == naive.index_files(records_of(data), slots, capacity)


def test_more_queues_than_the_table_begins_with_find_their_numbers() -> None:
    queues = [(b"Topic-%d" % (n % 30), n // 30) for n in range(400)]
    data = log_of([{"topic": topic, "queue_id": queue_id} for topic, queue_id in queues * 2])
    files = queue_files(data)
    assert sorted(files) == sorted(queues)
    assert all(len(units) == 40 for units in files.values())


def test_prepared_and_rolled_back_messages_are_in_no_queue() -> None:
    data = log_of([{"sys_flag": flag} for flag in (0, 4, 8, 0xC)])
    assert [len(units) for units in queue_files(data).values()] == [40]


@pytest.mark.parametrize(
    ("level", "levels", "delay"),
    [
        (b"1", LEVELS, 1000),
        (b"2", LEVELS, 5000),
        (b"9", LEVELS, 10000),
        (b"0", LEVELS, None),
        (b"-1", LEVELS, None),
        (b"2", [], None),
        (b"1", [-1, 5], 1000),
        (b"1", [0, 5], 0),
        (b"3", [1, -7], 1000),
    ],
)
def test_a_delayed_message_has_its_deliver_time_for_a_tags_code(
    level: bytes, levels: list[int], delay: int | None
) -> None:
    data = record(SCHEDULE, properties=b"DELAY\x01" + level, store_timestamp_ms=7)
    (units,) = queue_files(data, levels).values()
    assert int.from_bytes(units[12:], "big") == (0 if delay is None else 7 + delay)


def test_hashes_stop_before_a_record_whose_keys_might_not_fit() -> None:
    data = log_of([{"properties": b"KEYS\x01a b c d"}] * 9)
    assert index_files(data, 3, 100, key_room=20) == naive.index_files(records_of(data), 3, 100)


@given(
    log=st.lists(parts, min_size=1, max_size=12),
    key_room=st.sampled_from([1 << 14, (1 << 14) + 3, 1 << 15]),
    with_tags=st.sampled_from([0, 1]),
)
def test_one_pass_over_the_properties_gives_the_codes_and_keys_of_two(
    log: list[dict[str, Any]], key_room: int, with_tags: int
) -> None:
    data = log_of(log)
    columns = scan(data).matrix
    count, levels = columns.shape[1], np.array(LEVELS, np.int64)

    def in_two(kernels: ModuleType) -> tuple[list[int], list[tuple[int, int]]]:
        codes = np.zeros(count, np.int64)
        kernels.tags_codes(data, columns, count, levels, codes)
        return codes.tolist(), keys_by(
            lambda first, *into: kernels.key_hashes(data, columns, first, count, with_tags, *into)
        )

    def in_one(kernels: ModuleType) -> tuple[list[int], list[tuple[int, int]]]:
        codes = np.zeros(count, np.int64)
        keys = keys_by(
            lambda first, *into: kernels.dispatch_requests(data, columns, first, count, levels, codes, with_tags, *into)
        )
        return codes.tolist(), keys

    def keys_by(ask: Callable[..., int]) -> list[tuple[int, int]]:
        hashes, records, state = np.zeros(key_room, np.int64), np.zeros(key_room, np.int64), np.zeros(1, np.int64)
        keys: list[tuple[int, int]] = []
        while state[0] < count:
            found = ask(int(state[0]), hashes, records, state)
            keys += zip(hashes[:found].tolist(), records[:found].tolist(), strict=True)
        return keys

    assert both(in_one) == both(in_two)


SEPARATED = st.lists(st.sampled_from([b"A", b"TAGS", b"KEYS", b"\x01", b"\x02", b"x" * 13, b"y" * 61]), max_size=12)


@given(texts=st.lists(SEPARATED.map(b"".join), min_size=1, max_size=4), before=st.integers(0, 70))
def test_properties_are_read_alike_wherever_they_lie_in_a_page(texts: list[bytes], before: int) -> None:
    # A page of memory that may not be touched follows the last record.
    data = log_of([{"body": bytes(before)}, *({"properties": text} for text in texts)])
    guarded = GuardedBuffer(8192).place(data)
    columns = scan(data).matrix
    count, codes = columns.shape[1], np.zeros((2, columns.shape[1]), np.int64)
    with uncompiled():
        kernels.tags_codes(data, columns, count, np.zeros(0, np.int64), codes[0])
    kernels.tags_codes(guarded, columns, count, np.zeros(0, np.int64), codes[1])
    assert codes[0].tolist() == codes[1].tolist()


@pytest.mark.parametrize("order", [b"ABAB", b"AABB", b"ABCBA", b"ABCABDABC", b"CBAABC"])
def test_queues_keep_their_numbers_in_whatever_order_their_records_come(order: bytes) -> None:
    data = log_of([{"topic": b"Topic-%c" % letter} for letter in order])
    columns = scan(data).matrix
    table = QueueTable()
    expected = [sorted(set(order), key=order.index).index(letter) for letter in order]
    for _ in range(2):
        assert table.assign(memoryview(data), columns, len(order)).tolist() == expected


@pytest.mark.parametrize("count", [-(1 << 31), -1, 0, 4, 5, (1 << 31) - 1])
def test_a_damaged_header_makes_no_writes_outside_the_index(count: int) -> None:
    columns = scan(record(properties=b"KEYS\x01k")).matrix
    hashes, records = np.ones(1, np.int64), np.zeros(1, np.int64)
    # The number of entries that the geometry claims is more than the file has.
    index = GuardedBuffer(4096).place(bytes(40 + 4 * 2 + 20 * 5))
    header = np.array([0, 0, 0, 0, 0, count], np.int64)
    kernels.put_index_entries(index, 2, 1000, hashes, records, 0, 1, columns, header)
    assert header[5] == (2 if count <= 0 else 5 if count == 4 else count)


@pytest.mark.parametrize(
    ("stored_ms", "begin_ms", "seconds"),
    [
        (1999, 1000, 0), (2000, 1000, 1), (1000, 1000, 0), (999, 1000, 0), (0, 1000, 0), (9000, 0, 0), (9000, -1, 0),
        (9001, 1, 9), (1001, 1, 1), (1000, 1, 0), ((1 << 31) * 1000, 1, (1 << 31) - 1), (1 << 60, 1, (1 << 31) - 1),
    ],
)  # fmt: skip
def test_an_entry_has_the_whole_seconds_after_the_file_s_first(stored_ms: int, begin_ms: int, seconds: int) -> None:
    columns = scan(record(properties=b"KEYS\x01k", store_timestamp_ms=stored_ms)).matrix
    hashes, records = np.ones(1, np.int64), np.zeros(1, np.int64)

    def ask(kernels: ModuleType) -> bytes:
        index, header = bytearray(40 + 4 * 2 + 20 * 5), np.array([begin_ms, 0, 0, 0, 0, 2], np.int64)
        kernels.put_index_entries(index, 2, 5, hashes, records, 0, 1, columns, header)
        return bytes(index[40 + 4 * 2 + 20 * 2 :][12:16])

    assert int.from_bytes(both(ask), "big") == seconds


@given(
    units=st.lists(
        st.tuples(st.integers(-3, 9), st.sampled_from([-1, 0, 7, 0x7FFFFFFF]), st.integers(0, 1)), max_size=9
    ),
    low=st.integers(-4, 9),
    width=st.integers(0, 4),
)
def test_the_first_unit_that_points_into_a_stretch_is_the_first_that_names_a_record_there(
    units: list[tuple[int, int, int]], low: int, width: int
) -> None:
    data = b"".join(struct.pack(">qiq", *unit) for unit in units)
    inside = [
        number
        for number, unit in enumerate(units)
        if low <= unit[0] < low + width and unit[1] > 0 and unit != (0, 0x7FFFFFFF, 0)
    ]
    found = both(lambda kernels: int(kernels.first_unit_between(data, len(units), low, low + width)))
    assert found == min(inside, default=len(units))
    assert both(lambda kernels: int(kernels.first_unit_between(data, 1000, 100, 200))) == len(units)


@given(
    units=st.lists(
        st.tuples(
            st.sampled_from([-1, 0, 5, 1 << 40]),
            st.sampled_from([-3, 0, 100, 100, 0x7FFFFFFF]),
            st.sampled_from([0, 0, 7, -(1 << 31), -(1 << 31) - 1]),
        ),
        max_size=6,
    ),
    zeros=st.sampled_from([0, 19, 20, 60]),
)
@example(units=[(0, 1, 0)], zeros=20)
@example(units=[(0, 1, 0), (0, 100, 7)], zeros=20)
@example(units=[(5, 100, 0), (-1, 100, 7)], zeros=20)
@example(units=[(5, 100, 0), (7, 0, 7)], zeros=20)
@example(units=[(5, 100, 0), (7, -1, 7)], zeros=20)
@example(units=[(5, 100, 0), (7, 1, 7)], zeros=20)
def test_a_page_tells_where_its_queue_ends_if_only_its_first_units_are_written_and_have_plain_codes(
    units: list[tuple[int, int, int]], zeros: int
) -> None:
    page = b"".join(struct.pack(">qiq", *unit) for unit in units) + bytes(zeros)
    written = [log_offset >= 0 and size > 0 for log_offset, size, _ in units] + [False] * (zeros // 20)
    count = sum(written)
    leading = units[:count]
    is_told = all(written[:count]) and count < len(written) and all(code >= -(1 << 31) for *_, code in leading)
    is_told &= units[:1] != [(0, 0x7FFFFFFF, 0)] and count > 0

    def ask(kernels: ModuleType) -> tuple[int, int, int] | None:
        ends = np.zeros(2, np.int64)
        count = int(kernels.count_leading_units(page, ends))
        return (count, *ends.tolist()) if count else None

    newest = max((unit[0] for unit in leading), default=-1)
    assert both(ask) == ((count, newest, sum(leading[-1][:2])) if is_told else None)


def find_break(data: bytes, queue_offset: int, max_log_offset: int) -> int:
    columns = scan(data).matrix
    order = np.arange(columns.shape[1], dtype=np.int64)
    found: int = both(
        lambda kernels: int(kernels.find_break(order, 0, len(order), columns, queue_offset, max_log_offset))
    )
    return found


def test_a_break_is_where_a_queue_does_not_simply_go_on() -> None:
    data = log_of([{"queue_offset": n} for n in (5, 6, 8)])
    size = len(data) // 3
    assert find_break(data, 5, 0) == 2
    assert find_break(data, 4, 0) == 0
    assert find_break(data, 5, size - 1) == 2
    assert find_break(data, 5, size) == 0


def test_a_record_that_ends_where_the_one_before_it_does_is_a_break() -> None:
    data = log_of([{"queue_offset": n} for n in (0, 1)])
    columns, order = scan(data).matrix, np.arange(2, dtype=np.int64)
    for moved, found in ((0, 1), (1, 2)):
        columns[Column.LOG_OFFSET] = 500, 500 + moved
        assert both(lambda kernels: int(kernels.find_break(order, 0, 2, columns, 0, 0))) == found


def numbered(topics: list[bytes], room: int, topic_bytes: int) -> tuple[int, list[int], list[int], list[int]]:
    """Records of these topics, queue 3: the row returned, numbers and bytes used, the records' numbers, hashes."""
    data, columns = b"".join(topics), np.zeros((len(COLUMN_NAMES), len(topics)), np.int64)
    columns[Column.TOPIC_SIZE] = [len(topic) for topic in topics]
    columns[Column.TOPIC_POSITION] = np.cumsum(columns[Column.TOPIC_SIZE]) - columns[Column.TOPIC_SIZE]
    columns[Column.QUEUE_ID] = 3

    def run(kernels: ModuleType) -> tuple[int, list[int], list[int], list[int]]:
        names, queues = np.zeros(topic_bytes, np.uint8), np.zeros((QUEUE_ROWS, room), np.int64)
        table, used = np.full(2 * room, EMPTY, np.int64), np.zeros(2, np.int64)
        slots = np.full(len(topics), -2, np.int64)
        row = kernels.assign_queues(
            memoryview(data), columns, 0, len(topics), True, names.data, queues, table, used, slots
        )
        anew = np.full(2 * room, EMPTY, np.int64)
        kernels.enter_queues(queues, anew, int(used[0]))
        assert anew.tolist() == table.tolist()
        return int(row), used.tolist(), slots.tolist(), queues[QUEUE_HASH].tolist()

    return both(run)


def test_each_byte_of_a_topic_changes_the_hash_of_its_queues() -> None:
    for size in range(1, 60):
        topics = [bytes(size), *(bytes(place) + b"x" + bytes(size - place - 1) for place in range(size))]
        *_, hashes = numbered(topics, 64, 4096)
        assert len(set(hashes[: len(topics)])) == len(topics), size


@pytest.mark.parametrize(
    ("room", "topic_bytes", "row", "used", "numbers"),
    [
        (2, 9, 4, [2, 4], [0, 1, 0, 1]),
        (2, 4, 4, [2, 4], [0, 1, 0, 1]),
        (2, 3, 1, [1, 2], [0, -2, -2, -2]),
        (1, 9, 1, [1, 2], [0, -2, -2, -2]),
    ],
)
def test_new_queues_are_numbered_while_there_is_room_for_them_and_their_topics(
    room: int, topic_bytes: int, row: int, used: list[int], numbers: list[int]
) -> None:
    assert numbered([b"aa", b"bb", b"aa", b"bb"], room, topic_bytes)[:3] == (row, used, numbers)


def test_a_log_offset_whose_record_would_end_behind_every_long_is_a_break() -> None:
    columns, order = scan(record()).matrix, np.zeros(1, np.int64)
    highest = (1 << 63) - 1 - int(columns[1, 0])
    for log_offset, stop in ((highest, 1), (highest + 1, 0), (-1, 0)):
        columns[10, 0] = log_offset
        assert both(lambda kernels: int(kernels.find_break(order, 0, 1, columns, 0, -1))) == stop


@given(
    queues=st.lists(st.lists(st.sampled_from([0, 1, 1, 1, 2]), max_size=6), min_size=1, max_size=4),
    first_offset=st.integers(0, 2),
    passed=st.integers(0, 2),
)
def test_one_call_writes_of_many_queues_what_calls_for_each_would(
    queues: list[list[int]], first_offset: int, passed: int
) -> None:
    """Each queue's records have queue offsets that rise by the steps given; up to `passed` have their unit."""
    offsets = [first_offset + sum(steps[: place + 1]) for steps in queues for place in range(len(steps))]
    data = log_of([{"queue_offset": offset, "properties": b"TAGS\x01%d" % offset} for offset in offsets])
    columns = scan(data).matrix
    order = np.arange(len(offsets), dtype=np.int64)[::-1].copy()
    starts = np.cumsum([0, *map(len, queues)])
    firsts, stops = np.minimum(starts[:-1] + passed, starts[1:]), starts[1:].copy()
    # The queues lie in `order` backwards, each in the log's order.
    for first, stop in zip(starts[:-1], stops, strict=True):
        order[first:stop] = np.arange(len(offsets) - stop, len(offsets) - first)
    next_offsets = np.array([columns[9, order[at]] if at < stop else 0 for at, stop in zip(firsts, stops, strict=True)])
    ends = np.array([columns[0, order[at]] if at < stop else 0 for at, stop in zip(firsts, stops, strict=True)])
    codes, count = np.arange(len(offsets)) * 7, len(queues)

    def by_one_call(kernels: ModuleType) -> tuple[list[int], bytes]:
        units, breaks = bytearray(20 * len(offsets)), np.zeros(count, np.int64)
        kernels.write_following_units(order, firsts, stops, count, columns, codes, next_offsets, ends, units, breaks)
        return breaks.tolist(), bytes(units)

    def one_by_one(kernels: ModuleType) -> tuple[list[int], bytes]:
        units, breaks = bytearray(20 * len(offsets)), []
        for first, stop, offset, end in zip(*(a.tolist() for a in (firsts, stops, next_offsets, ends)), strict=True):
            breaks.append(int(kernels.find_break(order, first, stop, columns, offset, end)))
            kernels.write_units(units, 20 * first, order, first, breaks[-1], columns, codes)
        return breaks, bytes(units)

    assert both(by_one_call) == both(one_by_one)


@pytest.mark.parametrize(
    ("ends", "kept", "firsts"),
    [
        ([-1, -1], [0, 1], [0, 3]),
        ([1, 0], [0, 1], [1, 3]),
        ([3, 2], [], []),
        ([3, 1], [1], [4]),
        ([0, 2], [0], [0]),
    ],
)
def test_repeats_are_passed_over_up_to_each_queues_end(ends: list[int], kept: list[int], firsts: list[int]) -> None:
    """Queue 0 has records 0, 2 and 4, queue 1 has 1 and 3; `ends` are the last ones of each that have a unit."""
    columns = scan(log_of([{} for _ in range(5)])).matrix
    order, starts = np.array([0, 2, 4, 1, 3], np.int64), np.array([0, 3, 5], np.int64)
    behind = columns[0] + columns[1]
    reached = np.array(
        [-1 if end < 0 else behind[order[starts[q] : starts[q + 1]][end - 1]] for q, end in enumerate(ends)]
    )
    reached[[q for q, end in enumerate(ends) if end == 0]] = -1

    def ask(kernels: ModuleType) -> tuple[list[int], list[int]]:
        queues, found = np.arange(2, dtype=np.int64), np.zeros(2, np.int64)
        count = int(kernels.pass_repeats(order, starts, queues, 2, columns, reached, found))
        return queues[:count].tolist(), found[:count].tolist()

    assert both(ask) == (kept, firsts)


def test_a_record_whose_end_is_no_long_is_a_repeat() -> None:
    columns, order, starts = scan(record()).matrix, np.zeros(1, np.int64), np.array([0, 1], np.int64)
    highest = (1 << 63) - 1 - int(columns[1, 0])
    for log_offset, kept in ((highest, 1), (highest + 1, 0)):
        columns[10, 0] = log_offset
        arguments = (order, starts, np.zeros(1, np.int64), 1, columns, np.array([-1], np.int64), np.zeros(1, np.int64))
        assert both(lambda kernels: int(kernels.pass_repeats(*arguments))) == kept  # noqa: B023


@pytest.mark.parametrize(("position", "end"), [(0, 20), (-5, 20), (1, 21), (2, 2), ((1 << 63) - 1, (1 << 63) - 1)])
def test_no_unit_is_written_where_it_does_not_fit(position: int, end: int) -> None:
    columns, order, codes = scan(record()).matrix, np.zeros(1, np.int64), np.zeros(1, np.int64)
    units = GuardedBuffer(21).place(bytes(21))
    assert both(lambda kernels: int(kernels.write_units(units, position, order, 0, 1, columns, codes))) == end


def test_a_record_with_the_most_keys_fits_the_least_room() -> None:
    properties = b"KEYS\x01" + b"a " * ((32_767 - 5) // 2)
    data = log_of([{"properties": properties}, {"properties": b"KEYS\x01b"}])
    assert len(properties) == 32_767
    assert index_files(data, 100, 20_000, MAX_KEYS_OF_RECORD) == index_files(data, 100, 20_000)


@pytest.mark.parametrize(
    ("ms", "seconds"), [(0, 0), (999, 0), (1000, 1), (4_999_999, 4999), (5_000_000, 5000), (-1, 0)]
)
def test_an_entry_has_the_whole_seconds_since_the_files_first_record(ms: int, seconds: int) -> None:
    first_ms = 1_700_000_000_000
    times = (first_ms, first_ms + ms)
    (file,) = index_files(log_of([{"properties": b"KEYS\x01k", "store_timestamp_ms": one} for one in times]), 1, 3)
    # A file's entries begin at 1, and an entry's time is behind its hash and log offset.
    assert struct.unpack_from(">i", file, 40 + 4 + 20 * 2 + 12) == (seconds,)
