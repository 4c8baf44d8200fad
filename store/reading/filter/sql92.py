"""RocketMQ's SQL92 property filter.

    a BETWEEN 0 AND 3 AND TAGS IN ('TagA', 'TagB') AND NOT (b IS NULL)

Steps: lark parses the text (grammar.py); the tree becomes nested functions from properties to a value (tree.py, with
Java's comparisons from java_values.py); a message matches when the outermost value is TRUE.

Values are those of the broker's Java: Integer (literals within 32 bits), Long, Double, String, Boolean and null.
Properties are strings. A string that is compared with another type is converted to it, as by Integer.valueOf,
Long.valueOf, Double.valueOf and Boolean.valueOf. If a string cannot be converted, the whole filter does not match, as
the broker catches the exception around the whole evaluation. AND and OR skip their right side if the left side decides.
Logic is three-valued: a comparison with an absent property is null.
Some rules of the broker may surprise: NOT binds closer than `=`, so write NOT (a = 1); IN accepts only strings;
<, <=, >, >= and BETWEEN accept only numbers and properties; a bare property is never true.
Three rules differ here. Text after a complete expression is an error (the broker ignores it). 0.0 is a number (the
broker refuses it). CONTAINS, STARTSWITH and ENDSWITH come from 5.x; for an absent property they, and their negations,
are false.

Source: SelectorParser.jj, ComparisonExpression, LogicExpression, UnaryExpression, ConstantExpression (4.9.8, 5.3.3),
ExpressionMessageFilter.isMatchedByCommitLog.
"""

from __future__ import annotations

import functools

from store.errors import BadRequest, quoted
from store.formats.message import StoredMessage
from store.formats.queue_unit import ExtUnit
from store.reading.filter.grammar import parse, syntax_error
from store.reading.filter.java_values import CannotCompare
from store.reading.filter.tree import Evaluate, Meaningless, Properties, as_boolean


class SqlFilter:
    """A compiled filter."""

    __slots__ = ("_evaluate", "text")

    def __init__(self, text: str, evaluate: Evaluate) -> None:
        self.text = text
        self._evaluate = evaluate

    def matches_tags_code(self, tags_code: int, ext: ExtUnit | None = None) -> bool:
        """Return True: any unit may match, as units have no properties."""
        return True

    def matches(self, message: StoredMessage) -> bool:
        """Return whether a read message matches, the second step."""
        return self.matches_properties(message.properties)

    def matches_properties(self, properties: Properties) -> bool:
        """Return whether the expression is TRUE; null and values that can't be compared give False."""
        try:
            return self._evaluate(properties) is True
        except CannotCompare:
            return False

    def __repr__(self) -> str:
        return f"SqlFilter({self.text!r})"


@functools.lru_cache(maxsize=100)
def compile_sql(text: str) -> SqlFilter:
    """Return the filter for an expression; BadRequest with column and reason for an invalid one."""
    from lark.exceptions import UnexpectedInput

    try:
        compiled = SqlFilter(text, as_boolean(parse(text)).evaluate)
        # One evaluation finds an expression too deep for the interpreter's stack here, not in the middle of a queue.
        compiled.matches_properties({})
    except UnexpectedInput as error:
        raise syntax_error(text, error) from None
    except Meaningless as error:
        raise BadRequest(f"SQL filter: {error} in {quoted(text)}") from None
    except RecursionError:
        raise BadRequest("SQL filter: nested too deeply", hint="IN takes many values at once") from None
    return compiled
