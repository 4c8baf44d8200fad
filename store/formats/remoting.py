"""A frame of the remoting protocol between clients, name servers and brokers.

    0         4      5               8          8 + n
    | length  | type | header size n | header   | body |
      4         1      3               n          length - 4 - n

    length    of all following bytes
    type      0: the header is JSON; 1: RocketMQ's binary form, used by a server only to answer the same form
    header    {"code":310,"extFields":{"b":"Orders"},"flag":0,"language":"PYTHON","opaque":7,
              "serializeTypeCurrentRPC":"JSON","version":409}

    code      a request's kind; an answer's outcome, with a `remark` if it is not 0
    flag      bit 0: an answer; bit 1: the request wants no answer
    opaque    a number chosen by the sender of a request; the answer repeats it, as answers come in any order
    extFields arguments, every value as text

There is no checksum; a header of more than 16 MiB cannot be written. Fastjson writes the header without blanks and
leaves null members out; bodies that it writes may have integer keys without quotes (`{0:"127.0.0.1:10911"}`).

Source: RemotingCommand, NettyDecoder (its frame limit is 16 MiB), RequestCode, ResponseCode (4.9.8, 5.5.0).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HEAD = struct.Struct(">iI")
LENGTH = struct.Struct(">i")
assert (HEAD.size, LENGTH.size) == (8, 4)
HEADER_SIZE_MASK = 0xFFFFFF
JSON_TYPE = 0
ANSWER_FLAG = 0x1
MOST_FRAME_BYTES = 16 << 20
"""com.rocketmq.remoting.frameMaxLength: a server closes the connection after a larger frame."""

VERSION = 409
"""MQVersion.V4_9_8; brokers of 5.x infer the client's abilities from it."""

# RequestCode.
PULL_MESSAGE = 11
QUERY_MESSAGE = 12
GET_ALL_TOPIC_CONFIG = 21
GET_BROKER_CONFIG = 26
GET_BROKER_RUNTIME_INFO = 28
SEARCH_OFFSET_BY_TIMESTAMP = 29
GET_ROUTE_BY_TOPIC = 105
GET_CLUSTER_INFO = 106
SEND_MESSAGE_V2 = 310

# ResponseCode.
SUCCESS = 0
SYSTEM_ERROR = 1
SYSTEM_BUSY = 2
NOT_SUPPORTED = 3
FLUSH_DISK_TIMEOUT = 10
SLAVE_NOT_AVAILABLE = 11
FLUSH_SLAVE_TIMEOUT = 12
MESSAGE_ILLEGAL = 13
SERVICE_NOT_AVAILABLE = 14
NO_PERMISSION = 16
TOPIC_NOT_EXIST = 17
PULL_NOT_FOUND = 19
PULL_RETRY_IMMEDIATELY = 20
PULL_OFFSET_MOVED = 21
QUERY_NOT_FOUND = 22
FLOW_CONTROL = 215
GO_AWAY = 1500

SEND_V2_NAMES = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "batch": "m",
}
"""Arguments of SEND_MESSAGE by their names in SEND_MESSAGE_V2 (SendMessageRequestHeaderV2)."""
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
"""An argument of QUERY_MESSAGE: the key is a UNIQ_KEY (MixAll.UNIQUE_MSG_QUERY_FLAG)."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A request or an answer."""

    code: int
    opaque: int
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    flag: int = 0
    remark: str = ""

    @property
    def is_answer(self) -> bool:
        return bool(self.flag & ANSWER_FLAG)


def encode_frame(frame: Frame) -> bytes:
    """Return a frame's bytes, as Fastjson writes them; ValueError for one that is too large."""
    members: dict[str, Any] = {
        "code": frame.code,
        "extFields": dict(frame.fields),
        "flag": frame.flag,
        "language": "PYTHON",
        "opaque": frame.opaque,
        "remark": frame.remark,
        "serializeTypeCurrentRPC": "JSON",
        "version": VERSION,
    }
    given = {name: value for name, value in members.items() if value not in ("", {})}
    header = json.dumps(given, separators=(",", ":")).encode()
    length = LENGTH.size + len(header) + len(frame.body)
    if length > MOST_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes, and {MOST_FRAME_BYTES} is the limit")
    return HEAD.pack(length, JSON_TYPE << 24 | len(header)) + header + frame.body


def frame_length(head: bytes) -> int:
    """Read the number of bytes after the length; ValueError for an impossible number."""
    (length,) = LENGTH.unpack(head)
    if not LENGTH.size <= length <= MOST_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes")
    return int(length)


def decode_frame(data: bytes) -> Frame:
    """Read a frame after its length; ValueError with the fault."""
    (sizes,) = struct.unpack_from(">I", data)
    size, end = sizes & HEADER_SIZE_MASK, LENGTH.size + (sizes & HEADER_SIZE_MASK)
    if sizes >> 24 != JSON_TYPE:
        raise ValueError(f"a header of type {sizes >> 24}, and JSON was asked for")
    if end > len(data):
        raise ValueError(f"a header of {size} bytes in a frame of {len(data)}")
    header = json.loads(data[LENGTH.size : end])
    if not isinstance(header, dict):
        raise ValueError("the header is no object")
    numbers = [header.get(name, 0) for name in ("code", "opaque", "flag")]
    fields = header.get("extFields") or {}
    if not all(isinstance(number, int) for number in numbers) or not isinstance(fields, dict):
        raise ValueError("a member of the header has another type")
    code, opaque, flag = numbers
    texts = {str(name): str(value) for name, value in fields.items()}
    return Frame(code, opaque, texts, data[end:], flag, str(header.get("remark") or ""))
