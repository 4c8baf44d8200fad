"""The values of the broker's Java code, and their comparison.

    Integer, Long, Double, String, Boolean, null   are   int, Long, float, str, bool, None

Source: ComparisonExpression.__compare, UnaryExpression.createNegate, Double.compareTo and valueOf.
"""

from __future__ import annotations

import math
import re

Value = bool | int | float | str | None

_JAVA_DOUBLE = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")


class CannotCompare(Exception):
    """A value can't be converted for a comparison, so the whole filter does not match."""


class Long(int):
    """A Java Long; a plain int is an Integer."""


def negated(value: Value) -> Value:
    if value is None or isinstance(value, (str, bool)):
        return None
    return Long(-value) if isinstance(value, Long) else -value


def compare(left: Value, right: Value) -> int:
    """Compare as ComparisonExpression.__compare: below 0, 0 or above; -1 for incomparable types."""
    if isinstance(left, bool) or isinstance(right, bool):
        return _compare_boolean(left, right)
    if isinstance(left, str) and not isinstance(right, str):
        left = _convert(left, type(right))
    elif isinstance(right, str) and not isinstance(left, str):
        right = _convert(right, type(left))
    if isinstance(left, float) or isinstance(right, float):
        return _compare_doubles(float(left), float(right))  # type: ignore[arg-type]
    return (left > right) - (left < right)  # type: ignore[operator]


def _compare_boolean(left: Value, right: Value) -> int:
    if isinstance(left, str):
        left = left.lower() == "true"
    elif isinstance(right, str):
        raise CannotCompare
    if isinstance(left, bool) and isinstance(right, bool):
        return left - right
    return -1


def _compare_doubles(left: float, right: float) -> int:
    """Compare as Double.compareTo does: NaN is above all and equals itself, -0.0 is below 0.0."""
    if left < right or left > right:
        return -1 if left < right else 1
    left_rank = (math.isnan(left), math.copysign(1, left) if left == 0 else 0)
    right_rank = (math.isnan(right), math.copysign(1, right) if right == 0 else 0)
    return (left_rank > right_rank) - (left_rank < right_rank)


def _convert(text: str, wanted: type) -> int | float:
    if wanted is float:
        return java_double(text)
    bits = 63 if wanted is Long else 31
    if len(text) > 100 or not re.fullmatch(r"[+-]?\d+", text) or not -(1 << bits) <= int(text) < 1 << bits:
        raise CannotCompare
    return int(text)


def java_double(text: str) -> float:
    match = _JAVA_DOUBLE.fullmatch(text.strip())
    if match is None:
        raise CannotCompare
    return float(match[1])
