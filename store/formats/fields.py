"""Positions of a layout's fields, from its struct and the fields' names.

    UNIT = struct.Struct(">qiq"), UNIT_NAMES = ("log_offset", "size", "tags_code")
    fields_of(UNIT, UNIT_NAMES, data)  →  log_offset at 0, 8 bytes; size at 8, 4 bytes; tags_code at 12, 8 bytes

Spans are computed from the struct, so that no position is defined twice.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

_ITEM = re.compile(r"\d*[a-zA-Z?]")


class Field(NamedTuple):
    """One field: its bytes [start, start + size) in the entry, and its value."""

    name: str
    start: int
    size: int
    value: Any


def fields_of(layout: struct.Struct, names: Sequence[str], data: bytes | memoryview, start: int = 0) -> list[Field]:
    """Return the fields of `layout` at `start` of `data`."""
    values = layout.unpack_from(data, start)
    places = spans_of(layout.format)
    return [Field(name, at, size, value) for name, (at, size), value in zip(names, places, values, strict=True)]


@lru_cache(maxsize=64)
def spans_of(layout: str) -> tuple[tuple[int, int], ...]:
    """Return start and size of every field of a struct without padding."""
    found, at = [], 0
    for item in _ITEM.findall(layout):
        size = struct.calcsize(layout[0] + item)
        found.append((at, size))
        at += size
    return tuple(found)
