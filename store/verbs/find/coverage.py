"""The index for a search: the stretches of log that it covers, and its log offsets for a key.

    file covers   from the first record it indexed up to the start of the last one, whose keys may be in the next file
    database      covers stretches without a file, up to the start of the newest record that it has
    uncovered     the other stretches; only a scan reads them

A file that cannot be read, or whose slots cannot be counted, covers nothing. The index has hashes of topic#key, so a
key is looked up once for each topic. A broker indexes no rolled-back record: only a scan finds those.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.derived import is_pre_blank, units_of
from store.formats.index_page import FIRST_INDEX_COUNT, HEADER_SIZE, IndexHeader, decode_header, index_key
from store.formats.run import Stretch
from store.formats.topics import shares_records
from store.layout import StoreLayout
from store.structures.index.geometry import Geometry, given_geometry, infer_geometry
from store.structures.index.index_file import IndexFile
from store.structures.index.index_service import IndexedLog
from store.structures.registry import Names, rooms_with

END_OF_TIME_MS = sys.maxsize


@dataclass(frozen=True, slots=True)
class CoveringFile:
    """An index file that can be searched."""

    path: str
    file: IndexFile
    header: IndexHeader


class IndexCoverage:
    """The index files of a store that can be searched, oldest first; `faults` describe the others."""

    def __init__(self, reader: StoreReader, layout: StoreLayout, settings: Mapping[str, Any], fs: Filesystem) -> None:
        self.files: list[CoveringFile] = []
        self.faults: list[str] = []
        self._reader, self._layout, self._fs = reader, layout, fs
        known: Geometry | None = None
        for stored in reader.index_files():
            path = Path(reader.name_of(stored.path))
            try:
                head = decode_header(bytes(reader.read(stored.path, 0, HEADER_SIZE)).ljust(HEADER_SIZE, b"\0"))
                if head.index_count <= FIRST_INDEX_COUNT:
                    continue
                if known is None or known.file_size != stored.size:
                    known = given_geometry(settings, stored.size) or infer_geometry(path, fs)
                if known is None:
                    self.faults.append(f"{stored.path}: neither size nor contents tell its hash slots")
                    continue
                file = IndexFile(path, *known, fs.open_read(path), fs, writable=False)
            except StoreError as error:
                self.faults.append(str(error))
                continue
            self.files.append(CoveringFile(stored.path, file, head))

    def uncovered(self, start: int, stop: int) -> list[Stretch]:
        """Return the stretches of [start, stop) that neither a file nor the database covers."""
        covered = [(one.header.begin_log_offset, one.header.end_log_offset) for one in self.files]
        found = _outside(covered, start, stop)
        if found and self.database is not None:
            found = _outside([*covered, (self.database.first, self.database.last)], start, stop)
        return found

    @cached_property
    def database(self) -> IndexedLog | None:
        """The index in a database of the store; None without one."""
        try:
            rooms = rooms_with(Names.of_files(self._reader, reads=False), "query", "indexed_log")
            return next((one for room in rooms if (one := room.indexed_log(self._layout, self._fs)) is not None), None)
        except StoreError as error:
            self.faults.append(str(error))
            return None

    def ask(self, topics: Iterable[str], key: str) -> set[int]:
        """Return the log offsets for the key in any of the topics, including hash collisions."""
        topics = list(topics)
        found: set[int] = self.database.places(topics, key) if self.database is not None else set()
        for topic in topics:
            for one in self.files:
                hits: list[int] = []
                one.file.select(index_key(topic, key), one.header.index_count, 0, END_OF_TIME_MS, hits)
                found.update(hits)
        return found

    def entries_of(self, topic: str, key: str, log_offset: int) -> Iterator[tuple[str, int]]:
        """Yield file and number of each entry for the key that points to `log_offset`."""
        for one in self.files:
            if one.header.begin_log_offset <= log_offset <= one.header.end_log_offset:
                for number in one.file.entry_numbers(index_key(topic, key), log_offset):
                    yield one.path, number


def _outside(covered: Iterable[tuple[int, int]], start: int, stop: int) -> list[Stretch]:
    found, at = [], start
    for begin, end in sorted(covered):
        if begin > at:
            found.append(Stretch(at, min(begin, stop)))
        at = max(at, end)
    if at < stop:
        found.append(Stretch(at, stop))
    return [one for one in found if one.start < one.stop]


def unnamed(reader: StoreReader, start: int, stop: int) -> list[Stretch]:
    """Return the stretches of [start, stop) without records that units in queue files point to."""
    parts = [np.empty((0, 2), np.int64)]
    largest = max((segment.size for segment in reader.segments()), default=0)
    for topic, queue_id in reader.queues():
        # Units of light queues point to records of other topics.
        for file in reader.queue_files(topic, queue_id) if not shares_records(topic) else ():
            units = units_of(reader.salvage_written(file.path, file.size).buffer)
            is_named = (units["size"] > 0) & (units["size"] <= largest) & ~is_pre_blank(units)
            named = units[is_named]
            parts.append(np.stack([named["log_offset"], named["log_offset"] + named["size"]], axis=1))
    places = np.concatenate(parts)
    # Log offsets in a queue rise: a stable sort merges the queues.
    places = places[np.argsort(places[:, 0], kind="stable")]
    ends = np.maximum.accumulate(np.concatenate([[start], places[:, 1]]))
    begins = np.concatenate([places[:, 0], [stop]])
    gaps = np.flatnonzero((begins > ends) & (ends < stop))
    return [Stretch(int(ends[gap]), min(int(begins[gap]), stop)) for gap in gaps.tolist()]
