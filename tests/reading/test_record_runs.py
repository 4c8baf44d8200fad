"""Runs of records are the messages of an iteration, in its order, with its counts.

Only of the damage behind the last message that is wanted runs may tell less, as they read less far ahead.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import MessageIterator, MessageStore, StoredMessage, open_store
from store.formats.message import decode_record
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Run
from store.reading import MergedMessages
from store.reading.filter import TagExpression
from tests.support.golden import ALL, golden
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


@pytest.mark.parametrize("name", ALL)
def test_of_stores_that_brokers_wrote(name: str) -> None:
    with open_store(golden(name).store) as store:
        for topic in store.topics():
            compare(store, topic, outer=topic < "M")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("runs") / "store", 300)


@pytest.mark.parametrize("most", [1, 31, 32, 33, 10_000])
def test_of_all_queues_whatever_the_size_of_a_run(root: Path, most: int) -> None:
    with open_store(root) as store:
        assert compare(store, "T", most) == 300


def test_a_run_holds_many_messages_and_ends_with_its_queue_file_and_its_segment(root: Path) -> None:
    with open_store(root) as store:
        sizes = [piece.count for piece in store.messages("T", 0).runs(100) if isinstance(piece, Run)]
    # The first call is one of a broker.
    assert sum(sizes) == 100 - 20
    assert len(sizes) < 12


@pytest.mark.parametrize("options", [{"one_call": True}, {"message_filter": TagExpression("tag0")}], ids=str)
def test_one_call_and_a_filter_have_no_runs(root: Path, options: dict[str, Any]) -> None:
    with open_store(root) as store:
        pieces = list(store.messages("T", 0, **options).runs(100))
    assert pieces
    assert not any(isinstance(piece, Run) for piece in pieces)


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


@pytest.mark.parametrize("seed", range(40))
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
