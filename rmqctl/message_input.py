"""Reads messages for `put --input`: JSON lines as `get`, `index-query` and `export` write them.

A line is an object with the names of messages.py. Values that the store itself assigns (offsets, sizes, CRC) are
ignored; unknown names are refused. Every problem with a line is a ValueError with the reason.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from store import Host, Message
from store.errors import BadRequest
from store.formats import compression_of, crc32, decode_properties, encode_body

TRANSACTIONS = {"none": 0x0, "prepared": 0x4, "commit": 0x8, "rollback": 0xC}
_TRANSACTION_MASK = 0xC
_GIVEN_BY_THE_STORE = {
    "queue_offset", "log_offset", "size", "msg_id", "store_timestamp_ms", "body_crc", "crc_ok", "status", "schema",
    "outer_queue_offset",
}  # fmt: skip
_KNOWN = _GIVEN_BY_THE_STORE | {
    "topic", "queue_id", "uniq_key", "keys", "tags", "flag", "sys_flag", "born_timestamp_ms", "born_host", "store_host",
    "reconsume_times", "prepared_transaction_offset", "body", "body_text", "body_encoding", "body_state", "compression",
    "properties", "property_bytes", "delay_level", "transaction",
}  # fmt: skip
_INTEGERS = {
    "queue_id": 31, "flag": 31, "sys_flag": 31, "reconsume_times": 31,
    "born_timestamp_ms": 63, "prepared_transaction_offset": 63,
}  # fmt: skip
_OF_THE_PROPERTIES = {"properties", "keys", "tags", "uniq_key", "delay_level"}
_ECHOED = 40
"""Characters of a value that an error message repeats."""


class StoredLine(NamedTuple):
    """The message of one line, its store time if given, and `crc_ok`."""

    message: Message
    store_timestamp_ms: int | None
    crc_ok: bool
    is_recompressed: bool = False
    """Whether its compressed body has other bytes than the stored one, by the line's `body_crc`."""


def parse_stored(line: str | bytes, default_topic: str | None, now_ms: int) -> StoredLine:
    """Return the message of one line of JSON, with its store time and `crc_ok`."""
    row = _read_quickly(line)
    if row is not None:
        # The exact parser describes faults: orjson reads a large integer as a float.
        with contextlib.suppress(ValueError):
            return _stored(row, default_topic, now_ms)
    return _stored(_read_object(line), default_topic, now_ms)


def _read_quickly(line: str | bytes) -> dict[str, Any] | None:
    """Return the object of a simple line; None leaves the line to the exact parser.

    A simple line has each name once, and no escaped quote. Then it has two quotes for each text of the object. If a
    name is there twice, the object lacks a text.
    """
    if isinstance(line, str):
        return None
    try:
        row = orjson.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict):
        return None
    texts = len(row)
    for value in row.values():
        if isinstance(value, str):
            texts += 1
        elif isinstance(value, list):
            texts += [*map(type, value)].count(str)
        elif isinstance(value, dict):
            texts += len(value) + [*map(type, value.values())].count(str)
    return row if 2 * texts == line.count(b'"') else None


def _stored(row: dict[str, Any], default_topic: str | None, now_ms: int) -> StoredLine:
    if unknown := row.keys() - _KNOWN:
        raise ValueError(f"unknown name {_echo(min(unknown))}")
    topic = row.get("topic", default_topic)
    if not isinstance(topic, str):
        raise ValueError("no topic" if topic is None else "topic is not text")
    stored_ms = _read_integer(row, "store_timestamp_ms", 63) if row.get("store_timestamp_ms") is not None else None
    row["topic"] = topic
    message = build_message(row, _read_body(row), now_ms)
    is_sound = row.get("crc_ok") is not False
    is_compressed = row.get("body_state") == "decompressed" and row.get("body_crc") is not None
    is_recompressed = is_sound and is_compressed and crc32(message.body) != row["body_crc"]
    return StoredLine(message, stored_ms, is_sound, is_recompressed)


def build_message(row: Mapping[str, object], body: bytes, now_ms: int) -> Message:
    """Return the message of a message object and its body; missing names get a producer's defaults."""
    if "property_bytes" in row:
        # They are complete. The map may show properties that no producer may set.
        stored_properties = _decode(row["property_bytes"], "base64", "property_bytes")
        _require_no_other_properties(row, stored_properties)
        row = {name: value for name, value in row.items() if name not in _OF_THE_PROPERTIES}
    fields: dict[str, Any] = {name: _read_integer(row, name, bits) for name, bits in _INTEGERS.items() if name in row}
    fields.setdefault("born_timestamp_ms", now_ms)
    fields["sys_flag"] = _read_sys_flag(row, fields.get("sys_flag", 0))
    try:
        fields |= {
            name: Host.parse(_read_text(row, name)) for name in ("born_host", "store_host") if _read_text(row, name)
        }
        message = Message.of(
            str(row["topic"]),
            body,
            properties=_read_properties(row),
            keys=_read_keys(row),
            tags=_read_text(row, "tags"),
            uniq_key=_read_text(row, "uniq_key"),
            delay_level=_read_integer(row, "delay_level", 31) if row.get("delay_level") is not None else 0,
            **fields,
        )
    except BadRequest as error:
        raise ValueError(str(error)) from None
    if "property_bytes" in row:
        message.properties = stored_properties
    return message


