"""Frames of the remoting protocol: bytes as Fastjson writes them, and every kind of broken frame."""

from __future__ import annotations

import pytest

from store.formats.remoting import MOST_FRAME_BYTES, Frame, decode_frame, encode_frame, frame_length

HEADER = (
    b'{"code":310,"extFields":{"b":"Orders"},"flag":0,"language":"PYTHON","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":409}'
)


def test_a_request_has_the_bytes_of_the_page() -> None:
    data = encode_frame(Frame(310, 7, {"b": "Orders"}, b"hello"))
    assert data == (4 + len(HEADER) + 5).to_bytes(4, "big") + len(HEADER).to_bytes(4, "big") + HEADER + b"hello"


@pytest.mark.parametrize(
    "frame",
    [
        Frame(0, 1, flag=1),
        Frame(17, 2, {"a": "\x01\x02"}, b"", 1, "there is none"),
        Frame(310, 3, {"i": "KEYS\x01Ä€\x02"}, b"\x00" * 9),
    ],
)
def test_what_is_written_is_read(frame: Frame) -> None:
    data = encode_frame(frame)
    assert frame_length(data[:4]) == len(data) - 4
    assert decode_frame(data[4:]) == frame


@pytest.mark.parametrize(
    ("length", "is_one"), [(3, False), (4, True), (MOST_FRAME_BYTES, True), (MOST_FRAME_BYTES + 1, False)]
)
def test_a_length_lies_within(length: int, is_one: bool) -> None:
    if is_one:
        assert frame_length(length.to_bytes(4, "big")) == length
    else:
        with pytest.raises(ValueError, match=f"a frame of {length} bytes"):
            frame_length(length.to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"\x01\x00\x00\x02{}", "a header of type 1, and JSON was asked for"),
        (b"\x00\x00\x00\x03{}", "a header of 3 bytes in a frame of 6"),
        (b"\x00\x00\x00\x02[]", "the header is no object"),
        (b'\x00\x00\x00\x0c{"code":"1"}', "a member of the header has another type"),
        (b"\x00\x00\x00\x02{x", "Expecting property name"),
    ],
)
def test_a_broken_frame_is_refused(data: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        decode_frame(data)


def test_a_frame_that_no_server_takes_is_not_written() -> None:
    with pytest.raises(ValueError, match="and 16777216 is the limit"):
        encode_frame(Frame(310, 1, {}, bytes(MOST_FRAME_BYTES)))
