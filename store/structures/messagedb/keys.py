"""Keys and values of the message database.

    family    key                                                            value
    default   long hour @ topic @K@ key  @ unique key @ long log offset      long store time       of a key
              long hour @ topic @T@ tags @ unique key @ long log offset      long store time       of the tags
              long hour @ topic @U@ unique key @ long log offset             long store time       of the unique key
    timer     long delivery time, unique key                                 int size, long log offset
    trans     long log offset @ topic @ unique key                           int checks, int size

Each family also has longs under names, which sort after all other keys. `hour` is the store time rounded down to an
hour. An @ in a text is not escaped: the topic ends at the first @K@, @T@ or @U@, and the unique key follows the last @.

Source: IndexRocksDBRecord, TimerRocksDBRecord, TransRocksDBRecord, MessageRocksDBStorage (5.5.0).
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

INDEX, TIMER, TRANS = "default", "timer", "trans"
FAMILIES = (INDEX, TIMER, TRANS)
LAST_OFFSET, LAST_TIME = b"lastOffsetPy", b"lastStoreTimeStamp"
SCAN_OFFSET, TIMELINE = b"sys_topic_scan_offset_checkpoint", b"timeline_checkpoint"
NAMES = {INDEX: (LAST_OFFSET, LAST_TIME), TIMER: (SCAN_OFFSET, TIMELINE), TRANS: (LAST_OFFSET,)}
"""The longs under names, by family."""
HOUR_MS = 3_600_000
KEY, TAGS, UNIQUE = "K", "T", "U"
_LONG, _TIMER_VALUE, _TRANS_VALUE = struct.Struct(">q"), struct.Struct(">iq"), struct.Struct(">ii")
VALUE_SIZES = {INDEX: _LONG.size, TIMER: _TIMER_VALUE.size, TRANS: _TRANS_VALUE.size}
_MARK = "@"
_INDEX_TEXT = re.compile(r"@(?P<topic>.+?)@(?:(?P<kind>[KT])@(?P<text>.+)|U)@(?P<unique>[^@]+)@", re.DOTALL)


class IndexEntry(NamedTuple):
    """One entry of the index. `text` is the key or the tags, empty for a unique key's entry."""

    hour_ms: int
    topic: str
    kind: str
    text: str
    unique_key: str
    log_offset: int
    store_timestamp_ms: int

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value."""
        parts = ("", self.topic, self.kind, *((self.text,) if self.kind != UNIQUE else ()), self.unique_key, "")
        key = _LONG.pack(self.hour_ms) + _MARK.join(parts).encode() + _LONG.pack(self.log_offset)
        return key, _LONG.pack(self.store_timestamp_ms)


class TimerEntry(NamedTuple):
    """One timer, with log offset and size of its message in the queue of timers."""

    delivery_ms: int
    unique_key: str
    size: int
    log_offset: int

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value."""
        return _LONG.pack(self.delivery_ms) + self.unique_key.encode(), _TIMER_VALUE.pack(self.size, self.log_offset)


class HalfEntry(NamedTuple):
    """One open half message, and its number of checks with the producer."""

    log_offset: int
    topic: str
    unique_key: str
    checks: int
    size: int

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value."""
        key = _LONG.pack(self.log_offset) + _MARK.join(("", self.topic, self.unique_key)).encode()
        return key, _TRANS_VALUE.pack(self.checks, self.size)


def index_entries(
    topic: str, keys: str, tags: str, unique_key: str, log_offset: int, store_timestamp_ms: int
) -> list[IndexEntry]:
    """Return the entries of a message: one for each distinct key, one for tags, one for the unique key.

    No entries for a message without a unique key, or of the first hour of 1970.
    """
    hour_ms = hour_of(store_timestamp_ms)
    if not (topic and unique_key) or log_offset < 0 or hour_ms <= 0:
        return []
    # Java's split drops only empty parts, and those have no entry.
    found = [(KEY, key) for key in dict.fromkeys(keys.split(" ")) if key]
    found += [(TAGS, tags)] if tags else []
    return [
        IndexEntry(hour_ms, topic, kind, text, unique_key, log_offset, store_timestamp_ms)
        for kind, text in (*found, (UNIQUE, ""))
    ]


def index_prefix(topic: str, kind: str, text: str) -> bytes:
    """Return the part after the hour that all keys of a text begin with."""
    return _MARK.join(("", topic, kind, text, "")).encode()


def hour_of(store_timestamp_ms: int) -> int:
    """Return the time rounded down to an hour; a negative time unchanged."""
    return store_timestamp_ms - store_timestamp_ms % HOUR_MS if store_timestamp_ms >= 0 else store_timestamp_ms


def decode_index(key: bytes, value: bytes) -> IndexEntry | None:
    """Read an entry of the index; None for malformed bytes."""
    if len(key) < 2 * _LONG.size or len(value) != _LONG.size:
        return None
    found = _INDEX_TEXT.fullmatch(_text(key[_LONG.size : -_LONG.size]) or "")
    if found is None:
        return None
    (hour_ms,), (log_offset,) = _LONG.unpack_from(key), _LONG.unpack_from(key, len(key) - _LONG.size)
    kind, text = found["kind"] or UNIQUE, found["text"] or ""
    return IndexEntry(hour_ms, found["topic"], kind, text, found["unique"], log_offset, *_LONG.unpack(value))


def decode_timer(key: bytes, value: bytes) -> TimerEntry | None:
    """Read a timer; None for malformed bytes."""
    unique_key = _text(key[_LONG.size :])
    if len(key) < _LONG.size or len(value) != _TIMER_VALUE.size or unique_key is None:
        return None
    (delivery_ms,), (size, log_offset) = _LONG.unpack_from(key), _TIMER_VALUE.unpack(value)
    return TimerEntry(delivery_ms, unique_key, size, log_offset)


def decode_half(key: bytes, value: bytes) -> HalfEntry | None:
    """Read the entry of a half message; None for malformed bytes."""
    text = _text(key[_LONG.size :])
    parts = text.split(_MARK) if text is not None else []
    if len(value) != _TRANS_VALUE.size or len(parts) != 3 or parts[0] or not all(parts[1:]):
        return None
    (log_offset,), (checks, size) = _LONG.unpack_from(key), _TRANS_VALUE.unpack(value)
    return HalfEntry(log_offset, parts[1], parts[2], checks, size)


def decode_long(value: bytes) -> int | None:
    """Read a long under a name; None for another size."""
    return int.from_bytes(value, "big", signed=True) if len(value) == _LONG.size else None


def encode_long(value: int) -> bytes:
    """Write a long under a name."""
    return _LONG.pack(value)


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
