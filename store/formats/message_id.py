"""Message ids, as upper-case hex.

message id   the store host and the log offset: 32 digits, or 56 for IPv6
unique key   the producer's address, process and loader, ms since the month began, a counter: 32 digits
"""

from __future__ import annotations

import itertools
import os
import struct
import time

from store.errors import BadRequest
from store.formats.host import IPV4_HOST_SIZE, IPV6_HOST_SIZE, LOCALHOST, Host

_UNIQUE_KEY = struct.Struct(">4sH4sIH")
assert _UNIQUE_KEY.size == 16
_LOADER = os.urandom(4)
_counter = itertools.count()


def create_unique_key(now_ms: int) -> str:
    """Create a unique key like a producer's (MessageClientIDSetter.createUniqID, 4.9.8)."""
    now = time.localtime(now_ms / 1000)
    month_ms = int(time.mktime((now.tm_year, now.tm_mon, 1, 0, 0, 0, 0, 0, -1))) * 1000
    numbers = (now_ms - month_ms) & 0xFFFFFFFF, next(_counter) & 0xFFFF
    return _UNIQUE_KEY.pack(LOCALHOST.address, os.getpid() & 0xFFFF, _LOADER, *numbers).hex().upper()


def encode_message_id(store_host: Host, log_offset: int) -> str:
    """Return the message id of a record (MessageDecoder.createMessageId, 4.9.8)."""
    return (store_host.encode() + log_offset.to_bytes(8, "big", signed=True)).hex().upper()


def decode_message_id(text: str) -> tuple[Host, int]:
    """Return store host and log offset of a message id; BadRequest for other text."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) not in (IPV4_HOST_SIZE + 8, IPV6_HOST_SIZE + 8):
        raise BadRequest(f"{text!r} is not a message id", hint="it has 32 hex digits, or 56 for IPv6")
    return Host.decode(data[:-8]), int.from_bytes(data[-8:], "big", signed=True)
