"""Units of consume queues in a RocksDB (5.x) as entries, or as blocks of them.

A unit after the newest one of its queue is stale: a broker skips it, and overwrites it later.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.files.rocksdb_files import has_rocksdb, queue_database
from store.files.scratch import Scratch
from store.formats.fields import fields_of
from store.layout import StoreLayout
from store.structures.entry import Asked, Entry, EntryBlock
from store.structures.queuedb.database import QueueDatabase, open_database
from store.structures.queuedb.keys import VALUE, VALUE_NAMES, last_key, unit_key
from store.structures.queuedb.owner import is_databases
from store.structures.queuedb.runs import MalformedEntry, UnitRun


def folder_in(layout: StoreLayout, fs: Filesystem) -> Path | None:
    """Return the database's folder; None if the queues are not in a database."""
    return queue_database(layout, fs) if is_databases(layout, fs) else None


def is_folder(folder: Path, fs: Filesystem) -> bool:
    """Return whether a folder holds a RocksDB."""
    return has_rocksdb(folder, fs)


def rows(folder: Path, asked: Asked) -> Iterator[Entry]:
    """Yield the units of a RocksDB in `folder`.

    Raises BadRequest without the package rocksdict, DamagedFile if RocksDB does not open the database.
    """
    for kind, run in _kinds(folder, asked):
        if isinstance(run, MalformedEntry):
            yield _malformed(folder.name, run)
            continue
        for number, value in zip(run.queue_offsets.tolist(), run.values, strict=True):
            data, extra = value.tobytes(), {"topic": run.topic, "queue_id": run.queue_id, "queue_offset": number}
            yield Entry(kind, folder.name, number, 0, data, fields_of(VALUE, VALUE_NAMES, data), extra)


def blocks(folder: Path, asked: Asked) -> Iterator[EntryBlock | Entry]:
    """Yield the same as `rows`, as blocks of units; a malformed entry stays an Entry."""
    for kind, run in _kinds(folder, asked):
        if isinstance(run, MalformedEntry):
            yield _malformed(folder.name, run)
            continue
        values = {name: run.values[name] for name in VALUE_NAMES}
        queue = {"topic": run.topic, "queue_id": run.queue_id, "queue_offset": run.queue_offsets}
        shared = {"kind": kind, "file": folder.name, "position": 0}
        yield EntryBlock(run.queue_offsets, {**shared, **values, **queue})


def _kinds(folder: Path, asked: Asked) -> Iterator[tuple[str, UnitRun | MalformedEntry]]:
    """Yield runs of units, split into valid and stale units, and malformed entries."""
    with Scratch() as scratch:
        database = open_database(folder, scratch.folder, Filesystem())
        for run in _wanted(database, asked):
            if isinstance(run, MalformedEntry):
                yield "damage", run
                continue
            newest = database.newest.get((run.topic, run.queue_id))
            is_stale = run.queue_offsets > (newest.queue_offset if newest is not None else -1)
            is_wanted = run.queue_offsets >= asked.first
            for kind, rows in (("unit", is_wanted & ~is_stale), ("stale", is_wanted & is_stale)):
                if rows.any():
                    yield kind, run._replace(queue_offsets=run.queue_offsets[rows], values=run.values[rows])


def _wanted(database: QueueDatabase, asked: Asked) -> Iterator[UnitRun | MalformedEntry]:
    if asked.topic is None:
        yield from database.runs()
        return
    wanted = [one for one in sorted(database.newest) if one[0] == asked.topic and asked.queue_id in (None, one[1])]
    if not wanted:
        name = asked.topic if asked.queue_id is None else f"{asked.topic}/{asked.queue_id}"
        raise BadRequest(f"no queue {name} is in the RocksDB")
    for queue in wanted:
        yield from database.runs(unit_key(*queue, asked.first), last_key(*queue))


def _malformed(path: str, found: MalformedEntry) -> Entry:
    extra = {"detail": f"malformed: key {found.key.hex()}"}
    return Entry("damage", path, 0, 0, found.value, extra=extra, is_fault=True)
