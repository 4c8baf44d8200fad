"""Frames of the control socket: one request, one answer, in turn.

    4 bytes    size of the head, big-endian
    4 bytes    size of the attachment
    head       a JSON object in ASCII
    attachment bytes that JSON would have to encode: bodies, properties, records

A head of more than 16 MiB or an attachment of more than 1 GiB ends the connection. A head that is no JSON object gets
an error as its answer.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from store.errors import BadRequest, StoreClosed
from store.formats.given import check_message, check_messages, check_number, check_text
from store.formats.host import Host
from store.formats.message import Message

SIZES = struct.Struct(">II")
MOST_HEAD_BYTES = 16 << 20
MOST_ATTACHED_BYTES = 1 << 30
_PIECE_BYTES = 1 << 20
_ROW_SIZE = 11
"""Values of a message in a head."""

Head = Mapping[str, Any]
Row = list[Any]


class Frame(NamedTuple):
    """A head and its attachment."""

    head: Head
    attachment: bytes = b""


def send_frame(connection: socket.socket, frame: Frame) -> None:
    """Send one frame."""
    connection.sendall(encode_frame(frame))


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of one frame."""
    head = json.dumps(frame.head, separators=(",", ":")).encode("ascii")
    return SIZES.pack(len(head), len(frame.attachment)) + head + frame.attachment


def receive_frame(connection: socket.socket) -> Frame | None:
    """Receive one frame; None if the other side has closed. Raises as receive_parts and parse_frame."""
    parts = receive_parts(connection)
    return parse_frame(*parts) if parts is not None else None


def receive_parts(connection: socket.socket) -> tuple[bytes, bytes] | None:
    """Receive a frame's head and attachment; StoreClosed if the sizes are too large."""
    sizes = _receive(connection, SIZES.size)
    if sizes is None:
        return None
    head_size, attached_size = SIZES.unpack(sizes)
    if head_size > MOST_HEAD_BYTES or attached_size > MOST_ATTACHED_BYTES:
        raise StoreClosed(f"a frame of {head_size} and {attached_size} bytes is too large for the control socket")
    head, attachment = _receive(connection, head_size), _receive(connection, attached_size)
    return (bytes(head), bytes(attachment)) if head is not None and attachment is not None else None


def parse_frame(head: bytes, attachment: bytes) -> Frame:
    """Return the frame of a head and its attachment; BadRequest for a head that is no JSON object."""
    try:
        parsed = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the head of a frame is no JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise BadRequest("the head of a frame is no JSON object")
    return Frame(parsed, attachment)


def _receive(connection: socket.socket, size: int) -> bytes | bytearray | None:
    """Receive exactly `size` bytes; None if the connection ends before."""
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(min(size - len(received), _PIECE_BYTES))
        if not piece:
            return None
        received += piece
    return received


# Messages in a frame: numbers and names in the head, bodies and properties in the attachment.


def pack_messages(messages: Sequence[Message]) -> tuple[list[Row], bytes]:
    """Return the messages for a frame's head, and their bytes for its attachment.

    Raises as check_message.
    """
    check_messages(messages)
    rows = [
        [
            message.topic, message.queue_id, len(message.body), len(message.properties), message.flag,
            message.sys_flag, message.born_timestamp_ms, str(message.born_host), str(message.store_host),
            message.reconsume_times, message.prepared_transaction_offset,
        ]
        for message in messages
    ]  # fmt: skip
    return rows, b"".join(part for message in messages for part in (message.body, message.properties))


def unpack_messages(rows: Sequence[Row], attachment: bytes) -> list[Message]:
    """Return the messages of a frame, checked.

    BadRequest if head and attachment do not match.
    """
    if not isinstance(rows, list) or any(not isinstance(row, list) or len(row) != _ROW_SIZE for row in rows):
        raise BadRequest(f"messages is not a list of rows of {_ROW_SIZE} values")
    messages, at = [], 0
    for topic, queue_id, body_size, properties_size, flag, sys_flag, born_ms, born, stored, times, prepared in rows:
        check_number("the size of a body", body_size, least=0)
        check_number("the size of properties", properties_size, least=0)
        middle, end = at + body_size, at + body_size + properties_size
        body, properties = attachment[at:middle], attachment[middle:end]
        hosts = Host.parse(check_text("born_host", born)), Host.parse(check_text("store_host", stored))
        message = Message(topic, body, queue_id, properties, flag, sys_flag, born_ms, *hosts, times, prepared)
        check_message(message)
        messages.append(message)
        at = end
    if at != len(attachment):
        raise BadRequest(f"the messages have {at} bytes, the attachment {len(attachment)}")
    return messages


def split_records(sizes: Sequence[int], attachment: bytes) -> list[memoryview]:
    """Return the records of an attachment."""
    view, records, at = memoryview(attachment), [], 0
    for size in sizes:
        records.append(view[at : at + size])
        at += size
    return records
