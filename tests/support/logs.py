"""Segments of made-up records, whole and damaged, for tests and fuzzing of the kernels.

segments()                  hypothesis: bytes of a healthy segment
mutations()                 hypothesis: a function that damages one
record(...)                 one record
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

SCHEDULE = b"SCHEDULE_TOPIC_XXXX"
END_OF_FILE = struct.pack(">iI", 100, 0xCBD43194)


def record(
    topic: bytes = b"Topic",
    body: bytes = b"body",
    properties: bytes = b"",
    *,
    position: int = 0,
    sys_flag: int = 0,
    queue_id: int = 0,
    queue_offset: int = 0,
    store_timestamp_ms: int = 1_700_000_000_000,
    v2: bool = False,
) -> bytes:
    """Return a record in the broker's encoding."""
    v2 = v2 or len(topic) > 127
    born, stored = bytes(20 if sys_flag & 0x10 else 8), bytes(20 if sys_flag & 0x20 else 8)
    crc = zlib.crc32(body) & 0x7FFFFFFF
    head = struct.pack(">iiiqqiq", crc, queue_id, 5, queue_offset, position, sys_flag, 1)
    head += born + struct.pack(">q", store_timestamp_ms) + stored + struct.pack(">iqi", 0, 0, len(body))
    tail = struct.pack(">h" if v2 else ">b", len(topic)) + topic + struct.pack(">h", len(properties)) + properties
    magic = 0xDAA320AB if v2 else 0xDAA320A7
    return struct.pack(">iI", 8 + len(head) + len(body) + len(tail), magic) + head + body + tail


def log_of(parts: list[dict[str, Any]], end: bytes = b"") -> bytes:
    """Return records one after another, each at its own log offset."""
    data = b""
    for part in parts:
        data += record(**part, position=len(data))
    return data + end


names = st.sampled_from([b"TAGS", b"KEYS", b"DELAY", b"UNIQ_KEY", b"WAIT", b"X", b"", b"KEY", b"TAGSS"])
texts = st.one_of(
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=12),
    st.sampled_from([b"1", b"+2", b"-3", b"18", b"99", b"2147483648", b"x", b"a b  c", b" k ", b"\xed\xa0\x80"]),
)
properties = st.lists(st.tuples(names, texts), max_size=5).flatmap(
    lambda pairs: st.sampled_from([b"", b"\x02"]).map(
        lambda end: b"\x02".join(name + b"\x01" + value for name, value in pairs) + end
    )
)
parts = st.fixed_dictionaries(
    {
        "topic": st.one_of(st.sampled_from([SCHEDULE, b"T", b"", b"Topic-of-23-characters-"]), st.binary(max_size=140)),
        "body": st.binary(max_size=60),
        "properties": properties,
        "sys_flag": st.sampled_from([0, 0x10, 0x20, 0x30, 4, 8, 0xC, 0x1]),
        "queue_id": st.integers(-1, 3),
        "queue_offset": st.integers(0, 9),
        "store_timestamp_ms": st.integers(1_700_000_000_000, 1_700_000_009_000),
    }
)


def segments() -> st.SearchStrategy[bytes]:
    ends = st.sampled_from([b"", END_OF_FILE, bytes(40), bytes(3), b"\0\0\0\x07junkjunk"])
    return st.builds(log_of, st.lists(parts, min_size=1, max_size=6), ends)


def mutations() -> st.SearchStrategy[Callable[[bytes], bytes]]:
    """Damage bytes: flip, truncate, zero, insert, or overwrite with small and huge numbers."""
    places = st.floats(0, 1, exclude_max=True)
    numbers = st.sampled_from([b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x5b"])
    return st.one_of(
        st.builds(_flip, places, st.integers(0, 7)),
        st.builds(_cut, places),
        st.builds(_zero, places, st.integers(1, 200)),
        st.builds(_insert, places, st.binary(min_size=1, max_size=9)),
        st.builds(_overwrite, places, st.one_of(numbers, st.binary(min_size=1, max_size=4))),
    )


def _flip(place: float, bit: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        at = int(place * len(data))
        return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] if data else data

    return change


def _cut(place: float) -> Callable[[bytes], bytes]:
    return lambda data: data[: int(place * len(data))]


def _zero(place: float, size: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        at = int(place * len(data))
        return data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]

    return change


def _insert(place: float, what: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data[: int(place * len(data))] + what + data[int(place * len(data)) :]


def _overwrite(place: float, what: bytes) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        at = int(place * len(data))
        return (data[:at] + what + data[at + len(what) :])[: len(data)]

    return change
