"""Values of Spark in the JSON form of store.query.tables.json_values, at any depth.

Spark returns timestamps in this machine's time zone, without a zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from store.query.tables.json_values import JsonValue, map_key, plain, unique_names

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def to_json_value(value: object, kind: DataType) -> JsonValue:
    """Return the value of a column of this Spark type."""
    if value is None:
        return None
    # The attributes of both depend on typeName(), and mypy can't follow that.
    held: Any = value
    of: Any = kind
    match kind.typeName():
        case "array":
            return [to_json_value(element, of.elementType) for element in held]
        case "map":
            return {map_key(to_json_value(k, of.keyType)): to_json_value(v, of.valueType) for k, v in held.items()}
        case "struct":
            return to_json_row(held, of)
        case "timestamp":
            held = held.astimezone(UTC)
    return plain(held)


def to_json_row(row: Sequence[object], kind: StructType) -> dict[str, JsonValue]:
    """Return the values of a row, or of a struct in one, by name."""
    names = unique_names([field.name for field in kind.fields])
    values = (to_json_value(value, field.dataType) for value, field in zip(row, kind.fields, strict=True))
    return dict(zip(names, values, strict=True))
