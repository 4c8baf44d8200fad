"""Stretches of log in which a queue may lack entries, and the repair that they make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.files.overlay import Overlay
from store.formats.queue_unit import PRE_BLANK, UNIT_SIZE, QueueUnit, decode_unit
from store.formats.run import Stretch
from store.opened.missing import QueueBuilder, Repair, lost_stretches
from store.structures.commitlog.scan import ScanRules
from store.structures.consumequeue.consume_queue import ConsumeQueue
from tests.support.small_log import UNITS_PER_FILE, SmallLog, SmallSegment, open_queues, reopened_queues

FILE_SIZE = UNITS_PER_FILE * UNIT_SIZE


def queue_of(root: Path, count: int, lost: Sequence[int]) -> tuple[SmallLog, ConsumeQueue]:
    """A queue of `count` messages, every second record of the log, without some of its files."""
    log, queues = SmallLog(), open_queues(root)
    for _ in range(count):
        log.put("T")
        log.put("other")
    log.dispatch_to(queues)
    queues.close()
    for number in lost:
        (root / f"consumequeue/T/0/{number * FILE_SIZE:020d}").unlink()
    queue = reopened_queues(root).find("T", 0)
    assert queue is not None
    return log, queue


# Messages, lost files: the messages at which each stretch starts and stops; None for an end of the log. A stretch
# starts behind the record of the entry before.
STRETCHES = [
    (1, [], []),
    (9, [], []),
    (10, [], [(9, None)]),
    (11, [], []),
    (20, [], [(19, None)]),
    (25, [], []),
    (25, [0], [(None, 10)]),
    (25, [1], [(9, 20)]),
    (25, [2], [(19, None)]),
    (25, [0, 1], [(None, 20)]),
    (35, [0, 2], [(None, 10), (19, 30)]),
    (35, [1, 2], [(9, 30)]),
    (30, [1], [(9, 20), (29, None)]),
    (35, [0, 1, 3], [(None, 20), (29, None)]),
]


@pytest.mark.parametrize(("count", "lost", "stretches"), STRETCHES)
def test_a_stretch_lies_between_the_entries_on_both_sides_of_a_lost_file(
    count: int, lost: list[int], stretches: list[tuple[int | None, int | None]], tmp_path: Path
) -> None:
    log, queue = queue_of(tmp_path, count, lost)
    units = log.units[::2]
    ends = [unit.log_offset + unit.size for unit in units]
    expected = [
        Stretch(0 if start is None else ends[start], log.end if stop is None else units[stop].log_offset)
        for start, stop in stretches
    ]
    assert lost_stretches(queue, Stretch(0, log.end)) == expected
    # A log that begins later has lost what is before.
    later = units[15].log_offset if count > 15 else 0
    assert lost_stretches(queue, Stretch(later, log.end)) == [
        Stretch(later if start is None else stretch.start, stretch.stop)
        for stretch, (start, _) in zip(expected, stretches, strict=True)
        if stretch.stop > (later if start is None else stretch.start)
    ]
    repair = Repair.of(queue, Stretch(0, log.end), trusted=0)
    at_end = bool(expected) and expected[-1].stop == log.end
    tail = expected[-1].start if at_end else queue.max_physic_offset
    assert (repair.stretches, repair.tail) == (expected[:-1] if at_end else expected, tail)
    assert repair.start == min([one.start for one in expected] + ([] if at_end else [tail]))


def test_a_queue_without_entries_may_lack_all_of_the_log(tmp_path: Path) -> None:
    log, _ = queue_of(tmp_path, 5, [])
    path = tmp_path / f"consumequeue/T/0/{0:020d}"
    path.write_bytes(PRE_BLANK.encode() * 10)
    empty = reopened_queues(tmp_path).find("T", 0)
    assert empty is not None
    assert lost_stretches(empty, Stretch(0, log.end)) == [Stretch(0, log.end)]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_dispatch_that_came_to_the_end_leaves_no_tail(beyond: int, tmp_path: Path) -> None:
    log, queue = queue_of(tmp_path, 5, [])
    repair = Repair.of(queue, Stretch(0, log.end), trusted=log.end + beyond)
    assert repair.tail == (log.end - 1 if beyond < 0 else None)
    assert repair.start == repair.tail
    assert repair.first_queue_offset == 0


def entries_of(queue: ConsumeQueue) -> list[QueueUnit]:
    data = b"".join(bytes(file.buffer[: file.readable_position]) for file in queue.files.files)
    return [decode_unit(data, at) for at in range(0, len(data), UNIT_SIZE)]


@pytest.mark.turns(4)
@pytest.mark.parametrize("first", [0, 7, 10, 13])
@pytest.mark.parametrize("lost", [[], [0], [1], [2], [0, 1], [1, 2], [0, 1, 2]])
@pytest.mark.parametrize("count", [20, 25, 30])
def test_a_repair_builds_the_entries_that_were_lost(first: int, lost: list[int], count: int, tmp_path: Path) -> None:
    log, queues = SmallLog(), open_queues(tmp_path)
    for number in range(count):
        log.put("T", queue_offset=first + number)
        log.put("other")
    log.dispatch_to(queues)
    whole = queues.find("T", 0)
    assert whole is not None
    entries = entries_of(whole)
    queues.close()
    start = first // UNITS_PER_FILE
    names = [tmp_path / f"consumequeue/T/0/{(start + number) * FILE_SIZE:020d}" for number in lost]
    gone = [name for name in names if name.exists()]
    missing = sum(one.size not in (0, PRE_BLANK.size) for name in gone for one in _units(name))
    for name in gone:
        name.unlink()
    opened = reopened_queues(tmp_path, overlay=Overlay(tmp_path / "scratch"), writable=False)
    queue = opened.find("T", 0) or opened.find_or_create("T", 0)
    bounds = Stretch(0, log.end)
    repair = Repair.of(queue, bounds, log.end)
    builder = QueueBuilder(opened, [SmallSegment(memoryview(log.data))], bounds, ScanRules())
    assert builder.repair({("T", 0): repair}) == repair.placed == missing
    assert entries_of(queue) == entries
    assert builder.damages == {}


def _units(path: Path) -> list[QueueUnit]:
    data = path.read_bytes()
    return [decode_unit(data, at) for at in range(0, len(data), UNIT_SIZE)]


def builder_of(root: Path, log: SmallLog, stop: int, data: bytes | None = None) -> QueueBuilder:
    scratch = root / f"scratch-{len(list(root.iterdir()))}"
    queues = reopened_queues(root, overlay=Overlay(scratch), writable=False)
    segment = SmallSegment(memoryview(log.data if data is None else data))
    return QueueBuilder(queues, [segment], Stretch(0, stop), ScanRules())


def mixed_log() -> SmallLog:
    """Twelve records, in turn of T, U and V."""
    log = SmallLog()
    for number in range(12):
        log.put("TUV"[number % 3], number % 3)
    return log


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (0, 12, {"T": 9, "U": 10, "V": 11}),
        (10, 12, {"U": 10, "V": 11}),
        (0, 11, {"T": 9, "U": 10, "V": 8}),
        (0, 1, {"T": 0}),
        (11, 12, {"V": 11}),
        (11, 11, {}),
        (12, 12, {}),
    ],
)
def test_the_newest_record_of_each_queue_is_within_the_stretch(
    start: int, stop: int, expected: dict[str, int], tmp_path: Path
) -> None:
    log = mixed_log()
    places = [*(unit.log_offset for unit in log.units), log.end]
    found = builder_of(tmp_path, log, places[stop]).newest_records(places[start])
    assert {topic: at for (topic, _), at in found.items() if at >= 0} == {
        topic: places[number] for topic, number in expected.items()
    }
    assert set(found) >= {(topic, "TUV".index(topic)) for topic in expected}


@pytest.mark.parametrize(
    ("start", "stop", "built"), [(0, 12, 4), (None, 12, 0), (1, 12, 3), (0, 9, 3), (0, 10, 4), (9, 9, 0), (12, 12, 0)]
)
def test_queues_that_are_met_in_the_log_are_repaired_once_and_progress_is_told(
    start: int | None, stop: int, built: int, tmp_path: Path
) -> None:
    log, asked, told = mixed_log(), [], []
    places = [*(unit.log_offset for unit in log.units), log.end]
    builder = builder_of(tmp_path, log, places[stop])

    def meet(key: tuple[str, int]) -> Repair | None:
        asked.append(key)
        return Repair(builder._queues.find_or_create(*key), tail=0) if key[0] == "T" else None

    count = builder.repair(
        {},
        meet,
        start=None if start is None else places[start],
        progress=lambda done, in_all: told.append((done, in_all)),
    )
    reads = start is not None and start < stop
    assert count == built
    assert len(asked) == len(set(asked)) == (3 if reads else 0)
    assert {(topic, queue_id) for topic, ids in builder.met.items() for queue_id in ids} == set(asked)
    length = places[stop] - places[start or 0]
    assert bool(told) is reads
    assert all(in_all == length for _, in_all in told)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


@pytest.mark.parametrize(("tails", "built"), [((0, 0), 8), ((0, 6), 6), ((6, 0), 6), ((6, 6), 4), ((9, None), 1)])
def test_the_log_is_read_from_the_first_start_of_all_repairs(
    tails: tuple[int, int | None], built: int, tmp_path: Path
) -> None:
    log = mixed_log()
    builder = builder_of(tmp_path, log, log.end)
    repairs = {
        key: Repair(builder._queues.find_or_create(*key), tail=None if tail is None else log.units[tail].log_offset)
        for key, tail in zip((("T", 0), ("U", 1)), tails, strict=True)
    }
    assert builder.repair(repairs) == built


@pytest.mark.parametrize(("bad", "stop", "is_noted"), [(5, 12, True), (5, 6, True), (5, 5, False)])
def test_damage_before_the_stop_is_noted_and_records_past_it_are_built(
    bad: int, stop: int, is_noted: bool, tmp_path: Path
) -> None:
    log = mixed_log()
    places = [*(unit.log_offset for unit in log.units), log.end]
    data = bytearray(log.data)
    data[places[bad] + 4] ^= 0xFF
    builder = builder_of(tmp_path, log, places[stop], bytes(data))
    repair = Repair(builder._queues.find_or_create("T", 0), tail=0)
    builder.repair({("T", 0): repair})
    assert list(builder.damages) == ([places[bad]] if is_noted else [])
    assert repair.placed == (stop + 2) // 3


def test_queues_that_share_records_are_built_where_a_reader_asks_for_them(tmp_path: Path) -> None:
    log = SmallLog()
    log.put("T", INNER_MULTI_DISPATCH="%LMQ%a", INNER_MULTI_QUEUE_OFFSET="0")
    for has_light, light in ((False, 0), (True, 1)):
        builder = builder_of(tmp_path, log, log.end)
        met = {}

        def meet(key: tuple[str, int], builder: QueueBuilder = builder, met: dict = met) -> Repair:  # type: ignore[type-arg]
            return met.setdefault(key, Repair(builder._queues.find_or_create(*key), tail=0))

        assert builder.repair({}, meet, start=0, has_light=has_light) == 1 + light
        assert sorted(met) == [("%LMQ%a", 0), ("T", 0)][1 - light :]
    assert builder_of(tmp_path, log, log.end).repair({}, meet, start=0) == 1


def test_the_newest_record_of_queues_that_share_records_is_the_last_that_names_them(tmp_path: Path) -> None:
    log = SmallLog()
    places = [
        log.put("T", INNER_MULTI_DISPATCH=names, INNER_MULTI_QUEUE_OFFSET=offsets)
        for names, offsets in [("%LMQ%a", "0"), ("%LMQ%a,%LMQ%b", "1,0"), ("%LMQ%b", "1"), ("%LMQ%b", "2")]
    ]
    newest = builder_of(tmp_path, log, log.end).newest_records(0)
    assert newest == {("T", 0): places[3], ("%LMQ%a", 0): places[1], ("%LMQ%b", 0): places[3]}


@pytest.mark.parametrize(
    ("newest", "end", "log", "lost"),
    [
        (500, 920, Stretch(0, 900), [Stretch(500, 900)]),
        (500, 920, Stretch(700, 900), [Stretch(700, 900)]),
        (-1, 920, Stretch(0, 900), [Stretch(0, 900)]),
        (500, 966, Stretch(0, 900), []),
    ],
)
def test_batch_units_are_lost_after_a_full_last_file_alone(
    newest: int, end: int, log: Stretch, lost: list[Stretch]
) -> None:
    files = SimpleNamespace(max_offset=end, file_size=92)
    queue: Any = SimpleNamespace(holds_batches=True, max_physic_offset=newest, files=files)
    assert lost_stretches(queue, log) == lost


@pytest.mark.parametrize(("starts", "met_from"), [((6,), 6), ((6, 3), 3), ((3, 6), 3)])
def test_queues_are_met_from_the_earliest_read_on(starts: tuple[int, ...], met_from: int, tmp_path: Path) -> None:
    log = mixed_log()
    builder = builder_of(tmp_path, log, log.end)
    for start in starts:
        builder.repair({}, start=log.units[start].log_offset)
    assert builder.met_from == log.units[met_from].log_offset
