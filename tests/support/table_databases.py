"""RocksDBs of a broker's tables."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from store.files.filesystem import Filesystem
from store.files.rocksdb_copy import edit_copy

VERSION = {"counter": 7, "stateVersion": 0, "timestamp": 1_795_380_000_000}
TOPIC = {"order": False, "perm": 6, "readQueueNums": 4, "topicName": "Orders", "writeQueueNums": 4}
GROUP = {"groupName": "billing", "retryMaxTimes": 16}
OFFSETS = {"Orders@billing": {0: 12, 1: 3}}
VERSION_ENTRY = {b"kvDataVersionKey": json.dumps(VERSION).encode()}
ENTRIES = {
    "topic": {b"Orders": json.dumps(TOPIC).encode()},
    "subscriptionGroup": {b"billing": json.dumps(GROUP).encode()},
    "consumerOffset": {b"Orders@billing": b'{"offsetTable":{"0":12,"1":3}}'},
}


def make_database(folder: Path, families: dict[str, dict[bytes, bytes]]) -> None:
    edits = {name: dict(entries) for name, entries in families.items()}
    edit_copy(folder.with_name("none"), folder, Filesystem(), "tables", edits)  # type: ignore[arg-type]


def single(config: Path) -> None:
    versions = {f"{name}Version": VERSION_ENTRY for name in ENTRIES}
    make_database(config / "metadata", {**ENTRIES, **versions, "default": {}})


def separate(config: Path) -> None:
    for name, entries in ENTRIES.items():
        make_database(config / f"{name}s", {"default": entries, "kvDataVersion": VERSION_ENTRY, "forbidden": {}})


def second_generation(config: Path) -> None:
    """The keys that configManagerVersion=v2 gives them."""
    head = {table: b"\x01" + struct.pack(">h", table) for table in (1, 3, 4)}
    version = struct.pack(">qqq", 0, VERSION["timestamp"], VERSION["counter"])
    group, topic = (struct.pack(">h", len(name)) + name for name in (b"billing", b"Orders"))
    place = head[1] + b"\x02" + group + b"\x01" + topic + b"\x01"
    make_database(
        config / "rdb",
        {
            "default": {
                **{one + b"\x01data_version": version for one in head.values()},
                head[3] + b"\x02" + topic: b"\x01" + json.dumps(TOPIC).encode(),
                head[4] + b"\x02" + group: b"\x01" + json.dumps(GROUP).encode(),
                **{
                    place + struct.pack(">i", queue): struct.pack(">q", offset)
                    for queue, offset in OFFSETS["Orders@billing"].items()
                },
            }
        },
    )
