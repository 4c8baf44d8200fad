"""Computes hashes of text and bytes as Java does, so that hashes on disk are equal.

String.hashCode runs over UTF-16 code units: h = 31 * h + unit, wrapping at 32 bits, signed.
The index uses Math.abs of it. Math.abs leaves the smallest int negative, and RocketMQ replaces it by 0. CRC-32 loses
its top bit to fit a non-negative Java int.

Source: java.lang.String, IndexFile.indexKeyHashMethod, UtilAll.crc32 (4.9.8).
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

try:
    from isal.isal_zlib import crc32 as _crc32
except ImportError:
    # For processors without isal; zlib is several times slower.
    from zlib import crc32 as _crc32

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
_LONG = re.compile(r"([+-]?)0*(\d{1,19})", re.ASCII)
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def to_int(value: int) -> int:
    """Return the low 32 bits of `value` as a signed Java int."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def utf16_units(text: str) -> list[int]:
    """Return the UTF-16 code units of `text`; lone surrogates stay as they are."""
    data = text.encode("utf-16-be", "surrogatepass")
    return [data[i] << 8 | data[i + 1] for i in range(0, len(data), 2)]


def utf16_length(text: str) -> int:
    """Return string.length(): code units, not code points."""
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def parse_long(text: str) -> int | None:
    """Read a number as Long.parseLong does, None if that throws.

    Digits of other scripts are not accepted here.
    """
    found = _LONG.fullmatch(text)
    if found is None:
        return None
    value = int(found[1] + found[2])
    return value if -LONG_MAX - 1 <= value <= LONG_MAX else None


def parse_int(text: str) -> int | None:
    """Read a number as Integer.parseInt does, None if that throws."""
    value = parse_long(text)
    return value if value is not None and -INT_MAX - 1 <= value <= INT_MAX else None


def string_hash(text: str) -> int:
    """Return string.hashCode() as a signed 32-bit int."""
    value = 0
    for unit in utf16_units(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return to_int(value)


def key_hash(key: str) -> int:
    """Hash an index key: the absolute hash code, and 0 if Java's abs overflows.

    Source: IndexFile.indexKeyHashMethod."""
    value = abs(string_hash(key))
    return 0 if value > INT_MAX else value


@lru_cache(maxsize=4096)
def tags_code(tags: str) -> int:
    """Return the tags code of a unit: the hash widened to a long; 0 without tags (MessageExtBrokerInner)."""
    return string_hash(tags) if tags else 0


def crc32(data: bytes | memoryview) -> int:
    """Return the body CRC: IEEE CRC-32 without its top bit."""
    return _crc32(data) & 0x7FFFFFFF


def decode_utf8(data: bytes | memoryview) -> str:
    """Decode text as `new String(bytes, UTF_8)`: malformed bytes become U+FFFD, nothing fails.

    In Java an encoded surrogate becomes one U+FFFD; Python alone would produce three.
    """
    text = bytes(data)
    if b"\xed" in text:
        text = _ENCODED_SURROGATE.sub(b"\xff", text)
    return text.decode("utf-8", "replace")


def double_text(value: float) -> str:
    """Return the shortest text that reads back as the same double (Double.toString of JDK 19)."""
    if value == 0 or 1e-3 <= abs(value) < 1e7 or not math.isfinite(value):
        names = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
        return names.get(str(value), str(value))
    from decimal import Decimal

    digits, _, exponent = f"{Decimal(repr(value)):E}".partition("E")
    mantissa = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
