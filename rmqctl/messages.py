"""The message object: the names of a message in every command's output and in `put --input`.

    body             text in the encoding body_encoding: utf8, hex or base64
    body_state       plain; decompressed; or stored, still compressed by `compression`
    outer_queue_offset  for a message inside a record of several: the queue offset of the record
    crc_ok           whether the stored body has the CRC of the record
    properties       the map that a broker and its clients see
    property_bytes   base64 of the property string, only if the map is not all of it (text that is not UTF-8, a name
                     twice, empty values, a separator after the last property as in 5.x)

A printed message object reads back into an equal message. property_bytes hold all properties, and other names that
contradict them are refused. A decompressed body is compressed again.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.output import Format
from rmqctl.programs import is_utf8, to_json
from rmqctl.show import WIDE_CELL_LIMIT, count

if TYPE_CHECKING:
    from store import StoredMessage
    from store.formats import Body

ROW_NAMES = (
    "topic", "queue_id", "queue_offset", "log_offset", "size", "msg_id", "uniq_key", "keys", "tags", "flag", "sys_flag",
    "born_timestamp_ms", "born_host", "store_timestamp_ms", "store_host", "reconsume_times",
    "prepared_transaction_offset", "body_crc", "crc_ok", "compression", "body_state", "body", "body_encoding",
    "properties", "outer_queue_offset", "property_bytes",
)  # fmt: skip
ROW_NAMES_WITHOUT_BODY = tuple(name for name in ROW_NAMES if name not in ("body", "body_encoding"))
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
StoredBody = Annotated[
    bool, typer.Option("--stored-body", help="Show bodies as stored: compressed ones stay compressed.")
]
Outer = Annotated[bool, typer.Option("--outer", help="Show a record of several messages as one row.")]
OnlySound = Annotated[bool, typer.Option("--only-sound", help="Leave out messages whose body does not match the CRC.")]


class MessageRows:
    """Makes message objects, and counts damaged bodies among them."""

    def __init__(
        self,
        encoding: BodyEncoding | None,
        form: Format,
        *,
        stored: bool = False,
        remedy: str = "",
        warn: Callable[[str], None],
    ) -> None:
        self.unsound_count = 0
        """Rows whose body does not have the record's CRC."""
        self._encoding, self._form, self._stored, self._warn = encoding, form, stored, warn
        self._remedy = remedy
        self._undecoded_count, self._first_undecoded = 0, ""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of a row for programs; only some messages have the last two."""
        return ROW_NAMES if self._encoding is not BodyEncoding.NONE else ROW_NAMES_WITHOUT_BODY

    @property
    def are_lines(self) -> bool:
        """Return whether the rows are also those of RecordLines."""
        return self._form.is_for_programs and self._encoding in (None, BodyEncoding.BASE64, BodyEncoding.NONE)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table for people."""
        shown = SHOWN_COLUMNS[:-1] if self._encoding is BodyEncoding.NONE else SHOWN_COLUMNS
        return (*shown, "damage") if self.unsound_count else shown

    def row(self, message: StoredMessage) -> dict[str, object]:
        """Return the message object. Without --body people get text (hex if not UTF-8), programs base64."""
        body = self._body_of(message)
        is_sound = message.is_crc_right
        self.unsound_count += not is_sound
        encoding, text = _encode(body.data, self._encoding, self._form)
        # A table shows the beginning only; this saves memory for thousands of bodies of up to 64 MiB.
        text = text if self._form.is_for_programs else text[: WIDE_CELL_LIMIT + 1]
        properties = message.read_properties()
        row: dict[str, Any] = {
            "topic": message.topic,
            "queue_id": message.queue_id,
            "queue_offset": message.queue_offset,
            "log_offset": message.log_offset,
            "size": message.size,
            "msg_id": message.msg_id,
            "uniq_key": properties.uniq_key,
            "keys": properties.keys,
            "tags": properties.tags,
            "flag": message.flag,
            "sys_flag": message.sys_flag,
            "born_timestamp_ms": message.born_timestamp_ms,
            "born_host": str(message.born_host),
            "store_timestamp_ms": message.store_timestamp_ms,
            "store_host": str(message.store_host),
            "reconsume_times": message.reconsume_times,
            "prepared_transaction_offset": message.prepared_transaction_offset,
            "body_crc": message.body_crc,
            "crc_ok": is_sound,
            "compression": body.compression,
            "body_state": body.state.value,
        }
        if encoding is not BodyEncoding.NONE:
            row |= {"body": text, "body_encoding": encoding.value}
        row["properties"] = properties.values
        if message.outer_queue_offset is not None:
            row["outer_queue_offset"] = message.outer_queue_offset
        if not properties.is_whole:
            row["property_bytes"] = base64.b64encode(message.property_text).decode()
        if not self._form.is_for_programs and not is_sound:
            row["damage"] = "bad CRC"
        return row

    def warn_of_damage(self) -> None:
        """Warn of bodies that could not be decompressed, and of bodies without the record's CRC."""
        self.warn_of_undecoded()
        if self.unsound_count:
            bodies = "one body does" if self.unsound_count == 1 else f"{self.unsound_count} bodies do"
            self._warn(f"{bodies} not have the record's CRC (crc_ok false){self._remedy}")

    def warn_of_undecoded(self) -> None:
        """Warn once of all bodies since the last call that could not be decompressed."""
        others = self._undecoded_count - 1
        if others >= 0:
            more = f"; so are those of {count(others, 'other message')}" if others else ""
            self._warn(f"{self._first_undecoded}; the body is shown as stored{more}")
        self._undecoded_count, self._first_undecoded = 0, ""

    @cached_property
    def _decode(self) -> Callable[[bytes, int], Body]:
        """The function that decodes bodies, looked up once: an import per row would be slow."""
        from store.formats import Body, BodyState, compression_of, decode_body

        def keep(body: bytes, sys_flag: int) -> Body:
            compression = compression_of(sys_flag)
            return Body(body, compression, BodyState.STORED if compression else BodyState.PLAIN)

        return keep if self._stored else decode_body

    def _body_of(self, message: StoredMessage) -> Body:
        body = self._decode(message.body, message.sys_flag)
        if body.problem:
            self._undecoded_count += 1
            self._first_undecoded = self._first_undecoded or f"log offset {message.log_offset}: {body.problem}"
        return body


