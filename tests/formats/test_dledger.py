"""When a segment's first bytes are a DLedger entry, and when they are a damaged record of a plain log."""

from __future__ import annotations

import pytest

from store.formats.dledger import DLEDGER_HEADER, NEWER_MAGICS
from store.formats.message import Message, encode_record
from store.formats.segment_head import first_record_at, holds_record_entry, is_entry
from tests.support.five_stores import five

START = 1 << 14
RECORD = encode_record(
    Message.of("T", "body"), topic=b"T", sys_flag=0, queue_offset=0, log_offset=START + 48, store_timestamp_ms=9
)
SIZE = len(RECORD)


def entry(**changed: int) -> bytes:
    """An entry at START with this record; some of its numbers replaced."""
    numbers = {"magic": 1, "size": 48 + SIZE, "index": 7, "term": 2, "pos": START, "body_size": SIZE} | changed
    magic, size, index, term, pos, body_size = numbers.values()
    return DLEDGER_HEADER.pack(magic, size, index, term, pos, 0, 0, 0, body_size) + RECORD


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (entry(), True),
        (entry(index=0, term=0), True),
        (entry(magic=4), False),
        (entry(magic=0), False),
        (entry(size=SIZE), False),
        (entry(body_size=SIZE + 1), False),
        (entry(size=49 + SIZE, body_size=SIZE + 1), False),
        (entry(index=-1), False),
        (entry(term=-1), False),
        (entry(pos=0), False),
        (entry()[:55], False),
        (entry()[:56], True),
        (entry()[:48] + bytes(SIZE), False),
        (RECORD, False),
        ((1).to_bytes(4, "big") + (300).to_bytes(4, "big") + RECORD[8:], False),
        (b"", False),
    ],
)
def test_an_entry_fits_its_place_its_size_and_its_record(head: bytes, expected: bool) -> None:
    assert holds_record_entry(head, START) is expected


def test_every_segment_of_a_real_group_begins_with_one() -> None:
    segments = sorted((five("dledger") / "store/dledger-n0/data").iterdir())
    heads = [(path.read_bytes()[:256], int(path.name)) for path in segments]
    written = [(head, start) for head, start in heads if any(head)]
    assert written
    assert all(holds_record_entry(head, start) for head, start in written)


@pytest.mark.parametrize(
    ("head", "expected"),
    [(entry()[:47], False), *((entry(magic=magic)[:48], 1 <= magic <= 3) for magic in range(5)), (RECORD, False)],
)
def test_an_entry_is_a_header_with_a_magic_and_its_place(head: bytes, expected: bool) -> None:
    assert is_entry(head, START) is expected
    assert not is_entry(head, START + 1)


@pytest.mark.parametrize(("head", "at"), [(RECORD, 0), (entry(), 48), (bytes(1) + RECORD, None), (b"", None)])
def test_the_first_record_is_at_the_front_or_after_a_header(head: bytes, at: int | None) -> None:
    assert first_record_at(head) == at


def test_a_newer_dledger_has_entries_of_two_more_kinds() -> None:
    assert (NEWER_MAGICS, DLEDGER_HEADER.size) == ((2, 3), 48)
