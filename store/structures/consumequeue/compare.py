"""Compare queue units with the records that they point to.

A unit belongs to the record it points to. If several units point to one record, the unit at the record's queue offset
is right. Without such a unit the first is right. The others are duplicates.

    1. UnitsOfSegment     the units of all queues that point into one segment, by log offset
    2. differing_queues   one comparison of a stretch of log, for all queues at once
    3. queue_differences  the findings for each queue that step 2 returns

Steps 1 and 2 do no work for single queues: a stretch of log may hold the records of a hundred thousand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from store.files.store_reader import StoreReader
from store.formats.derived import units_of
from store.formats.message import RECORD_MIN_SIZE
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array
from store.formats.sets import distinct, is_in
from store.formats.topics import SCHEDULE_TOPIC, shares_records
from store.structures.consumequeue.expect import Units
from store.structures.consumequeue.resting import PAGE_SIZE
from store.structures.consumequeue.survey import EXT_ADDRESS_LIMIT, QueueFile
from store.structures.findings import (
    MISSING_RECORD,
    MISSING_UNIT,
    QUEUE_DUPLICATE,
    QUEUE_LEAP,
    QUEUE_SHIFT,
    UNIT_DIFFERS,
    UNIT_NOWHERE,
    UNIT_WRONG_RECORD,
    Finding,
)

Queue = tuple[str, int]
NO_RECORD = "where no record begins"
# A mapping for fewer units costs more than their copy, and a process may have 65,530 mappings by default.
COPIED_UNITS = 1 << 14
JOINED_UNITS = PAGE_SIZE // UNIT_SIZE
"""Most units of a file that are joined with those of other files: those of an idle queue's page."""


class Piece(NamedTuple):
    """Hold the units of one queue file that point into a stretch of log, in the file's order.

    numbers  the units' queue offsets
    """

    name: str
    numbers: Int64Array
    units: np.ndarray


class ExpectedUnits(NamedTuple):
    """The units that the records of one queue in a stretch of log should have, in log order."""

    queue: Queue
    queue_offset: Int64Array
    log_offset: Int64Array
    size: Int64Array
    tags_code: Int64Array
    knows_delays: bool = False
    """Whether the delay levels are given as a setting."""

    @classmethod
    def of(cls, queue: Queue, units: Units, rows: Int64Array) -> ExpectedUnits:
        offsets, places, sizes, codes = (column[rows] for column in units[2:])
        return cls(queue, offsets, places, sizes, codes)


class FoundUnits(NamedTuple):
    """Hold the units of all queues that point into a stretch of log.

    queue   the number of each unit's queue
    file    the number of each unit's file
    number  the queue offset of each unit
    """

    queue: Int64Array
    file: Int64Array
    number: Int64Array
    units: np.ndarray

    @classmethod
    def of(cls, files: Sequence[_FileUnits]) -> FoundUnits:
        """Return the units of all files."""
        counts = [len(one.units) for one in files]
        return cls(
            np.repeat(np.array([one.queue for one in files], np.int64), counts),
            np.repeat(np.array([one.file for one in files], np.int64), counts),
            np.concatenate([np.empty(0, np.int64), *(one.numbers for one in files)]),
            _joined([one.units for one in files]),
        )

    @classmethod
    def joined(cls, parts: Sequence[FoundUnits]) -> FoundUnits:
        """Return the rows of all parts."""
        queue, file, number = (np.concatenate([part[column] for part in parts]) for column in range(3))
        return cls(queue, file, number, _joined([part.units for part in parts]))

    def pieces(self, names: Sequence[str], rows: Int64Array) -> list[Piece]:
        """Return the rows of one queue as pieces, one for each file."""
        found = []
        for file in distinct(self.file[rows]):
            of_file = rows[self.file[rows] == file]
            of_file = of_file[np.argsort(self.number[of_file], kind="stable")]
            found.append(Piece(names[int(file)], self.number[of_file], self.units[of_file]))
        return found


class _FileUnits(NamedTuple):
    """Hold the units of one file, with the numbers of its queue and of the file."""

    queue: int
    file: int
    numbers: Int64Array
    units: np.ndarray

    def spread(self) -> FoundUnits:
        """Return the units with columns that take no memory."""
        queue, file = (np.broadcast_to(np.int64(number), len(self.units)) for number in (self.queue, self.file))
        return FoundUnits(queue, file, self.numbers, self.units)


