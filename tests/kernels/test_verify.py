"""What a record proves of itself: CRCs, its address, its neighbours."""

from __future__ import annotations

import random
from types import ModuleType

import crcmod.predefined
import numpy as np
import pytest

from store.kernels import native
from tests.support.logs import log_of, record
from tests.support.twice import both, scan

CRC_BLOCK = b"__CRC32#\x01%s\x02"


def test_the_crc_is_crcmods_for_every_size_and_alignment() -> None:
    oracle = crcmod.predefined.mkCrcFun("crc-32")
    data = random.Random(7).randbytes(5000)
    for size in [*range(70), 127, 128, 255, 256, 1024, 4096]:
        for at in (0, 1, 3, 8, 13):
            body = data[at : at + size]
            segment = record(body=body)
            assert native.body_crc(memoryview(data), at, size) == oracle(body) & 0x7FFFFFFF
            assert len(scan(segment, check_crc=True).rows) == 1
            assert not size or not scan(segment[:8] + b"\x01\x02\x03\x04" + segment[12:], check_crc=True).rows


def first_bad(name: str, data: bytes, *more: object, start: int = 0) -> int:
    columns = scan(data).matrix
    count = columns.shape[1]

    def ask(kernels: ModuleType) -> int:
        buffers = [data] if name == "first_bad_body" else []
        return int(getattr(kernels, name)(*buffers, columns, start, count, *more))

    found: int = both(ask)
    return found


def test_the_first_bad_body_is_found_and_the_walk_goes_on_behind_it() -> None:
    data = log_of([{"body": b"body%d" % n} for n in range(6)])
    data = data.replace(b"body2", b"bodyX").replace(b"body4", b"bodyY")
    assert first_bad("first_bad_body", data) == 2
    assert first_bad("first_bad_body", data, start=3) == 4
    assert first_bad("first_bad_body", data, start=5) == 6


def test_a_record_that_names_another_place_is_found() -> None:
    data = log_of([{}] * 2) + record(position=99999)
    assert first_bad("first_bad_log_offset", data, 0) == 2
    assert first_bad("first_bad_log_offset", data, 8) == 0


def test_a_record_older_than_the_one_in_front_is_found() -> None:
    data = log_of([{"store_timestamp_ms": time} for time in (5, 5, 7, 6)])
    assert first_bad("first_earlier", data, 0) == 3
    assert first_bad("first_earlier", data, 6) == 0


def test_a_gap_in_a_queue_is_found_and_the_queues_are_counted_apart() -> None:
    data = log_of([{"queue_offset": offset} for offset in (0, 7, 1, 8, 3)])
    columns = scan(data).matrix
    slots = np.array([0, 1, 0, 1, 0], np.int64)

    def ask(kernels: ModuleType) -> tuple[int, list[int]]:
        awaited = np.array([0, -1], np.int64)
        return int(kernels.first_queue_gap(columns, slots, 0, 5, awaited)), awaited.tolist()

    assert both(ask) == (4, [2, 9])


def with_crc(digits: bytes | None = None, before: bytes = b"K\x01v\x02") -> bytes:
    """A record with the 5.x CRC property, right unless `digits` say otherwise."""
    blank = record(properties=before + CRC_BLOCK % (b"0" * 10))
    value = native.body_crc(memoryview(blank), 0, len(blank) - 20)
    text = str(value)[::-1].ljust(10, "0").encode() if digits is None else digits
    return blank[:-11] + text + b"\x02"


@pytest.mark.parametrize(
    ("data", "found", "counted"),
    [
        (with_crc(), 1, 1),
        (with_crc(b"1234567890"), 0, 1),
        (with_crc(before=b""), 1, 1),
        (with_crc(b"1234567890", before=b""), 0, 1),
        (with_crc(b"1234567890").replace(b"32#\x01", b"32#\x03"), 1, 0),
        (with_crc(b"1234567890")[:-1] + b"\x03", 1, 0),
        (record(), 1, 0),
        (record(properties=b"A\x01" + b"b" * 30), 1, 0),
    ],
)
def test_the_crc_property_is_checked_where_it_is(data: bytes, found: int, counted: int) -> None:
    columns = scan(data).matrix

    def ask(kernels: ModuleType) -> tuple[int, int]:
        state = np.full(8, 7, np.int64)
        return int(kernels.first_bad_properties_crc(data, columns, 0, 1, state)), int(state[0])

    assert both(ask) == (found, counted)
