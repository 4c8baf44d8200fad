"""Survey each queue file: its numbers for the scan of the log, and damage inside it.

A file is surveyed by itself; the scan compares it with the log. The numbers are the least and greatest log offset of
the units, and whether the log offsets rise. With them the scan of a segment finds the units that point into it without
reading every file again; in a file with rising log offsets it uses a binary search.

A store may have a hundred thousand queues of a few units each. Therefore the units of many queues are joined, and each
number is computed for all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from store.files.readable import Salvaged
from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import is_pre_blank, units_of
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array
from store.structures.findings import (
    LOST_EXTENSION,
    QUEUE_GAP,
    UNREADABLE_UNITS,
    WRONG_SIZE,
    Finding,
    effect_on_start,
)

FAR = np.iinfo(np.int64).max
# A tags code below the limit is a position in the extension files plus Long.MIN_VALUE; the files stay below 2^48 bytes.
EXT_ADDRESS_START = -(1 << 63)
EXT_ADDRESS_LIMIT = EXT_ADDRESS_START + (1 << 48)
BYTES_AT_ONCE = 32 << 20

Owner = tuple["QueueListing", StoredFile]


class QueueListing(NamedTuple):
    """One queue's files by name, and the range of addresses in its extension files."""

    topic: str
    queue_id: int
    files: tuple[StoredFile, ...]
    extension_start: int = 0
    extension_end: int = 0


@dataclass(frozen=True, slots=True)
class QueueFile:
    """Hold the numbers of one file of a queue.

    first_unit, last_unit  positions of the first and last live unit in the file; -1 when none is live
    low, high              least and greatest log offset of the live units
    rises                  whether the log offsets rise from the first live unit to the last, without a gap
    """

    topic: str
    queue_id: int
    path: str
    start: int
    size: int
    first_unit: int
    last_unit: int
    low: int
    high: int
    rises: bool


def survey_queues(
    files: StoreReader, listings: Sequence[QueueListing], usual_size: int, log_start: int
) -> Iterator[QueueFile | Finding]:
    """Survey the queues' files in order; yield each file's numbers, and findings within the file.

    usual_size  the length of the store's queue files
    log_start   the log's first offset: units before it point to expired records
    """
    for listing in listings:
        yield from _listing_findings(files, listing, usual_size)
    for owners, data in _some_at_once(files, listings):
        yield from _survey_files(files, owners, _Numbers.of([one.buffer for one in data], log_start), data)


def _some_at_once(files: StoreReader, listings: Sequence[QueueListing]) -> Iterator[tuple[list[Owner], list[Salvaged]]]:
    """Read the written part of all files of the queues, about BYTES_AT_ONCE at a time."""
    owners: list[Owner] = []
    data: list[Salvaged] = []
    size = 0
    for listing in listings:
        for file in listing.files:
            owners.append((listing, file))
            data.append(files.salvage_written(file.path, file.size, UNIT_SIZE))
            size += len(data[-1].buffer)
            if size >= BYTES_AT_ONCE:
                yield owners, data
                owners, data, size = [], [], 0
    if owners:
        yield owners, data


def _survey_files(
    files: StoreReader, owners: Sequence[Owner], numbers: _Numbers, data: Sequence[Salvaged]
) -> Iterator[QueueFile | Finding]:
    for i, (listing, file) in enumerate(owners):
        yield QueueFile(listing.topic, listing.queue_id, file.path, file.number, file.size, *numbers.of_file(i))
    for (listing, file), found in zip(owners, data, strict=True):
        if found.unreadable:
            unit = (file.number + found.unreadable[0][0]) // UNIT_SIZE
            name = files.name_of(file.path)
            yield Finding(UNREADABLE_UNITS, name, unit, listing.topic, listing.queue_id, detail=found.describe())
    for i in np.flatnonzero(numbers.holes).tolist():
        if data[i].unreadable:
            continue
        listing, file = owners[i]
        unit = file.number // UNIT_SIZE + int(numbers.first_hole[i])
        detail = "an entry was never written, although later ones were"
        count = int(numbers.holes[i])
        yield Finding(QUEUE_GAP, files.name_of(file.path), unit, listing.topic, listing.queue_id, count, detail)
    for i in np.flatnonzero(numbers.last_extension >= 0).tolist():
        yield from _extension_findings(
            files, *owners[i], int(numbers.first_extension[i]), int(numbers.last_extension[i])
        )


