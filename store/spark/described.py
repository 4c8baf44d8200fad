"""Values that Spark hands over, as JSON has them: what an answer's column holds, however deep its lists and maps go.

timestamp       2026-11-21T03:09:00.123Z; Spark hands it over in this machine's time zone, without naming it
timestamp_ntz   the same without Z
binary          base64
struct, map     objects; keys of a map become text, those of a struct that come twice get a number
NaN, Infinity   null: JSON has no words for them
decimal, date, interval, variant   text
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any


def to_json_value(value: Any, kind: Any) -> Any:
    """The value of a column of this Spark type."""
    if value is None:
        return None
    match kind.typeName():
        case "array":
            return [to_json_value(element, kind.elementType) for element in value]
        case "map":
            return {_key(to_json_value(k, kind.keyType)): to_json_value(v, kind.valueType) for k, v in value.items()}
        case "struct":
            return to_json_row(value, kind)
        case "timestamp":
            value = value.astimezone(UTC)
    return _plain(value)


def to_json_row(row: Sequence[Any], kind: Any) -> dict[str, Any]:
    """The values of a row, or of a struct in one, by name."""
    names = unique_names([field.name for field in kind.fields])
    values = (to_json_value(value, field.dataType) for value, field in zip(row, kind.fields, strict=True))
    return dict(zip(names, values, strict=True))


def unique_names(names: Sequence[str]) -> list[str]:
    """The names of columns; of several with one name, as joins give, the later ones get a number."""
    seen: list[str] = []
    for name in names:
        count = sum(name == other for other in names[: len(seen)])
        seen.append(f"{name} ({count + 1})" if count else name)
    return seen


def _key(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int) else str(value)
