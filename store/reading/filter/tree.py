"""Turns a parsed filter into nested functions from properties to a value.

The parser calls one method of Builder per rule of the grammar, innermost first. Logic is three-valued, with None as
null. AND and OR evaluate their right side only if the left side has not decided.

Source: ComparisonExpression, LogicExpression, UnaryExpression, ConstantExpression (4.9.8, 5.3.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from store.formats.java import INT_MAX, LONG_MAX
from store.reading.filter.java_values import Long, Value, compare, java_double, negated

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]
_MOST_DIGITS = 19
"""Digits of a long. Python refuses to convert text of more than 4,300 digits."""
_SHOWN = 40


class Meaningless(Exception):
    """The text parses, but the broker refuses it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the expression, with the facts that the broker's grammar checks."""

    evaluate: Evaluate
    text: str
    is_property: bool = False
    is_boolean: bool = False
    is_constant: bool = False
    value: Value = None


def _constant(value: Value, text: str) -> Node:
    is_boolean = value is None or isinstance(value, bool)
    return Node(lambda _: value, text, is_boolean=is_boolean, is_constant=True, value=value)


def _boolean(text: str, evaluate: Evaluate) -> Node:
    return Node(evaluate, text, is_boolean=True)


def as_boolean(node: Node) -> Node:
    if node.is_boolean:
        return node
    if node.is_property:
        # A property is a string, never the Boolean of the broker's cast.
        return _boolean(node.text, lambda p: None if node.evaluate(p) is None else False)
    raise Meaningless(f"{node.text} is neither true nor false")


def _check_number(node: Node) -> None:
    is_number = isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if node.is_boolean or (node.is_constant and not is_number):
        raise Meaningless(f"{node.text} cannot be compared by <, <=, >, >= or BETWEEN")


def _shortened(token: str) -> str:
    return token if len(token) <= _SHOWN else f"{token[:_SHOWN]}…"


def _unquote(token: str) -> str:
    return str(token)[1:-1].replace("''", "'")


