"""The delay levels and their offsets as entries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from store.errors import DamagedFile
from store.files.store_reader import StoredFile, StoreReader
from store.formats.fields import Field
from store.structures.entry import Asked, Entry, files_at
from store.structures.tables.fastjson import members, parse_fastjson

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)


def files(reader: StoreReader, asked: Asked) -> list[StoredFile]:
    """Return the file, if it exists."""
    return files_at(reader, "config/delayOffset.json")


def rows(reader: StoreReader, file: StoredFile, asked: Asked) -> Iterator[Entry]:
    """Yield the next queue offset of each delay level in config/delayOffset.json."""
    data = bytes(reader.read(file.path))
    try:
        table = members(members(parse_fastjson(data.decode("utf-8", "replace"))).get("offsetTable"))
    except ValueError as error:
        raise DamagedFile(f"not what Fastjson writes: {error}", file=reader.name_of(file.path)) from None
    for level, offset in table.items():
        # Fastjson reads a number in quotes as a number.
        if level.isdecimal() and _INTEGER.fullmatch(level) and _INTEGER.fullmatch(str(offset)):
            start, text, fields = _level_in(data, level, int(str(offset)))
            extra = {"level": int(level), "saved_offset": int(str(offset))}
            yield Entry("level", file.path, int(level), start, text, fields, extra)


def _level_in(data: bytes, level: str, offset: int) -> tuple[int, bytes, list[Field]]:
    """Return position, bytes and fields of a level in the table; empty if it is spelled differently."""
    table = data.find(b"offsetTable")
    pair = re.compile(rb"\"?\b(%s)\b\"?\s*:\s*\"?(%d)\b" % (level.encode(), offset)).search(data, max(0, table))
    if pair is None:
        return 0, b"", []
    start = pair.start()
    places = (("level", *pair.span(1), int(level)), ("saved_offset", *pair.span(2), offset))
    return start, pair.group(), [Field(name, at - start, end - at, value) for name, at, end, value in places]
