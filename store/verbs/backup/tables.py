"""The tables of a store for a backup, each whole: a table that a broker is writing is read again.

They are copied as in a salvage: each table from its newest copy that parses, tables of a database as JSON, and files
without log offsets. Files with log offsets are copied as they are, because the backup's log keeps its offsets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from store.broker_line import BrokerLine
from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.backup_manifest import QUEUE_ENDS, BackedFile
from store.layout import StoreLayout
from store.opened.detect import FoundStore
from store.structures.registry import STRUCTURES
from store.verbs.backup.queue_ends import BackedEnd, encode_ends
from store.verbs.backup.target import BackupTarget
from store.verbs.queue_ends import queue_ends
from store.verbs.salvage.config_tables import BroughtFile, ConfigTables

TRIES = 20
PAUSE_S = 0.05
"""A broker replaces a table within milliseconds."""
CHECKPOINT = "checkpoint"
_AS_THEY_ARE = tuple(name for one in STRUCTURES for name in one.backed_up)


def gather_tables(
    layout: StoreLayout, line: BrokerLine, config: StoreConfig, folder: Path, fs: Filesystem
) -> tuple[Iterator[tuple[str, Path]], list[str]]:
    """Copy the tables into an empty folder.

    Return each file's path in the store with its copy, and sentences on tables with a fault.
    """
    rows: list[BroughtFile] = []
    for _ in range(TRIES):
        fs.remove_tree(folder)
        fs.make_folder(folder)
        tables = ConfigTables(layout, StoreLayout(folder), line, config, fs)
        tables.copy()
        rows = [one for one in tables.rows if one.remark]
        if not any(one.file.startswith("config/") for one in rows):
            break
        time.sleep(PAUSE_S)
    for name in _AS_THEY_ARE:
        if fs.exists(layout.root / name):
            data = fs.read_file(layout.root / name)
            fs.write(fs.open_new(folder / name), 0, data)
    files = ((one, folder / one) for one in _files_below(folder, fs))
    return files, [_describe(one) for one in rows]


class BackedTables(NamedTuple):
    """Tables in a folder of backups, and the ends of queues.

    needed  the end of the newest record in the queues: the log must reach it
    notes   sentences on tables with a fault, and on queues without a known end
    """

    files: list[BackedFile]
    needed: int
    notes: list[str]


def back_up_tables(
    found: FoundStore, reader: StoreReader, target: BackupTarget, scratch: Path, fs: Filesystem
) -> BackedTables:
    """Add the tables, and then the ends of queues, so that no consumer is ahead of its queue."""
    copies, notes = gather_tables(found.layout, found.line, found.config, scratch / "tables", fs)
    files = [target.add(path, partial(_read, copy, fs)) for path, copy in copies]
    ends, needed, log_start = list[BackedEnd](), 0, min((one.number for one in reader.segments()), default=0)
    for end in queue_ends(reader, log_start, found.line):
        if end.fault:
            notes.append(f"{end.topic}/{end.queue_id}: its end is not known: {end.fault}")
        elif end.topic not in found.others.topics:
            ends.append(BackedEnd(end.topic, end.queue_id, end.min_offset, end.max_offset, end.newest, end.end))
            needed = max(needed, end.end)
    return BackedTables([target.add(QUEUE_ENDS, lambda: [memoryview(encode_ends(ends))]), *files], needed, notes)


def _read(copy: Path, fs: Filesystem) -> list[memoryview]:
    return [memoryview(fs.read_file(copy))]


def _files_below(folder: Path, fs: Filesystem) -> list[str]:
    found = fs.list_below(str(folder), "")
    return sorted(one.path.lstrip("/") for one in found if not one.is_folder)


def _describe(row: BroughtFile) -> str:
    return f"{row.file}{'' if row.copied_from else ' is left out'}: {row.remark}"
