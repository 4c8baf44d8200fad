"""Queues in a RocksDB: goldens, edits, and how answers differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store import open_store
from store.files.filesystem import Filesystem
from store.structures.queuedb.database import open_database
from store.structures.queuedb.keys import decode_offset_key
from tests.support.answers import mismatches
from tests.support.five_stores import asked, lines

NAMES = ("rocksdb", "rocksdb-aborted", "rocksdb-double")


def answers_differ(name: str, root: Path) -> list[Any]:
    """The broker's answers that the store at `root` does not give."""
    with open_store(root) as store:
        return [one for kind in ("minmax", "get", "time") for one in mismatches(store, asked(name, kind))]


def edit(root: Path, change: Callable[[Any, Any], None]) -> None:
    """Changes the RocksDB of a copy through its binding."""
    rocksdict = pytest.importorskip("rocksdict", reason="rocksdict is not installed: it writes a copy's RocksDB")
    options = {name: rocksdict.Options(raw_mode=True) for name in ("default", "offset")}
    folder = root / "consumequeue"
    database = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True), options)
    families = [database.get_column_family(name) for name in options]
    change(*families)
    for family in families:
        family.flush()
        family.close()
    database.close()
    (folder / "rocksdict-config.json").unlink()


def set_checkpoint_back(units: Any, offsets: Any) -> None:
    key = next(key for key, _ in offsets.items() if b"CHECKPOINT_TOPIC" in key)
    offsets[key] = (100).to_bytes(8, "big")


Keys = dict[tuple[str, bytes], bytes]


def keys_of(root: Path, scratch: Path) -> Keys:
    """Every key and value of the RocksDB of a store, by column family."""
    database = open_database(root / "consumequeue", scratch, Filesystem())
    families = {"default": database.entries(), "offset": database.offset_entries()}
    return {(name, key): value for name, pairs in families.items() for key, value in pairs}


def written_keys(name: str) -> Keys:
    """The keys that the broker wrote, without beginnings of queues: it writes those when it is asked for them."""
    pairs = lines(name, "rocksdb-keys.jsonl")
    keys = {(one["cf"], bytes.fromhex(one["key"])): bytes.fromhex(one["value"]) for one in pairs}
    return {(family, key): value for (family, key), value in keys.items() if not is_beginning(family, key)}


def is_beginning(family: str, key: bytes) -> bool:
    found = decode_offset_key(key) if family == "offset" else None
    return found is not None and found.kind == "min"
