"""Spark's filters for the data source, as conditions of store.query.tables.row_filter.

Comparisons of `topic`, `queue_id`, `queue_offset`, `log_offset`, `size` and `store_timestamp` with a constant are
translated: they are evaluated on the scan's columns, before a row is built. Log offsets and store times also exclude
whole segments. Spark evaluates all other filters.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from store.query.tables.row_filter import NUMBERS, TIME, Condition

_SIGNS: dict[type[Filter], str] = {
    EqualTo: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def understand(given: Filter) -> Condition | None:
    """Translate a filter; return None for one that Spark must evaluate."""
    if isinstance(given, Not):
        inner = understand(given.child)
        if inner is None or inner.sign == "exists":
            return None
        return Condition(inner.column, inner.sign, inner.value, not inner.negated)
    attribute: tuple[str, ...] = getattr(given, "attribute", ())
    if len(attribute) != 1:
        return None
    column = attribute[0]
    if isinstance(given, IsNotNull) and column in (*NUMBERS, TIME, "topic"):
        return Condition(column, "exists", None)
    if column == "topic" and isinstance(given, (EqualTo, In, StringStartsWith)):
        sign = "in" if isinstance(given, In) else "==" if isinstance(given, EqualTo) else "starts"
        return Condition(column, sign, given.value)
    if column not in (*NUMBERS, TIME):
        return None
    convert = _microseconds if column == TIME else int
    if isinstance(given, In):
        return None if None in given.value else Condition(column, "in", tuple(convert(v) for v in given.value))
    sign, value = _SIGNS.get(type(given), ""), getattr(given, "value", None)
    return Condition(column, sign, convert(value)) if sign and value is not None else None


def _microseconds(value: datetime) -> int:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
