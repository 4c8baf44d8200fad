"""Stores for tests/fuzz.py: mutated logs that salvage and carve read, and queue databases with a mutated entry.

No record is lost whose bytes are as they were, at their place; no entry of a database is lost beside a malformed one.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
from collections.abc import Callable, Mapping, Sequence

from store import check, open_store
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.structures.entry import Asked
from store.structures.queuedb import rows as queuedb_rows
from store.structures.queuedb.keys import decode_long, decode_offset_key, decode_place, decode_unit_key
from store.structures.queuedb.runs import UnitRun, runs_of
from store.verbs.salvage.carve import BLOCK_SIZE, infer_segment_size, place_blocks, write_segments
from store.verbs.salvage.grade import Grade
from tests.fuzzed_files import SEGMENT, exhaust, folder
from tests.support.five_stores import five, lines
from tests.support.golden import golden
from tests.support.rocksdb import edit
from tests.support.salvaging import records_of

MAGIC = re.compile(rb"\xda\xa3\x20[\xa7\xab]")
LOG_BYTES = 12_000
"""A seed has so much of a log: a few dozen records, in three blocks of an image."""


@functools.cache
def log_records() -> tuple[dict[int, bytes], ...]:
    """The records of each seed of salvage, by log offset."""
    return tuple({int(at): data for at, (_, data) in salvaged(seed).items()} for seed in log_seeds())


def log_seeds() -> list[bytes]:
    return [golden(name).log[0][:LOG_BYTES] for name in ("normal", "normal5")]


def salvaged(data: bytes) -> dict[int, tuple[Grade, bytes]]:
    """What salvage gets from a first segment."""
    root = folder() / "salvaged"
    root.mkdir(exist_ok=True)
    (root / SEGMENT).write_bytes(data)
    return records_of(root)


def untouched(data: bytes) -> dict[int, bytes]:
    """The records of a seed that are as they were, at their places."""
    return max(
        ({at: one for at, one in records.items() if data[at : at + len(one)] == one} for records in log_records()),
        key=len,
    )


def require_found(wanted: Mapping[int, bytes], found: Mapping[int, tuple[Grade, bytes]]) -> None:
    lost = [at for at, record in wanted.items() if found.get(at, (None, b""))[1] != record]
    assert not lost, f"sound records are lost: {lost}"


def are_placed(data: bytes, at: int, size: int, wanted: Mapping[int, bytes]) -> bool:
    """Whether untouched records begin in each block of a record, and are at least half of all that begin there."""
    for block in range(at // BLOCK_SIZE, (at + size - 1) // BLOCK_SIZE + 1):
        begun = sum(one // BLOCK_SIZE == block for one in wanted)
        magics = len(MAGIC.findall(data[block * BLOCK_SIZE : (block + 1) * BLOCK_SIZE]))
        if not begun or magics > 2 * begun:
            return False
    return True


def salvage(data: bytes) -> None:
    require_found(untouched(data), salvaged(data))


def carve(data: bytes) -> None:
    """The bytes as an image in which each block of a log is behind a block of noise."""
    blocks = [data[at : at + BLOCK_SIZE].ljust(BLOCK_SIZE, b"\0") for at in range(0, len(data), BLOCK_SIZE)]
    image, carved, fs = folder() / "image", folder() / "carved", Filesystem()
    image.write_bytes(b"".join(b"\x5a" * BLOCK_SIZE + block for block in reversed(blocks)))
    shutil.rmtree(carved, ignore_errors=True)
    placed = place_blocks(image, fs)
    infer_segment_size(image, placed, fs)
    write_segments(image, placed, carved, fs, 1 << 20)
    wanted = untouched(data)
    reachable = {at: one for at, one in wanted.items() if are_placed(data, at, len(one), wanted)}
    require_found(reachable, records_of(carved))


@functools.cache
def database_lines() -> list[tuple[bytes, bytes, bytes]]:
    """Column family, key and value of every entry that a broker wrote."""
    return [
        (line["cf"].encode(), bytes.fromhex(line["key"]), bytes.fromhex(line["value"]))
        for line in lines("rocksdb", "rocksdb-keys.jsonl")
    ]


def entry_seeds() -> list[bytes]:
    """Some entries: a byte for the family, one for the length of the key, key and value."""
    return [bytes([family == b"offset", len(key)]) + key + value for family, key, value in database_lines()[::7]]


def database_entry(data: bytes) -> None:
    """The bytes as one more entry of a broker's queue database, or in the place of one."""
    is_offset, size, rest = *data.ljust(2, b"\0")[:2], data[2:]
    root = folder() / "queues"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(five("rocksdb") / "store", root)
    edit(root, lambda units, offsets: (offsets if is_offset & 1 else units).put(rest[:size], rest[size:]))
    exhaust(check(root))
    with contextlib.suppress(StoreError), open_store(root) as store:
        for queue in store.queues():
            store.get(queue.topic, queue.queue_id, queue.min_offset)
            store.offset_by_time(queue.topic, queue.queue_id, 0)
        exhaust(queuedb_rows.rows(root / "consumequeue", Asked()))


def database_keys(data: bytes) -> None:
    """The bytes as keys and values, alone and between those that a broker wrote."""
    size = data[1] if len(data) > 1 else 0
    key, value = data[2 : 2 + size], data[2 + size :]
    decode_unit_key(key)
    decode_offset_key(key)
    decode_place(value)
    decode_long(value)
    pairs = [(old, kept) for family, old, kept in database_lines() if family == b"default"]
    taken = list(runs_of(sorted([(key, value), *(pair for pair in pairs if pair[0] != key)])))
    count = sum(len(run.values) if isinstance(run, UnitRun) else 1 for run in taken)
    assert count == len({key, *(pair[0] for pair in pairs)}), "an entry is lost"


STORES: dict[str, tuple[Callable[[bytes], object], Callable[[], Sequence[bytes]]]] = {
    "salvage": (salvage, log_seeds),
    "carve": (carve, log_seeds),
    "queue database": (database_entry, entry_seeds),
    "queue database keys": (database_keys, entry_seeds),
}
STORE_EVERY = {"queue database": 2000, "queue database keys": 2}
