"""Filters the rows of a table: excludes whole files, and selects rows of a run.

RowFilter     the interface for readers of a table
Conditions    comparisons of columns with constants; all must hold, and without conditions every row is wanted
ranges        limits of a share's values, known before the share is read: {column: (smallest, largest)}
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store.formats.sets import is_in
from store.structures.commitlog.message_batch import MessageRows

NUMBERS = ("queue_id", "queue_offset", "log_offset", "size")
TIME = "store_timestamp"

Ranges = Mapping[str, tuple[Any, Any]]
"""Smallest and largest value of a column, None without a limit; times in µs since the epoch."""

Share = TypeVar("Share")


class Limit(Protocol):
    """A value with an order: a number, a time in µs or a text."""

    def __lt__(self, other: Any, /) -> bool: ...
    def __gt__(self, other: Any, /) -> bool: ...


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


class RowFilter(Protocol):
    """Selects the wanted rows of a table."""

    def mentions(self, column: str) -> bool:
        """Return whether a range of this column may exclude a share."""

    def choose(self, shares: Sequence[Share], ranges_of: Callable[[Share], Ranges]) -> Sequence[Share]:
        """Return the shares that may have a wanted row, by the ranges of each."""

    def select_messages(self, found: MessageRows) -> MessageRows:
        """Return the wanted messages."""

    def columns_for(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that other tables must build, so that `select` can filter by them."""

    def select(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return the wanted rows of another table's batch, with the columns of `schema`."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`column sign value`; the value is in the column's own unit (times in µs), a tuple for `in`."""

    column: str
    sign: str
    value: Any
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Conditions:
    """Selects the messages that meet all conditions. Rows of other tables are not filtered."""

    conditions: Sequence[Condition] = ()

    def mentions(self, column: str) -> bool:
        return any(condition.column == column for condition in self.conditions)

    def choose(self, shares: Sequence[Share], ranges_of: Callable[[Share], Ranges]) -> Sequence[Share]:
        return [share for share in shares if self._may_hold(ranges_of(share))]

    def _may_hold(self, ranges: Ranges) -> bool:
        for column, (smallest, largest) in ranges.items():
            low, high = bounds(self.conditions, column)
            if low is not None and largest is not None and largest < low:
                return False
            if high is not None and smallest is not None and smallest > high:
                return False
        return True

    def select_messages(self, found: MessageRows) -> MessageRows:
        for condition in self.conditions:
            if condition.sign == "exists":
                continue
            mask = _topic_mask(found, condition) if condition.column == "topic" else _number_mask(found, condition)
            mask = ~mask if condition.negated else mask
            if not mask.all():
                found = found.select(mask)
        return found

    def columns_for(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def select(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        return batch


def _number_mask(found: MessageRows, condition: Condition) -> np.ndarray:
    if condition.column == TIME:
        values = found.columns.store_timestamp_ms * 1000
    elif condition.column == "log_offset":
        values = found.log_offset
    else:
        values = getattr(found.columns, condition.column)
    if condition.sign == "in":
        return is_in(values, condition.value)
    return np.asarray(COMPARE[condition.sign](values, condition.value))


def _topic_mask(found: MessageRows, condition: Condition) -> np.ndarray:
    words = found.topics.dictionary
    if condition.sign == "starts":
        good = pc.starts_with(words, condition.value)
    else:
        wanted = condition.value if condition.sign == "in" else [condition.value]
        good = pc.is_in(words, value_set=pa.array([w for w in wanted if w is not None], pa.string()))
    return np.asarray(np.asarray(good)[found.topics.indices.to_numpy()])


def bounds(conditions: Iterable[Condition], column: str) -> tuple[Limit | None, Limit | None]:
    """Return the smallest and the largest value of `column` that can pass, None without a limit."""
    low: Limit | None = None
    high: Limit | None = None
    for condition in conditions:
        if condition.column != column or condition.negated or condition.sign in ("exists", "starts"):
            continue
        values = condition.value if condition.sign == "in" else (condition.value,)
        values = [value for value in values if value is not None]
        if condition.sign in ("==", ">", ">=", "in") and values:
            low = max(min(values), low) if low is not None else min(values)
        if condition.sign in ("==", "<", "<=", "in") and values:
            high = min(max(values), high) if high is not None else max(values)
    return low, high
