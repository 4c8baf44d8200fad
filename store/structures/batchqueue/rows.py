"""The units of a batch queue's file (5.x) as entries."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.store_reader import StoredFile, StoreReader
from store.formats.fields import fields_of
from store.formats.queue_unit import BATCH_UNIT, BATCH_UNIT_NAMES
from store.structures.entry import Asked, Entry


def holds(reader: StoreReader, file: StoredFile) -> bool:
    """Return whether a file belongs to a batch queue, by its folder or its first two units."""
    if "batchconsumequeue" in reader.name_of(file.path):
        return True
    head = bytes(reader.read(file.path, 0, 2 * BATCH_UNIT.size))
    if file.size % BATCH_UNIT.size or len(head) < 2 * BATCH_UNIT.size:
        return False
    first, second = (BATCH_UNIT.unpack_from(head, at) for at in (0, BATCH_UNIT.size))
    return bool(first[5] > 0 and second[4] == first[4] + first[5] and second[0] >= first[0] + first[1])


def rows(reader: StoreReader, file: StoredFile, asked: Asked) -> Iterator[Entry]:
    """Yield the units of a 5.x batch queue's file."""
    data = bytes(reader.read_written(file.path, file.size))
    for at in range(0, len(data) - BATCH_UNIT.size + 1, BATCH_UNIT.size):
        piece = data[at : at + BATCH_UNIT.size]
        if any(piece):
            fields = fields_of(BATCH_UNIT, BATCH_UNIT_NAMES, piece)
            yield Entry("batch", file.path, int(fields[4].value), at, piece, fields)
