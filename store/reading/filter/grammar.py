"""The grammar of RocketMQ's SQL92 filters, and the error for a text with a syntax error.

Source: SelectorParser.jj (4.9.8, 5.3.3).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

from store.errors import BadRequest, quoted
from store.reading.filter.tree import Builder, Node

if TYPE_CHECKING:
    from lark import Lark, UnexpectedInput

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


def parse(text: str) -> Node:
    """Parse an expression into a tree of nodes; UnexpectedInput for a syntax error."""
    return cast(Node, _parser().parse(text))


@functools.cache
def _parser() -> Lark:
    from lark import Lark, Transformer, v_args

    rules = {name: rule for name, rule in vars(Builder).items() if not name.startswith("_")}
    builder = v_args(inline=True)(type("Builder", (Transformer,), rules))
    return Lark(GRAMMAR, parser="lalr", transformer=builder())


def syntax_error(text: str, error: UnexpectedInput) -> BadRequest:
    token = getattr(error, "token", None)
    if token is not None and token.type == "$END":
        return BadRequest(
            f"SQL filter: {quoted(text)} ends too early", hint="an operand or a closing parenthesis is missing"
        )
    position = error.pos_in_stream
    assert position is not None, "a token has one, and so has a character that begins none"
    found = str(token) if token is not None else text[position : position + 1]
    hint = "strings stand in single quotes" if found in ('"', "'") else None
    return BadRequest(f"SQL filter, column {position + 1}: unexpected {quoted(found)} in {quoted(text)}", hint=hint)
