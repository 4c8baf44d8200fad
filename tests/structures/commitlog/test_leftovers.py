"""Leftovers past the log's end: older records, and those after the eight zeros of a truncation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import Message
from store.formats.message import encode_record
from store.structures.commitlog.leftovers import is_zeroed_cut

START = 4096


def record(log_offset: int, head: bytes = bytes(8)) -> bytes:
    """A record whose first bytes a truncation zeroed."""
    data = encode_record(Message("T", b"body"), topic=b"T", sys_flag=0, queue_offset=0, log_offset=log_offset,
                         store_timestamp_ms=1)  # fmt: skip
    return head + data[len(head) :]


SIZE = len(record(0))


@pytest.mark.parametrize(
    ("at", "data", "is_cut"),
    [
        (0, record(START), True),
        (100, record(START + 100), True),
        (0, record(START, b""), False),
        (0, record(START, bytes(7)), False),
        (0, bytes(200), False),
        (0, bytes(8) + b"\1" + bytes(200), True),
        (0, bytes(9) + b"\1" + bytes(200), False),
        (504, record(START + 504), True),
        (504, bytes(8) + b"\1" + bytes(200), False),
        (503, bytes(8) + b"\1" + bytes(200), True),
        (505, bytes(8) + b"\1" + bytes(200), True),
        (0, record(START)[:90], False),
    ],
)
def test_eight_zeros_before_the_rest_of_a_record_are_a_truncation(at: int, data: bytes, is_cut: bool) -> None:
    buffer = bytes(at) + data
    segment = SimpleNamespace(file_start=START, size=len(buffer), buffer=buffer, readable_end=lambda start, stop: stop)
    assert is_zeroed_cut(cast(Any, segment), at) is is_cut


def test_unreadable_bytes_show_no_truncation() -> None:
    segment = SimpleNamespace(
        file_start=START, size=SIZE, buffer=record(START), readable_end=lambda start, stop: stop - 1
    )
    assert not is_zeroed_cut(cast(Any, segment), 0)
