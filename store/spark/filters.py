"""Filters that Spark hands to the data source, and what is done with them here.

Comparisons of `topic`, `queue_id`, `queue_offset`, `log_offset`, `size` and `store_timestamp` with a constant are taken
over entirely: they are decided on the scan's columns, before anything of a record is built. Log offsets and store times
also rule out whole segments. Everything else stays with Spark.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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

from store.tables.message_batch import MessageRows

NUMBERS = ("queue_id", "queue_offset", "log_offset", "size")
TIME = "store_timestamp"

_COMPARE: dict[type[Filter], tuple[str, Callable[[Any, Any], Any]]] = {
    EqualTo: ("==", operator.eq),
    GreaterThan: (">", operator.gt),
    GreaterThanOrEqual: (">=", operator.ge),
    LessThan: ("<", operator.lt),
    LessThanOrEqual: ("<=", operator.le),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """`column sign value`; the value is in the column's own unit (times in µs), a tuple for `in`."""

    column: str
    sign: str
    value: Any
    negated: bool = False


def understand(given: Filter) -> Condition | None:
    """The same as a Condition, or None when it is for Spark to decide."""
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
    found, value = _COMPARE.get(type(given)), getattr(given, "value", None)
    return Condition(column, found[0], convert(value)) if found and value is not None else None


def _microseconds(value: datetime) -> int:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def rows_that_pass(found: MessageRows, conditions: Iterable[Condition]) -> MessageRows:
    """The rows for which all conditions hold."""
    for condition in conditions:
        if condition.sign == "exists" or not found.count:
            continue
        mask = _topic_mask(found, condition) if condition.column == "topic" else _number_mask(found, condition)
        mask = ~mask if condition.negated else mask
        if not mask.all():
            found = found.select(mask)
    return found


def _number_mask(found: MessageRows, condition: Condition) -> np.ndarray:
    if condition.column == TIME:
        values = found.columns.store_timestamp_ms * 1000
    elif condition.column == "log_offset":
        values = found.log_offset
    else:
        values = getattr(found.columns, condition.column)
    if condition.sign == "in":
        return np.isin(values, condition.value)
    compare = next(function for sign, function in _COMPARE.values() if sign == condition.sign)
    return np.asarray(compare(values, condition.value))


def _topic_mask(found: MessageRows, condition: Condition) -> np.ndarray:
    words = found.topics.dictionary
    if condition.sign == "starts":
        good = pc.starts_with(words, condition.value)
    else:
        wanted = condition.value if condition.sign == "in" else [condition.value]
        good = pc.is_in(words, value_set=pa.array([w for w in wanted if w is not None], pa.string()))
    return np.asarray(np.asarray(good)[found.topics.indices.to_numpy()])


def bounds(conditions: Iterable[Condition], column: str) -> tuple[int | None, int | None]:
    """The smallest and the largest value of `column` that can pass, None where there is no limit."""
    low: int | None = None
    high: int | None = None
    for condition in conditions:
        if condition.column != column or condition.negated or condition.sign == "exists":
            continue
        values = condition.value if condition.sign == "in" else (condition.value,)
        if condition.sign in ("==", ">", ">=", "in") and values:
            low = max(min(values), low) if low is not None else min(values)
        if condition.sign in ("==", "<", "<=", "in") and values:
            high = min(max(values), high) if high is not None else max(values)
    return low, high
