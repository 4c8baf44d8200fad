"""The units of a queue file as entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from store.files.store_reader import StoredFile, StoreReader
from store.formats.fields import fields_of
from store.formats.queue_unit import UNIT, UNIT_NAMES, UNIT_SIZE, decode_unit
from store.layout import parse_segment_name
from store.structures.entry import Asked, Entry


def files(reader: StoreReader, asked: Asked) -> list[StoredFile]:
    """Return the files of the chosen queues."""
    return asked.queue_files(reader, "consumequeue")


def rows(reader: StoreReader, file: StoredFile, asked: Asked) -> Iterator[Entry]:
    """Yield a queue file's units from queue offset `asked.first` to the last one that is not zero."""
    start = parse_segment_name(file.path.rpartition("/")[2]) or 0
    data = bytes(reader.read_written(file.path, file.size)).rstrip(b"\0")
    count = -(-len(data) // UNIT_SIZE)
    data = data.ljust(count * UNIT_SIZE, b"\0")
    for number in range(max(0, asked.first - start // UNIT_SIZE), count):
        at = number * UNIT_SIZE
        unit = decode_unit(data, at)
        kind = "unit" if unit.is_written else "empty"
        queue_offset = start // UNIT_SIZE + number
        extra: dict[str, Any] = {"queue_offset": queue_offset, "ext_address": unit.ext_address}
        fields = fields_of(UNIT, UNIT_NAMES, data, at)
        kind = "pre-blank" if unit.is_pre_blank else kind
        yield Entry(kind, file.path, queue_offset, at, data[at : at + UNIT_SIZE], fields, extra)
