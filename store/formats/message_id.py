"""A message id: the upper-case hex of the store host and the log offset, 32 digits, or 56 for IPv6."""

from __future__ import annotations

from store.errors import BadRequest
from store.formats.host import IPV4_HOST_SIZE, IPV6_HOST_SIZE, Host


def encode_message_id(store_host: Host, log_offset: int) -> str:
    """MessageDecoder.createMessageId (4.9.8)."""
    return (store_host.encode() + log_offset.to_bytes(8, "big", signed=True)).hex().upper()


def decode_message_id(text: str) -> tuple[Host, int]:
    """Store host and log offset of a message id; raises BadRequest for text that is none."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) not in (IPV4_HOST_SIZE + 8, IPV6_HOST_SIZE + 8):
        raise BadRequest(f"{text!r} is not a message id", hint="it has 32 hex digits, or 56 for IPv6")
    return Host.decode(data[:-8]), int.from_bytes(data[-8:], "big", signed=True)
