"""Queue units against the records that they point to.

A unit belongs to the record it points to. Where a record has several, the one at its queue offset is the right one,
else the first: the others are duplicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from store.check.findings import (
    MISSING_UNIT,
    QUEUE_DUPLICATE,
    QUEUE_GAP,
    QUEUE_SHIFT,
    UNIT_DIFFERS,
    UNIT_NOWHERE,
    UNIT_WRONG_RECORD,
    Finding,
)
from store.check.places import NO_RECORD, rows_between, split_by_start
from store.check.survey import QueueFile
from store.disk.store_reader import StoreReader
from store.dispatch.expected import Ints, Units
from store.formats.derived import units_of
from store.formats.message import LMQ_PREFIX, SCHEDULE_TOPIC
from store.formats.queue_unit import UNIT_SIZE

Queue = tuple[str, int]

# A unit whose tags code is less than this holds a position in the extension file plus Long.MIN_VALUE.
EXT_ADDRESS_LIMIT = -(1 << 63) + (1 << 48)


class Piece(NamedTuple):
    """Units of one queue file that point into a stretch of log; `numbers` are their queue offsets."""

    name: str
    numbers: Ints
    units: np.ndarray


class ExpectedUnits(NamedTuple):
    """The units that the records of one queue in a stretch of log should have, in log order."""

    queue: Queue
    queue_offset: Ints
    log_offset: Ints
    size: Ints
    tags_code: Ints

    @classmethod
    def of(cls, queue: Queue, units: Units, rows: Ints) -> ExpectedUnits:
        columns = (units.queue_offset, units.log_offset, units.size, units.tags_code)
        return cls(queue, *(column[rows] for column in columns))

    @classmethod
    def none(cls, queue: Queue) -> ExpectedUnits:
        return cls(queue, *[np.empty(0, np.int64)] * 4)


class UnitFile:
    """A queue file whose units are asked for by where they point."""

    def __init__(self, files: StoreReader, file: QueueFile) -> None:
        self.file = file
        self.name = files.name_of(file.path)
        self.units = units_of(files.read(file.path))[file.first_unit : file.last_unit + 1]
        self.first = file.start // UNIT_SIZE + file.first_unit

    def between(self, low: int, high: int) -> Piece | None:
        """The units with low <= log offset < high; None when there are none."""
        rows = rows_between(self.units["log_offset"], low, high, self.file.rises)
        if not self.file.rises:
            rows = rows[self.units["size"][rows] > 0]
        return Piece(self.name, rows + self.first, self.units[rows]) if len(rows) else None


def continuity_findings(name: str, queue: Queue, last: int, offsets: Ints, places: Ints) -> Iterator[Finding]:
    """Queue offsets of one queue's records in log order, after `last`: each must be the one before plus one."""
    steps = np.diff(np.concatenate(([last], offsets)))
    for kind, rows in ((QUEUE_GAP, np.flatnonzero(steps > 1)), (QUEUE_DUPLICATE, np.flatnonzero(steps < 1))):
        if len(rows):
            i = rows[0]
            detail = f"queue offset {int(offsets[i])} follows {int(offsets[i] - steps[i])}"
            yield Finding(kind, name, int(places[i]), *queue, len(rows), detail)


def queue_differences(segment: str, pieces: Sequence[Piece], wanted: ExpectedUnits, starts: Ints) -> Iterator[Finding]:
    """What differs between one queue's units and those its records should have.

    starts  where the records of all queues begin, in this stretch of log
    """
    if len(pieces) == 1 and _agree(pieces[0], wanted):
        return
    is_met = np.zeros(len(wanted.log_offset), bool)
    for piece in sorted(pieces, key=lambda p: int(p.numbers[0])):
        there = piece.units["log_offset"].astype(np.int64)
        at, own = _records_of(there, wanted.log_offset)
        yield from _strays(piece, wanted.queue, there, np.flatnonzero(~own), starts)
        match = _Match(piece, np.flatnonzero(own), at[own], wanted)
        yield from _shifts(match, is_met)
        yield from _unlike(match)
        is_met[match.record] = True
    missing = np.flatnonzero(~is_met)
    if len(missing):
        first = missing[0]
        detail = f"no unit for queue offset {int(wanted.queue_offset[first])}"
        where = int(wanted.log_offset[first])
        yield Finding(MISSING_UNIT, segment, where, *wanted.queue, len(missing), detail)


