"""Survey an index file: the range of its entries, and damage to its header and chains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import entries_of
from store.formats.index_page import HEADER_SIZE, IndexHeader, decode_header
from store.structures.findings import (
    INDEX_HEADER,
    UNREADABLE_INDEX,
    Finding,
)
from store.structures.index.chains import Chains
from store.structures.index.geometry import Geometry, geometry_of


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
    is_chained: bool
    begin_timestamp_ms: int
    end_timestamp_ms: int
    is_full: bool


def survey_index(
    files: StoreReader, file: StoredFile, known: Mapping[int, Geometry], *, is_written_to: bool = False
) -> Iterator[IndexFile | Finding]:
    """Survey an index file; yield damage to its header and chains, then the survey.

    known          likely geometries by file size
    is_written_to  whether a writer adds entries meanwhile; then header and chains are not compared
    """
    found = files.salvage(file.path)
    data, name = found.buffer, files.name_of(file.path)
    if found.unreadable:
        yield Finding(UNREADABLE_INDEX, name, 0, detail=found.describe())
        if found.unreadable[0][0] < HEADER_SIZE:
            return
    if memoryview(data).nbytes < HEADER_SIZE:
        yield Finding(INDEX_HEADER, name, 0, detail=f"{file.size} bytes are too few for a header")
        return
    header = decode_header(memoryview(data)[:HEADER_SIZE])
    geometry = geometry_of(data, known.get(file.size))
    if geometry is None:
        if header.index_count > 1:
            detail = "size and contents do not tell the number of hash slots; the broker's setting maxHashSlotNum does"
            yield Finding(INDEX_HEADER, name, 0, detail=detail)
        return
    entries = entries_of(data, geometry.slot_count, header.index_count)
    chains = Chains.of(found, geometry.slot_count, len(entries))
    if not (is_written_to or found.unreadable):
        yield from _header_findings(name, header, chains, entries)
        yield from chains.findings(name)
    yield IndexFile(
        path=file.path,
        size=file.size,
        slot_count=geometry.slot_count,
        count=header.index_count,
        low=chains.low,
        high=chains.high,
        rises=chains.rises and not found.unreadable,
        is_chained=not (chains.wrong_entries or chains.wrong_slots),
        begin_timestamp_ms=header.begin_timestamp_ms,
        end_timestamp_ms=header.end_timestamp_ms,
        is_full=header.index_count >= geometry.entry_count,
    )


def _header_findings(name: str, header: IndexHeader, chains: Chains, entries: np.ndarray) -> Iterator[Finding]:
    if len(entries) < header.index_count:
        detail = f"the count is {header.index_count}, the file has room for {len(entries)} entries"
        yield Finding(INDEX_HEADER, name, 0, detail=detail)
    if len(entries) < 2:
        return
    said = (header.begin_log_offset, header.end_log_offset, header.hash_slot_count)
    found = (int(entries["log_offset"][1]), int(entries["log_offset"][-1]), chains.used_slots)
    words = ("begin log offset", "end log offset", "number of used slots")
    for word, in_header, in_entries in zip(words, said, found, strict=True):
        if in_header != in_entries:
            yield Finding(INDEX_HEADER, name, 0, detail=f"{word} is {in_header}, the entries make it {in_entries}")
    # The end time may be the lower one, where the clock was set back, and before 1970 both are negative; the records
    # have both.
    if not header.begin_timestamp_ms:
        yield Finding(INDEX_HEADER, name, 0, detail="begin time is 0 ms")
