"""Entries of the message database for a dump."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.layout import StoreLayout
from store.structures.entry import Asked, Entry, EntryBlock
from store.structures.messagedb.database import FOLDER, open_database
from store.structures.messagedb.keys import HalfEntry, IndexEntry, TimerEntry


def folder_in(layout: StoreLayout, fs: Filesystem) -> Path | None:
    """Return the database's folder, None without one."""
    folder = layout.root / FOLDER
    return folder if fs.is_folder(folder) else None


def is_folder(folder: Path, fs: Filesystem) -> bool:
    """Return whether a folder is a message database."""
    return folder.name == FOLDER and fs.exists(folder / "CURRENT")


def rows(folder: Path, asked: Asked) -> Iterator[Entry]:
    """Yield keys, timers and half messages from log offset `asked.first` on, and the longs under names.

    Raises BadRequest without the package rocksdict, DamagedFile if RocksDB does not open the database.
    """
    with Scratch() as scratch:
        database = open_database(folder, scratch.folder, Filesystem())
        for entry in chain(database.index(), database.timers(), database.halves()):
            if isinstance(entry, bytes):
                extra = {"detail": f"malformed: key {entry.hex()}"}
                yield Entry("damage", folder.name, 0, 0, extra=extra, is_fault=True)
            elif entry.log_offset >= asked.first and asked.topic in (None, getattr(entry, "topic", None)):
                yield _entry(folder.name, entry)
        for family, longs in database.longs.items():
            for name, value in longs.items():
                named: dict[str, object] = {"family": family, "name": name.decode(), "value": value}
                yield Entry("long", folder.name, 0, 0, extra=named)


def _entry(path: str, entry: IndexEntry | TimerEntry | HalfEntry) -> Entry:
    extra: dict[str, object] = {"log_offset": entry.log_offset, "uniq_key": entry.unique_key}
    if isinstance(entry, IndexEntry):
        kind, time_ms = "key", entry.store_timestamp_ms
        extra |= {"topic": entry.topic, "index_type": entry.kind, "text": entry.text, "store_timestamp_ms": time_ms}
    elif isinstance(entry, TimerEntry):
        kind = "timer"
        extra |= {"deliver_timestamp_ms": entry.delivery_ms, "size": entry.size}
    else:
        kind = "half"
        extra |= {"topic": entry.topic, "check_count": entry.checks, "size": entry.size}
    return Entry(kind, path, entry.log_offset, 0, extra=extra)


def blocks(folder: Path, asked: Asked) -> Iterator[EntryBlock | Entry]:
    """Return the entries of `rows`; none are grouped into blocks."""
    return rows(folder, asked)
