"""Values of an answer's columns in JSON form, at any depth of lists and maps.

timestamp with a zone   2026-11-21T03:09:00.123Z
timestamp without       the same without Z
binary                  base64
struct, map             objects; keys of a map become text, repeated names of a struct get a number
NaN, Infinity           null, as JSON can't express them
decimal                 a number if it is whole, else text
date, interval, ...     text
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as kinds

EPOCH = datetime(1970, 1, 1)

JsonScalar: TypeAlias = str | int | float | bool | None
JsonValue: TypeAlias = JsonScalar | list["JsonValue"] | dict[str, "JsonValue"]
Row: TypeAlias = dict[str, Any]
"""A row of a query's answer: each value is a JsonValue; its type depends on the query."""


def rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, JsonValue]]:
    """Yield the rows of a batch, with values in JSON form."""
    names = unique_names(batch.schema.names)
    columns = [_column(batch.column(i)) for i in range(batch.num_columns)]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def unique_names(names: Sequence[str]) -> list[str]:
    """Return column names without repeats: later columns of the same name, as from joins, get a number."""
    seen: list[str] = []
    for name in names:
        count = sum(name == other for other in names[: len(seen)])
        seen.append(f"{name} ({count + 1})" if count else name)
    return seen


def plain(value: object) -> JsonScalar:
    """Return the JSON form of a value that is no list, map or struct."""
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return value if value is None or isinstance(value, str | int) else str(value)


def map_key(value: JsonValue) -> str:
    """Return the key of a JSON object for the key of a map."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _column(array: pa.Array) -> list[JsonValue]:
    """Return the values of one column."""
    convert = _converter(array.type)
    if kinds.is_timestamp(array.type):
        # Numbers, as a damaged time may be beyond the years of datetime.
        array = array.cast(pa.int64())
    return [None if value is None else convert(value) for value in array.to_pylist()]


def _converter(kind: pa.DataType) -> Callable[[Any], JsonValue]:
    if kinds.is_timestamp(kind):
        return lambda value: _moment(value, kind)
    if kinds.is_map(kind):
        return lambda value: {map_key(_nested(k, kind.key_type)): _nested(v, kind.item_type) for k, v in value}
    if kinds.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        names = unique_names([field.name for field in fields])
        return lambda value: {
            name: _nested(value[field.name], field.type) for name, field in zip(names, fields, strict=True)
        }
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return lambda value: [_nested(element, kind.value_type) for element in value]
    return plain


def _nested(value: Any, kind: pa.DataType) -> JsonValue:
    if value is None or not isinstance(value, datetime):
        return None if value is None else _converter(kind)(value)
    return plain(value.astimezone(UTC) if kind.tz else value)


def _moment(count: int, kind: pa.TimestampType) -> str:
    """Return a count of the type's units since the epoch as text; the number itself if out of range."""
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[kind.unit]
    try:
        moment = EPOCH + timedelta(microseconds=count * 1_000_000 // per_second)
    except OverflowError:
        return str(count)
    return moment.isoformat(timespec="milliseconds") + ("Z" if kind.tz else "")
