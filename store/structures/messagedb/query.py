"""Ask the index of the message database, hour by hour as a broker of 5.5 does.

Source: IndexRocksDBStore.queryOffset, MessageRocksDBStorage (5.5.0).
"""

from __future__ import annotations

from itertools import islice

from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.layout import StoreLayout
from store.structures.index.index_service import QueryOffsets
from store.structures.messagedb.database import FOLDER, open_database
from store.structures.messagedb.keys import INDEX, KEY, LAST_OFFSET, LAST_TIME, TAGS, UNIQUE, index_prefix


def query(
    layout: StoreLayout, fs: Filesystem, topic: str, text: str, max_count: int, span_ms: tuple[int, int], by_tags: bool
) -> QueryOffsets:
    """Log offsets by key, where there is none by unique key, or by tags.

    span_ms  first and last store time; every hour in it is looked at, by a broker seven days at most

    The oldest hours come first, as `max_count` ends the search.

    Raises BadRequest without the package rocksdict, DamagedFile where RocksDB does not open the copy, StoreIOError.
    """
    with Scratch() as scratch:
        database = open_database(layout.root / FOLDER, scratch.folder, fs)
        longs, found = database.longs[INDEX], list[int]()
        for kind in (TAGS,) if by_tags else (KEY, UNIQUE):
            found = found or [*islice(database.index_places(index_prefix(topic, kind, text), *span_ms), max_count)]
        return QueryOffsets(found, longs.get(LAST_TIME, 0), longs.get(LAST_OFFSET, 0), [layout.root / FOLDER])
