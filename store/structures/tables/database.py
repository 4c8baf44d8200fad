"""The tables of a 5.x broker in a RocksDB under config/, in the form of the JSON files.

    config/topics, subscriptionGroups, consumerOffsets   a database each (storeType=defaultRocksDB)
    config/metadata                                      one for all (useSingleRocksDBForAllConfigs, 5.4 and later)
    config/rdb                                           one for all (configManagerVersion=v2)

    v1   family of the table: name → the entry's JSON, of offsets {"offsetTable": {...}}; kvDataVersionKey in the
         family of versions → its version
    v2   01 | short table | 02 | name → 01 | JSON, of offsets group and topic, int queue id → long;
         01 | short table | 01 | data_version → long state, long time, long counter

A broker imports a table's JSON file only if its version counts more changes; otherwise the file is stale.

Source: ConfigRocksDBStorage, TopicConfigManager, ConsumerOffsetManager in broker/config/v1 and v2 (5.3.3, 5.5.0).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from store.files.filesystem import Filesystem
from store.files.rocksdb_files import has_rocksdb
from store.structures.tables.fastjson import Json, members, parse_fastjson

CONTENT = "tables of topics, groups and offsets"
_VERSION_KEY = b"kvDataVersionKey"
_V2_VERSION, _V2_DATA = 1, 2
_SHORT, _LONGS, _OFFSET = struct.Struct(">h"), struct.Struct(">qqq"), struct.Struct(">q")
_JSON = 1


class _Table(NamedTuple):
    """The location of a JSON file's table: folder in v1, family in config/metadata, number in v2.

    member  its name in the JSON
    """

    folder: str
    family: str
    number: int
    member: str


TABLES = {
    "topics.json": _Table("topics", "topic", 3, "topicConfigTable"),
    "subscriptionGroup.json": _Table("subscriptionGroups", "subscriptionGroup", 4, "subscriptionGroupTable"),
    "consumerOffset.json": _Table("consumerOffsets", "consumerOffset", 1, "offsetTable"),
}
METADATA, RDB = "metadata", "rdb"


def database_folders(folder: Path, name: str, fs: Filesystem) -> list[Path]:
    """Return the folders below config/ of databases that may hold the table of the JSON file `name`.

    Nothing is opened, so RocksDB may still refuse them.
    """
    table = TABLES.get(name)
    names = (METADATA, table.folder, RDB) if table is not None else ()
    return [folder / one for one in names if has_rocksdb(folder / one, fs)]


def read_table(folder: Path, name: str, fs: Filesystem) -> dict[str, Json] | None:
    """Read the table of the JSON file `name` from one database; None if it has no family for the table.

    BadRequest without the package rocksdict, DamagedFile if RocksDB does not open it or an entry is malformed.
    """
    from store.files.rocksdb_copy import damage_of, open_copy
    from store.files.scratch import Scratch

    table = TABLES[name]
    with Scratch() as scratch:
        families = open_copy(folder, scratch.folder, fs, CONTENT, ())
        with damage_of(folder, CONTENT):
            if folder.name == RDB:
                return _of_v2(families["default"], table)
            in_one = folder.name == METADATA
            if in_one and not {table.family, f"{table.family}Version"} & families.keys():
                return None
            # The database of a killed broker may lack a family.
            entries = families.get(table.family if in_one else "default", {})
            versions = families.get(f"{table.family}Version" if in_one else "kvDataVersion", {})
            found = {key.decode(): parse_fastjson(value.decode()) for key, value in entries.items()}
            version = versions.get(_VERSION_KEY)
    if table.member == "offsetTable":
        found = {key: members(value).get("offsetTable") for key, value in found.items()}
    return _document(table, found, parse_fastjson(version.decode()) if version is not None else None)


def _document(table: _Table, found: Mapping[str, Json], version: Json) -> dict[str, Json]:
    return {"dataVersion": version, table.member: dict(found)} if version is not None else {table.member: dict(found)}


def _of_v2(entries: Any, table: _Table) -> dict[str, Json]:
    """Return the table of `entries`, a family of a v2 database."""
    found: dict[str, Any] = {}
    version: Json = None
    for key, value in entries.items():
        number, kind = _SHORT.unpack_from(key, 1)[0], key[3]
        if number == table.number and kind == _V2_VERSION:
            state, timestamp, counter = _LONGS.unpack(value)
            version = {"counter": counter, "stateVersion": state, "timestamp": timestamp}
        elif number == table.number and kind == _V2_DATA and table.member == "offsetTable":
            group, topic, queue_id = _names_in(key[4:])
            found.setdefault(f"{topic}@{group}", {})[queue_id] = _OFFSET.unpack(value)[0]
        elif number == table.number and kind == _V2_DATA and value[0] == _JSON:
            found[key[6:].decode()] = json.loads(value[1:])
    return _document(table, found, version)


def _names_in(rest: bytes) -> Iterator[Any]:
    """Yield group, topic and queue id of an offset's key.

    Each name has its length before it and 01 after it.
    """
    for _ in range(2):
        (size,) = _SHORT.unpack_from(rest)
        yield rest[2 : 2 + size].decode()
        rest = rest[3 + size :]
    yield int.from_bytes(rest, "big")
