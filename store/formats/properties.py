"""The property string of a record: `name 0x01 value 0x02 name 0x01 value …`.

4.9.8 strips the last 0x02, 5.3.3 keeps it. The order is that of a Java HashMap. So a copy of a record keeps the string
verbatim, and the map is only a view of it.
Readers split at 0x02. A part counts if it has a name, a 0x01 and a value; of equal names the last one wins. So a
property with an empty value is stored but never read back.

Source: MessageDecoder.string2messageProperties, messageProperties2String (4.9.8, 5.3.3); MessageConst.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from store.formats.java import decode_utf8, parse_int, string_hash

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"
PROPERTY_SEPARATOR_BYTE = b"\x02"
KEY_SEPARATOR = " "

KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
DELAY = "DELAY"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
UNIQ_KEY = "UNIQ_KEY"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
PROPERTIES_CRC = "__CRC32#"
PLACEHOLDER = "RMQCTL_LOST"
"""Property of a record that fills the queue offset of a lost message; brokers do not have it."""

# Searching these marks is cheaper than decoding the property string.
DELAY_MARK = b"DELAY\x01"
WAIT_MARK = b"WAIT\x01"

MAX_PROPERTIES_SIZE = 32_767


def decode_properties(data: bytes | memoryview) -> dict[str, str]:
    """Return the properties as the broker and its clients read them."""
    found: dict[str, str] = {}
    for part in decode_utf8(data).split(PROPERTY_SEPARATOR):
        name, separator, value = part.partition(NAME_VALUE_SEPARATOR)
        if separator and name and value:
            found[name] = value
    return found


class Properties(NamedTuple):
    """The map of a property string, and some properties by name.

    is_whole  whether `values` encode to the same string; 5.x mostly ends it with a separator, 4.9.8 does not
    """

    values: dict[str, str]
    uniq_key: str | None
    keys: list[str]
    tags: str | None
    is_whole: bool

    @classmethod
    def decode(cls, data: bytes) -> Properties:
        """Decode a property string once."""
        values = decode_properties(data)
        keys = list(split_keys(values.get(KEYS, "")))
        return cls(values, values.get(UNIQ_KEY), keys, values.get(TAGS), encode_properties(values) == data)


def encode_properties(properties: Mapping[str, str], errors: str = "surrogatepass") -> bytes:
    """Return the string as in 4.9.8, without a separator after the last value.

    errors  the handling of lone surrogates
    """
    parts = (name + NAME_VALUE_SEPARATOR + value for name, value in properties.items())
    return PROPERTY_SEPARATOR.join(parts).encode("utf-8", errors)


def encode_java_map(
    properties: Mapping[str, str], *, ends_with_separator: bool = True, capacity: int | None = None
) -> bytes:
    """Return the string of a map in the order of a Java HashMap, as a broker encodes it again.

    5.3.3 writes a separator after each value, 4.9.8 between values.

    capacity  the map's initial capacity; default: that of a map the broker decoded, 128 in 5.3.3, 16 in 4.9.8
    """
    names = java_map_order(properties, capacity or (128 if ends_with_separator else 16))
    text = encode_properties({name: properties[name] for name in names})
    return text + PROPERTY_SEPARATOR_BYTE if text and ends_with_separator else text


def java_map_order(names: Iterable[str], capacity: int) -> list[str]:
    """Order names as a Java HashMap with this initial capacity; it doubles at three quarters."""
    names = list(names)
    while len(names) > capacity * 3 // 4:
        capacity *= 2
    return sorted(names, key=lambda name: _spread_hash(name) & (capacity - 1))


def _spread_hash(text: str) -> int:
    """Hash a string as HashMap.hash does: its hash code with the high half mixed in."""
    code = string_hash(text) & 0xFFFFFFFF
    return code ^ code >> 16


def split_keys(keys: str) -> Iterable[str]:
    """Return the index keys of a KEYS value: separated by single spaces, without empty ones."""
    return (key for key in keys.split(KEY_SEPARATOR) if key)


def real_queue(properties: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Return topic and queue id of a message that waits in another topic, None where it names none.

    No broker delivers it without both.
    """
    return properties.get(REAL_TOPIC), parse_int(properties.get(REAL_QUEUE_ID, ""))


def delay_level(properties: Mapping[str, str]) -> int:
    """Read the property DELAY; 0 without it, and for text that Integer.parseInt refuses."""
    return parse_int(properties.get(DELAY, "")) or 0


def says_no_wait(properties: bytes) -> bool:
    """Return whether a put does not wait for the disk: WAIT is not true (Message.isWaitStoreMsgOK)."""
    return properties.find(WAIT_MARK) >= 0 and decode_properties(properties).get(WAIT, "true").lower() != "true"
