"""RocketMQ's SQL92 property filter.

    a BETWEEN 0 AND 3 AND TAGS IN ('TagA', 'TagB') AND NOT (b IS NULL)

Steps: lark parses the text; the tree becomes nested functions from properties to a value; a message matches when the
outermost value is TRUE.

Values are those of the broker's Java: Integer (literals within 32 bits), Long, Double, String, Boolean and null.
Properties are strings. Where the two sides of a comparison differ in type, the string is converted to the other
side's type, as Integer.valueOf, Long.valueOf, Double.valueOf and Boolean.valueOf do. A string that cannot be
converted makes the whole filter not match (the broker catches the exception around the evaluation), unless an AND or
OR was already decided by what stands on its left. Logic is three-valued: a comparison with an absent property is null.

What may look surprising is the broker's: NOT binds closer than `=`, so write NOT (a = 1); IN takes strings only;
<, <=, >, >= and BETWEEN take numbers and properties only; a bare property is never true.
Three things are stricter or wider here. Text after a complete expression is an error (the broker ignores it). 0.0 is a
number (the broker refuses it). CONTAINS, STARTSWITH and ENDSWITH are taken from the 5.x line; on an absent property
they, and their negations, are false.

Source: SelectorParser.jj, ComparisonExpression, LogicExpression, UnaryExpression, ConstantExpression (4.9.8, 5.3.3),
ExpressionMessageFilter.isMatchedByCommitLog.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from store.errors import BadRequest
from store.formats.message import StoredMessage

GRAMMAR = r"""
    ?start: disjunction
    ?disjunction: conjunction | disjunction "OR"i conjunction -> either
    ?conjunction: equality | conjunction "AND"i equality -> both
    ?equality: comparison
        | equality "=" comparison              -> equal
        | equality "<>" comparison             -> not_equal
        | equality "IS"i "NULL"i               -> is_null
        | equality "IS"i "NOT"i "NULL"i        -> is_not_null
    ?comparison: unary
        | comparison ">" unary                 -> greater
        | comparison ">=" unary                -> greater_equal
        | comparison "<" unary                 -> less
        | comparison "<=" unary                -> less_equal
        | comparison "BETWEEN"i unary "AND"i unary         -> between
        | comparison "NOT"i "BETWEEN"i unary "AND"i unary  -> not_between
        | comparison "IN"i "(" STRING ("," STRING)* ")"           -> is_in
        | comparison "NOT"i "IN"i "(" STRING ("," STRING)* ")"    -> is_not_in
        | comparison "CONTAINS"i STRING            -> contains
        | comparison "NOT"i "CONTAINS"i STRING     -> not_contains
        | comparison "STARTSWITH"i STRING          -> starts_with
        | comparison "NOT"i "STARTSWITH"i STRING   -> not_starts_with
        | comparison "ENDSWITH"i STRING            -> ends_with
        | comparison "NOT"i "ENDSWITH"i STRING     -> not_ends_with
    ?unary: "+" unary
        | "-" unary                            -> negate
        | "NOT"i unary                         -> negation
        | primary
    ?primary: STRING                           -> text
        | DECIMAL                              -> whole
        | FLOAT                                -> fraction
        | "TRUE"i                              -> true
        | "FALSE"i                             -> false
        | "NULL"i                              -> null
        | NAME                                 -> named
        | "(" disjunction ")"
    STRING: /'(''|[^'])*'/
    FLOAT.2: /[0-9]+\.[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
    DECIMAL: /0|[1-9][0-9]*l?/i
    NAME: /[a-z_$][a-z0-9_$]*/i
    %ignore /[ \t\n\r\f]+/
    %ignore /--[^\n\r]*/
    %ignore /\/\*(.|\n)*?\*\//
"""

Properties = Mapping[str, str]
Value = bool | int | float | str | None
Evaluate = Callable[[Properties], Value]


class SqlFilter:
    """A compiled filter."""

    __slots__ = ("_evaluate", "text")

    def __init__(self, text: str, evaluate: Evaluate) -> None:
        self.text = text
        self._evaluate = evaluate

    def matches_tags_code(self, tags_code: int) -> bool:
        """Every unit may match: a queue unit says nothing of the properties."""
        return True

    def matches(self, message: StoredMessage) -> bool:
        """The test of the second step, on a message that was read."""
        return self.matches_properties(message.properties)

    def matches_properties(self, properties: Properties) -> bool:
        """True when the expression is TRUE; null and values that cannot be compared are not."""
        try:
            return self._evaluate(properties) is True
        except _CannotCompare:
            return False

    def __repr__(self) -> str:
        return f"SqlFilter({self.text!r})"


@functools.lru_cache(maxsize=100)
def compile_sql(text: str) -> SqlFilter:
    """The filter for an expression; BadRequest with column and reason when it is not one."""
    from lark.exceptions import UnexpectedInput

    try:
        compiled = SqlFilter(text, _as_boolean(_parser().parse(text)).evaluate)
        # Evaluating once finds an expression too deep for the interpreter's stack now, not in the middle of a queue.
        compiled.matches_properties({})
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    except _Meaningless as error:
        raise BadRequest(f"SQL filter: {error} in {text!r}") from None
    except RecursionError:
        raise BadRequest("SQL filter: nested too deeply", hint="IN takes many values at once") from None
    return compiled


class _CannotCompare(Exception):
    """A value could not be converted for a comparison: the whole filter does not match."""


class _Meaningless(Exception):
    """The text parses, but means nothing to the broker."""


class _Long(int):
    """A Java Long; a plain int stands for an Integer."""


# Reading the text.


@functools.cache
def _parser() -> Any:
    from lark import Lark, Transformer, v_args

    rules = {name: rule for name, rule in vars(_Builder).items() if not name.startswith("_")}
    builder = v_args(inline=True)(type("Builder", (Transformer,), rules))
    return Lark(GRAMMAR, parser="lalr", maybe_placeholders=False, transformer=builder())


def _syntax_error(text: str, error: Any) -> BadRequest:
    token = getattr(error, "token", None)
    if token is not None and token.type == "$END":
        return BadRequest(
            f"SQL filter: {text!r} ends too early", hint="an operand or a closing parenthesis is missing"
        )
    position = error.pos_in_stream if error.pos_in_stream is not None else 0
    found = str(token) if token is not None else text[position : position + 1]
    hint = "strings stand in single quotes" if found in ('"', "'") else None
    return BadRequest(f"SQL filter, column {position + 1}: unexpected {found!r} in {text!r}", hint=hint)


# The tree of functions.


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of the expression, and what the broker's grammar wants to know of it."""

    evaluate: Evaluate
    text: str
    is_property: bool = False
    is_boolean: bool = False
    is_constant: bool = False
    value: Value = None


def _constant(value: Value, text: str) -> _Node:
    is_boolean = value is None or isinstance(value, bool)
    return _Node(lambda _: value, text, is_boolean=is_boolean, is_constant=True, value=value)


def _boolean(text: str, evaluate: Evaluate) -> _Node:
    return _Node(evaluate, text, is_boolean=True)


def _as_boolean(node: _Node) -> _Node:
    if node.is_boolean:
        return node
    if node.is_property:
        # A property is a string and never the Boolean that the broker's cast looks for.
        return _boolean(node.text, lambda p: None if node.evaluate(p) is None else False)
    raise _Meaningless(f"{node.text} is neither true nor false")


def _check_number(node: _Node) -> None:
    is_number = isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if node.is_boolean or (node.is_constant and not is_number):
        raise _Meaningless(f"{node.text} cannot be compared by <, <=, >, >= or BETWEEN")


def _unquote(token: Any) -> str:
    return str(token)[1:-1].replace("''", "'")


class _Builder:
    """One method per rule name of the grammar."""

    def text(self, token: Any) -> _Node:
        return _constant(_unquote(token), str(token))

    def whole(self, token: Any) -> _Node:
        number = int(str(token).rstrip("lL"))
        if number >= 1 << 63:
            raise _Meaningless(f"{token} does not fit in 64 bits")
        return _constant(number if number < 1 << 31 else _Long(number), str(token))

    def fraction(self, token: Any) -> _Node:
        number = float(token)
        if math.isinf(number):
            raise _Meaningless(f"{token} is too large")
        return _constant(number, str(token))

    def true(self) -> _Node:
        return _constant(True, "TRUE")

    def false(self) -> _Node:
        return _constant(False, "FALSE")

    def null(self) -> _Node:
        return _constant(None, "NULL")

    def named(self, token: Any) -> _Node:
        name = str(token)
        return _Node(lambda p: p.get(name), name, is_property=True)

    def negate(self, node: _Node) -> _Node:
        return _Node(lambda p: _negate(node.evaluate(p)), f"-{node.text}")

    def negation(self, node: _Node) -> _Node:
        return _boolean(f"NOT {node.text}", _not(_as_boolean(node).evaluate))

    def both(self, left: _Node, right: _Node) -> _Node:
        return _boolean(
            f"{left.text} AND {right.text}", _and(_as_boolean(left).evaluate, _as_boolean(right).evaluate)
        )

    def either(self, left: _Node, right: _Node) -> _Node:
        return _boolean(
            f"{left.text} OR {right.text}", _or(_as_boolean(left).evaluate, _as_boolean(right).evaluate)
        )

    def equal(self, left: _Node, right: _Node) -> _Node:
        for side in (left, right):
            if side.is_constant and side.value is None:
                raise _Meaningless("NULL cannot be compared (use IS NULL)")
        if left.is_constant and right.is_constant and left.is_boolean and not right.is_boolean:
            raise _Meaningless(f"{left.text} cannot be compared with {right.text}")
        return _boolean(f"{left.text} = {right.text}", _equal(left.evaluate, right.evaluate))

    def not_equal(self, left: _Node, right: _Node) -> _Node:
        return _boolean(f"{left.text} <> {right.text}", _not(self.equal(left, right).evaluate))

    def is_null(self, node: _Node) -> _Node:
        return _boolean(f"{node.text} IS NULL", lambda p: node.evaluate(p) is None)

    def is_not_null(self, node: _Node) -> _Node:
        return _boolean(f"{node.text} IS NOT NULL", lambda p: node.evaluate(p) is not None)

    def greater(self, left: _Node, right: _Node) -> _Node:
        return _ordered(left, right, lambda answer: answer > 0)

    def greater_equal(self, left: _Node, right: _Node) -> _Node:
        return _ordered(left, right, lambda answer: answer >= 0)

    def less(self, left: _Node, right: _Node) -> _Node:
        return _ordered(left, right, lambda answer: answer < 0)

    def less_equal(self, left: _Node, right: _Node) -> _Node:
        return _ordered(left, right, lambda answer: answer <= 0)

    def between(self, node: _Node, low: _Node, high: _Node) -> _Node:
        result = self.both(self.greater_equal(node, low), self.less_equal(node, high))
        if low.is_constant and high.is_constant and _compare(high.value, low.value) < 0:
            raise _Meaningless(
                f"BETWEEN {low.text} AND {high.text} is empty: the first must not be the larger one"
            )
        return result

    def not_between(self, node: _Node, low: _Node, high: _Node) -> _Node:
        return self.either(self.less(node, low), self.greater(node, high))

    def is_in(self, node: _Node, *tokens: Any) -> _Node:
        if not node.is_property:
            raise _Meaningless(f"IN needs a property on its left, not {node.text}")
        members = frozenset(map(_unquote, tokens))
        return _boolean(
            f"{node.text} IN (…)", lambda p: None if (v := node.evaluate(p)) is None else v in members
        )

    def is_not_in(self, node: _Node, *tokens: Any) -> _Node:
        return _boolean(f"{node.text} NOT IN (…)", _not(self.is_in(node, *tokens).evaluate))

    def contains(self, node: _Node, token: Any) -> _Node:
        return _text_test(node, token, lambda text, part: part in text)

    def not_contains(self, node: _Node, token: Any) -> _Node:
        return _text_test(node, token, lambda text, part: part not in text)

    def starts_with(self, node: _Node, token: Any) -> _Node:
        return _text_test(node, token, str.startswith)

    def not_starts_with(self, node: _Node, token: Any) -> _Node:
        return _text_test(node, token, lambda text, part: not text.startswith(part))

    def ends_with(self, node: _Node, token: Any) -> _Node:
        return _text_test(node, token, str.endswith)

    def not_ends_with(self, node: _Node, token: Any) -> _Node:
        return _text_test(node, token, lambda text, part: not text.endswith(part))


# Evaluation.


def _and(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(properties: Properties) -> Value:
        first = left(properties)
        if first is False:
            return False
        second = right(properties)
        if second is False:
            return False
        return None if first is None or second is None else True

    return evaluate


def _or(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(properties: Properties) -> Value:
        first = left(properties)
        if first is True:
            return True
        second = right(properties)
        if second is True:
            return True
        return None if first is None or second is None else False

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
        return _compare(first, second) == 0

    return evaluate


def _ordered(left: _Node, right: _Node, decide: Callable[[int], bool]) -> _Node:
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
            first, second = _java_double(first), _java_double(second)
        return decide(_compare(first, second))

    return _boolean(f"{left.text} against {right.text}", evaluate)


def _text_test(node: _Node, token: Any, test: Callable[[str, str], bool]) -> _Node:
    part = _unquote(token)

    def evaluate(properties: Properties) -> Value:
        text = node.evaluate(properties)
        return bool(part) and isinstance(text, str) and test(text, part)

    return _boolean(f"{node.text} with {token}", evaluate)


def _negate(value: Value) -> Value:
    if value is None or isinstance(value, (str, bool)):
        return None
    return _Long(-value) if isinstance(value, _Long) else -value


def _compare(left: Value, right: Value) -> int:
    """Below 0, 0 or above 0, after the conversions of ComparisonExpression.__compare; -1 for types without any."""
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
        raise _CannotCompare
    if isinstance(left, bool) and isinstance(right, bool):
        return left - right
    return -1


def _compare_doubles(left: float, right: float) -> int:
    """Double.compareTo: NaN is above everything and equal to itself, -0.0 is below 0.0."""
    if left < right or left > right:
        return -1 if left < right else 1
    left_rank = (math.isnan(left), math.copysign(1, left) if left == 0 else 0)
    right_rank = (math.isnan(right), math.copysign(1, right) if right == 0 else 0)
    return (left_rank > right_rank) - (left_rank < right_rank)


def _convert(text: str, wanted: type) -> int | float:
    if wanted is float:
        return _java_double(text)
    bits = 63 if wanted is _Long else 31
    if len(text) > 100 or not re.fullmatch(r"[+-]?\d+", text) or not -(1 << bits) <= int(text) < 1 << bits:
        raise _CannotCompare
    return int(text)


_JAVA_DOUBLE = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")


def _java_double(text: str) -> float:
    match = _JAVA_DOUBLE.fullmatch(text.strip())
    if match is None:
        raise _CannotCompare
    return float(match[1])