class UnitsOfSegment:
    """The units of all files that point to low … high - 1, from the lowest log offset on.

    queue_numbers  the number of each queue; a new queue gets the next number
    """

    def __init__(
        self, files: StoreReader, surveys: Sequence[QueueFile], low: int, high: int, queue_numbers: dict[Queue, int]
    ) -> None:
        self.names: list[str] = []
        small: list[_FileUnits] = []
        large: list[_FileUnits] = []
        for survey in surveys:
            numbers, units = _read_units(files, survey, low, high)
            if len(units):
                number = queue_numbers.setdefault((survey.topic, survey.queue_id), len(queue_numbers))
                into = small if len(units) <= JOINED_UNITS else large
                into.append(_FileUnits(number, len(self.names), numbers, units))
                self.names.append(files.name_of(survey.path))
        joined = FoundUnits.of(small)
        in_log_order = np.argsort(joined.units["log_offset"], kind="stable")
        self._parts = [*(one.spread() for one in large), FoundUnits(*(column[in_log_order] for column in joined))]
        self._at = [0] * len(self._parts)

    @property
    def is_exhausted(self) -> bool:
        """Whether `below` has returned every unit."""
        return all(at == len(part.number) for at, part in zip(self._at, self._parts, strict=True))

    def below(self, high: int) -> FoundUnits:
        """Return the next units: all that point below `high` and were not returned before."""
        return FoundUnits.joined([self._take(number, high) for number in range(len(self._parts))])

    def _take(self, number: int, high: int) -> FoundUnits:
        part, start = self._parts[number], self._at[number]
        stop = self._at[number] = bisect_left(part.units["log_offset"], high, start)
        return FoundUnits(*(column[start:stop] for column in part))


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Join units as bytes: ten times as fast as concatenating structured arrays."""
    return units_of(b"".join(part.tobytes() for part in parts))


def _read_units(files: StoreReader, file: QueueFile, low: int, high: int) -> tuple[Int64Array, np.ndarray]:
    """Return queue offsets and units of a file that point to low … high - 1, by log offset."""
    count = file.last_unit + 1
    if count <= COPIED_UNITS:
        units = units_of(files.salvage_written(file.path, count * UNIT_SIZE, UNIT_SIZE).buffer)
    else:
        units = units_of(files.salvage(file.path, count * UNIT_SIZE, UNIT_SIZE).buffer)
    first = file.start // UNIT_SIZE
    if file.rises:
        start = file.first_unit
        offsets = units["log_offset"]
        if file.low < low:
            start = bisect_left(offsets, low, start)
        stop = count if file.high < high else bisect_left(offsets, high, start)
        units = units[start:stop]
        return np.arange(first + start, first + stop), units.copy() if len(units) <= COPIED_UNITS else units
    rows = np.flatnonzero((units["log_offset"] >= low) & (units["log_offset"] < high) & (units["size"] > 0))
    rows = rows[rows >= file.first_unit]
    rows = rows[np.argsort(units["log_offset"][rows], kind="stable")]
    return rows + first, units[rows]


def differing_queues(
    found: FoundUnits, expected: Units, expected_queue: Int64Array, starts: Int64Array, is_shared: np.ndarray
) -> Int64Array:
    """Return the numbers of the queues whose units differ from the expected units.

    expected_queue  the number of each expected unit's queue
    starts          the log offsets of all queues' records
    is_shared       by queue number: whether the queue has no records of its own; its units may point to any record
    """
    offsets = found.units["log_offset"].astype(np.int64)
    keep = ~(is_shared[found.queue] & is_in(offsets, starts)) if is_shared.any() else np.ones(len(offsets), bool)
    # In an undamaged queue both are in log order; a stable sort by queue keeps that order.
    kept = np.flatnonzero(keep)
    kept = kept[rows_by_queue(found.queue[kept])]
    wanted = rows_by_queue(expected_queue)
    counts = [np.bincount(queues, minlength=len(is_shared)) for queues in (found.queue[kept], expected_queue)]
    is_equal = counts[0] == counts[1]
    if not is_equal.all():
        kept, wanted = kept[is_equal[found.queue[kept]]], wanted[is_equal[expected_queue[wanted]]]
    units = found.units[kept]
    differs = (
        (offsets[kept] != expected.log_offset[wanted])
        | (found.number[kept] != expected.queue_offset[wanted])
        | (units["size"] != expected.size[wanted])
        | (units["tags_code"] != expected.tags_code[wanted])
    )
    return distinct(np.concatenate([np.flatnonzero(~is_equal), found.queue[kept][differs]]))


def rows_by_queue(queues: Int64Array) -> Int64Array:
    """Return the rows in a stable sort by queue number."""
    # NumPy sorts 16-bit numbers by radix.
    small = queues.max(initial=0) < 1 << 16
    return np.argsort(queues.astype(np.uint16) if small else queues, kind="stable")


def follows(offsets: Int64Array, before: Int64Array, taken: Int64Array) -> npt.NDArray[np.bool_]:
    """Mark queue offsets that follow the record before them in its queue.

    before, taken  the first and the last queue offset of that record

    They differ for a record of several messages. In a queue of file entries it has one place, and the next record may
    have the offset of its second message: a salvage for a 4.9 broker fills the queue so.
    """
    return np.asarray((offsets == before + 1) | (offsets == taken + 1))


class QueuedRecord(NamedTuple):
    """The first and the last queue offset of a record, and its log offset."""

    queue_offset: int
    taken: int
    log_offset: int


def continuity_findings(
    name: str, queue: Queue, last: QueuedRecord, offsets: Int64Array, taken: Int64Array, places: Int64Array
) -> Iterator[Finding]:
    """Verify that one queue's offsets in log order count up.

    last   the record before them
    taken  the last queue offset of each record
    """
    columns = zip(last, (offsets, taken, places), strict=True)
    before, taken_before, places_before = (np.append(one, column[:-1]) for one, column in columns)
    steps = np.where(follows(offsets, before, taken_before), 1, offsets - before)
    # A salvage fills the same gaps (QueueGaps). A light queue leaves out a message that is not dispatched.
    has_room = offsets - taken_before - 1 <= (places - places_before) // RECORD_MIN_SIZE
    has_room &= not shares_records(queue[0])
    kinds = np.select([steps < 1, has_room], [0, 1], 2)
    for number, kind in enumerate((QUEUE_DUPLICATE, MISSING_RECORD, QUEUE_LEAP)):
        rows = np.flatnonzero((kinds == number) & (steps != 1))
        if len(rows):
            i = rows[0]
            detail = f"queue offset {int(offsets[i])} follows {int(before[i])}"
            yield Finding(kind, name, int(places[i]), *queue, len(rows), detail)


def queue_differences(
    segment: str, pieces: Sequence[Piece], expected: ExpectedUnits, starts: Int64Array
) -> Iterator[Finding]:
    """Compare one queue's units with the expected units.

    starts  the log offsets of all queues' records in this stretch of log
    """
    is_met = np.zeros(len(expected.log_offset), bool)
    for piece in sorted(pieces, key=lambda p: int(p.numbers[0])):
        targets = piece.units["log_offset"].astype(np.int64)
        at, own = _records_of(targets, expected.log_offset)
        yield from wrong_target(piece, expected.queue, targets, np.flatnonzero(~own), starts)
        match = _Match(piece, np.flatnonzero(own), at[own], expected)
        yield from wrong_place(match, is_met)
        yield from wrong_content(match)
        is_met[match.record] = True
    missing = np.flatnonzero(~is_met)
    if len(missing):
        first = missing[0]
        detail = f"no entry for queue offset {int(expected.queue_offset[first])}"
        where = int(expected.log_offset[first])
        yield Finding(MISSING_UNIT, segment, where, *expected.queue, len(missing), detail)


def _records_of(targets: Int64Array, offsets: Int64Array) -> tuple[Int64Array, np.ndarray]:
    """Return for each target the nearest row of `offsets`, and whether that offset equals the target."""
    if not len(offsets):
        return np.zeros(len(targets), np.int64), np.zeros(len(targets), bool)
    at = np.minimum(np.searchsorted(offsets, targets), len(offsets) - 1)
    return at, np.asarray(offsets[at] == targets)


def split_by_start(
    targets: Int64Array, rows: Int64Array, starts: Int64Array, otherwise: str
) -> Iterator[tuple[Int64Array, str]]:
    """Yield the rows that point at no record's start with NO_RECORD, and the other rows with `otherwise`."""
    at_start = is_in(targets[rows], starts)
    for picked, why in ((rows[~at_start], NO_RECORD), (rows[at_start], otherwise)):
        if len(picked):
            yield picked, why


