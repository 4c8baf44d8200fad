"""Frames of the remoting protocol: bytes as Fastjson writes them, and every kind of broken frame."""

from __future__ import annotations

import struct

import pytest

from store.formats import remoting
from store.formats.remoting import MOST_FRAME_BYTES, Frame, decode_frame, encode_frame, frame_length

# RequestCode and ResponseCode (4.9.8).
CODES = {
    "PULL_MESSAGE": 11, "QUERY_MESSAGE": 12, "GET_ALL_TOPIC_CONFIG": 21, "GET_BROKER_CONFIG": 26,
    "GET_BROKER_RUNTIME_INFO": 28, "SEARCH_OFFSET_BY_TIMESTAMP": 29, "GET_ROUTE_BY_TOPIC": 105, "GET_CLUSTER_INFO": 106,
    "SEND_MESSAGE_V2": 310, "SUCCESS": 0, "SYSTEM_ERROR": 1, "SYSTEM_BUSY": 2, "NOT_SUPPORTED": 3,
    "FLUSH_DISK_TIMEOUT": 10, "SLAVE_NOT_AVAILABLE": 11, "FLUSH_SLAVE_TIMEOUT": 12, "MESSAGE_ILLEGAL": 13,
    "SERVICE_NOT_AVAILABLE": 14, "NO_PERMISSION": 16, "TOPIC_NOT_EXIST": 17, "PULL_NOT_FOUND": 19,
    "PULL_RETRY_IMMEDIATELY": 20, "PULL_OFFSET_MOVED": 21, "QUERY_NOT_FOUND": 22, "FLOW_CONTROL": 215, "GO_AWAY": 1500,
}  # fmt: skip


@pytest.mark.parametrize("name", CODES)
def test_a_code_is_the_brokers(name: str) -> None:
    assert getattr(remoting, name) == CODES[name]


@pytest.mark.parametrize("flag", range(4))
def test_the_lowest_bit_of_the_flag_makes_an_answer(flag: int) -> None:
    assert Frame(0, 1, flag=flag).is_answer == (flag in (1, 3))


def test_a_frame_of_the_most_bytes_is_written() -> None:
    rest = len(encode_frame(Frame(310, 1))) - 4
    data = encode_frame(Frame(310, 1, {}, bytes(MOST_FRAME_BYTES - rest)))
    assert (len(data) - 4, data[:8]) == (MOST_FRAME_BYTES, struct.pack(">iI", MOST_FRAME_BYTES, rest - 4))
    with pytest.raises(ValueError, match="and 16777216 is the limit"):
        encode_frame(Frame(310, 1, {}, bytes(MOST_FRAME_BYTES - rest + 1)))


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
