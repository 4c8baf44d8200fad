"""Bytes of a master are passed on once they are whole records, and refused where they are none."""

from __future__ import annotations

import re

import pytest

from store.engine.ha.verifier import LARGEST_RECORD_BYTES, LogVerifier
from store.errors import ReplicationError
from store.formats.message import BLANK_SIZE, MESSAGE_MAGIC_V1, RECORD_MIN_SIZE, Message, encode_blank, encode_record
from tests.verbs.salvage.records import LENGTH, record

LEFT = 50
SEGMENT = 3 * LENGTH + LEFT


def segment(start: int) -> bytes:
    """Three records, and a blank up to the segment's end."""
    data = b"".join(record(start + LENGTH * number, number) for number in range(3)) + encode_blank(LEFT)
    return data.ljust(SEGMENT, b"\0")


def take(verifier: LogVerifier, data: bytes) -> list[tuple[int, bytes]]:
    """The pieces that are passed on when these bytes have come."""
    verifier.room(len(data))[:] = data
    verifier.took(len(data))
    return [(at, bytes(piece)) for at, piece in verifier.verified()]


@pytest.mark.parametrize("size", [1, 7, 8, LENGTH - 1, LENGTH, LENGTH + 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 9999])
@pytest.mark.parametrize("start", [0, 2 * SEGMENT, 2 * SEGMENT + LENGTH])
def test_all_bytes_are_passed_on_whatever_the_pieces_are(start: int, size: int) -> None:
    first = start - start % SEGMENT
    data = (segment(first) + segment(first + SEGMENT))[start - first :]
    verifier = LogVerifier(start, SEGMENT)
    pieces = [piece for at in range(0, len(data), size) for piece in take(verifier, data[at : at + size])]
    assert b"".join(piece for _, piece in pieces) == data
    assert [at for at, _ in pieces] == [start + sum(len(one) for _, one in pieces[:n]) for n in range(len(pieces))]
    whole = 6 - (start - first) // LENGTH
    assert (verifier.record_count, verifier.pending_bytes, verifier.next_offset) == (whole, 0, start + len(data))


def test_a_record_is_passed_on_with_its_last_byte() -> None:
    verifier = LogVerifier(0, SEGMENT)
    assert take(verifier, record(0)[:-1]) == []
    assert (verifier.pending_bytes, verifier.record_count) == (LENGTH - 1, 0)
    assert take(verifier, record(0)[-1:]) == [(0, record(0))]
    assert (verifier.pending_bytes, verifier.record_count) == (0, 1)


def test_a_long_topic_s_record_shows_a_broker_of_5_3_from_then_on() -> None:
    def long(log_offset: int) -> bytes:
        return encode_record(
            Message("T", b"body"), topic=b"T" * 128, sys_flag=0, queue_offset=0, log_offset=log_offset,
            store_timestamp_ms=1,
        )  # fmt: skip

    verifier, met, at = LogVerifier(0, GIB), [], 0
    for make in (record, record, long, record):
        take(verifier, piece := make(at))
        at += len(piece)
        met.append(verifier.has_v2)
    assert met == [False, False, True, True]


def head(size: int) -> bytes:
    """The first bytes of a record of this size."""
    return size.to_bytes(4, "big") + MESSAGE_MAGIC_V1.to_bytes(4, "big") + bytes(100)


GIB, MANY = 1 << 30, LARGEST_RECORD_BYTES


# The size of segments, bytes that come after a record, and why they are refused; None where more may come.
@pytest.mark.parametrize(
    ("segment_size", "data", "reason"),
    [
        (GIB, head(MANY), None),
        (GIB, head(MANY + 1), f"a record of {MANY + 1} bytes, {GIB - LENGTH} are left in the segment"),
        (LENGTH + 1000, head(1000), None),
        (LENGTH + 1000, head(1001), "a record of 1001 bytes, 1000 are left in the segment"),
        (LENGTH + LENGTH, record(LENGTH)[:-1], None),
        (LENGTH + LENGTH - 1, record(LENGTH), f"a record of {LENGTH} bytes, {LENGTH - 1} are left in the segment"),
        (GIB, bytes(BLANK_SIZE - 1), None),
        (GIB, bytes(BLANK_SIZE), "nothing was written here"),
        (LENGTH + BLANK_SIZE, bytes(BLANK_SIZE - 1), None),
        (LENGTH + BLANK_SIZE - 1, bytes(BLANK_SIZE - 1), "nothing was written here"),
        (GIB, b"\0\0\1\0none" + bytes(100), "magic"),
        (GIB, b"\0\0\0\x5a" + record(LENGTH)[4:], "size"),
        (GIB, b"\1" * 7, None),
        (GIB, b"\xff" * 4 + record(LENGTH)[4:], "size"),
    ],
)
@pytest.mark.parametrize("is_one_piece", [False, True])
def test_bytes_that_no_more_can_make_a_record_are_refused(
    segment_size: int, data: bytes, reason: str | None, is_one_piece: bool
) -> None:
    verifier = LogVerifier(0, segment_size)
    if not is_one_piece:
        assert take(verifier, record(0)) == [(0, record(0))]
    passed, data = ([(0, record(0))], record(0) + data) if is_one_piece else ([], data)
    if reason is None:
        assert (take(verifier, data), verifier.pending_bytes) == (passed, len(data) - LENGTH * is_one_piece)
    else:
        with pytest.raises(ReplicationError, match=f"the master sent bytes that are no record: .*{reason}") as refused:
            take(verifier, data)
        assert (refused.value.offset, refused.value.code) == (LENGTH, "no-record")


