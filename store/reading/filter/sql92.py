"""RocketMQ's SQL92 property filter.

    a BETWEEN 0 AND 3 AND TAGS IN ('TagA', 'TagB') AND NOT (b IS NULL)

Steps: lark parses the text (grammar.py); the tree becomes nested functions from properties to a value (tree.py, with
Java's comparisons from java_values.py); a message matches when the outermost value is TRUE.

Values are those of the broker's Java: Integer (literals within 32 bits), Long, Double, String, Boolean and null.
Properties are strings. A string that is compared with another type is converted to it, as Integer.valueOf,
Long.valueOf, Double.valueOf and Boolean.valueOf do. If a string cannot be converted, the whole filter does not match:
the broker catches the exception around the evaluation. An AND or OR that its left side has decided stays decided. Logic
is three-valued: a comparison with an absent property is null.

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
        """Return True: any unit may match, as it holds nothing of the properties."""
        return True

    def matches(self, message: StoredMessage) -> bool:
        """Return the test of the second step, on a message that was read."""
        return self.matches_properties(message.properties)

    def matches_properties(self, properties: Properties) -> bool:
        """Return True when the expression is TRUE; null and values that cannot be compared are not."""
        try:
            return self._evaluate(properties) is True
        except CannotCompare:
            return False

    def __repr__(self) -> str:
        return f"SqlFilter({self.text!r})"


@functools.lru_cache(maxsize=100)
def compile_sql(text: str) -> SqlFilter:
    """Return the filter for an expression; BadRequest with column and reason when it is not one."""
    from lark.exceptions import UnexpectedInput

    try:
        compiled = SqlFilter(text, as_boolean(parse(text)).evaluate)
        # Evaluating once finds an expression too deep for the interpreter's stack now, not in the middle of a queue.
        compiled.matches_properties({})
    except UnexpectedInput as error:
        raise syntax_error(text, error) from None
    except Meaningless as error:
        raise BadRequest(f"SQL filter: {error} in {quoted(text)}") from None
    except RecursionError:
        raise BadRequest("SQL filter: nested too deeply", hint="IN takes many values at once") from None
    return compiled
