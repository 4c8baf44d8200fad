"""The checkpoint's fields as an entry."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.store_reader import StoredFile, StoreReader
from store.formats.checkpoint_page import CHECKPOINT_SIZE, FIELD_NAMES, FIELDS
from store.formats.fields import Field, fields_of
from store.formats.wording import amount
from store.structures.entry import Asked, Entry, files_at

USED_SIZE = 24
"""Bytes of the three times, which every broker writes."""


def files(reader: StoreReader, asked: Asked) -> list[StoredFile]:
    """Return the file, if it exists."""
    return files_at(reader, "checkpoint")


def rows(reader: StoreReader, file: StoredFile, asked: Asked) -> Iterator[Entry]:
    """Yield the checkpoint's fields, of a short file those that are whole; and unknown bytes after them."""
    held = bytes(reader.read(file.path, 0, CHECKPOINT_SIZE))
    data = held.ljust(CHECKPOINT_SIZE, b"\0")
    fields = fields_of(FIELDS, FIELD_NAMES, data)
    if len(held) < USED_SIZE:
        whole = [field for field in fields if field.start + field.size <= len(held)]
        detail = f"the file has {amount(len(held), 'byte')} of {CHECKPOINT_SIZE}" if held else "the file is empty"
        yield Entry("checkpoint", file.path, 0, 0, held, whole, {"detail": detail}, is_fault=True)
        return
    if not fields[-1].value:
        # No broker before 5.5 has the last field.
        fields = fields[:-1]
    size = fields[-1].start + fields[-1].size
    yield Entry("checkpoint", file.path, 0, 0, data[:size], fields)
    rest = data[FIELDS.size :].rstrip(b"\0")
    if rest:
        unknown = [Field("rest", 0, len(rest), rest)]
        yield Entry("unknown", file.path, 0, FIELDS.size, rest, unknown, {"detail": "a field that 5.5 does not know"})
