"""Units against their records, and what a queue does at its edges: whole findings, whole files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.config import StoreConfig
from store.errors import BadRequest, ForeignFile, StoreIOError
from store.files.filesystem import Filesystem
from store.files.overlay import Overlay
from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import units_of
from store.formats.queue_unit import PRE_BLANK, UNIT_SIZE, QueueUnit, encode_ext_address
from store.formats.run import Run
from store.layout import StoreLayout
from store.structures.commitlog.scan import scan_segment
from store.structures.consumequeue import compare, rows
from store.structures.consumequeue.compare import (
    ExpectedUnits,
    FoundUnits,
    Piece,
    UnitsOfSegment,
    _records_of,
    differing_queues,
    queue_differences,
    rows_by_queue,
)
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.consumequeue.expect import Units
from store.structures.consumequeue.multi_dispatch import _long, _split, find_light_parts
from store.structures.consumequeue.other_queues import OtherQueues
from store.structures.consumequeue.out_of_order import OutOfOrder
from store.structures.consumequeue.queue_set import QueueState
from store.structures.consumequeue.survey import QueueFile, QueueListing, survey_queues
from store.structures.consumequeue.torn_units import _pieces
from store.structures.entry import Asked
from store.structures.findings import (
    MISSING_UNIT,
    QUEUE_DUPLICATE,
    QUEUE_SHIFT,
    UNIT_DIFFERS,
    UNIT_NOWHERE,
    UNIT_WRONG_RECORD,
    UNREADABLE_UNITS,
    Finding,
)
from tests.support.bad_sectors import BadSectors
from tests.support.small_log import (
    SMALL_CONFIG,
    START_MS,
    UNITS_PER_FILE,
    SmallLog,
    SmallSegment,
    open_queues,
    reopened_queues,
)

TOPIC, LIGHT = "T", "%LMQ%a"
STARTS = np.array([100, 150, 200, 300])
"""Where records begin; the one at 150 is another queue's."""


def packed(units: list[tuple[int, int, int]]) -> bytes:
    return b"".join(QueueUnit(*unit).encode() for unit in units)


def piece(name: str, *found: tuple[int, int, int, int]) -> Piece:
    """Units by queue offset, log offset, size and tags code."""
    return Piece(name, np.array([one[0] for one in found]), units_of(packed([one[1:] for one in found])))


def expected(topic: str = TOPIC) -> ExpectedUnits:
    offsets, starts, sizes, codes = (np.array(one) for one in ([5, 6, 7], [100, 200, 300], [10, 10, 10], [1, 1, 1]))
    return ExpectedUnits((topic, 3), offsets, starts, sizes, codes)


