"""The stores that are measured: made by bulk put from fixed seeds.

body        random bytes (a window on a pool of them, another one for each batch)
properties  UNIQ_KEY as a Java client makes it (16 bytes as hexadecimal: a process's part, time, counter),
            KEYS that no other message has (two, unless less are asked for), TAGS
topics      4 topics of 4 queues
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from store import open_store
from store.structures.commitlog.bulk import NUMBER_COLUMNS, MessageColumns

BATCH_COUNT = 100_000
TOPIC_COUNT, QUEUE_COUNT = 4, 4
_POOL_SIZE = 8 << 20
_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_PROCESS = b"7F0000013A2C18B4AAC2"
_KEYS = (b"order" + b"x" * 14, b"user" + b"x" * 9)
_PRIME = 6_700_417


def columns(count: int, body_size: int, *, keys: int = 2, first: int = 0, seed: int = 7) -> MessageColumns:
    """`count` messages, the serial numbers of which begin at `first`; without keys they have no properties."""
    serial = np.arange(first, first + count, dtype=np.int64)
    properties = _properties(serial, _template(keys)) if keys else memoryview(b"")
    size = len(_template(keys)) if keys else 0
    numbers = {name: np.zeros(count, np.int64) for name in NUMBER_COLUMNS}
    numbers["queue_id"] = serial // TOPIC_COUNT % QUEUE_COUNT
    numbers["born_timestamp_ms"] = 1_700_000_000_000 + serial // 50
    return MessageColumns(
        [f"BenchTopic{number}" for number in range(TOPIC_COUNT)],
        serial % TOPIC_COUNT,
        _bodies(count * body_size, seed + first),
        np.arange(count + 1, dtype=np.int64) * body_size,
        properties,
        np.arange(count + 1, dtype=np.int64) * size,
        numbers,
    )


def batches(count: int, body_size: int, *, keys: int = 2) -> Iterator[MessageColumns]:
    for first in range(0, count, BATCH_COUNT):
        yield columns(min(BATCH_COUNT, count - first), body_size, keys=keys, first=first)


def make_store(root: Path, count: int, body_size: int, keys: int = 2) -> None:
    """A store with default settings that was shut down; everything is on the device, so that nothing is left to do."""
    with open_store(root, read_only=False) as store:
        for batch in batches(count, body_size, keys=keys):
            store.put_many(batch)


def forget_derived(root: Path) -> None:
    """Leaves the log alone, as after a crash: no queues, no index, a checkpoint of zeros, the abort marker."""
    for name in ("consumequeue", "index", ".rmqctl"):
        shutil.rmtree(root / name, ignore_errors=True)
    (root / "checkpoint").write_bytes(bytes(4096))
    (root / "abort").touch()


def put_into_state(root: Path, state: str) -> None:
    """Makes of a store that was shut down one that is "closed", "crashed with queues" or has "nothing derived"."""
    if state == "nothing derived":
        forget_derived(root)
    elif state == "crashed with queues":
        # The checkpoint of a broker that crashed early: its recovery walks the whole log.
        (root / "checkpoint").write_bytes(bytes(4096))
        (root / "abort").touch()


def log_bytes(root: Path) -> int:
    """Bytes of records in a store's log."""
    with open_store(root, as_is=True) as store:
        return store.max_log_offset - store.min_log_offset


def _template(keys: int) -> bytes:
    return b"UNIQ_KEY\x01%sxxxxxxxxxxxx\x02KEYS\x01%s\x02TAGS\x01TagA\x02" % (_PROCESS, b" ".join(_KEYS[:keys]))


def _properties(serial: npt.NDArray[np.int64], template: bytes) -> memoryview:
    """The template with a number of each message's own in the place of every "xx…"."""
    rows = np.tile(np.frombuffer(template, np.uint8), (len(serial), 1))
    time_at = template.index(_PROCESS) + len(_PROCESS)
    _write_hex(rows, time_at, 8, 0x1A2B3C + serial // 50)
    _write_hex(rows, time_at + 8, 4, serial & 0xFFFF)
    # Products with a prime modulo a power of ten: every number once, in no order.
    _write_decimal(rows, template.index(b"order") + 5, 14, serial * _PRIME * 131 % 10**14)
    if _KEYS[1] in template:
        _write_decimal(rows, template.index(_KEYS[1]) + 4, 9, serial * _PRIME % 10**9)
    return rows.reshape(-1).data


def _write_hex(rows: npt.NDArray[np.uint8], at: int, digits: int, values: npt.NDArray[np.int64]) -> None:
    for digit in range(digits):
        rows[:, at + digit] = _HEX[values >> 4 * (digits - 1 - digit) & 15]


def _write_decimal(rows: npt.NDArray[np.uint8], at: int, digits: int, values: npt.NDArray[np.int64]) -> None:
    for digit in range(digits - 1, -1, -1):
        rows[:, at + digit] = 48 + values % 10
        values = values // 10


def _bodies(size: int, seed: int) -> memoryview:
    pool = np.frombuffer(np.random.default_rng(seed).bytes(min(size, _POOL_SIZE)), np.uint8)
    return np.resize(pool, size).data
