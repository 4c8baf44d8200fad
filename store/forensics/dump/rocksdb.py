"""Units of consume queues in a RocksDB as entries (5.x)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.disk.filesystem import Filesystem
from store.errors import BadRequest
from store.five.rocksdb.database import QueueDatabase, open_database
from store.five.rocksdb.keys import VALUE, VALUE_NAMES, decode_unit_key, queue_prefix, unit_key
from store.forensics.dump.entry import Entry
from store.formats.fields import fields_of
from store.opened.scratch import Scratch


def dump_rocksdb(
    folder: Path, topic: str | None = None, queue_id: int | None = None, first: int = 0
) -> Iterator[Entry]:
    """The units of a RocksDB in `folder`, of one topic or queue, from queue offset `first` on.

    A unit behind the newest one of its queue is stale: a broker passes over it, and writes it anew.

    Raises BadRequest without the package rocksdict, DamagedFile where RocksDB does not open the database.
    """
    with Scratch() as scratch:
        database = open_database(folder, scratch.folder, Filesystem())
        for key, value in _wanted(database, topic, queue_id, first):
            entry = _entry(database, folder.name, key, value)
            if entry.is_fault or entry.number >= first:
                yield entry


def _wanted(
    database: QueueDatabase, topic: str | None, queue_id: int | None, first: int
) -> Iterator[tuple[bytes, bytes]]:
    if topic is None:
        yield from database.entries()
        return
    wanted = [queue for queue in sorted(database.newest) if queue[0] == topic and queue_id in (None, queue[1])]
    if not wanted:
        raise BadRequest(f"no queue {topic}{'' if queue_id is None else f'/{queue_id}'} is in the RocksDB")
    for queue in wanted:
        prefix = queue_prefix(*queue)
        for key, value in database.entries(unit_key(*queue, first)):
            if not key.startswith(prefix):
                break
            yield key, value


def _entry(database: QueueDatabase, path: str, key: bytes, value: bytes) -> Entry:
    found = decode_unit_key(key)
    if found is None or len(value) != VALUE.size:
        return Entry("damage", path, 0, 0, value, extra={"detail": f"malformed: key {key.hex()}"}, is_fault=True)
    newest = database.newest.get(found[:2])
    kind = "unit" if newest is not None and found.queue_offset <= newest.queue_offset else "stale"
    return Entry(kind, path, found.queue_offset, 0, value, fields_of(VALUE, VALUE_NAMES, value), found._asdict())