def wrong_target(
    piece: Piece, queue: Queue, targets: Int64Array, rows: Int64Array, starts: Int64Array
) -> Iterator[Finding]:
    """Find units that point to no record of their queue.

    The units of a queue that shares records may point to records of other queues.
    """
    if shares_records(queue[0]):
        rows = rows[~is_in(targets[rows], starts)]
    for picked, why in split_by_start(targets, rows, starts, "a record of another queue"):
        kind = UNIT_NOWHERE if why == NO_RECORD else UNIT_WRONG_RECORD
        detail = f"points to {int(targets[picked[0]])}, {why}"
        yield Finding(kind, piece.name, int(piece.numbers[picked[0]]), *queue, len(picked), detail)


class _Match:
    """Match units of a piece with the records of their queue.

    mine    rows of the piece
    record  rows of the expected units
    exact   marks the units at their record's queue offset
    """

    def __init__(self, piece: Piece, mine: Int64Array, record: Int64Array, expected: ExpectedUnits) -> None:
        self.piece = piece
        self.mine = mine
        self.record = record
        self.expected = expected
        self.exact = expected.queue_offset[record] == piece.numbers[mine]


def wrong_place(match: _Match, is_met: np.ndarray) -> Iterator[Finding]:
    """Find units at another place than their record's queue offset.

    Such a unit is a duplicate if its record has a better unit; otherwise it is shifted.
    """
    record, exact = match.record, match.exact
    off = np.flatnonzero(~exact)
    if not len(off):
        return
    first = np.zeros(len(record), bool)
    first[np.unique(record, return_index=True)[1]] = True
    has_exact = is_in(record, record[exact]) | is_met[record]
    for kind, picked in (
        (QUEUE_DUPLICATE, off[(has_exact | ~first)[off]]),
        (QUEUE_SHIFT, off[(~has_exact & first)[off]]),
    ):
        if len(picked):
            i = picked[0]
            number, right = int(match.piece.numbers[match.mine[i]]), int(match.expected.queue_offset[record[i]])
            detail = f"holds the record of queue offset {right}, {number - right:+d} places off"
            yield Finding(kind, match.piece.name, number, *match.expected.queue, len(picked), detail)


