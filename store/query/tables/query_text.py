"""Inspects a text of SQL before an engine runs it: whether it only reads, and the columns it may use.

Spark does not pass a query's columns to a Python source, so a view has only the columns whose names are in the text.
That is enough for a plain select, which can only use columns by name. A view has all columns if some may be used
without their names: by `*` (except count(*)), a natural join, a pivot, or `from t` or `table t` without select. So it
has for any statement that is no select, such as `describe t`. Extra columns cost time, and change no answer.

Tried with the grammar of Spark 4.3.
"""

from __future__ import annotations

import re

from store.errors import BadRequest
from store.query.tables.schema import TABLES

QUERIES = ("select", "with", "describe", "desc", "show", "explain")

# Strings, raw strings, quoted names and comments; their contents are no SQL. Bracketed comments may be nested.
_QUOTED = re.compile(
    r"""
      (?P<text> \br(?:'[^']*'|"[^"]*") | '(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*" | `[^`]*` )
    | (?P<line> --(?:\\\n|[^\r\n])* )
    | (?P<open> /\* )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_BRACKET = re.compile(r"/\*|\*/")

_CHANGES = re.compile(
    r"\b(?:insert\s+(?:into|overwrite)|delete\s+from|merge\s+(?:into|with)|update\b(?=.*\bset\b))", re.DOTALL
)
_COUNT_OF_ROWS = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)
_MEANS_UNNAMED = re.compile(
    r"\*|\b(?:natural|pivot|unpivot|table)\b|(?:\(|\b(?:union|all|distinct|except|intersect|minus|name))\s*from\b"
)


def check_is_query(text: str) -> None:
    """Raise BadRequest unless the text only reads.

    Other statements could change something with the user's rights.
    """
    require_shallow(text)
    code = _code(text)
    first = _first_word(code)
    changes = _CHANGES.search(code)
    if first not in QUERIES or changes:
        word = changes.group().split()[0] if changes else first
        raise BadRequest(f"sql takes queries only, not {word!r}", hint=f"they begin with {', '.join(QUERIES)}")


MAX_NESTING = 500
"""The most nested brackets: DuckDB needs gigabytes to refuse some thousand levels."""


def require_shallow(text: str) -> None:
    """Raise BadRequest for an expression with more than MAX_NESTING nested brackets."""
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth > MAX_NESTING:
            raise BadRequest(f"more than {MAX_NESTING} brackets inside brackets", hint="take some of them away")


def tables_named(text: str) -> list[str]:
    """Return the tables that the text may use; all of them for `show`."""
    words = _words(text)
    return [table for table in TABLES if table in words or _first_word(_code(text)) == "show"]


def columns_named(text: str, table: str) -> dict[str, str]:
    """Return the table's columns that the text may use; at least one, so that rows can be counted."""
    columns = TABLES[table]
    code = _COUNT_OF_ROWS.sub("", _code(text))
    if _first_word(code) not in ("select", "with") or _MEANS_UNNAMED.search(code):
        return dict(columns)
    words = _words(text)
    named = {name: kind for name, kind in columns.items() if name in words}
    cheapest = "size" if "size" in columns else next(iter(columns))
    return named or {cheapest: columns[cheapest]}


def is_translated(text: str) -> bool:
    """Return whether the text is a select, and so is translated for both engines.

    Other statements differ between the engines, and are not translated.
    """
    return _first_word(_code(text)) in ("select", "with")


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _first_word(code: str) -> str:
    found = re.match(r"[\s(]*(\w+)", code)
    return found.group(1) if found else code.strip()[:20]


def _code(text: str) -> str:
    """Return the text in lower case, with a blank for each comment, and with emptied quotes."""
    code, at = [], 0
    while found := _QUOTED.search(text, at):
        code.append(text[at : found.start()])
        code.append("''" if found.lastgroup == "text" else " ")
        at = _comment_end(text, found.end()) if found.lastgroup == "open" else found.end()
    return "".join((*code, text[at:])).lower()


def _comment_end(text: str, at: int) -> int:
    """Return the position after the bracketed comment whose inside begins at `at`."""
    depth = 1
    for found in _BRACKET.finditer(text, at):
        depth += 1 if found.group() == "/*" else -1
        if not depth:
            return found.end()
    return len(text)