def _require_no_other_properties(row: Mapping[str, object], stored: bytes) -> None:
    """Raise ValueError if another name, edited by the user, differs from property_bytes."""
    said = decode_properties(stored)
    shown: dict[str, object] = {"properties": said, "keys": [key for key in said.get("KEYS", "").split(" ") if key]}
    shown |= {"tags": said.get("TAGS"), "uniq_key": said.get("UNIQ_KEY"), "delay_level": said.get("DELAY")}
    level = row.get("delay_level")
    given = {**row, "delay_level": str(level) if level else None}
    for name, value in shown.items():
        if name in row and given[name] != value:
            raise ValueError(f"{name} and property_bytes differ; leave property_bytes out to put what {name} says")


def _read_object(line: str | bytes) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("not a message: brackets inside brackets without end") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    return row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; raise ValueError if it has a name twice, as one value would be lost in silence."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{_echo(twice)} is given twice")
    return found


def _read_body(row: Mapping[str, Any]) -> bytes:
    """Return the body to store; a body that was decompressed for showing is compressed again."""
    if "body" not in row and "body_text" not in row and row.get("body_crc"):
        raise ValueError("no body: it was left out when the line was written, as with --no-body or --body none")
    body = _decode(row.get("body", ""), row.get("body_encoding", "base64"), "body")
    if "body_text" in row:
        text = _decode(row["body_text"], "utf8", "body_text")
        if "body" in row and text != body:
            raise ValueError("body and body_text differ; leave one of them out")
        body = text
    compression = _read_compression(row)
    state = row.get("body_state", "plain")
    if state not in ("plain", "stored", "decompressed"):
        raise ValueError(f"body_state {_echo(state)} is none of plain, stored, decompressed")
    if state != "decompressed":
        return body
    try:
        return encode_body(body, compression or "")
    except BadRequest as error:
        raise ValueError(str(error)) from None


def _read_compression(row: Mapping[str, Any]) -> str | None:
    """Return the compression's name; ValueError for another one than that of the sys flag."""
    given = row.get("compression")
    if given is None:
        return None
    if not isinstance(given, str):
        raise ValueError("compression is not text")
    sys_flag = _read_integer(row, "sys_flag", 31) if "sys_flag" in row else 0
    marked = compression_of(sys_flag)
    if given != marked:
        raise ValueError(f"compression is {_echo(given)}, and sys_flag {sys_flag} marks {marked or 'none'}")
    return given


def _decode(text: Any, encoding: Any, name: str) -> bytes:
    if not isinstance(text, str):
        raise ValueError(f"{name} is not text")
    try:
        if encoding == "base64":
            return base64.b64decode(text, validate=True)
        if encoding in ("hex", "utf8"):
            return bytes.fromhex(text) if encoding == "hex" else text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"a lone surrogate in {name}, which no UTF-8 can hold") from None
    except (binascii.Error, ValueError):
        hint = " (write text as body_text)" if name == "body" else ""
        raise ValueError(f"{name} is not {encoding}{hint}") from None
    raise ValueError(f"body_encoding {_echo(encoding)} is none of base64, hex, utf8")


def _read_sys_flag(row: Mapping[str, Any], sys_flag: int) -> int:
    transaction = row.get("transaction")
    if transaction is None:
        return sys_flag
    if not isinstance(transaction, str) or transaction not in TRANSACTIONS:
        raise ValueError(f"transaction {_echo(transaction)} is none of {', '.join(TRANSACTIONS)}")
    return sys_flag & ~_TRANSACTION_MASK | TRANSACTIONS[transaction]


def _read_properties(row: Mapping[str, Any]) -> dict[str, str]:
    given = row.get("properties", {})
    if not isinstance(given, Mapping):
        raise ValueError("properties is not an object")
    for name, value in given.items():
        if not isinstance(value, str):
            raise ValueError(f"property {_echo(name)} is not text: {_echo(value)}")
    return dict(given)


def _read_keys(row: Mapping[str, Any]) -> list[str]:
    """Return keys from a list, or from a producer's text: keys with blanks between them."""
    keys = [] if row.get("keys") is None else row["keys"]
    if isinstance(keys, str):
        return [keys]
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("keys is not a list of texts")
    stored = (row.get("properties") or {}).get("KEYS")
    # The property KEYS has the same keys, and the exact blanks between them.
    return [] if isinstance(stored, str) and [key for key in stored.split(" ") if key] == keys else keys


def _read_text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is not text")
    return value or ""


def _read_integer(row: Mapping[str, Any], name: str, bits: int) -> int:
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} is not a whole number")
    if not -(1 << bits) <= value < 1 << bits:
        raise ValueError(f"{name} does not fit in {bits + 1} bits")
    return value


def _echo(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _ECHOED else f"{text[:_ECHOED]}…"
