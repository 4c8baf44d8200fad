"""The end of the entries that DLedger accepts: it reads headers alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.formats.dledger import DLEDGER_HEADER
from store.structures.dledger.start import _accepted_end, _entry_size

START = 1000


def entry(pos: int, body: int = 52, *, magic: int = 1, size: int | None = None) -> bytes:
    size = 48 + body if size is None else size
    return DLEDGER_HEADER.pack(magic, size, 0, 0, pos, 0, 0, 0, body) + bytes(max(0, body))


def segment(data: bytes, size: int = 500) -> Any:
    return SimpleNamespace(file_start=START, size=size, buffer=data.ljust(size, b"\0"))


@pytest.mark.parametrize(
    ("data", "log_offset", "size"),
    [
        (entry(START), START, 100),
        (entry(START), START - 1, 0),
        (entry(START), START + 1, 0),
        (entry(START, magic=2), START, 0),
        (entry(START, magic=0), START, 0),
        (entry(START + 1), START, 0),
        (entry(START, size=101), START, 0),
        (entry(START, size=99), START, 0),
        (entry(START, 0), START, 0),
        (entry(START, 1), START, 49),
        (entry(START, 452), START, 500),
        (entry(START, 453), START, 0),
        (bytes(452) + entry(START + 452, 1)[:48], START + 452, 0),
        (bytes(451) + entry(START + 451, 1), START + 451, 49),
    ],
)
def test_an_entry_has_a_header_that_fits_its_place(data: bytes, log_offset: int, size: int) -> None:
    assert _entry_size(cast(Any, segment(data[:500])), log_offset) == size


@pytest.mark.parametrize(
    ("log_end", "end"),
    [
        (START, START + 300), (START + 48, START + 300), (START + 100, START + 300), (START + 148, START + 300),
        (START + 200, START + 300), (START + 300, START + 300), (START + 150, START + 150), (START - 1, START - 1),
        (START + 500, START + 500),
    ],
)  # fmt: skip
def test_entries_go_on_past_a_damaged_record(log_end: int, end: int) -> None:
    data = b"".join(entry(START + 100 * number) for number in range(3))
    assert _accepted_end([cast(Any, segment(data))], log_end) == end
