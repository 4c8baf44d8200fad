"""The message object: the names under which every command shows a message, and under which `put --from` reads one.

`body` is text in the encoding that `body_encoding` names: utf8, hex or base64.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.output import Format

if TYPE_CHECKING:
    from store.formats.message import Message, StoredMessage

SHOWN_COLUMNS = ("queue_offset", "log_offset", "store_timestamp_ms", "tags", "keys", "body")


class BodyEncoding(StrEnum):
    """Values of --body."""

    UTF8 = "utf8"
    HEX = "hex"
    BASE64 = "base64"
    NONE = "none"


BodyOption = Annotated[
    BodyEncoding | None,
    typer.Option("--body", help="How bodies are shown.", show_default="utf8, base64 in JSON"),
]


def message_row(message: StoredMessage, wanted: BodyEncoding | None, form: Format) -> dict[str, Any]:
    """The message object. Without --body people get text (hex where it is none), programs base64."""
    properties = message.properties
    encoding, body = _show_body(message.body, wanted, form)
    row: dict[str, Any] = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "log_offset": message.log_offset,
        "size": message.size,
        "msg_id": message.msg_id,
        "uniq_key": message.uniq_key,
        "keys": message.keys,
        "tags": message.tags,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "born_timestamp_ms": message.born_timestamp_ms,
        "born_host": str(message.born_host),
        "store_timestamp_ms": message.store_timestamp_ms,
        "store_host": str(message.store_host),
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "body_crc": message.body_crc,
    }
    if encoding is not BodyEncoding.NONE:
        row |= {"body": body, "body_encoding": str(encoding)}
    return row | {"properties": properties}


def shown_columns(wanted: BodyEncoding | None) -> tuple[str, ...]:
    """What people see of a message in a table."""
    return SHOWN_COLUMNS[:-1] if wanted is BodyEncoding.NONE else SHOWN_COLUMNS


def _show_body(body: bytes, wanted: BodyEncoding | None, form: Format) -> tuple[BodyEncoding, str]:
    wanted = wanted or (BodyEncoding.BASE64 if form.is_for_programs else BodyEncoding.UTF8)
    if wanted is BodyEncoding.UTF8:
        try:
            return wanted, body.decode()
        except UnicodeDecodeError:
            wanted = BodyEncoding.BASE64 if form.is_for_programs else BodyEncoding.HEX
    if wanted is BodyEncoding.HEX:
        return wanted, body.hex()
    return wanted, base64.b64encode(body).decode() if wanted is BodyEncoding.BASE64 else ""


# Reading a message object.

TRANSACTIONS = {"none": 0x0, "prepared": 0x4, "commit": 0x8, "rollback": 0xC}
_TRANSACTION_MASK = 0xC
_IGNORED = {
    "queue_offset",
    "log_offset",
    "size",
    "msg_id",
    "store_timestamp_ms",
    "body_crc",
    "status",
    "schema",
}
_KNOWN = _IGNORED | {
    "topic", "queue_id", "uniq_key", "keys", "tags", "flag", "sys_flag", "born_timestamp_ms", "born_host", "store_host",
    "reconsume_times", "prepared_transaction_offset", "body", "body_text", "body_encoding", "properties",
    "delay_level", "transaction",
}  # fmt: skip


def parse_message(line: str | bytes, default_topic: str | None, now_ms: int) -> Message:
    """A message from one line of JSON. ValueError says what is wrong with it."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    if unknown := row.keys() - _KNOWN:
        raise ValueError(f"unknown name {sorted(unknown)[0]!r}")
    topic = row.get("topic", default_topic)
    if not isinstance(topic, str):
        raise ValueError("no topic")
    return build_message(row | {"topic": topic}, _read_body(row), now_ms)


def build_message(row: Mapping[str, Any], body: bytes, now_ms: int) -> Message:
    """A message from the names of a message object and its body; absent names get a producer's defaults."""
    from store.formats.host import LOCALHOST, Host
    from store.formats.message import Message
    from store.formats.properties import encode_properties

    sys_flag = _number(row, "sys_flag", 0)
    if row.get("transaction") is not None:
        sys_flag = sys_flag & ~_TRANSACTION_MASK | TRANSACTIONS[row["transaction"]]
    hosts = {name: Host.parse(row[name]) if row.get(name) else LOCALHOST for name in ("born_host", "store_host")}
    return Message(
        topic=row["topic"],
        body=body,
        queue_id=_number(row, "queue_id", 0),
        properties=encode_properties(_read_properties(row)),
        flag=_number(row, "flag", 0),
        sys_flag=sys_flag,
        born_timestamp_ms=_number(row, "born_timestamp_ms", now_ms),
        born_host=hosts["born_host"],
        store_host=hosts["store_host"],
        reconsume_times=_number(row, "reconsume_times", 0),
        prepared_transaction_offset=_number(row, "prepared_transaction_offset", 0),
    )


def _read_body(row: Mapping[str, Any]) -> bytes:
    if "body_text" in row:
        return str(row["body_text"]).encode()
    text = row.get("body", "")
    if not isinstance(text, str):
        raise ValueError("body is not text")
    encoding = row.get("body_encoding", "base64")
    try:
        if encoding == "base64":
            return base64.b64decode(text, validate=True)
        if encoding in ("hex", "utf8"):
            return bytes.fromhex(text) if encoding == "hex" else text.encode()
    except (binascii.Error, ValueError):
        raise ValueError(f"body is not {encoding} (write text as body_text)") from None
    raise ValueError(f"body_encoding {encoding!r} is none of base64, hex, utf8")


def _read_properties(row: Mapping[str, Any]) -> dict[str, str]:
    """The property map: `properties`, with the names that have a field of their own set over them."""
    given = row.get("properties") or {}
    if not isinstance(given, Mapping):
        raise ValueError("properties is not an object")
    properties = {str(name): str(value) for name, value in given.items()}
    keys = row.get("keys")
    named = {
        "KEYS": " ".join(keys) if isinstance(keys, (list, tuple)) else keys,
        "TAGS": row.get("tags"),
        "UNIQ_KEY": row.get("uniq_key"),
        "DELAY": row.get("delay_level"),
    }
    properties |= {name: str(value) for name, value in named.items() if value not in (None, "")}
    for name, value in properties.items():
        if "\x01" in name + value or "\x02" in name + value:
            raise ValueError(f"property {name!r} holds the bytes 1 or 2, which separate properties")
    return properties


def _number(row: Mapping[str, Any], name: str, default: int) -> int:
    value = row.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} is not a whole number")
    bits = 31 if name in ("queue_id", "flag", "sys_flag", "reconsume_times") else 63
    if not -(1 << bits) <= value < 1 << bits:
        raise ValueError(f"{name} does not fit in {bits + 1} bits")
    return value
