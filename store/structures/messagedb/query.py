"""Query the index of the message database: as a broker of 5.5 does, or instead of index files.

    first    log offset of the oldest record with an entry
    last     log offset of the newest record with all its entries (lastOffsetPy)

Between them, records without a unique key have no entry. Nor have records that a start skipped because they were more
than ten segments back.

Source: IndexRocksDBStore.queryOffset, MessageRocksDBStorage (5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.formats.index_page import KEY_SEPARATOR, TAGS_TYPE, IndexHeader
from store.layout import StoreLayout
from store.structures.index.index_service import QueryOffsets
from store.structures.messagedb.database import FOLDER, may_hold_entries, open_database
from store.structures.messagedb.keys import (
    INDEX,
    KEY,
    LAST_OFFSET,
    LAST_TIME,
    TAGS,
    UNIQUE,
    IndexEntry,
    index_prefix,
)

_TAGS_NAME = TAGS_TYPE + KEY_SEPARATOR


def query(
    layout: StoreLayout, fs: Filesystem, topic: str, text: str, max_count: int, span_ms: tuple[int, int], by_tags: bool
) -> QueryOffsets:
    """Look up log offsets by key, and if none is found by unique key; or by tags.

    span_ms  first and last store time; every hour in it is searched, by a broker at most seven days

    The oldest hours come first; the search ends after `max_count` entries.
    Raises BadRequest without the package rocksdict, DamagedFile if RocksDB does not open the copy, StoreIOError.
    """
    with Scratch() as scratch:
        database = open_database(layout.root / FOLDER, scratch.folder, fs)
        found = list[int]()
        for kind in (TAGS,) if by_tags else (KEY, UNIQUE):
            entries = () if found else database.index_under(index_prefix(topic, kind, text), *span_ms)
            found += [entry.log_offset for entry in islice(entries, max_count)]
        return QueryOffsets(
            found, database.long(INDEX, LAST_TIME), database.long(INDEX, LAST_OFFSET), [layout.root / FOLDER]
        )


def indexed_log(layout: StoreLayout, fs: Filesystem) -> IndexedLog | None:
    """Return the index with the range of the log that it covers; None if it has no entry.

    Raises BadRequest without the package rocksdict, DamagedFile if RocksDB does not open the copy, StoreIOError.
    """
    if not may_hold_entries(layout, fs):
        return None
    with Scratch() as scratch:
        database = open_database(layout.root / FOLDER, scratch.folder, fs)
        first, last = database.oldest_indexed(), database.long(INDEX, LAST_OFFSET)
    last_ms = database.long(INDEX, LAST_TIME)
    return IndexedLog(layout.root / FOLDER, fs, first, last, last_ms) if first <= last else None


@dataclass(frozen=True, slots=True)
class IndexedLog:
    """The index over the log offsets `first` to `last`, with the interface of an index file."""

    path: Path
    fs: Filesystem
    first: int
    last: int
    last_ms: int

    @property
    def header(self) -> IndexHeader:
        # Its first time is unknown, so older sources are queried too.
        return IndexHeader(self.last_ms, self.last_ms, self.first, self.last)

    def within(self, first: int, last: int) -> IndexedLog:
        """Return the part from log offset `first` to `last`."""
        return replace(self, first=max(first, self.first), last=min(last, self.last))

    def matches_time(self, begin_ms: int, end_ms: int) -> bool:
        """Return whether the index may have messages of that time."""
        return begin_ms <= self.last_ms

    def select(self, key: str, max_count: int, begin_ms: int, end_ms: int, found: list[int]) -> None:
        """Append log offsets to `found`, newest first, until it has `max_count`."""
        topic, _, text = key.partition(KEY_SEPARATOR)
        places = {
            one.log_offset for one in self._entries([topic], text) if begin_ms <= one.store_timestamp_ms <= end_ms
        }
        found += sorted(places, reverse=True)[: max(0, max_count - len(found))]

    def places(self, topics: Iterable[str], text: str) -> set[int]:
        """Return the log offsets of messages with this key, unique key or tags."""
        return {one.log_offset for one in self._entries(topics, text)}

    def _entries(self, topics: Iterable[str], text: str) -> Iterator[IndexEntry]:
        with Scratch() as scratch:
            database = open_database(self.path, scratch.folder, self.fs)
            for topic in topics:
                for kind, name in ((KEY, text), (UNIQUE, text), (TAGS, text.removeprefix(_TAGS_NAME))):
                    for entry in database.index_under(index_prefix(topic, kind, name)):
                        asked = entry.unique_key if kind == UNIQUE else entry.text
                        is_asked = asked == name and (kind != TAGS or name != text)
                        if is_asked and self.first <= entry.log_offset <= self.last:
                            yield entry
