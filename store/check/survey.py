"""What check must know of the derived files before it walks the log: a few numbers per file, and what is wrong inside.

A queue file or an index file is looked at alone; whether it agrees with the log is told later. The numbers let the
walk of one segment find the units and entries that point into it, without reading every file again:

    QueueFile   first and last log offset of its units, and whether they rise (then a search can halve its way)
    IndexFile   the same of its entries, and the number of hash slots, told from the content
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from store.check.chains import Chains
from store.check.findings import INDEX_HEADER, QUEUE_GAP, WRONG_SIZE, Finding
from store.disk.store_reader import StoredFile, StoreReader
from store.formats.derived import entries_of, is_pre_blank, units_of
from store.formats.index_page import HEADER_SIZE, IndexHeader, decode_header
from store.formats.queue_unit import UNIT_SIZE
from store.index.geometry import geometry_of


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a queue. Units `first_unit` … `last_unit` (places in the file) are written and no filler; -1 when
    none is."""

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


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One index file: entries 1 … count-1."""

    path: str
    size: int
    slot_count: int
    count: int
    low: int
    high: int
    rises: bool
    end_timestamp_ms: int


def survey_queue(files: StoreReader, topic: str, queue_id: int) -> Iterator[QueueFile | Finding]:
    """The queue's files in order, each with what is wrong in it alone."""
    stored = files.queue_files(topic, queue_id)
    usual = stored[0].size if stored else 0
    for file, following in zip(stored, [*stored[1:], None], strict=False):
        if file.size != usual or file.size % UNIT_SIZE:
            detail = f"{file.size} bytes, the others have {usual}"
            name, unit = files.name_of(file.path), file.number // UNIT_SIZE
            yield Finding(WRONG_SIZE, name, unit, topic, queue_id, detail=detail)
        if following is not None and following.number != file.number + file.size:
            detail = f"files between {file.number} and {following.number} are missing"
            name, unit = files.name_of(following.path), following.number // UNIT_SIZE
            yield Finding(QUEUE_GAP, name, unit, topic, queue_id, detail=detail)
        yield from _survey_queue_file(files, topic, queue_id, file)


def _survey_queue_file(
    files: StoreReader, topic: str, queue_id: int, file: StoredFile
) -> Iterator[QueueFile | Finding]:
    units = units_of(files.read(file.path))
    written = (units["log_offset"] >= 0) & (units["size"] > 0)
    live = np.flatnonzero(written & ~is_pre_blank(units))
    last = int(np.flatnonzero(written)[-1]) if written.any() else -1
    holes = np.flatnonzero(~written[: last + 1])
    if len(holes):
        first = file.number // UNIT_SIZE + int(holes[0])
        detail = "a unit was never written, though later ones are"
        yield Finding(QUEUE_GAP, files.name_of(file.path), first, topic, queue_id, len(holes), detail)
    if not len(live):
        yield QueueFile(topic, queue_id, file.path, file.number, file.size, -1, -1, 0, -1, True)
        return
    offsets = units["log_offset"][live].astype(np.int64)
    rises = bool((np.diff(offsets) > 0).all()) and len(live) == live[-1] - live[0] + 1
    yield QueueFile(
        topic,
        queue_id,
        file.path,
        file.number,
        file.size,
        int(live[0]),
        int(live[-1]),
        int(offsets.min()),
        int(offsets.max()),
        rises,
    )


def survey_index(files: StoreReader, file: StoredFile) -> Iterator[IndexFile | Finding]:
    """The file's numbers, after what is wrong with its header and its chains."""
    data = files.read(file.path)
    name = files.name_of(file.path)
    if memoryview(data).nbytes < HEADER_SIZE:
        yield Finding(INDEX_HEADER, name, 0, detail=f"{file.size} bytes are too few for a header")
        return
    header = decode_header(memoryview(data)[:HEADER_SIZE])
    geometry = geometry_of(data)
    if geometry is None:
        if header.index_count > 1:
            detail = "neither size nor contents tell the number of slots; give --set maxHashSlotNum=N"
            yield Finding(INDEX_HEADER, name, 0, detail=detail)
        return
    slots = geometry.slot_count
    entries = entries_of(data, slots, header.index_count)
    chains = Chains.of(data, slots, len(entries))
    yield from _header_findings(name, header, chains, entries)
    yield from chains.findings(name)
    yield IndexFile(
        file.path, file.size, slots, header.index_count, chains.low, chains.high, chains.rises, header.end_timestamp_ms
    )


def _header_findings(name: str, header: IndexHeader, chains: Chains, entries: np.ndarray) -> Iterator[Finding]:
    if len(entries) < 2:
        return
    said = (header.begin_log_offset, header.end_log_offset, header.hash_slot_count)
    found = (int(entries["log_offset"][1]), int(entries["log_offset"][-1]), chains.used_slots)
    words = ("begin log offset", "end log offset", "number of used slots")
    for word, told, seen in zip(words, said, found, strict=True):
        if told != seen:
            yield Finding(INDEX_HEADER, name, 0, detail=f"{word} is {told}, the entries make it {seen}")
