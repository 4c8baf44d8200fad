"""The units of an extension file as entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from store.files.store_reader import StoredFile, StoreReader
from store.formats.fields import Field, fields_of
from store.formats.queue_unit import (
    EXT_END_MARK,
    EXT_UNIT,
    EXT_UNIT_MIN_SIZE,
    EXT_UNIT_NAMES,
    decode_ext_unit,
    encode_ext_address,
)
from store.layout import parse_segment_name
from store.structures.entry import Asked, Entry


def files(reader: StoreReader, asked: Asked) -> list[StoredFile]:
    """Return the files of the chosen queues."""
    return asked.queue_files(reader, "consumequeue_ext")


def rows(reader: StoreReader, file: StoredFile, asked: Asked) -> Iterator[Entry]:
    """Yield the units of an extension file, and the end mark or damage after them."""
    # A file by itself has no number.
    start = parse_segment_name(file.path.rpartition("/")[2]) or 0
    data, at = bytes(reader.read_written(file.path, file.size)), 0
    while (unit := decode_ext_unit(data, at)) is not None:
        bit_map = Field("bit_map", EXT_UNIT_MIN_SIZE, len(unit.bit_map), unit.bit_map)
        fields = [*fields_of(EXT_UNIT, EXT_UNIT_NAMES, data, at), bit_map]
        extra: dict[str, Any] = {"ext_address": encode_ext_address(start + at)}
        yield Entry("unit", file.path, start + at, at, data[at : at + unit.size], fields, extra)
        at += unit.size
    rest = data[at : at + 4]
    if int.from_bytes(rest[:2], "big", signed=True) == EXT_END_MARK:
        yield Entry("end", file.path, start + at, at, rest, extra={"detail": "end mark: the rest is unused"})
    elif any(rest):
        extra = {"detail": "neither an entry nor the end mark"}
        yield Entry("damage", file.path, start + at, at, rest, extra=extra, is_fault=True)
