"""Consume queue, extension, index, checkpoint and delay offsets as entries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from store.errors import DamagedFile
from store.files.store_reader import StoredFile, StoreReader
from store.formats.checkpoint_page import CHECKPOINT_SIZE, FIELD_NAMES, FIELDS
from store.formats.fields import Field, fields_of
from store.formats.index_page import (
    ENTRY,
    ENTRY_NAMES,
    HEADER,
    HEADER_NAMES,
    HEADER_SIZE,
    decode_header,
    entry_position,
)
from store.formats.queue_unit import (
    BATCH_UNIT,
    BATCH_UNIT_NAMES,
    EXT_END_MARK,
    EXT_UNIT,
    EXT_UNIT_MIN_SIZE,
    EXT_UNIT_NAMES,
    UNIT,
    UNIT_NAMES,
    UNIT_SIZE,
    decode_ext_unit,
    decode_unit,
    encode_ext_address,
)
from store.layout import parse_segment_name
from store.structures.index.geometry import geometry_of, given_geometry
from store.structures.tables.fastjson import members, parse_fastjson
from store.verbs.dump.entry import Entry

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)


def dump_queue(reader: StoreReader, file: StoredFile, first: int = 0) -> Iterator[Entry]:
    """The units of a queue file from queue offset `first` on, up to the last one that is not zero."""
    start = parse_segment_name(file.path.rpartition("/")[2]) or 0
    data = bytes(reader.read_written(file.path, file.size)).rstrip(b"\0")
    count = -(-len(data) // UNIT_SIZE)
    data = data.ljust(count * UNIT_SIZE, b"\0")
    for number in range(max(0, first - start // UNIT_SIZE), count):
        at = number * UNIT_SIZE
        unit = decode_unit(data, at)
        kind = "unit" if unit.is_written else "empty"
        queue_offset = start // UNIT_SIZE + number
        extra: dict[str, Any] = {"queue_offset": queue_offset, "ext_address": unit.ext_address}
        fields = fields_of(UNIT, UNIT_NAMES, data, at)
        kind = "pre-blank" if unit.is_pre_blank else kind
        yield Entry(kind, file.path, queue_offset, at, data[at : at + UNIT_SIZE], fields, extra)


def is_batch_queue(reader: StoreReader, file: StoredFile) -> bool:
    """Whether a queue file holds units of a batch queue, by its folder or its second unit."""
    if "batchconsumequeue" in reader.name_of(file.path):
        return True
    head = bytes(reader.read(file.path, 0, 2 * BATCH_UNIT.size))
    if file.size % BATCH_UNIT.size or len(head) < 2 * BATCH_UNIT.size:
        return False
    first, second = (BATCH_UNIT.unpack_from(head, at) for at in (0, BATCH_UNIT.size))
    return bool(first[5] > 0 and second[4] == first[4] + first[5] and second[0] >= first[0] + first[1])


def dump_batch_queue(reader: StoreReader, file: StoredFile) -> Iterator[Entry]:
    """The units of a 5.x batch queue's file."""
    data = bytes(reader.read_written(file.path, file.size))
    for at in range(0, len(data) - BATCH_UNIT.size + 1, BATCH_UNIT.size):
        piece = data[at : at + BATCH_UNIT.size]
        if any(piece):
            fields = fields_of(BATCH_UNIT, BATCH_UNIT_NAMES, piece)
            yield Entry("batch", file.path, int(fields[4].value), at, piece, fields)


def dump_extension(reader: StoreReader, file: StoredFile) -> Iterator[Entry]:
    """The units of an extension file, and the end mark or damage behind them."""
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
        extra = {"detail": "neither a unit nor the end mark"}
        yield Entry("damage", file.path, start + at, at, rest, extra=extra, is_fault=True)


def dump_index(reader: StoreReader, file: StoredFile, settings: Mapping[str, object]) -> Iterator[Entry]:
    """An index file's header and entries, oldest first. DamagedFile if its slots can't be counted."""
    data = reader.read(file.path)
    if len(data) < HEADER_SIZE:
        raise DamagedFile("too short for the header of an index file", file=reader.name_of(file.path))
    header, head = decode_header(data), bytes(data[:HEADER_SIZE])
    yield Entry("header", file.path, 0, 0, head, fields_of(HEADER, HEADER_NAMES, head))
    geometry = geometry_of(data, given_geometry(settings, file.size))
    if geometry is None:
        if header.index_count <= 1:
            return
        hint = "give maxHashSlotNum and maxIndexNum"
        raise DamagedFile("neither size nor contents tell the hash slots", file=reader.name_of(file.path), hint=hint)
    for number in range(1, min(header.index_count, geometry.entry_count)):
        at = entry_position(geometry.slot_count, number)
        piece = bytes(data[at : at + ENTRY.size])
        fields = fields_of(ENTRY, ENTRY_NAMES, piece)
        extra = {
            "entry_index": number,
            "slot": fields[0].value % geometry.slot_count,
            "store_timestamp_ms": header.begin_timestamp_ms + fields[2].value * 1000,
        }
        yield Entry("entry", file.path, number, at, piece, fields, extra)


def dump_checkpoint(reader: StoreReader, file: StoredFile) -> Iterator[Entry]:
    """The checkpoint's fields, and unknown bytes behind them."""
    data = bytes(reader.read(file.path, 0, CHECKPOINT_SIZE)).ljust(CHECKPOINT_SIZE, b"\0")
    yield Entry("checkpoint", file.path, 0, 0, data[: FIELDS.size], fields_of(FIELDS, FIELD_NAMES, data))
    rest = data[FIELDS.size :].rstrip(b"\0")
    if rest:
        fields = [Field("rest", 0, len(rest), rest)]
        yield Entry("unknown", file.path, 0, FIELDS.size, rest, fields, {"detail": "a field that 5.3 does not know"})


def dump_delay_offsets(reader: StoreReader, file: StoredFile) -> Iterator[Entry]:
    """The next queue offset of each delay level, as config/delayOffset.json holds it."""
    data = bytes(reader.read(file.path))
    try:
        table = members(members(parse_fastjson(data.decode("utf-8", "replace"))).get("offsetTable"))
    except ValueError as error:
        raise DamagedFile(f"not what Fastjson writes: {error}", file=reader.name_of(file.path)) from None
    for level, offset in table.items():
        # Fastjson takes a number in quotes for a number.
        if level.isdecimal() and _INTEGER.fullmatch(level) and _INTEGER.fullmatch(str(offset)):
            start, text, fields = _level_in(data, level, int(str(offset)))
            extra = {"level": int(level), "saved_offset": int(str(offset))}
            yield Entry("level", file.path, int(level), start, text, fields, extra)


def _level_in(data: bytes, level: str, offset: int) -> tuple[int, bytes, list[Field]]:
    """Finds position, bytes and fields of a level in the table; none in another spelling."""
    table = data.find(b"offsetTable")
    pair = re.compile(rb"\"?\b(%s)\b\"?\s*:\s*\"?(%d)\b" % (level.encode(), offset)).search(data, max(0, table))
    if pair is None:
        return 0, b"", []
    start = pair.start()
    places = (("level", *pair.span(1), int(level)), ("saved_offset", *pair.span(2), offset))
    return start, pair.group(), [Field(name, at - start, end - at, value) for name, at, end, value in places]
