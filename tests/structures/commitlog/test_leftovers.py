"""Leftovers past the log's end: older records, and those after the eight zeros of a truncation."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store import Message
from store.formats.columns import DamageReason
from store.formats.message import encode_record
from store.structures.commitlog.leftovers import Leftovers, is_zeroed_cut
from store.structures.commitlog.scan import Damage, End

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


def leftovers_of(outcome: Any, first_ms: int | None, segments: int = 1, cut: bytes = bytes(200)) -> Leftovers:
    """What is left after an end at 4096, whose last record is of 50."""
    one = SimpleNamespace(file_start=START, size=len(cut), buffer=cut, readable_end=lambda start, stop: stop)
    end = SimpleNamespace(last_store_timestamp_ms=50, outcome=outcome, log_end=START)
    times = SimpleNamespace(store_timestamp_ms=np.array([first_ms]))
    run = None if first_ms is None else SimpleNamespace(columns=times)
    return Leftovers([cast(Any, one)] * segments, cast(Any, end), cast(Any, run))


def among(found: Leftovers, file_start: int = START) -> list[bool]:
    columns = SimpleNamespace(store_timestamp_ms=np.array([49, 50, 51]))
    return found.among(cast(Any, SimpleNamespace(file_start=file_start, count=3, columns=columns))).tolist()


ZEROS = End(START, Path(), 0)
DAMAGE = Damage(0, Path("0"), 0, DamageReason.BAD_SIZE, 0)


@pytest.mark.parametrize(
    ("found", "stop", "older"),
    [
        (leftovers_of(ZEROS, None), START + 200, [True, False, False]),
        (leftovers_of(ZEROS, 99, 2), START + 200, [True, False, False]),
        (leftovers_of(ZEROS, None, 0), None, [False] * 3),
        (leftovers_of(ZEROS, None, 1, record(START)), START + SIZE, [True] * 3),
        (leftovers_of(DAMAGE, 49), START + 200, [True, False, False]),
        (leftovers_of(DAMAGE, 50), None, [False] * 3),
        (leftovers_of(DAMAGE, None), None, [False] * 3),
        (leftovers_of(DAMAGE, 49, 2), None, [False] * 3),
        (leftovers_of(DAMAGE, 49, 1, record(START)), START + SIZE, [True, False, False]),
    ],
)
def test_older_records_after_zeros_or_an_overwritten_one_are_left(
    found: Leftovers, stop: int | None, older: list[bool]
) -> None:
    assert (found.stop, among(found), among(found, START + 1000)) == (stop, older, [False] * 3)
