"""Request: the options of a reader of the data source, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from store.errors import BadRequest, quoted
from store.layout import parse_whole_number
from store.query.tables.row_filter import Condition
from store.query.tables.schema import TABLES

PART_BYTES = 256 << 20
"""Bytes of the log that one task reads, unless the options say otherwise."""


@dataclass(frozen=True, slots=True)
class Request:
    """The requested table, and how it is divided and checked."""

    address: str
    table: str
    with_body: bool = True
    check_crc: bool = False
    part_bytes: int = PART_BYTES
    parts_per_segment: int | None = None
    conditions: tuple[Condition, ...] = ()
    outer: bool = False
    """Whether a record of several messages is one row (5.x), instead of one row per message."""
    damage_folder: str | None = None
    """A folder with the same path for every task, for notes of skipped damage."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Request:
        table = options.get("table", "messages")
        if table not in TABLES:
            raise BadRequest(f"no table is called {table!r}", hint=", ".join(TABLES))
        body = options.get("body", "binary")
        if body not in ("binary", "none"):
            raise BadRequest(f"body is binary or none, not {body!r}")
        address = options.get("path")
        if not address:
            raise BadRequest("load() needs a store's folder or URI")
        bounded = [name for name in ("from", "to") if options.get(name) is not None]
        if bounded and table != "messages":
            raise BadRequest(f"{' and '.join(bounded)} can be given for messages only, not for {table}")
        limits = _limits(options.get("from"), ">=") + _limits(options.get("to"), "<")
        return cls(
            address=address,
            table=table,
            with_body=body == "binary",
            check_crc=_yes_or_no(options, "checkCrc"),
            part_bytes=_count(options, "partitionBytes") or PART_BYTES,
            parts_per_segment=_count(options, "partitions"),
            conditions=limits,
            outer=_yes_or_no(options, "outer"),
            damage_folder=options.get("damageFolder"),
        )


def _limits(text: str | None, sign: str) -> tuple[Condition, ...]:
    """Return `from` or `to` as a condition on log offset or time, by its form."""
    if text is None:
        return ()
    if (offset := parse_whole_number(text)) is not None:
        return (Condition("log_offset", sign, offset),)
    if text.endswith("ms") and (time_ms := parse_whole_number(text[:-2])) is not None:
        return (Condition("store_timestamp", sign, time_ms * 1000),)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequest(
            f"{text!r} is neither a log offset nor a time", hint="12345, 1700000000000ms or ISO 8601"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (Condition("store_timestamp", sign, round(moment.timestamp() * 1_000_000)),)


def _yes_or_no(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise BadRequest(f"{name} is true or false, not {text!r}")
    return bool(text == "true")


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    number = parse_whole_number(text)
    if not number:
        raise BadRequest(f"{name} must be a positive whole number, not {quoted(text)}")
    return number
