"""Runs of records are the messages of an iteration, in its order, with its counts.

Only of the damage behind the last message that is wanted runs may tell less, as they read less far ahead.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store import Message, MessageIterator, MessageStore, StoredMessage, open_store
from store.formats.columns import Column
from store.formats.message import INNER_BATCH, RECORD_MIN_SIZE, decode_record, encode_record
from store.formats.queue_unit import UNIT, UNIT_SIZE
from store.formats.run import Run
from store.reading import MergedMessages, record_runs
from store.reading.filter import TagExpression
from store.reading.record_runs import (
    _BYTES_PER_RECORD,
    _GAP_BYTES,
    _readable,
    leading,
    merge_runs,
    read_run,
    trailing,
)
from tests.support.golden import ALL, golden
from tests.support.quickly import one_of
from tests.support.stores import SMALL, Clock, make_store, text_message

Reader = MessageIterator | MergedMessages
WHOLE: list[dict[str, Any]] = [{}, {"last": 7}, {"since_ms": 1}]
SPANS = [*WHOLE, {"max_count": 5}, {"max_count": 99}, {"since_ms": 1, "until_ms": 1}]


def unrolled(reader: Reader, most: int) -> Iterator[StoredMessage]:
    for piece in reader.runs(most):
        if not isinstance(piece, Run):
            yield piece
            continue
        for place, size in zip(piece.columns.position.tolist(), piece.columns.size.tolist(), strict=True):
            yield decode_record(piece.buffer[place : place + size])


def told(reader: Reader) -> tuple[object, ...]:
    offsets = (reader.next_offset, reader.min_offset, reader.max_offset)
    return reader.status, reader.found_count, reader.unsound_count, offsets


def damage(reader: Reader) -> list[tuple[str, int]]:
    return [(str(one), one.record_count) for one in reader.damaged]


def compare(store: MessageStore, topic: str, most: int = 100, **options: Any) -> int:
    """Compare the two ways of each queue, and of all together; return the number of messages."""
    queues, count = store.queue_ids(topic), 0
    times_ms: list[int] = []
    for queue in queues:
        one, other = (store.messages(topic, queue, **options) for _ in range(2))
        messages = list(one)
        count += len(messages)
        assert (list(unrolled(other, most)), told(other), damage(other)) == (messages, told(one), damage(one))
        times_ms += [message.store_timestamp_ms for message in messages]
    times_ms.sort()
    for span in SPANS if times_ms else []:
        times = {name: times_ms[count // 3 * (1 + name.startswith("u"))] for name in span if name.endswith("ms")}
        one, other = (
            MergedMessages([store.messages(topic, queue, **options) for queue in queues], **{**span, **times})
            for _ in range(2)
        )
        assert (list(one), told(one)) == (list(unrolled(other, most)), told(other))
        assert damage(other) == damage(one) or (span not in WHOLE and set(damage(other)) <= set(damage(one)))
    return count


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", ALL)
def test_of_stores_that_brokers_wrote(name: str) -> None:
    with open_store(golden(name).store) as store:
        for topic in store.topics():
            compare(store, topic, outer=topic < "M")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("runs") / "store", 300)


@pytest.mark.turns(2)
@pytest.mark.parametrize("most", [1, 31, 32, 33, 10_000])
def test_of_all_queues_whatever_the_size_of_a_run(root: Path, most: int) -> None:
    with open_store(root) as store:
        assert compare(store, "T", most) == 300


def test_a_run_holds_many_messages_and_ends_with_its_queue_file_and_its_segment(root: Path) -> None:
    with open_store(root) as store:
        sizes = [piece.count for piece in store.messages("T", 0).runs(100) if isinstance(piece, Run)]
    # The first call is one of a broker.
    assert sizes == [9, 11, 18, 2, 20, 7, 13]


@pytest.mark.parametrize("options", [{"one_call": True}, {"message_filter": TagExpression("tag0")}], ids=str)
def test_one_call_and_a_filter_have_no_runs(root: Path, options: dict[str, Any]) -> None:
    with open_store(root) as store:
        pieces = list(store.messages("T", 0, **options).runs(100))
    assert pieces
    assert not any(isinstance(piece, Run) for piece in pieces)


@pytest.mark.turns(2)
@pytest.mark.leaves_damage
@pytest.mark.parametrize("steps", [(0,), (0, 0, 1), (5, -3), (-1,), (7, 0, -9)], ids=str)
def test_of_clocks_that_stand_still_or_step_back(tmp_path: Path, steps: tuple[int, ...]) -> None:
    clock = Clock()
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, clock=clock) as store:
        for number in range(120):
            clock.now_ms += steps[number % len(steps)]
            assert store.put(text_message(number, queue_id=number * 7 % 3)).is_ok
    with open_store(tmp_path / "store") as reading:
        assert compare(reading, "T") == 120


@pytest.mark.parametrize("seed", one_of(9, range(40)))
def test_of_flipped_bits_in_log_and_queues(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    folder = make_store(tmp_path / "store", 120)
    for kind, unit in (("commitlog", 1), ("consumequeue", UNIT_SIZE)):
        files = sorted(path for path in (folder / kind).rglob("0*") if path.is_file())
        for _ in range(source.randrange(4)):
            path = source.choice(files)
            data = bytearray(path.read_bytes())
            at = source.randrange(min(len(data), 12_000 if unit == 1 else 15 * unit))
            data[at] ^= 1 << source.randrange(8)
            path.write_bytes(data)
    with open_store(folder) as store:
        for options in ({}, {"only_sound": True}):
            compare(store, "T", **options)


def made_run(times: list[int], log_offsets: list[int] | None = None, file_start: int = 0) -> Run:
    """A run of records with these store times, each at its time by default."""
    array = np.zeros((len(Column), len(times)), np.int64)
    array[Column.STORE_TIMESTAMP_MS] = times
    array[Column.LOG_OFFSET] = times if log_offsets is None else log_offsets
    return Run(file_start, Path("segment"), memoryview(b""), array, len(times))


def rows(pieces: Iterator[Any]) -> list[tuple[int, int, int]]:
    """Store time, log offset and segment of each record; 0 for the segment of a message alone."""
    found: list[tuple[int, int, int]] = []
    for piece in pieces:
        if isinstance(piece, Run):
            times, log_offsets = piece.columns.store_timestamp_ms.tolist(), piece.columns.log_offset.tolist()
            found += [(*pair, piece.file_start) for pair in zip(times, log_offsets, strict=True)]
        else:
            found.append((piece.store_timestamp_ms, piece.log_offset, 0))
    return found


@pytest.mark.parametrize(
    ("since_ms", "until_ms", "times"),
    [
        (None, None, [1, 2, 3, 2, 4]),
        (1, None, [1, 2, 3, 2, 4]),
        (2, None, [2, 3, 2, 4]),
        (3, None, [3, 2, 4]),
        (4, None, [4]),
        (5, None, []),
        (None, 0, []),
        (None, 1, [1]),
        (None, 2, [1, 2]),
        (None, 3, [1, 2, 3, 2]),
        (None, 4, [1, 2, 3, 2, 4]),
        (2, 2, [2]),
        (3, 3, [3, 2]),
    ],
)
def test_a_stream_begins_with_its_first_record_since_and_ends_before_its_first_later_one(
    since_ms: int | None, until_ms: int | None, times: list[int]
) -> None:
    for sizes in ([5], [3, 2], [1] * 5):
        pieces, whole = [], iter([1, 2, 3, 2, 4])
        for size in sizes:
            pieces.append(made_run([next(whole) for _ in range(size)]))
        assert [time_ms for time_ms, *_ in rows(merge_runs([iter(pieces)], since_ms, until_ms))] == times


@pytest.mark.parametrize("seed", range(30))
def test_streams_are_merged_by_the_smallest_next_record(seed: int) -> None:
    """Store time, then log offset, then the number of the stream."""
    source = random.Random(seed)
    streams: list[list[Any]] = []
    for number in range(source.randrange(1, 4)):
        pieces: list[Any] = []
        for _ in range(source.randrange(4)):
            times = [source.randrange(4) for _ in range(source.randrange(1, 5))]
            if source.random() < 0.3:
                pieces.append(SimpleNamespace(store_timestamp_ms=times[0], log_offset=source.randrange(3)))
            else:
                offsets = [source.randrange(3) for _ in times]
                pieces.append(made_run(times, offsets, source.choice([100, 200]) + number % 2))
        streams.append(pieces)
    left = [rows(iter(pieces)) for pieces in streams]
    expected = []
    while any(left):
        first = min((rest[0][:2], number) for number, rest in enumerate(left) if rest)[1]
        expected.append(left[first].pop(0))
    assert rows(merge_runs([iter(pieces) for pieces in streams])) == expected


def test_equal_records_come_in_the_order_of_their_streams() -> None:
    streams = [iter([made_run([1, 2], file_start=start)]) for start in (300, 100, 200)]
    assert rows(merge_runs(streams)) == [(time, time, start) for time in (1, 2) for start in (300, 100, 200)]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(None, [0, 1, 2, 9, 3, 4]), (1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2, 9]), (5, [0, 1, 2, 9, 3]),
     (6, [0, 1, 2, 9, 3, 4]), (7, [0, 1, 2, 9, 3, 4])],
)  # fmt: skip
def test_the_first_records_are_cut_from_the_front(count: int | None, expected: list[int]) -> None:
    pieces = [made_run([0, 1, 2]), SimpleNamespace(store_timestamp_ms=9, log_offset=0), made_run([3, 4])]
    asked: list[Any] = []
    given = (asked.append(piece) or piece for piece in pieces)
    assert [time_ms for time_ms, *_ in rows(leading(given, count))] == expected  # type: ignore[arg-type]
    # No piece is read past the last record.
    assert len(asked) == (1 if expected[-1] < 3 else 2 if expected[-1] == 9 else 3)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, [4]), (2, [3, 4]), (3, [9, 3, 4]), (4, [2, 9, 3, 4]), (5, [1, 2, 9, 3, 4]), (6, [0, 1, 2, 9, 3, 4]),
     (7, [0, 1, 2, 9, 3, 4])],
)  # fmt: skip
def test_the_last_records_are_cut_from_the_end(count: int, expected: list[int]) -> None:
    pieces: list[Any] = [made_run([0, 1, 2]), SimpleNamespace(store_timestamp_ms=9, log_offset=0), made_run([3, 4])]
    last = list(trailing(iter(pieces), count))
    assert [time_ms for time_ms, *_ in rows(iter(last))] == expected
    assert [piece for piece in last if isinstance(piece, Run) and not piece.count] == []


def test_a_message_alone_is_no_record_of_the_segment_at_0() -> None:
    alone: Any = SimpleNamespace(store_timestamp_ms=2, log_offset=0)
    for streams in ([[alone], [made_run([1, 3])]], [[made_run([1, 3])], [alone]]):
        pieces = list(merge_runs([iter(stream) for stream in streams]))
        assert [isinstance(piece, Run) for piece in pieces] == [True, False, True]
        assert rows(iter(pieces)) == [(1, 1, 0), (2, 0, 0), (3, 3, 0)]


@pytest.mark.parametrize(
    ("offset", "batches", "holds_batches", "count"),
    [(1, (), False, None), (2, (), False, 3), (4, (), False, 1), (5, (), False, None), (2, (), True, None),
     (2, (2,), False, None), (2, (3,), False, 1), (2, (3, 4), False, 1), (2, (4,), False, 2)],
)  # fmt: skip
def test_a_run_has_a_queues_records_before_the_first_of_several_messages(
    offset: int, batches: tuple[int, ...], holds_batches: bool, count: int | None, tmp_path: Path
) -> None:
    records, places = b"", []
    for number in range(6):
        places.append(len(records))
        records += encode_record(
            Message("T", b"x"), topic=b"T", sys_flag=INNER_BATCH * (number in batches), queue_offset=number,
            log_offset=len(records), store_timestamp_ms=1,
        )  # fmt: skip
    size = places[1]
    queue: Any = SimpleNamespace(
        holds_batches=holds_batches, min_offset=2, max_offset=5,
        read_range=lambda start: b"".join(UNIT.pack(place, size, 0) for place in places[start:5] or places[5:]),
    )  # fmt: skip
    file: Any = SimpleNamespace(
        file_start=0, path=tmp_path, buffer=memoryview(records), readable_position=len(records),
        readable_end=lambda start, stop: stop,
    )  # fmt: skip
    log: Any = SimpleNamespace(segments=SimpleNamespace(find_by_offset=lambda place: file))
    found = read_run(log, queue, offset, 10)
    assert (found is None) == (count is None)
    if found is not None and count is not None:
        run, told = found
        assert run.columns.queue_offset.tolist() == [*range(offset, offset + count)]
        assert (told.next_offset, told.min_offset, told.max_offset) == (offset + count, 2, 5)


def test_no_run_is_given_of_pages_that_were_lost_meanwhile(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    lost: Any = SimpleNamespace(count=lambda: 7, require_none_since=seen.append)
    monkeypatch.setattr(record_runs, "lost_pages", lost)
    with open_store(root) as store:
        runs = sum(isinstance(piece, Run) for piece in store.messages("T", 0).runs(100))
    assert seen == [7] * runs


SIZE, END = RECORD_MIN_SIZE, 1_000_000


@pytest.mark.parametrize(
    ("places", "sizes", "count"),
    [
        ([], [], 0),
        ([0, SIZE], [SIZE, SIZE], 2),
        ([-1], [SIZE], 0),
        ([0, SIZE - 1], [SIZE, SIZE], 1),
        ([0, SIZE], [SIZE, SIZE - 1], 1),
        ([END - SIZE], [SIZE], 1),
        ([END - SIZE + 1], [SIZE], 0),
        ([END], [SIZE], 0),
        ([SIZE, 0], [SIZE, SIZE], 1),
        ([0, 2 * _BYTES_PER_RECORD - SIZE], [2 * _BYTES_PER_RECORD - SIZE, SIZE], 2),
        ([0, 2 * _BYTES_PER_RECORD], [2 * _BYTES_PER_RECORD - SIZE + 1, SIZE], 1),
        ([0], [9 * _BYTES_PER_RECORD], 1),
    ],
)
def test_records_are_read_at_once_while_they_rise_inside_of_what_is_readable(
    places: list[int], sizes: list[int], count: int
) -> None:
    file: Any = SimpleNamespace(readable_position=END, readable_end=lambda start, stop: stop)
    found = _readable(file, np.array(places, np.int64), np.array(sizes, np.int64))
    assert [one.tolist() for one in found] == [places[:count], sizes[:count]]


@pytest.mark.parametrize(("gap", "asked"), [(_GAP_BYTES, 1), (_GAP_BYTES + 1, 2)])
@pytest.mark.parametrize("lost_from", [END, SIZE - 1, 0])
def test_records_that_lie_near_each_other_are_read_together(gap: int, asked: int, lost_from: int) -> None:
    spans: list[tuple[int, int]] = []

    def readable_end(start: int, stop: int) -> int:
        spans.append((start, stop))
        return min(stop, lost_from)

    file: Any = SimpleNamespace(readable_position=END, readable_end=readable_end)
    places = [0, SIZE + gap]
    found, _ = _readable(file, np.array(places, np.int64), np.array([SIZE, SIZE], np.int64))
    together = [(0, 2 * SIZE + gap)] if asked == 1 else [(0, SIZE), (SIZE + gap, 2 * SIZE + gap)]
    assert spans == (together if lost_from == END else together[:1])
    assert len(found) == (2 if lost_from == END else 0)
