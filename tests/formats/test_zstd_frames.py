"""Frames of zstd, and the table after them: bytes of the format, and every part that may be damaged."""

from __future__ import annotations

import hashlib
import struct

import pytest

from store.formats import zstd_frames
from store.formats.zstd_frames import FRAME_BYTES, check_digest, compress, encode_table, read_frames, read_table

# Magics of the zstd format (RFC 8878, 3.1.2) and of the seekable one (contrib/seekable_format).
SKIPPABLE, DIGEST, SEEKABLE = 0x184D2A5E, 0x184D2A50, 0x8F92EAB1


@pytest.fixture(autouse=True)
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zstd_frames, "FRAME_BYTES", 100)


def reader(data: bytes):  # type: ignore[no-untyped-def]
    def read(position: int, size: int) -> bytes:
        assert 0 <= position <= position + size <= len(data)
        return data[position : position + size]

    return read


def test_a_frame_has_4_mib() -> None:
    assert FRAME_BYTES == 4 << 20


def test_a_table_has_the_bytes_of_the_seekable_format() -> None:
    table = encode_table([(7, 100), (8, 50)])
    assert table == struct.pack("<II4IIBI", SKIPPABLE, 25, 7, 100, 8, 50, 2, 0, SEEKABLE)
    assert read_table(reader(b"x" * 15 + table), 15 + len(table)) == [(7, 100), (8, 50)]


@pytest.mark.parametrize("sizes", [[], [0], [1], [99], [100], [101], [60, 60], [250, 0, 49], [250, 1, 49, 300]])
def test_a_stream_is_read_from_any_byte_to_any_other(sizes: list[int]) -> None:
    parts = [bytes((7 * at + number) % 251 for at in range(size)) for number, size in enumerate(sizes)]
    content = b"".join(parts)
    pieces = list(compress(parts))
    stored = b"".join(pieces)
    frames = read_table(reader(stored), len(stored))
    lengths = [min(100, len(content) - at) for at in range(0, len(content), 100)]
    assert [size for _, size in frames] == [*lengths, 0]
    assert [size for size, _ in frames] == [len(piece) for piece in pieces[:-1]]
    assert pieces[-2] == struct.pack("<II", DIGEST, 32) + hashlib.sha256(b"".join(pieces[:-2])).digest()
    check_digest(reader(stored), frames)
    for start in (0, 1, 99, 100, 101, 199, 200, len(content)):
        for size in (0, 1, 99, 100, 101, 250):
            found = b"".join(read_frames(reader(stored), frames, start, size))
            assert found == content[start : start + size], (start, size)


def test_only_the_frames_of_the_asked_bytes_are_read() -> None:
    stored = b"".join(compress([bytes(300)]))
    frames, asked = read_table(reader(stored), len(stored)), list[int]()

    def read(position: int, size: int) -> bytes:
        asked.append(position)
        return stored[position : position + size]

    assert b"".join(read_frames(read, frames, 100, 100)) == bytes(100)
    assert asked == [frames[0][0]]


def test_a_changed_byte_of_the_frames_or_of_their_digest_is_seen() -> None:
    stored = b"".join(compress([bytes(range(250))]))
    frames = read_table(reader(stored), len(stored))
    for at in range(sum(size for size, _ in frames)):
        changed = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
        with pytest.raises(ValueError, match="its digest is wrong"):
            check_digest(reader(changed), frames)
    with pytest.raises(ValueError, match="its digest is wrong"):
        check_digest(reader(b""), [])


TABLE = encode_table([(15, 100)])


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (bytes(16), "too short for a table"),
        (bytes(17), "no table of frames"),
        (b"x" * 15 + TABLE[:-1] + b"\0", "no table of frames"),
        (b"x" * 15 + TABLE[:-5] + b"\1" + TABLE[-4:], "no table of frames"),
        (b"x" * 14 + TABLE, "does not fit"),
        (b"x" * 16 + TABLE, "does not fit"),
        (TABLE[8:], "no table of frames"),
        (b"x" * 15 + encode_table([(15, 101)]), "does not fit"),
    ],
)
def test_a_damaged_table_is_refused(data: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_table(reader(data), len(data))


@pytest.mark.parametrize("frames", [[], [(0, 0)], [(15, 100)], [(7, 100), (8, 100)]])
def test_a_table_that_fits_is_taken(frames: list[tuple[int, int]]) -> None:
    data = b"x" * sum(stored for stored, _ in frames) + encode_table(frames)
    assert read_table(reader(data), len(data)) == frames


def test_a_damaged_frame_is_named() -> None:
    stored = bytearray(b"".join(compress([bytes(250)])))
    frames = read_table(reader(bytes(stored)), len(stored))
    stored[frames[0][0]] ^= 1
    with pytest.raises(ValueError, match="frame 1 is damaged"):
        list(read_frames(reader(bytes(stored)), frames, 0, 250))


@pytest.mark.parametrize(
    ("count", "fault", "is_read"), [(1 << 27, "does not fit", True), ((1 << 27) + 1, "no table of frames", False)]
)
def test_a_table_of_more_frames_than_the_format_allows_is_not_read(count: int, fault: str, is_read: bool) -> None:
    asked = list[int]()

    def read(position: int, size: int) -> bytes:
        asked.append(size)
        return struct.pack("<IBI", count, 0, SEEKABLE) if size == 9 else b""

    with pytest.raises(ValueError, match=fault):
        read_table(read, 1 << 40)
    assert asked == [9, *([8 * count] if is_read else [])]