def message_line(
    record: bytes,
    outer: int | None = None,
    *,
    with_body: bool = True,
    stored: bool = False,
    encoding: str = "utf-8",
    on_problem: Callable[[str], None] = lambda problem: None,
) -> str:
    """Return the message object of a stored record as one line of JSON for put --input.

    outer       outer_queue_offset of a message inside a record of several
    encoding    of the target; ASCII with escapes unless it is UTF-8
    on_problem  called for a body that cannot be decompressed
    """
    from store.formats import decode_record

    shown = BodyEncoding.BASE64 if with_body else BodyEncoding.NONE
    rows = MessageRows(shown, Format.JSONL, stored=stored, warn=on_problem)
    row = rows.row(replace(decode_record(record), outer_queue_offset=outer))
    if with_body:
        rows.warn_of_undecoded()
    return to_json(row, ascii_only=not is_utf8(encoding))


def _encode(body: bytes, wanted: BodyEncoding | None, form: Format) -> tuple[BodyEncoding, str]:
    wanted = wanted or (BodyEncoding.BASE64 if form.is_for_programs else BodyEncoding.UTF8)
    if wanted is BodyEncoding.UTF8:
        try:
            return wanted, body.decode()
        except UnicodeDecodeError:
            wanted = BodyEncoding.BASE64 if form.is_for_programs else BodyEncoding.HEX
    if wanted is BodyEncoding.HEX:
        return wanted, body.hex()
    return wanted, base64.b64encode(body).decode() if wanted is BodyEncoding.BASE64 else ""
