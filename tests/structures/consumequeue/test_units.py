"""The units of a file as an array, what a survey of files finds in them, and the words of a queue out of order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from store.broker_line import LINE_4_9, LINE_5_3
from store.files.mapped_file import MappedFile
from store.files.store_reader import StoredFile, StoreReader
from store.formats.columns import Column
from store.formats.derived import UNIT_DTYPE, units_of
from store.formats.queue_unit import PRE_BLANK, UNIT_SIZE, QueueUnit, encode_ext_address
from store.formats.run import Run
from store.structures.consumequeue.compare import other_codes
from store.structures.consumequeue.out_of_order import OutOfOrder
from store.structures.consumequeue.resting import RestingQueue
from store.structures.consumequeue.survey import QueueFile, QueueListing, survey_queues
from store.structures.consumequeue.torn_units import _is_torn, _rewrite
from store.structures.consumequeue.unit_array import (
    _chunks,
    count_before,
    extension_positions,
    is_written,
    last_ext_address,
    written_count,
)
from store.structures.findings import LOST_EXTENSION, QUEUE_GAP, WRONG_SIZE, Finding, effect_on_start

ADDRESS = encode_ext_address(24)


def packed(*units: QueueUnit) -> bytes:
    return b"".join(unit.encode() for unit in units)


def units_at(*log_offsets: int, size: int = 10) -> list[QueueUnit]:
    return [QueueUnit(log_offset, size, 0) for log_offset in log_offsets]


RESTING = RestingQueue(3, 300, 310, packed(*units_at(100, 200, 300)))


@pytest.mark.parametrize(
    ("log_offset", "first", "first_of_5_3"),
    [(0, 0, 0), (100, 0, 0), (101, 1, 1), (200, 1, 1), (201, 2, 2), (300, 2, 2), (301, 0, 3)],
)
def test_a_resting_queue_begins_at_its_first_unit_of_the_log(log_offset: int, first: int, first_of_5_3: int) -> None:
    assert [RESTING.first_from(log_offset, line) for line in (LINE_4_9, LINE_5_3)] == [first, first_of_5_3]
    assert RESTING.last_unit() == (300, 10)


@pytest.mark.parametrize(
    ("queue_offset", "log_offset", "size", "code", "agrees"),
    [
        (0, 100, 10, 0, True), (2, 300, 10, 0, True), (3, 999, 99, 9, True), (2, 301, 10, 0, False),
        (2, 300, 11, 0, False), (2, 300, 10, 1, False), (-1, 300, 10, 0, False),
    ],
)  # fmt: skip
def test_a_resting_queue_agrees_with_records_that_have_its_units(
    queue_offset: int, log_offset: int, size: int, code: int, agrees: bool
) -> None:
    array = np.zeros((len(Column), 2), np.int64)
    array[[Column.QUEUE_OFFSET, Column.LOG_OFFSET, Column.SIZE], 0] = queue_offset, log_offset, size
    array[[Column.QUEUE_OFFSET, Column.LOG_OFFSET, Column.SIZE], 1] = 1, 200, 10
    run = Run(0, Path(), memoryview(b""), array, 2)
    assert RESTING.agrees(run, np.array([0, 1]), np.array([code, 0])) is agrees


@pytest.mark.parametrize(
    ("log_offset", "size", "written"), [(-1, 1, False), (0, 0, False), (0, 1, True), (5, -1, False)]
)
@pytest.mark.parametrize("before", [0, 1, 203, 204, 205, 407, 408, 9000])
def test_written_units_are_counted_to_the_first_that_is_not(
    before: int, log_offset: int, size: int, written: bool
) -> None:
    units = units_of(packed(*units_at(*range(before)), QueueUnit(log_offset, size, 0), *units_at(7)))
    assert is_written(units[before]) is written
    assert written_count(units) == (before + 2 if written else before)
    assert count_before(units, 1 << 20) == written_count(units)


@pytest.mark.parametrize(("log_offset", "count"), [(0, 0), (99, 0), (100, 0), (101, 1), (300, 2), (301, 3)])
def test_units_are_counted_before_a_log_offset(log_offset: int, count: int) -> None:
    assert count_before(units_of(RESTING.units), log_offset) == count
    assert count_before(units_of(b""), log_offset) == written_count(units_of(b"")) == 0


@pytest.mark.parametrize("count", [0, 1, 203, 204, 205, 408, 409, 30_000])
def test_pieces_cover_all_units_once(count: int) -> None:
    pieces = list(_chunks(count))
    assert [unit for start, stop in pieces for unit in range(start, stop)] == list(range(count))
    assert all(stop - start <= 8192 for start, stop in pieces)


@pytest.mark.parametrize(
    ("log_offset", "positions"), [(0, [24, 44]), (100, [24, 44]), (101, [44]), (300, [44]), (301, [])]
)
def test_extension_positions_are_those_of_live_units(log_offset: int, positions: list[int]) -> None:
    codes = (ADDRESS, -(1 << 31), encode_ext_address(44))
    data = packed(*(QueueUnit(at, 1, code) for at, code in zip((100, 200, 300), codes, strict=True)))

    class File:
        buffer, readable_position = memoryview(data + bytes(40)), len(data)

        def require_written(self, margin: int) -> None: ...

    assert extension_positions(cast(MappedFile, File()), log_offset).tolist() == positions
    assert last_ext_address(units_of(data), 5, None) == 5
    assert last_ext_address(units_of(data), 5, cast(Any, object())) == encode_ext_address(44)
    assert last_ext_address(units_of(data)[1:2], 5, cast(Any, object())) == 5


# A record's unit, the one that is found, and whether a power cut left that.
WANTED = QueueUnit(0x1_0000_0002, 3, 0x4_0000_0005)
TORN = [
    (WANTED, False), (WANTED._replace(size=4), True), (WANTED._replace(tags_code=0), True), (QueueUnit(0, 0, 0), True),
    (QueueUnit(2, 3, 0x4_0000_0005), True), (QueueUnit(2, 4, 0x4_0000_0005), False), (QueueUnit(7, 3, 5), False),
]  # fmt: skip


@pytest.mark.parametrize(("found", "is_torn"), TORN)
def test_a_unit_is_torn_that_names_its_record_wrongly_or_has_words_of_it(found: QueueUnit, is_torn: bool) -> None:
    both = np.frombuffer(packed(found, WANTED), UNIT_DTYPE), np.frombuffer(packed(WANTED, WANTED), UNIT_DTYPE)
    assert _is_torn(*both).tolist() == [is_torn, False]


@pytest.mark.parametrize(
    ("topic", "found", "expected", "differs"),
    [
        ("T", 5, 5, (False, False)), ("T", 5, 6, (True, True)), ("T", ADDRESS, 6, (False, False)),
        ("T", -(1 << 63) + (1 << 48), 6, (True, True)), ("SCHEDULE_TOPIC_XXXX", (1 << 31) - 1, 6, (False, False)),
        ("SCHEDULE_TOPIC_XXXX", 1 << 31, (1 << 31) + 1, (True, True)),
        ("SCHEDULE_TOPIC_XXXX", 1 << 31, (1 << 31) + 1000, (False, True)),
        ("SCHEDULE_TOPIC_XXXX", 1 << 31, 1 << 31, (False, False)),
    ],
)  # fmt: skip
def test_tags_codes_differ_but_for_addresses_and_for_other_delays_unless_these_are_known(
    topic: str, found: int, expected: int, differs: tuple[bool, bool]
) -> None:
    given = (other_codes(topic, np.array([found]), np.array([expected]), known).tolist() for known in (False, True))
    assert tuple(given) == ([differs[0]], [differs[1]])


FIRST = OutOfOrder("T", 1, 9, 5)


@pytest.mark.parametrize(
    ("first", "other", "count"),
    [
        (FIRST, OutOfOrder("T", 1, 10, 6), 2), (FIRST, OutOfOrder("T", 1, 10, 5), None),
        (FIRST, OutOfOrder("T", 1, 11, 6), None), (FIRST, OutOfOrder("T", 2, 10, 6), None),
        (FIRST, OutOfOrder("U", 1, 10, 6), None), (FIRST, OutOfOrder("T", 1, 10, 6, 3), 4),
        (OutOfOrder("T", 1, 3, 5, has_unit=False), OutOfOrder("T", 1, 4, 5, has_unit=False), 2),
        (OutOfOrder("T", 1, 3, 5, has_unit=False), OutOfOrder("T", 1, 4, 6, has_unit=False), None),
    ],
)  # fmt: skip
def test_messages_that_follow_on_are_one_finding(first: OutOfOrder, other: OutOfOrder, count: int | None) -> None:
    joined = first.joined(other)
    assert (None if joined is None else joined.count) == count


WORDS = [
    (
        "T, queue 1: the message with queue offset 9 came where 5 is next, with the entry at 5 as in a broker: "
        "consumers' offsets point 4 messages too far"
    ),
    (
        "T, queue 1: the messages with queue offsets 3 to 4 came where 5 is next, with the entry at 5 to 6 as "
        "in a broker: consumers' offsets point 2 messages too low"
    ),
    (
        "T, queue 1: the message with queue offset 3 came where 5 is next, without an entry: others have these "
        "queue offsets; put them again"
    ),
]
OUT_OF_ORDER = [FIRST, OutOfOrder("T", 1, 3, 5, 2), OutOfOrder("T", 1, 3, 5, has_unit=False)]


@pytest.mark.parametrize(("found", "words"), list(zip(OUT_OF_ORDER, WORDS, strict=True)))
def test_messages_out_of_order_are_described(found: OutOfOrder, words: str) -> None:
    assert found.describe() == words


SIZE = 5 * UNIT_SIZE
"""Of a queue file."""
LIVE = units_at(100, 200)


def surveyed(
    folder: Path, *files: tuple[int, list[QueueUnit], int], log_start: int = 0, extension: tuple[int, int] = (0, 0)
) -> list[Any]:
    """The rows of files that begin at these units: their units, and their sizes."""
    stored = []
    for first, units, size in files:
        path = folder / f"{first * UNIT_SIZE:020d}"
        path.write_bytes(packed(*units).ljust(size, b"\0")[:size])
        stored.append(StoredFile(path.name, first * UNIT_SIZE, size, 0))
    listing = QueueListing("T", 1, tuple(stored), *extension)
    return list(survey_queues(StoreReader(str(folder)), [listing], SIZE, log_start))


def a_file(first: int, *numbers: object) -> QueueFile:
    return QueueFile("T", 1, f"{first * UNIT_SIZE:020d}", first * UNIT_SIZE, SIZE, *numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("units", "numbers"),
    [
        (LIVE, (0, 1, 100, 200, True)), (LIVE[::-1], (0, 1, 100, 200, False)), ([], (-1, -1, 0, -1, True)),
        ([PRE_BLANK, PRE_BLANK, *LIVE], (2, 3, 100, 200, True)), (units_at(100, 100), (0, 1, 100, 100, False)),
        ([PRE_BLANK], (-1, -1, 0, -1, True)), (units_at(7), (0, 0, 7, 7, True)),
    ],
)  # fmt: skip
def test_a_file_is_surveyed_by_its_live_units(
    units: list[QueueUnit], numbers: tuple[object, ...], tmp_path: Path
) -> None:
    assert surveyed(tmp_path, (0, units, SIZE), (5, LIVE, SIZE)) == [
        a_file(0, *numbers),
        a_file(5, 0, 1, 100, 200, True),
    ]


def finding(folder: Path, kind: str, first: int, unit: int, detail: str, count: int = 1) -> Finding:
    return Finding(kind, str(folder / f"{first * UNIT_SIZE:020d}"), unit, "T", 1, count, detail)


def test_units_never_written_before_others_are_a_gap(tmp_path: Path) -> None:
    zero = QueueUnit(0, 0, 0)
    rows = surveyed(tmp_path, (5, [LIVE[0], zero, zero, LIVE[1]], SIZE))
    detail = "an entry was never written, although later ones were"
    assert rows == [a_file(5, 0, 3, 100, 200, False), finding(tmp_path, QUEUE_GAP, 5, 6, detail, 2)]


def test_missing_files_and_files_of_another_length_are_named(tmp_path: Path) -> None:
    rows = surveyed(tmp_path, (0, LIVE, SIZE), (10, LIVE, SIZE), (15, LIVE, SIZE - 1))
    assert [row for row in rows if isinstance(row, Finding)] == [
        finding(tmp_path, QUEUE_GAP, 10, 10, "files between 0 and 200 are missing"),
        finding(tmp_path, WRONG_SIZE, 15, 15, f"99 bytes, expected 100; {effect_on_start(99, is_last=True)}"),
    ]


@pytest.mark.parametrize(("code", "is_lost"), [(encode_ext_address(0), True), (1, False)])
def test_the_first_address_of_an_extension_counts_too(code: int, is_lost: bool, tmp_path: Path) -> None:
    rows = surveyed(tmp_path, (5, [QueueUnit(100, 1, code)], SIZE))
    detail = "entries point to addresses 0 to 0 of consumequeue_ext/, there is no such file"
    assert rows[1:] == [finding(tmp_path, LOST_EXTENSION, 5, 5, detail)] * is_lost


@pytest.mark.parametrize(
    ("extension", "log_start", "held"),
    [
        ((24, 45), 0, None), ((0, 45), 0, None), ((25, 45), 0, "the files hold 25 to 45"),
        ((24, 44), 0, "the files hold 24 to 44"), ((0, 0), 0, "there is no such file"), ((0, 0), 201, None),
    ],
)  # fmt: skip
def test_addresses_outside_of_the_extension_files_are_lost(
    extension: tuple[int, int], log_start: int, held: str | None, tmp_path: Path
) -> None:
    units = [QueueUnit(100, 1, ADDRESS), QueueUnit(200, 1, encode_ext_address(44)), QueueUnit(300, 1, 9)]
    rows = surveyed(tmp_path, (5, units, SIZE), log_start=log_start, extension=extension)
    detail = f"entries point to addresses 24 to 44 of consumequeue_ext/, {held}"
    assert rows[1:] == ([] if held is None else [finding(tmp_path, LOST_EXTENSION, 5, 5, detail)])


class Rewritten:
    """A queue that keeps what is rewritten."""

    def __init__(self, topic: str, *, has_ext: bool) -> None:
        self.topic, self.ext = topic, object() if has_ext else None
        self.units: list[tuple[int, QueueUnit]] = []

    def rewrite(self, queue_offset: int, unit: QueueUnit) -> None:
        self.units.append((queue_offset, unit))


DELAYED = "SCHEDULE_TOPIC_XXXX"
TIME_MS = 1_700_000_000_123


@pytest.mark.parametrize(
    ("topic", "has_ext", "found", "code", "kept"),
    [
        ("T", False, 5, 6, 6), ("T", False, ADDRESS, 6, 6), ("T", True, ADDRESS, 6, ADDRESS), ("T", True, 5, 6, 6),
        (DELAYED, False, (1 << 31) - 1, TIME_MS, (1 << 31) - 1), (DELAYED, False, 1 << 31, TIME_MS, TIME_MS),
        (DELAYED, False, TIME_MS + 3000, TIME_MS, TIME_MS + 3000), (DELAYED, False, TIME_MS + 1, TIME_MS, TIME_MS),
    ],
)  # fmt: skip
def test_a_unit_is_rewritten_but_for_a_tags_code_that_a_broker_writes(
    topic: str, has_ext: bool, found: int, code: int, kept: int
) -> None:
    for size in (10, 11):
        queue = Rewritten(topic, has_ext=has_ext)
        was, wanted = QueueUnit(100, size, found), QueueUnit(100, 10, kept)
        is_rewritten = _rewrite(cast(Any, queue), 7, was, QueueUnit(100, 10, code))
        assert (is_rewritten, queue.units) == (was != wanted, [(7, wanted)] * (was != wanted))


@pytest.mark.parametrize(
    ("queue_offset", "says"),
    [(5, "2 messages too low"), (6, "1 message too low"), (8, "1 message too far"), (9, "2 messages too far")],
)
def test_a_message_out_of_order_says_how_far_offsets_point(queue_offset: int, says: str) -> None:
    assert OutOfOrder("T", 0, queue_offset, 7).describe().endswith(f"consumers' offsets point {says}")