def _listing_findings(files: StoreReader, listing: QueueListing, usual_size: int) -> Iterator[Finding]:
    """Find files of another length than `usual_size`, and gaps between files."""
    topic, queue_id, stored = listing.topic, listing.queue_id, listing.files
    for i, file in enumerate(stored):
        if file.size != usual_size or file.size % UNIT_SIZE:
            effect = effect_on_start(file.size, is_last=file is stored[-1])
            detail = f"{file.size} bytes, expected {usual_size}; {effect}"
            yield Finding(
                WRONG_SIZE, files.name_of(file.path), file.number // UNIT_SIZE, topic, queue_id, detail=detail
            )
        if i and stored[i - 1].number + stored[i - 1].size != file.number:
            detail = f"files between {stored[i - 1].number} and {file.number} are missing"
            yield Finding(QUEUE_GAP, files.name_of(file.path), file.number // UNIT_SIZE, topic, queue_id, detail=detail)


def _extension_findings(
    files: StoreReader, listing: QueueListing, file: StoredFile, first: int, last: int
) -> Iterator[Finding]:
    """Find units with an address outside the extension files."""
    if first >= listing.extension_start and last < listing.extension_end:
        return
    if listing.extension_end:
        held = f"the files hold {listing.extension_start} to {listing.extension_end}"
    else:
        held = "there is no such file"
    detail = f"entries point to addresses {first} to {last} of consumequeue_ext/, {held}"
    unit = file.number // UNIT_SIZE
    yield Finding(LOST_EXTENSION, files.name_of(file.path), unit, listing.topic, listing.queue_id, detail=detail)


class _Numbers(NamedTuple):
    """Hold the numbers of each file, one array element a file.

    Positions count from the file's first unit.

    holes                            number of unwritten units before the last written one
    first_extension, last_extension  least and greatest address in the extension files; FAR and -1 without addresses
    """

    first: Int64Array
    last: Int64Array
    low: Int64Array
    high: Int64Array
    rises: np.ndarray
    holes: Int64Array
    first_hole: Int64Array
    first_extension: Int64Array
    last_extension: Int64Array

    def of_file(self, i: int) -> tuple[int, int, int, int, bool]:
        """Return first_unit, last_unit, low, high and rises of a QueueFile."""
        if self.last[i] < 0:
            return -1, -1, 0, -1, True
        return int(self.first[i]), int(self.last[i]), int(self.low[i]), int(self.high[i]), bool(self.rises[i])

    @classmethod
    def of(cls, files: Sequence[memoryview], log_start: int) -> _Numbers:
        """Compute the numbers of all files, each in one pass over the joined units."""
        # Each file gets one more unwritten unit: reduceat needs at least one unit a file.
        sizes_in_units = [len(file) // UNIT_SIZE for file in files]
        pieces = (file[: count * UNIT_SIZE] for file, count in zip(files, sizes_in_units, strict=True))
        units = units_of(b"".join(piece for file in pieces for piece in (file, bytes(UNIT_SIZE))))
        counts = np.array(sizes_in_units, np.int64) + 1
        starts = np.cumsum(counts) - counts
        place = np.arange(len(units)) - np.repeat(starts, counts)
        offsets, sizes = units["log_offset"].astype(np.int64), units["size"].astype(np.int64)
        written = (offsets >= 0) & (sizes > 0)
        live = written & ~is_pre_blank(units)

        def least(mask: np.ndarray, values: Int64Array) -> Int64Array:
            return np.minimum.reduceat(np.where(mask, values, FAR), starts) if files else counts

        def greatest(mask: np.ndarray, values: Int64Array) -> Int64Array:
            return np.maximum.reduceat(np.where(mask, values, -1), starts) if files else counts

        first, last = least(live, place), greatest(live, place)
        hole = ~written & (place < np.repeat(greatest(written, place), counts))
        falls = live.copy()
        falls[1:] &= (offsets[1:] <= offsets[:-1]) | ~live[:-1]
        falls &= place != np.repeat(first, counts)
        codes = units["tags_code"].astype(np.int64)
        is_address = live & (codes < EXT_ADDRESS_LIMIT) & (offsets >= log_start)
        addresses = codes - EXT_ADDRESS_START
        return cls(
            first=first,
            last=last,
            low=least(live, offsets),
            high=greatest(live, offsets),
            rises=greatest(falls, place) < 0,
            holes=np.add.reduceat(hole, starts, dtype=np.int64) if files else counts,
            first_hole=least(hole, place),
            first_extension=least(is_address, addresses),
            last_extension=greatest(is_address, addresses),
        )