class Builder:
    """One method per rule name of the grammar."""

    def text(self, token: str) -> Node:
        return _constant(_unquote(token), str(token))

    def whole(self, token: str) -> Node:
        digits = str(token).rstrip("lL")
        if len(digits.lstrip("0")) > _MOST_DIGITS or int(digits) > LONG_MAX:
            raise Meaningless(f"{_shortened(token)} does not fit in 64 bits")
        number = int(digits)
        return _constant(number if number <= INT_MAX else Long(number), str(token))

    def fraction(self, token: str) -> Node:
        number = float(token)
        if math.isinf(number):
            raise Meaningless(f"{_shortened(token)} is too large")
        return _constant(number, str(token))

    def true(self) -> Node:
        return _constant(True, "TRUE")

    def false(self) -> Node:
        return _constant(False, "FALSE")

    def null(self) -> Node:
        return _constant(None, "NULL")

    def named(self, token: str) -> Node:
        name = str(token)
        return Node(lambda p: p.get(name), name, is_property=True)

    def negate(self, node: Node) -> Node:
        return Node(lambda p: negated(node.evaluate(p)), f"-{node.text}")

    def negation(self, node: Node) -> Node:
        return _boolean(f"NOT {node.text}", _not(as_boolean(node).evaluate))

    def both(self, left: Node, right: Node) -> Node:
        evaluate = _decided_by(False, as_boolean(left).evaluate, as_boolean(right).evaluate)
        return _boolean(f"{left.text} AND {right.text}", evaluate)

    def either(self, left: Node, right: Node) -> Node:
        evaluate = _decided_by(True, as_boolean(left).evaluate, as_boolean(right).evaluate)
        return _boolean(f"{left.text} OR {right.text}", evaluate)

    def equal(self, left: Node, right: Node) -> Node:
        for side in (left, right):
            if side.is_constant and side.value is None:
                raise Meaningless("NULL cannot be compared (use IS NULL)")
        if left.is_constant and right.is_constant and left.is_boolean and not right.is_boolean:
            raise Meaningless(f"{left.text} cannot be compared with {right.text}")
        return _boolean(f"{left.text} = {right.text}", _equal(left.evaluate, right.evaluate))

    def not_equal(self, left: Node, right: Node) -> Node:
        return _boolean(f"{left.text} <> {right.text}", _not(self.equal(left, right).evaluate))

    def is_null(self, node: Node) -> Node:
        return _boolean(f"{node.text} IS NULL", lambda p: node.evaluate(p) is None)

    def is_not_null(self, node: Node) -> Node:
        return _boolean(f"{node.text} IS NOT NULL", lambda p: node.evaluate(p) is not None)

    def greater(self, left: Node, right: Node) -> Node:
        return _ordered(left, right, lambda answer: answer > 0)

    def greater_equal(self, left: Node, right: Node) -> Node:
        return _ordered(left, right, lambda answer: answer >= 0)

    def less(self, left: Node, right: Node) -> Node:
        return _ordered(left, right, lambda answer: answer < 0)

    def less_equal(self, left: Node, right: Node) -> Node:
        return _ordered(left, right, lambda answer: answer <= 0)

    def between(self, node: Node, low: Node, high: Node) -> Node:
        result = self.both(self.greater_equal(node, low), self.less_equal(node, high))
        if low.is_constant and high.is_constant and compare(high.value, low.value) < 0:
            raise Meaningless(f"BETWEEN {low.text} AND {high.text} is empty: the first must not be the larger one")
        return result

    def not_between(self, node: Node, low: Node, high: Node) -> Node:
        return self.either(self.less(node, low), self.greater(node, high))

    def is_in(self, node: Node, *tokens: str) -> Node:
        if not node.is_property:
            raise Meaningless(f"IN needs a property on its left, not {node.text}")
        members = frozenset(map(_unquote, tokens))
        return _boolean(f"{node.text} IN (…)", lambda p: None if (v := node.evaluate(p)) is None else v in members)

    def is_not_in(self, node: Node, *tokens: str) -> Node:
        return _boolean(f"{node.text} NOT IN (…)", _not(self.is_in(node, *tokens).evaluate))

    def contains(self, node: Node, token: str) -> Node:
        return _text_test(node, token, lambda text, part: part in text)

    def not_contains(self, node: Node, token: str) -> Node:
        return _text_test(node, token, lambda text, part: part not in text)

    def starts_with(self, node: Node, token: str) -> Node:
        return _text_test(node, token, str.startswith)

    def not_starts_with(self, node: Node, token: str) -> Node:
        return _text_test(node, token, lambda text, part: not text.startswith(part))

    def ends_with(self, node: Node, token: str) -> Node:
        return _text_test(node, token, str.endswith)

    def not_ends_with(self, node: Node, token: str) -> Node:
        return _text_test(node, token, lambda text, part: not text.endswith(part))


def _decided_by(decisive: bool, left: Evaluate, right: Evaluate) -> Evaluate:
    """Decide AND by the first FALSE, OR by the first TRUE; if undecided with a null, return null."""

    def evaluate(properties: Properties) -> Value:
        first = left(properties)
        if first is decisive:
            return decisive
        second = right(properties)
        if second is decisive:
            return decisive
        return None if first is None or second is None else not decisive

    return evaluate


def _not(inner: Evaluate) -> Evaluate:
    return lambda properties: None if (value := inner(properties)) is None else not value


def _equal(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(properties: Properties) -> Value:
        first, second = left(properties), right(properties)
        if first is None and second is None:
            return True
        if first is None:
            return None
        if second is None:
            return False
        return compare(first, second) == 0

    return evaluate


def _ordered(left: Node, right: Node, decide: Callable[[int], bool]) -> Node:
    _check_number(left)
    _check_number(right)

    def evaluate(properties: Properties) -> Value:
        first = left.evaluate(properties)
        if first is None:
            return None
        second = right.evaluate(properties)
        if second is None:
            return None
        if isinstance(first, str) and isinstance(second, str):
            first, second = java_double(first), java_double(second)
        return decide(compare(first, second))

    return _boolean(f"{left.text} against {right.text}", evaluate)


def _text_test(node: Node, token: str, test: Callable[[str, str], bool]) -> Node:
    part = _unquote(token)

    def evaluate(properties: Properties) -> Value:
        text = node.evaluate(properties)
        return bool(part) and isinstance(text, str) and test(text, part)

    return _boolean(f"{node.text} with {token}", evaluate)
