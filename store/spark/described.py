"""Values that Spark hands over as store.tables.json_values has them, at any depth of lists and maps.

A timestamp comes in this machine's time zone, without naming it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from store.tables.json_values import map_key, plain, unique_names


def to_json_value(value: Any, kind: Any) -> Any:
    """The value of a column of this Spark type."""
    if value is None:
        return None
    match kind.typeName():
        case "array":
            return [to_json_value(element, kind.elementType) for element in value]
        case "map":
            return {map_key(to_json_value(k, kind.keyType)): to_json_value(v, kind.valueType) for k, v in value.items()}
        case "struct":
            return to_json_row(value, kind)
        case "timestamp":
            value = value.astimezone(UTC)
    return plain(value)


def to_json_row(row: Sequence[Any], kind: Any) -> dict[str, Any]:
    """The values of a row, or of a struct in one, by name."""
    names = unique_names([field.name for field in kind.fields])
    values = (to_json_value(value, field.dataType) for value, field in zip(row, kind.fields, strict=True))
    return dict(zip(names, values, strict=True))
