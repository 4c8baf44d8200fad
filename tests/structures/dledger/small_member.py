"""A DLedger member of five entries in two files of three, with some values changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from store.formats.dledger import DLEDGER_HEADER, DLEDGER_NAMES
from store.formats.message import Message, encode_record
from store.structures.dledger.files import HEADER_SIZE, INDEX_DTYPE

TERMS = (0, 0, 1, 1, 2)
INDEX_SIZE = 256
"""Room for eight units."""
DATA, INDEX = "data/{:020d}", f"index/{0:020d}"
STATE = {"checkpoint": "committedIndex=4\nendIndex=4\n", "currterm": "currTerm=2\nvoteLeader=n0\n"}
Changes = Mapping[int, Mapping[str, int]]
"""Changed fields of the header, or the unit, of an entry."""
NO: Mapping[Any, Any] = {}


def record(number: int, log_offset: int, body: bytes = b"body") -> bytes:
    message = Message("T", body, 0, b"")
    return encode_record(
        message, topic=b"T", sys_flag=0, queue_offset=number, log_offset=log_offset, store_timestamp_ms=1
    )


SIZE = len(record(0, 0))
ENTRY = HEADER_SIZE + SIZE


def at(number: int) -> int:
    """Return the log offset of an entry: all have one size."""
    return ENTRY * number


def entry(number: int, changes: Mapping[str, int], *, place: int, index: int, body: bytes = b"body") -> bytes:
    message = record(number, place + HEADER_SIZE, body)
    fields = (1, HEADER_SIZE + len(message), index, TERMS[number], place, 0, 0, 0, len(message))
    head = DLEDGER_HEADER.pack(*(dict(zip(DLEDGER_NAMES, fields, strict=True)) | changes).values())
    return head + message


def unit(index: int, changes: Mapping[str, int]) -> bytes:
    term = TERMS[min(index, 4)]
    fields = {"magic": 1, "pos": at(index), "size": ENTRY, "index": index, "term": term} | changes
    return np.array([tuple(fields[name] for name in INDEX_DTYPE.names or ())], INDEX_DTYPE).tobytes()


class Member:
    """Five entries in two files of three, their index, and what the member remembers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "dledger-n0"

    def put(self, name: str, data: bytes | str | None) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if data is not None:
            path.write_bytes(data.encode() if isinstance(data, str) else data)

    def write(self, heads: Changes = NO, units: Changes = NO, state: Mapping[str, str | None] = NO) -> None:
        for number in (0, 3):
            numbers = range(number, min(5, number + 3))
            made = (entry(one, heads.get(one, {}), place=at(one), index=one) for one in numbers)
            self.put(DATA.format(at(number)), b"".join(made).ljust(at(3), b"\0"))
        self.put(INDEX, b"".join(unit(one, units.get(one, {})) for one in range(5)).ljust(INDEX_SIZE, b"\0"))
        for name, text in (STATE | state).items():
            self.put(name, text)
