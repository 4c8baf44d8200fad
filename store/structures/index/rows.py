"""The header and the entries of an index file."""

from __future__ import annotations

from collections.abc import Iterator

from store.errors import DamagedFile
from store.files.store_reader import StoredFile, StoreReader
from store.formats.fields import fields_of
from store.formats.index_page import (
    ENTRY,
    ENTRY_NAMES,
    HEADER,
    HEADER_NAMES,
    HEADER_SIZE,
    decode_header,
    entry_position,
)
from store.structures.entry import Asked, Entry
from store.structures.index.geometry import geometry_of, given_geometry


def files(reader: StoreReader, asked: Asked) -> list[StoredFile]:
    """Return all index files."""
    return reader.index_files()


def rows(reader: StoreReader, file: StoredFile, asked: Asked) -> Iterator[Entry]:
    """Yield an index file's header and entries, oldest first. DamagedFile if its slots can't be counted."""
    data = reader.read(file.path)
    if len(data) < HEADER_SIZE:
        raise DamagedFile("too short for the header of an index file", file=reader.name_of(file.path))
    header, head = decode_header(data), bytes(data[:HEADER_SIZE])
    yield Entry("header", file.path, 0, 0, head, fields_of(HEADER, HEADER_NAMES, head))
    geometry = geometry_of(data, given_geometry(asked.settings, file.size))
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