def _agree(piece: Piece, wanted: ExpectedUnits) -> bool:
    return (
        len(piece.units) == len(wanted.log_offset)
        and np.array_equal(piece.units["log_offset"], wanted.log_offset)
        and np.array_equal(piece.units["size"], wanted.size)
        and np.array_equal(piece.units["tags_code"], wanted.tags_code)
        and np.array_equal(piece.numbers, wanted.queue_offset)
    )


def _records_of(there: Ints, offsets: Ints) -> tuple[Ints, np.ndarray]:
    """For each place the row of `offsets` that it may be, and whether it is."""
    if not len(offsets):
        return np.zeros(len(there), np.int64), np.zeros(len(there), bool)
    at = np.minimum(np.searchsorted(offsets, there), len(offsets) - 1)
    return at, np.asarray(offsets[at] == there)


def _strays(piece: Piece, queue: Queue, there: Ints, rows: Ints, starts: Ints) -> Iterator[Finding]:
    """Units that point to no record of their queue. A light message queue's point to other queues' records."""
    if queue[0].startswith(LMQ_PREFIX):
        rows = rows[~np.isin(there[rows], starts)]
    for picked, why in split_by_start(there, rows, starts, "a record of another queue"):
        kind = UNIT_NOWHERE if why == NO_RECORD else UNIT_WRONG_RECORD
        detail = f"points to {int(there[picked[0]])}, {why}"
        yield Finding(kind, piece.name, int(piece.numbers[picked[0]]), *queue, len(picked), detail)


class _Match:
    """Units of a piece that point to records of their queue: `mine` are rows of the piece, `record` those of `wanted`;
    `exact` tells which stand at their record's queue offset."""

    def __init__(self, piece: Piece, mine: Ints, record: Ints, wanted: ExpectedUnits) -> None:
        self.piece = piece
        self.mine = mine
        self.record = record
        self.wanted = wanted
        self.exact = wanted.queue_offset[record] == piece.numbers[mine]


def _shifts(match: _Match, is_met: np.ndarray) -> Iterator[Finding]:
    """Units of the right record at another place: duplicates where the record has a better one, else shifted."""
    record, exact = match.record, match.exact
    off = np.flatnonzero(~exact)
    if not len(off):
        return
    first = np.zeros(len(record), bool)
    first[np.unique(record, return_index=True)[1]] = True
    has_exact = np.isin(record, record[exact]) | is_met[record]
    for kind, picked in (
        (QUEUE_DUPLICATE, off[(has_exact | ~first)[off]]),
        (QUEUE_SHIFT, off[(~has_exact & first)[off]]),
    ):
        if len(picked):
            i = picked[0]
            number, right = int(match.piece.numbers[match.mine[i]]), int(match.wanted.queue_offset[record[i]])
            detail = f"holds the record of queue offset {right}, {number - right:+d} places off"
            yield Finding(kind, match.piece.name, number, *match.wanted.queue, len(picked), detail)


def _unlike(match: _Match) -> Iterator[Finding]:
    """Units at the right place that say something else of their record."""
    good, its = match.mine[match.exact], match.record[match.exact]
    told, wanted = match.piece.units[good], match.wanted
    sizes, codes = wanted.size[its], wanted.tags_code[its]
    differs = (told["size"] != sizes) | _other_codes(wanted.queue[0], told["tags_code"], codes)
    if differs.any():
        i = np.flatnonzero(differs)[0]
        says = f"size {int(told[i]['size'])} tags {int(told[i]['tags_code'])}"
        detail = f"{says}, the record has {int(sizes[i])} and {int(codes[i])}"
        number = int(match.piece.numbers[good[i]])
        yield Finding(UNIT_DIFFERS, match.piece.name, number, *wanted.queue, int(differs.sum()), detail)


def _other_codes(topic: str, told: np.ndarray, wanted: Ints) -> np.ndarray:
    """Where tags codes differ. Addresses in the extension file say nothing of the hash; no such file is as large
    as the addresses that EXT_ADDRESS_LIMIT rules out.

    A broker that redispatches while it recovers knows no delay levels yet, and gives delayed messages the plain hash.
    """
    values = told.astype(np.int64)
    differs = (values != wanted) & (values >= EXT_ADDRESS_LIMIT)
    if topic == SCHEDULE_TOPIC:
        differs &= values >= 1 << 31
    return np.asarray(differs)