@pytest.mark.parametrize("start", [0, 5 * SEGMENT])
def test_bytes_that_are_no_record_are_refused_at_their_log_offset(start: int) -> None:
    with pytest.raises(ReplicationError, match="nothing was written here") as refused:
        take(LogVerifier(start, SEGMENT), record(start) + bytes(100))
    assert refused.value.offset == start + LENGTH
    told = f"a record of {SEGMENT} bytes, {SEGMENT - LENGTH} are left in the segment"
    with pytest.raises(ReplicationError, match=told) as refused:
        take(LogVerifier(start, SEGMENT), record(start) + head(SEGMENT))
    assert refused.value.offset == start + LENGTH


def test_a_record_of_another_place_is_refused_with_both() -> None:
    told = f"the record here says that its log offset is {LENGTH + 1}"
    with pytest.raises(ReplicationError, match=told) as refused:
        take(LogVerifier(1000 * SEGMENT, SEGMENT), record(1000 * SEGMENT) + record(LENGTH + 1))
    assert refused.value.offset == 1000 * SEGMENT + LENGTH


# The log offset of the copy's start, the size of segments, whether it is assumed, and that which the blank tells.
@pytest.mark.parametrize(
    ("start", "size", "is_assumed", "told"),
    [
        (0, SEGMENT, False, SEGMENT),
        (0, SEGMENT, True, SEGMENT),
        (0, 2 * SEGMENT, True, SEGMENT),
        (4 * SEGMENT, 2 * SEGMENT, True, SEGMENT),
        (LENGTH, 2 * SEGMENT, True, SEGMENT),
        (0, 2 * SEGMENT, False, None),
        (4 * SEGMENT + LENGTH, 4 * SEGMENT + 1, True, None),
    ],
)
def test_the_first_blank_tells_an_assumed_size_of_segments(
    start: int, size: int, is_assumed: bool, told: int | None
) -> None:
    verifier = LogVerifier(start, size, is_assumed=is_assumed)
    first = start - start % SEGMENT
    data = segment(first)[start - first :]
    if told is None:
        ends = f"a segment ends at {first + SEGMENT}, with segments of {size} bytes it would end at "
        with pytest.raises(ReplicationError, match=re.escape(ends)) as refused:
            take(verifier, data)
        assert (refused.value.offset, refused.value.code) == (first + 3 * LENGTH, "segment-size")
    else:
        assert b"".join(piece for _, piece in take(verifier, data)) == data
        assert (verifier.segment_size, verifier.is_assumed) == (told, False)


@pytest.mark.parametrize("size", [(8 << 20) - 1, 8 << 20, (8 << 20) + 1, 20 << 20])
def test_there_is_room_for_any_piece(size: int) -> None:
    verifier = LogVerifier(0, 1 << 30)
    verifier.room(5)[:] = b"first"
    verifier.took(5)
    assert (len(verifier.room(size)), bytes(verifier._buffer[:5])) == (size, b"first")
    assert len(verifier._buffer) == (8 << 20 if size + 5 <= 8 << 20 else max(16 << 20, size + 5))


@pytest.mark.parametrize(("size", "is_taken"), [(RECORD_MIN_SIZE - 1, False), (RECORD_MIN_SIZE, True)])
def test_segments_have_room_for_a_record(size: int, is_taken: bool) -> None:
    verifier, blank = LogVerifier(0, GIB, is_assumed=True), encode_blank(size)
    if is_taken:
        assert b"".join(piece for _, piece in take(verifier, blank.ljust(size, b"\0"))) == blank.ljust(size, b"\0")
        assert verifier.segment_size == size
    else:
        with pytest.raises(ReplicationError, match=f"a segment ends at {size}, with segments of {GIB} bytes"):
            take(verifier, blank.ljust(size, b"\0"))