def wrong_content(match: _Match) -> Iterator[Finding]:
    """Find units at the right place with another size or tags code than their record."""
    good, records = match.mine[match.exact], match.record[match.exact]
    units, expected = match.piece.units[good], match.expected
    sizes, codes = expected.size[records], expected.tags_code[records]
    differs = other_codes(expected.queue[0], units["tags_code"], codes, expected.knows_delays)
    differs |= units["size"] != sizes
    if differs.any():
        i = np.flatnonzero(differs)[0]
        found = f"size {int(units[i]['size'])} tags {int(units[i]['tags_code'])}"
        detail = f"{found}, the record has {int(sizes[i])} and {int(codes[i])}"
        number = int(match.piece.numbers[good[i]])
        yield Finding(UNIT_DIFFERS, match.piece.name, number, *expected.queue, int(differs.sum()), detail)


def other_codes(topic: str, found: np.ndarray, expected: Int64Array, knows_delays: bool) -> np.ndarray:
    """Mark the tags codes that differ from the expected ones.

    A tags code that is an address in the extension file is not compared: it holds no hash.
    A broker that dispatches during recovery has no delay levels yet: delayed messages get the plain hash.
    Unless it `knows_delays`, deliver times that differ by whole seconds are those of a broker with other delays.
    """
    values = found.astype(np.int64)
    differs = (values != expected) & (values >= EXT_ADDRESS_LIMIT)
    if topic == SCHEDULE_TOPIC:
        differs &= (values >= 1 << 31) & (knows_delays | ((values - expected) % 1000 != 0))
    return np.asarray(differs)
