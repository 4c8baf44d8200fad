"""The levels of a delayOffset.json with the bytes that say them."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import DamagedFile
from store.files.store_reader import StoreReader
from store.formats.fields import Field
from store.structures.delayoffsets.rows import files, rows
from store.structures.entry import Asked, Entry

PATH = "config/delayOffset.json"


def entries(root: Path, text: str) -> list[Entry]:
    (root / "config").mkdir(exist_ok=True)
    (root / PATH).write_text(text, encoding="utf-8")
    reader = StoreReader(str(root))
    (file,) = files(reader, Asked())
    return list(rows(reader, file, Asked()))


def entry(level: int, offset: int, start: int, data: bytes, *places: int) -> Entry:
    """A level, whose bytes have the level and the offset at places of so many bytes."""
    fields = [Field(name, places[at], places[at + 1], value)
              for at, name, value in ((0, "level", level), (2, "saved_offset", offset)) if places]  # fmt: skip
    return Entry("level", PATH, level, start, data, fields, {"level": level, "saved_offset": offset})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{}", []),
        ('{"offsetTable":{3:5}}', [entry(3, 5, 16, b"3:5", 0, 1, 2, 1)]),
        ('{"offsetTable":{"3":"5"}}', [entry(3, 5, 16, b'"3":"5', 1, 1, 5, 1)]),
        ('{"offsetTable":{13 : -50}}', [entry(13, -50, 16, b"13 : -50", 0, 2, 5, 3)]),
        # The same pair before the table is another one.
        ('{"x":{3:5},"offsetTable":{3:5}}', [entry(3, 5, 26, b"3:5", 0, 1, 2, 1)]),
        ('{offsetTable:{1:2,2:1}}', [entry(1, 2, 14, b"1:2", 0, 1, 2, 1), entry(2, 1, 18, b"2:1", 0, 1, 2, 1)]),
        ('{"offset\\u0054able":{3:5}}', [entry(3, 5, 21, b"3:5", 0, 1, 2, 1)]),
        ('{"offsetTable":{3:"05"}}', [entry(3, 5, 0, b"")]),
        ('{"offsetTable":{"x":5,"-3":5,"3":"y","4":1.5,"٣":5,"5":null}}', []),
        (f'{{"offsetTable":{{3:{"1" * 20}}}}}', []),
    ],
)  # fmt: skip
def test_each_level_has_its_bytes(text: str, found: list[Entry], tmp_path: Path) -> None:
    assert entries(tmp_path, text) == found


def test_what_fastjson_does_not_write_is_damaged_and_a_missing_file_is_none(tmp_path: Path) -> None:
    assert files(StoreReader(str(tmp_path)), Asked()) == []
    with pytest.raises(DamagedFile, match="not what Fastjson writes"):
        entries(tmp_path, "{")
