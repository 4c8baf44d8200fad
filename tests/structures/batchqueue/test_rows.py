"""Units of a batch queue's file as entries, and the files that look like such a one."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.store_reader import StoredFile, StoreReader
from store.formats.queue_unit import BATCH_UNIT, BATCH_UNIT_NAMES
from store.structures.batchqueue import rows as room
from store.structures.entry import Asked


def unit(log_offset: int, queue_offset: int, count: int, size: int = 50) -> bytes:
    return BATCH_UNIT.pack(log_offset, size, 0, 1, queue_offset, count, -1, 0)


def held(folder: Path, name: str, data: bytes) -> tuple[StoreReader, StoredFile]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return StoreReader(str(folder)), StoredFile(name, 0, len(data), 0)


@pytest.mark.parametrize("rest", [0, 1, 45])
def test_each_unit_that_is_written_is_an_entry_at_its_place(rest: int, tmp_path: Path) -> None:
    """A unit of zeros and a part of one are none."""
    units = [unit(100, 5, 2), unit(200, 7, 1)]
    data = units[0] + bytes(46) + units[1] + b"\1" * rest
    found = list(room.rows(*held(tmp_path, "file", data), Asked()))
    assert [(one.kind, one.path, one.number, one.start, one.data) for one in found] == [
        ("batch", "file", 5, 0, units[0]),
        ("batch", "file", 7, 92, units[1]),
    ]
    assert [field.name for field in found[0].fields] == list(BATCH_UNIT_NAMES)


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (unit(100, 5, 2) + unit(150, 7, 1), True),
        (unit(100, 5, 2) + unit(149, 7, 1), False),
        (unit(100, 5, 2) + unit(151, 7, 1), True),
        (unit(100, 5, 2) + unit(150, 8, 1), False),
        (unit(100, 5, 2) + unit(150, 6, 1), False),
        (unit(100, 5, 1) + unit(150, 6, 1), True),
        (unit(100, 5, 0) + unit(150, 5, 1), False),
        (unit(100, 5, 2) + unit(150, 7, 1) + b"\0", False),
        (unit(100, 5, 2), False),
        (b"", False),
    ],
)
def test_a_file_elsewhere_is_one_of_a_batch_queue_by_its_first_two_units(
    data: bytes, is_one: bool, tmp_path: Path
) -> None:
    assert room.holds(*held(tmp_path, "file", data)) is is_one
    assert room.holds(*held(tmp_path, "batchconsumequeue/T/0/0", data)) is True
