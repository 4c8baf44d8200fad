"""A backup's log ends behind the last whole record of the newest segment that has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from store.broker_line import LINE_4_9
from store.files.store_reader import StoreReader
from store.verbs.backup.log import FoundEnd, find_log_end, segment_bytes
from tests.support.bad_sectors import BadSectors
from tests.support.stores import make_store

BEGAN_MS, SEGMENT = 1_700_000_000_000, 16384
WHOLE = FoundEnd(18_815, BEGAN_MS + 100_000)
"""87 records of 185 to 187 bytes in the first segment, 13 of 187 in the second."""


def put_at(position: int, data: bytes) -> Callable[[Path, Path], object]:
    def change(first: Path, second: Path) -> None:
        with second.open("r+b") as file:
            file.seek(position)
            file.write(data)

    return change


def beyond(first: Path, second: Path) -> None:
    second.with_name(f"{2 * SEGMENT:020d}").write_bytes(bytes(SEGMENT))


def both(one: Callable[[Path, Path], object], other: Callable[[Path, Path], object]) -> Callable[[Path, Path], object]:
    return lambda first, second: (one(first, second), other(first, second))


BEFORE = "00000000000000016384, offset 187: bad body CRC"
ZEROED = "00000000000000016384, offset 187: zeros in place of a record"
ENDS: dict[str, tuple[Callable[[Path, Path], object], FoundEnd]] = {
    "whole": (lambda first, second: None, WHOLE),
    "a segment of zeros behind": (beyond, WHOLE),
    "the newest segment is empty": (put_at(0, bytes(3000)), FoundEnd(SEGMENT, BEGAN_MS + 87_000)),
    "no newest segment": (lambda first, second: second.unlink(), FoundEnd(SEGMENT, BEGAN_MS + 87_000)),
    "the last record's body": (put_at(2431 - 60, b"\xff"), FoundEnd(18_628, BEGAN_MS + 99_000)),
    "the end of the last record's properties": (put_at(2430, b"\0"), FoundEnd(18_628, BEGAN_MS + 99_000)),
    "a body before the end": (put_at(287, b"\xff"), FoundEnd(18_815, BEGAN_MS + 100_000, BEFORE)),
    "a zeroed head before the end": (put_at(187, bytes(30)), FoundEnd(18_815, BEGAN_MS + 100_000, ZEROED)),
    "two bodies": (both(put_at(287, b"\xff"), put_at(661, b"\xff")), FoundEnd(18_815, BEGAN_MS + 100_000, BEFORE)),
    "a record's own log offset": (put_at(187 + 28, bytes(8)), WHOLE),
    "no segment": (lambda first, second: (first.unlink(), second.unlink()), FoundEnd()),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_log_ends_behind_the_last_whole_record(name: str, tmp_path: Path) -> None:
    change, end = ENDS[name]
    root = make_store(tmp_path / "store", 100)
    change(root / f"commitlog/{0:020d}", root / f"commitlog/{SEGMENT:020d}")
    assert find_log_end(StoreReader(str(root)), LINE_4_9) == end


@pytest.mark.parametrize("size", [1, SEGMENT - 1, SEGMENT])
def test_the_first_bytes_of_a_segment_are_read_with_zeros_for_bad_pages(size: int, tmp_path: Path) -> None:
    root, unreadable, done = make_store(tmp_path / "store", 100), list[str](), list[int]()
    reader = StoreReader(str(root), BadSectors({f"{0:020d}": {1}}))
    (data,) = segment_bytes(reader, reader.segments()[0], range(size), unreadable, done.append)
    whole = bytearray((root / f"commitlog/{0:020d}").read_bytes())
    whole[4096:8192] = bytes(4096)
    assert (bytes(data), done) == (bytes(whole[:size]), [size])
    note = f"commitlog/{0:020d}: can't read bytes 4096 to 8192; the backup has zeros there"
    assert unreadable == ([note] if size > 4096 else [])
