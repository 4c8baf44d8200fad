"""Records and files of them, as the tests of salvage write them."""

from __future__ import annotations

from pathlib import Path

from store import Message
from store.formats.message import encode_record

SIZE = 16384


def record(log_offset: int, queue_offset: int = 0, body: bytes = b"body" * 10, properties: bytes = b"") -> bytes:
    return encode_record(
        Message("T", body, 0, properties), topic=b"T", sys_flag=0, queue_offset=queue_offset, log_offset=log_offset,
        store_timestamp_ms=1_700_000_000_000,
    )  # fmt: skip


LENGTH = len(record(0))


def log(start: int, count: int, size: int = SIZE) -> bytes:
    """Give a segment of so many records, each of LENGTH bytes."""
    return b"".join(record(start + LENGTH * number, number) for number in range(count)).ljust(size, b"\0")


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