FIVE, SIX, SEVEN = (5, 100, 10, 1), (6, 200, 10, 1), (7, 300, 10, 1)
FOUND: list[tuple[list[Piece], list[tuple[Any, ...]]]] = [
    ([piece("f", FIVE, SIX, SEVEN)], []),
    ([piece("g", SEVEN), piece("f", FIVE, SIX)], []),
    ([piece("f", FIVE, SEVEN)], [(MISSING_UNIT, "log", 200, 1, "no entry for queue offset 6")]),
    ([piece("f", SEVEN)], [(MISSING_UNIT, "log", 100, 2, "no entry for queue offset 5")]),
    ([], [(MISSING_UNIT, "log", 100, 3, "no entry for queue offset 5")]),
    (
        [piece("f", FIVE, SIX, SEVEN, (8, 150, 10, 1), (9, 151, 10, 1), (10, 999, 10, 1))],
        [(UNIT_NOWHERE, "f", 9, 2, "points to 151, where no record begins"),
         (UNIT_WRONG_RECORD, "f", 8, 1, "points to 150, a record of another queue")],
    ),
    (
        [piece("f", (6, *FIVE[1:]), (7, *SIX[1:]), (8, *SEVEN[1:]))],
        [(QUEUE_SHIFT, "f", 6, 3, "holds the record of queue offset 5, +1 places off")],
    ),
    (
        [piece("f", (4, *FIVE[1:]), SIX, SEVEN)],
        [(QUEUE_SHIFT, "f", 4, 1, "holds the record of queue offset 5, -1 places off")],
    ),
    (
        [piece("f", FIVE, SIX, SEVEN, (9, *FIVE[1:]), (10, *SIX[1:]))],
        [(QUEUE_DUPLICATE, "f", 9, 2, "holds the record of queue offset 5, +4 places off")],
    ),
    (
        [piece("f", FIVE, SIX, SEVEN), piece("g", (9, *FIVE[1:]))],
        [(QUEUE_DUPLICATE, "g", 9, 1, "holds the record of queue offset 5, +4 places off")],
    ),
    (
        [piece("f", SIX, SEVEN, (8, *FIVE[1:]), (9, *FIVE[1:]))],
        [(QUEUE_DUPLICATE, "f", 9, 1, "holds the record of queue offset 5, +4 places off"),
         (QUEUE_SHIFT, "f", 8, 1, "holds the record of queue offset 5, +3 places off")],
    ),
    (
        [piece("f", FIVE, SEVEN, (9, *FIVE[1:]), (10, *SIX[1:]))],
        [(QUEUE_DUPLICATE, "f", 9, 1, "holds the record of queue offset 5, +4 places off"),
         (QUEUE_SHIFT, "f", 10, 1, "holds the record of queue offset 6, +4 places off")],
    ),
    (
        [piece("f", FIVE, (6, 200, 11, 1), (7, 300, 10, 2))],
        [(UNIT_DIFFERS, "f", 6, 2, "size 11 tags 1, the record has 10 and 1")],
    ),
    (
        [piece("f", FIVE, SIX, (7, 300, 10, 2))],
        [(UNIT_DIFFERS, "f", 7, 1, "size 10 tags 2, the record has 10 and 1")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("pieces", "found"), FOUND)
def test_the_units_of_a_queue_are_compared_with_those_that_its_records_should_have(
    pieces: list[Piece], found: list[tuple[Any, ...]]
) -> None:
    rows_of = [Finding(kind, name, at, TOPIC, 3, count, detail) for kind, name, at, count, detail in found]
    assert list(queue_differences("log", pieces, expected(), STARTS)) == rows_of


def test_units_of_a_light_queue_may_point_to_other_queues_records() -> None:
    units = piece("f", FIVE, SIX, SEVEN, (8, 150, 10, 1), (9, 151, 10, 1))
    detail = "points to 151, where no record begins"
    found = [Finding(UNIT_NOWHERE, "f", 9, LIGHT, 3, 1, detail)]
    assert list(queue_differences("log", [units], expected(LIGHT), STARTS)) == found


@pytest.mark.parametrize(
    ("targets", "offsets", "at", "own"),
    [
        ([100, 250, 300, 301], [100, 300], [0, 1, 1, 1], [True, False, True, False]), ([5], [], [0], [False]),
        ([], [100], [], []),
    ],
)  # fmt: skip
def test_a_target_is_a_record_or_the_next_one(
    targets: list[int], offsets: list[int], at: list[int], own: list[bool]
) -> None:
    found = _records_of(np.array(targets, np.int64), np.array(offsets, np.int64))
    assert [one.tolist() for one in found] == [at, own]


def found_units(*found: tuple[int, int, int, int, int]) -> FoundUnits:
    """Units by queue, queue offset, log offset, size and tags code."""
    columns = np.array([one[:2] for one in found], np.int64).reshape(-1, 2)
    data = units_of(packed([one[2:] for one in found]))
    return FoundUnits(columns[:, 0], np.zeros(len(found), np.int64), columns[:, 1], data)


SOUND = [(0, 5, 100, 10, 1), (1, 0, 150, 10, 1), (0, 6, 200, 10, 1)]


@pytest.mark.parametrize(
    ("found", "differing"),
    [
        (SOUND, []), ([SOUND[1], SOUND[0], SOUND[2]], []), (SOUND[:2], [0]), (SOUND[1:], [0]), ([SOUND[0]], [0, 1]),
        ([], [0, 1]), ([*SOUND, (3, 0, 300, 10, 1)], [3]), ([*SOUND, (0, 7, 300, 10, 1)], [0]),
        ([(0, 5, 101, 10, 1), *SOUND[1:]], [0]), ([(0, 4, 100, 10, 1), *SOUND[1:]], [0]),
        ([(0, 5, 100, 11, 1), *SOUND[1:]], [0]), ([(0, 5, 100, 10, 2), *SOUND[1:]], [0]),
        ([*SOUND, (2, 0, 100, 10, 1)], []), ([*SOUND, (2, 0, 101, 10, 1)], [2]),
    ],
)  # fmt: skip
def test_queues_differ_whose_units_are_not_those_of_their_records(
    found: list[tuple[int, int, int, int, int]], differing: list[int]
) -> None:
    """Queue 2 shares records."""
    queue, *columns = np.array([SOUND[0], SOUND[1], SOUND[2]]).T
    wanted = Units([], queue, *columns)
    is_shared = np.array([False, False, True, False])
    names = differing_queues(found_units(*found), wanted, queue, STARTS, is_shared)
    assert names.tolist() == differing
    unshared = differing_queues(found_units(*SOUND), wanted, queue, STARTS, np.zeros(4, bool))
    assert unshared.tolist() == []


@pytest.mark.parametrize("large", [0, (1 << 16) - 1, 1 << 16, 1 << 40])
def test_rows_are_sorted_by_queue_and_keep_their_order(large: int) -> None:
    assert rows_by_queue(np.array([3, large, 3, 0, large, 1])).tolist() == (
        [1, 3, 4, 5, 0, 2] if not large else [3, 5, 0, 2, 1, 4]
    )


@pytest.mark.parametrize("copied", [0, 1 << 14])
@pytest.mark.parametrize("rises", [True, False])
def test_units_of_a_segment_are_given_once_from_the_lowest_on(
    rises: bool, copied: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "COPIED_UNITS", copied)
    surveys = []
    for queue_id, first, offsets in ((3, 0, [10, 20, 30, 40]), (3, 10, [50, 60]), (4, 0, [15, 45]), (5, 0, [99])):
        units = [(20, 1, 0)] * (queue_id == 4) + [(at, 5, 0) for at in offsets] + [(30, 0, 0)] * (not rises)
        path = f"q{queue_id}-{first}"
        (tmp_path / path).write_bytes(packed(units).ljust(200, b"\0"))
        start = int(queue_id == 4)
        surveys.append(
            QueueFile(
                TOPIC, queue_id, path, first * UNIT_SIZE, 200, start, len(units) - 1, offsets[0], offsets[-1], rises
            )
        )
    numbers = {(TOPIC, 9): 0}
    segment = UnitsOfSegment(StoreReader(str(tmp_path)), surveys, 15, 60, numbers)
    assert (numbers, segment.names) == (
        {(TOPIC, 9): 0, (TOPIC, 3): 1, (TOPIC, 4): 2}, [str(tmp_path / name) for name in ("q3-0", "q3-10", "q4-0")],
    )  # fmt: skip
    found = []
    for high in (15, 16, 30, 31, 50, 60):
        is_over = segment.is_exhausted
        below = segment.below(high)
        found.append(list(zip(below.queue.tolist(), below.file.tolist(), below.number.tolist(),
                              below.units["log_offset"].tolist(), strict=True)))  # fmt: skip
        assert not is_over
    assert found == [
        [], [(2, 2, 1, 15)], [(1, 0, 1, 20)], [(1, 0, 2, 30)], [(1, 0, 3, 40), (2, 2, 2, 45)], [(1, 1, 10, 50)],
    ]  # fmt: skip
    assert segment.is_exhausted
    assert len(segment.below(1 << 40).units) == 0


def test_the_rows_of_a_queue_are_pieces_by_file_in_their_order() -> None:
    units = units_of(packed([(at, 1, 0) for at in (10, 20, 30, 40)]))
    found = FoundUnits(np.zeros(4, np.int64), np.array([1, 0, 1, 0]), np.array([7, 2, 6, 1]), units)
    pieces = [
        (one.name, one.numbers.tolist(), one.units["log_offset"].tolist())
        for one in found.pieces(["a", "b"], np.array([0, 1, 2]))
    ]
    assert pieces == [("a", [2], [20]), ("b", [6, 7], [30, 10])]


# A queue.


def filled(root: Path, count: int, **more: Any) -> tuple[SmallLog, ConsumeQueue]:
    log, queues = SmallLog(), open_queues(root, **more)
    log.put_many(count)
    log.dispatch_to(queues)
    return log, queues.find_or_create("T", 0)


@pytest.mark.parametrize(
    ("stale", "has_any", "is_zero_to"), [([], False, 0), ([(5, 1, 0)], True, 1), ([(0, 0, 0), (5, 1, 0)], False, 0),
                                         ([(5, 1, 0), (0, 0, 0), (5, 1, 1)], True, 3), ([(5, 0, 0)], False, 0)]
)  # fmt: skip
def test_units_behind_the_end_are_zeroed(
    stale: list[tuple[int, int, int]], has_any: bool, is_zero_to: int, tmp_path: Path
) -> None:
    _, queue = filled(tmp_path, 4)
    file = queue.files.last_file()
    data = packed(stale)
    file.write_buffer[80 : 80 + len(data)] = data
    assert (queue.has_cut_units(), queue.clear_cut_units(), queue.clear_cut_units()) == (has_any, has_any, False)
    kept = bytes(is_zero_to * UNIT_SIZE) + data[is_zero_to * UNIT_SIZE :]
    assert bytes(file.write_buffer[80 : 80 + len(data)]) == kept
    assert bytes(file.write_buffer[:80]) != bytes(80)


@pytest.mark.parametrize(("count", "has_any"), [(UNITS_PER_FILE - 1, True), (UNITS_PER_FILE, False)])
def test_a_full_file_has_no_units_behind_its_end(count: int, has_any: bool, tmp_path: Path) -> None:
    _, queue = filled(tmp_path, count)
    file = queue.files.last_file() if count < UNITS_PER_FILE else None
    if file is not None:
        file.write_buffer[180:200] = packed([(5, 1, 0)])
    assert queue.has_cut_units() is has_any


@pytest.mark.parametrize(
    ("unit", "count", "is_unwritten"),
    [((0, 0, 0), 11, True), ((0, 1, 0), 11, False), ((5, 1, 0), 11, False), ((0, 0, 0), 10, False)],
)
def test_a_last_file_may_begin_with_a_unit_that_was_never_written(
    unit: tuple[int, int, int], count: int, is_unwritten: bool, tmp_path: Path
) -> None:
    _, queue = filled(tmp_path, count)
    file = queue.files.files[-1]
    if count == 11:
        file.write_buffer[:20] = packed([unit])
    assert queue.begins_last_file_unwritten() is is_unwritten
    queue.holds_batches = True
    assert not queue.begins_last_file_unwritten()


def test_a_unit_is_rewritten_in_its_place(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 13)
    before, end = list(log.units), queue.max_physic_offset
    for number in (0, 9, 10, 11):
        queue.rewrite(number, QueueUnit(7, 8, number))
        assert queue.unit(number) == QueueUnit(7, 8, number)
        assert queue.max_physic_offset == end
    queue.rewrite(12, QueueUnit(70, 8, 12))
    assert queue.max_physic_offset == 78
    assert [queue.unit(number) for number in range(1, 9)] == before[1:9]
    with pytest.raises(BadRequest, match="has no entry 20"):
        queue.rewrite(20, QueueUnit(7, 8, 9))


def test_units_between_log_offsets_name_their_queue_offsets(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 25)
    at = [unit.log_offset for unit in log.units]
    first, second, last = queue.files.files
    for low, high, numbers in ((at[0], at[3], [0, 1, 2]), (at[2], at[2] + 1, [2]), (at[2] + 1, at[3], []),
                               (at[8], at[15], [8, 9])):  # fmt: skip
        found = queue.units_between(first, low, high)
        assert (found.queue_offsets.tolist(), found.log_offsets.tolist()) == (numbers, [at[one] for one in numbers])
        assert found.sizes.tolist() == [log.units[one].size for one in numbers]
    assert queue.units_between(second, 0, at[12]).queue_offsets.tolist() == [10, 11]
    assert queue.units_between(last, at[22], 1 << 40).queue_offsets.tolist() == [22, 23, 24]
    assert [queue.first_log_offset(file) for file in queue.files.files] == [at[0], at[10], at[20]]
    assert queue.last_log_offset(first) == at[9]
    assert [queue.roll_next_file(number) for number in (0, 9, 10, 11)] == [10, 10, 20, 20]
    assert [queue.ends_before(log.end + more) for more in (-1, 0, 1)] == [False, True, True]
    queue.had_units = True
    assert not queue.ends_before(log.end)


def test_a_range_begins_at_the_queues_start(tmp_path: Path) -> None:
    _, queue = filled(tmp_path, 12)
    queue.begin_at(3)
    assert [queue.read_range(number) is None for number in (2, 3, 9, 10, 11, 12)] == [True, *[False] * 4, True]
    assert [len(queue.read_range(number) or b"") for number in (3, 9, 10, 11)] == [140, 20, 40, 20]
    assert (queue.min_offset, queue.max_offset, queue.next_offset, queue.built_to) == (
        3, 12, 12, queue.max_physic_offset,
    )  # fmt: skip
    queue.destroy()
    assert (queue.min_offset, queue.max_offset, queue.max_physic_offset, queue.files.files) == (0, 0, -1, [])
    queue.put(7, 10, 0, 0)
    assert queue.unit(0) == QueueUnit(7, 10, 0)


LAST_PLACE = ((1 << 63) - 1 - UNITS_PER_FILE * UNIT_SIZE) // UNIT_SIZE
"""The last queue offset whose file ends at a long."""


@pytest.mark.parametrize(
    ("queue_offset", "found"),
    [
        (8, None), (9, OutOfOrder("T", 0, 9, 8)), (7, OutOfOrder("T", 0, 7, 8, has_unit=False)), (0, None),
        (-1, OutOfOrder("T", 0, -1, 8)), (LAST_PLACE, OutOfOrder("T", 0, LAST_PLACE, 8)),
        (LAST_PLACE + 1, OutOfOrder("T", 0, LAST_PLACE + 1, 8)),
    ],
)  # fmt: skip
def test_a_unit_is_put_where_the_queue_ends(queue_offset: int, found: OutOfOrder | None, tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 8)
    assert queue.put(log.end, 10, 3, queue_offset) == found
    is_put = found is None or (found.has_unit and queue_offset in (9, LAST_PLACE))
    assert (queue.max_offset, queue.max_physic_offset) == ((9, log.end + 10) if is_put else (8, log.end))


@pytest.mark.parametrize("start", [7, 10, 23])
def test_a_queue_that_begins_in_the_middle_is_filled_up_to_its_first_unit(start: int, tmp_path: Path) -> None:
    queue = open_queues(tmp_path).find_or_create("T", 0)
    assert queue.put(1000, 10, 3, start) is None
    (file,) = queue.files.files
    filled_count = start % UNITS_PER_FILE
    assert (file.file_start, file.wrote) == ((start - filled_count) * UNIT_SIZE, (filled_count + 1) * UNIT_SIZE)
    assert bytes(file.buffer[: filled_count * UNIT_SIZE]) == PRE_BLANK.encode() * filled_count
    assert (queue.min_offset, queue.max_offset) == (start, start + 1)
    assert (file.flushed, queue.files.flushed_where) == (filled_count * UNIT_SIZE, start * UNIT_SIZE)


EXT = StoreConfig(
    mapped_file_size_consume_queue=200, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=100
)


@pytest.mark.parametrize(
    ("lost", "from_record", "is_lost"),
    [((), 0, False), ((0,), 0, True), ((0,), 9, False), ((1,), 0, True), ((2,), 9, True)],
)
def test_an_extension_file_that_units_name_is_missed(
    lost: tuple[int, ...], from_record: int, is_lost: bool, tmp_path: Path
) -> None:
    log, queue = filled(tmp_path, 12, config=EXT)
    queue.close()
    paths = sorted((tmp_path / "consumequeue_ext/T/0").iterdir())
    assert len(paths) >= 3
    for number in lost:
        paths[number if number < 2 else -1].unlink()
    queues = open_queues(tmp_path, EXT, writable=False)
    found = queues.find("T", 0)
    assert found is not None
    assert found.has_lost_extension(log.units[from_record].log_offset) is is_lost
    plain = open_queues(tmp_path, writable=False).find("T", 0)
    assert plain is not None
    assert [plain.has_lost_extension(at) for at in (0, log.end)] == [True, False]
    assert plain.ext_unit(encode_ext_address(0)) is None
    assert plain.real_tags_code(5) == 5


@pytest.mark.parametrize(
    ("as_broker", "ends", "files"), [(False, [0, 0, 0, 0], [1, 1, 1, 1]), (True, [0, 1, 2, 5], [0, 1, 1, 1])]
)
def test_a_broker_cuts_behind_a_first_unit_that_was_never_written(
    as_broker: bool, ends: list[int], files: list[int], tmp_path: Path
) -> None:
    """At the log's very beginning it deletes the file: log offset 0 is not in front of 0."""
    for number, cut in enumerate((0, 200, 300, 999)):
        queue = open_queues(tmp_path / str(number)).find_or_create("T", 0)
        for place in range(5):
            queue.put(100 * (place + 1), 10, 0, place)
        queue.files.last_file().write_buffer[:20] = bytes(20)
        queue.truncate_dirty_logic_files(cut, as_broker=as_broker)
        assert (queue.max_offset, len(queue.files.files)) == (ends[number], files[number])


def test_a_queue_that_is_cut_short_to_nothing_reaches_nowhere(tmp_path: Path) -> None:
    queue = open_queues(tmp_path).find_or_create("T", 0)
    for place, log_offset in enumerate((900, 100, 200)):
        queue.put(log_offset, 10, 0, place) if not place else queue.append_encoded(
            memoryview(QueueUnit(log_offset, 10, 0).encode())
        )
    queue.truncate_dirty_logic_files(500)
    assert (queue.is_cut_short, queue.max_physic_offset, queue.max_offset) == (True, -1, 0)
    sound = filled(tmp_path / "sound", 3)[1]
    sound.truncate_dirty_logic_files(0)
    assert (sound.is_cut_short, sound.max_physic_offset, sound.max_offset) == (False, 0, 0)


def test_a_file_of_pre_blank_units_names_no_record(tmp_path: Path) -> None:
    queue = open_queues(tmp_path).find_or_create("T", 0)
    queue.append_encoded(memoryview(PRE_BLANK.encode() * 2))
    (file,) = queue.files.files
    assert queue.first_log_offset(file) == -1
    queue.append_encoded(memoryview(QueueUnit(7, 10, 0).encode()))
    assert queue.first_log_offset(file) == 7


LARGE = StoreConfig(mapped_file_size_consume_queue=700 * UNIT_SIZE)


@pytest.mark.parametrize("first", [0, 1, 203, 204, 205, 450, 699, 700])
@pytest.mark.parametrize("line", [LINE_4_9, LINE_5_3])
def test_a_queue_begins_at_the_first_unit_of_its_first_file_that_is_in_the_log(
    first: int, line: BrokerLine, tmp_path: Path
) -> None:
    queue = open_queues(tmp_path, LARGE, line=line).find_or_create("T", 0)
    data = b"".join(QueueUnit(10 * place, 10, 0).encode() for place in range(705))
    queue.append_encoded(memoryview(data))
    queue.correct_min_offset(10 * first - 5)
    # Of units in a later file the queue's start knows nothing.
    assert queue.min_offset == (first if first < 700 else 0)
    queue.correct_min_offset(7045)
    assert queue.min_offset == (705 if line is LINE_5_3 else first if first < 700 else 0)
    assert (queue.next_offset, queue.max_offset, queue.max_physic_offset) == (705, 705, 7050)


@pytest.mark.parametrize("hole", [None, 0, 9, 10, 15, 20, 24, 30, 39])
def test_recovery_reads_the_newest_three_files_to_the_first_unit_that_is_none(hole: int | None, tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 38)
    queue.close()
    if hole is not None and hole < 38:
        with (tmp_path / f"consumequeue/T/0/{hole // 10 * 200:020d}").open("r+b") as file:
            file.seek(hole % 10 * UNIT_SIZE)
            file.write(bytes(UNIT_SIZE))
    found = reopened_queues(tmp_path).find("T", 0)
    assert found is not None
    end = hole if hole is not None and 10 <= hole < 38 else 38
    assert (found.max_offset, found.had_units, found.files.flushed_where) == (end, True, end * UNIT_SIZE)
    reached = log.units[end - 1].log_offset + log.units[end - 1].size
    assert found.max_physic_offset == (reached if end > 10 else -1)
    assert len(found.files.files) == -(-end // 10) + (end % 10 == 0 and end < 38)


# All queues.


def test_a_queue_that_cannot_be_read_is_left_out_with_its_reason(tmp_path: Path) -> None:
    log, queues = SmallLog(), open_queues(tmp_path)
    for queue_id, count in ((0, 12), (1, 11), (2, 3)):
        log.put_many(count, queue_id=queue_id)
    log.dispatch_to(queues)
    queues.close()
    found = open_queues(tmp_path)
    for queue_id in (0, 1):
        queue = found.find("T", queue_id)
        assert queue is not None
        queue.recover = lambda queue_id=queue_id: refuse(queue_id)  # type: ignore[method-assign, misc]
    assert found.recover() == log.end
    assert [(error.reason, error.hint) for error in found.failures] == [
        ("bad 0", "rebuild the queue from the log"), ("bad 1", "rebuild the queue from the log"),
    ]  # fmt: skip
    with pytest.raises(StoreIOError, match="bad 1"):
        found.find("T", 1)
    assert [queue.queue_id for queue in found] == [2]
    assert (len(found), ("T", 1) in found, ("T", 3) in found) == (3, True, False)


def refuse(number: int) -> int:
    raise StoreIOError(f"bad {number}")


@pytest.mark.parametrize("line_writes", [False, True])
def test_states_and_ends_of_all_queues_are_told_without_waking_one(line_writes: bool, tmp_path: Path) -> None:
    log, queues = SmallLog(), open_queues(tmp_path)
    for topic, queue_id, count in (("B", 1, 2), ("A", 2, 12), ("A", 0, 3)):
        log.put_many(count, topic=topic, queue_id=queue_id)
    log.dispatch_to(queues)
    queues.close()
    found = reopened_queues(tmp_path, writable=line_writes)
    ends = {key: log.units[last].log_offset + log.units[last].size for key, last in
            ((("B", 1), 1), (("A", 2), 13), (("A", 0), 16))}  # fmt: skip
    states = sorted(found.states())
    assert states == [
        QueueState("A", 0, 0, 3, ends["A", 0]), QueueState("A", 2, 0, 12, ends["A", 2]),
        QueueState("B", 1, 0, 2, ends["B", 1]),
    ]  # fmt: skip
    assert found.newest_unit() == (log.units[16].log_offset, log.units[16].size)
    assert sorted(found.next_offsets()) == [(("A", 0), 3), (("A", 2), 12), (("B", 1), 2)]
    assert (found.topics(), found.queue_ids("A"), found.queue_ids("C")) == (["A", "B"], [0, 2], [])
    assert (found.max_physic_offset, found.built_to) == (log.end, log.end)
    assert sorted(found.resting()) == [("A", 0), ("B", 1)]
    assert [queue.queue_id for queue in found.reaching(log.units[16].log_offset + 1)] == [2]
    assert sorted(found.resting()) == [("A", 0), ("B", 1)]
    assert sorted(queue.queue_id for queue in found.reaching(log.units[16].log_offset)) == [0, 2]
    assert [(queue.topic, queue.queue_id) for queue in found] == [("A", 0), ("A", 2), ("B", 1)]
    assert [queue.queue_id for queue in sorted(found.of_topic("A"), key=lambda one: one.queue_id)] == [0, 2]
    assert sorted(found.states()) == states
    assert found.newest_unit() == (log.units[16].log_offset, log.units[16].size)


def test_no_queue_has_reached_nothing(tmp_path: Path) -> None:
    found = reopened_queues(tmp_path)
    assert (found.max_physic_offset, found.built_to, found.newest_unit(), len(found)) == (-1, -1, None, 0)
    found.find_or_create("T", 0)
    assert (found.max_physic_offset, found.built_to, found.newest_unit(), len(found)) == (-1, -1, None, 1)


@pytest.mark.parametrize(("writable", "is_refused"), [(True, True), (False, False)])
@pytest.mark.parametrize("what", ["topic", "queue", "file"])
def test_a_link_or_a_file_in_place_of_a_queue_is_refused_by_a_writer(
    what: str, writable: bool, is_refused: bool, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere/0").mkdir(parents=True)
    folder = tmp_path / "s/consumequeue"
    folder.mkdir(parents=True)
    if what == "topic":
        (folder / "T").symlink_to(tmp_path / "elsewhere")
    else:
        (folder / "T").mkdir()
        (folder / "T/0").symlink_to(tmp_path / "elsewhere/0") if what == "queue" else (folder / "T/0").touch()
    if is_refused:
        with pytest.raises(ForeignFile):
            open_queues(tmp_path / "s")
    else:
        assert len(open_queues(tmp_path / "s", writable=False)) == (what != "file")


def test_an_overlay_names_what_it_holds_of_each_queue(tmp_path: Path) -> None:
    log, queues = SmallLog(), open_queues(tmp_path / "s")
    log.put_many(12)
    log.dispatch_to(queues)
    queues.close()
    overlay = reopened_queues(tmp_path / "s", overlay=Overlay(tmp_path / "staged"))
    log.put_many(1)
    log.put_many(1, queue_id=1)
    log.dispatch_to(overlay)
    places = sorted(str(place.relative_to(tmp_path / "s")) for place, _ in overlay.staged_files())
    assert places == [f"consumequeue/T/0/{200:020d}", f"consumequeue/T/1/{0:020d}"]
    overlay.truncate_dirty(log.units[5].log_offset)
    assert [path.name for path in overlay.removed_paths()] == [f"{200:020d}"]


def test_a_queue_of_another_type_is_made_and_found_in_its_own_folder(tmp_path: Path) -> None:
    others = OtherQueues(frozenset({"B"}), "batchconsumequeue", 400, ConsumeQueue)
    queues = ConsumeQueueStore(StoreLayout(tmp_path), SMALL_CONFIG, Filesystem(), writable=True, others=others)
    folders = {"B": tmp_path / "batchconsumequeue/B/3", "T": tmp_path / "consumequeue/T/3"}
    for topic, size in (("B", 400), ("T", 200)):
        queue = queues.find_or_create(topic, 3)
        queue.put(0, 10, 0, 0)
        assert (queue.files.folder, queue.files.file_size) == (folders[topic], size)
        assert queues.queue_folder(topic, 3) == folders[topic]
    queues.close()
    again = ConsumeQueueStore(StoreLayout(tmp_path), SMALL_CONFIG, Filesystem(), writable=True, others=others)
    again.load()
    assert (again.is_resting(("T", 3)), again.is_resting(("B", 3)), len(again)) == (True, False, 2)
    (folders["B"] / f"{0:020d}").write_bytes(bytes(401))
    assert [error.file for error in again.refused_by(LINE_4_9)] == [folders["B"] / f"{0:020d}"]
    (folders["T"].parent / "9").touch()
    assert open_queues(tmp_path, writable=False).refused_by(LINE_4_9) == []
    assert open_queues(tmp_path / "none").refused_by(LINE_4_9) == []


# Units as entries, light queues, and the pieces of torn units.


@pytest.mark.parametrize(("first", "left"), [(0, 5), (10, 5), (11, 4), (14, 1), (15, 0)])
def test_units_are_shown_from_the_queue_offset_asked_for_to_the_last_that_is_not_zero(
    first: int, left: int, tmp_path: Path
) -> None:
    (tmp_path / "consumequeue/T/0").mkdir(parents=True)
    units = [PRE_BLANK, QueueUnit(100, 10, 1), QueueUnit(0, 0, 0), QueueUnit(200, 10, encode_ext_address(5)),
             QueueUnit(300, 10, 1 << 32)]  # fmt: skip
    (tmp_path / f"consumequeue/T/0/{200:020d}").write_bytes(b"".join(unit.encode() for unit in units).ljust(200, b"\0"))
    reader, asked = StoreReader(str(tmp_path)), Asked(first=first, topic="T", queue_id=0)
    (file,) = rows.files(reader, asked)
    assert rows.files(reader, Asked(topic="U")) == []
    found = [
        (one.kind, one.number, one.start, one.data, one.extra["ext_address"]) for one in rows.rows(reader, file, asked)
    ]
    kinds = ["pre-blank", "unit", "empty", "unit", "unit"]
    assert (
        found
        == [
            (kind, 10 + number, 20 * number, unit.encode(), 5 if number == 3 else None)
            for number, (kind, unit) in enumerate(zip(kinds, units, strict=True))
        ][5 - left :]
    )


def test_units_of_a_file_without_its_name_are_counted_from_0(tmp_path: Path) -> None:
    (tmp_path / "lost").write_bytes(packed([(100, 10, 1), (200, 10, 1)]))
    shown = list(rows.rows(StoreReader(str(tmp_path)), StoredFile("lost", 0, 40, 0), Asked()))
    assert [(one.number, one.start, one.values()["log_offset"]) for one in shown] == [(0, 0, 100), (1, 20, 200)]


def test_units_that_cannot_be_read_are_named_by_the_first_of_them(tmp_path: Path) -> None:
    (tmp_path / "units").write_bytes(packed([(at, 10, 1) for at in range(1000)]))
    reader = StoreReader(str(tmp_path), BadSectors({"units": {1, 3}}))
    listing = QueueListing(TOPIC, 3, (StoredFile("units", 2000, 20_000, 0),))
    found = [one for one in survey_queues(reader, [listing], 20_000, 0) if isinstance(one, Finding)]
    detail = "can't read bytes 4096 to 8192, 12288 to 16384"
    assert found == [Finding(UNREADABLE_UNITS, str(tmp_path / "units"), (2000 + 4096) // 20, TOPIC, 3, 1, detail)]


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("+7", 7), ("-7", -7), (str((1 << 63) - 1), (1 << 63) - 1), (str(1 << 63), None), ("1_0", None),
     (" 1", None), ("", None), (str(-(1 << 63) + 1), -(1 << 63) + 1)],
)  # fmt: skip
def test_a_queue_offset_is_what_java_takes_for_a_long(text: str, value: int | None) -> None:
    if value is None:
        with pytest.raises(ValueError, match=r"."):
            _long(text)
    else:
        assert _long(text) == value


def test_words_are_split_as_java_does() -> None:
    assert [_split(text) for text in ("a,b", "a,,b", "a,b,,", ",a", ",", "")] == [
        ["a", "b"], ["a", "", "b"], ["a", "b"], ["", "a"], [], [],
    ]  # fmt: skip


def test_light_queues_of_a_run_are_found_with_their_rows_and_faults() -> None:
    log = SmallLog()
    names, offsets = "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"
    given = [
        ({names: "%LMQ%a,b", offsets: "4,5"}, "T"), ({}, "T"), ({names: "%LMQ%a", offsets: "x"}, "T"),
        ({names: "%LMQ%a,b", offsets: "4"}, "T"), ({names: "%LMQ%a"}, "T"),
        ({names: "%LMQ%a", offsets: "6"}, "%RETRY%g"), ({names: "%LMQ%a,../c", offsets: "7,8"}, "T"),
    ]  # fmt: skip
    places = [log.put(topic, 3, **properties) for properties, topic in given]
    run = next(scan_segment(SmallSegment(memoryview(log.data))))
    assert isinstance(run, Run)
    for config, light_id in ((None, 0), (SMALL_CONFIG, 3), (StoreConfig(enable_lmq=True), 0)):
        parts, faults, unmatched = find_light_parts(run, np.arange(7), config)
        found = [(part.key, part.rows.tolist(), part.run.columns.queue_offset.tolist()) for part in parts]
        assert found == [(("%LMQ%a", light_id), [0, 6], [4, 7]), (("b", 3), [0], [5])]
        assert (faults, unmatched) == ([places[2]], [places[3]])
    assert find_light_parts(run, np.array([1, 5]), None) == ([], [], [])


@pytest.mark.parametrize(
    ("first", "count", "pieces"),
    [
        (0, 5, [(0, 5)]), (8, 5, [(8, 10), (10, 13)]), (22, 5, [(22, 25)]), (25, 2, []), (10, 10, [(10, 20)]),
        (0, 25, [(0, 10), (10, 20), (20, 25)]),
    ],
)  # fmt: skip
def test_records_are_grouped_with_the_units_at_their_queue_offsets(
    first: int, count: int, pieces: list[tuple[int, int]], tmp_path: Path
) -> None:
    log, queue = filled(tmp_path, 25)
    log.put_many(2)
    run = next(scan_segment(SmallSegment(memoryview(log.data))))
    assert isinstance(run, Run)
    order = np.arange(first, first + count)
    found = [(one.rows.tolist(), bytes(one.units)) for one in _pieces(queue, run, order)]
    assert found == [
        (list(range(start, stop)), b"".join(unit.encode() for unit in log.units[start:stop])) for start, stop in pieces
    ]
    assert list(_pieces(queue, run, np.array([0, 2]))) == []
    queue.holds_batches = True
    assert list(_pieces(queue, run, order)) == []


def test_findings_of_a_queue_are_lengthened_and_the_newest_hundred_are_kept(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    for number in range(102):
        queues._add_finding(OutOfOrder("T", number, 9, 5))
    assert [one.queue_id for one in queues.findings] == list(range(2, 102))
    queues._add_finding(OutOfOrder("T", 50, 10, 6))
    assert (queues.findings[48].count, len(queues.findings)) == (2, 100)
    queues.unusable_topics, queues.light_faults, queues.findings = ["a/b"], [77], queues.findings[:1]
    assert queues.describe_findings() == [
        queues.findings[0].describe(), "topic 'a/b' is no name of a folder: its messages get no queue entries",
        "the record at log offset 77 has queue offsets that are no numbers: no entries in light queues",
    ]  # fmt: skip


def test_the_time_of_the_last_message_with_a_unit_is_told(tmp_path: Path) -> None:
    log, queues = SmallLog(), open_queues(tmp_path)
    told: list[int] = []
    queues.on_stored = told.append
    log.put_many(2)
    log.put(sys_flag=4)
    log.dispatch_to(queues)
    assert (told, queues.last_store_timestamp_ms) == ([START_MS + 1000], START_MS + 1000)
    log.put(sys_flag=4)
    log.dispatch_to(queues)
    assert told == [START_MS + 1000]


def test_unwanted_queues_get_no_units(tmp_path: Path) -> None:
    log, queues = SmallLog(), open_queues(tmp_path)
    queues.wants = lambda key: key != ("T", 1)
    for queue_id in (0, 1, 2):
        log.put_many(2, queue_id=queue_id)
    log.dispatch_to(queues)
    assert sorted(queues.names()) == [("T", 0), ("T", 2)]
