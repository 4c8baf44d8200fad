"""A DuckDB connection for queries over registered tables alone, and its errors as the store's."""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb

from store.errors import BadRequest, StoreIOError
from store.query.tables.dialect import JAVA_TEXTS, MACROS

_BEFORE_QUERIES = (
    "set order_by_non_integer_literal = true",
    "set default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "set TimeZone = 'UTC'",
    "set autoinstall_known_extensions = false",
    "set autoload_known_extensions = false",
    "set enable_external_access = false",
    "set lock_configuration = true",
)


def restrict(connection: duckdb.DuckDBPyConnection, macros: Sequence[str] = MACROS) -> None:
    """Restrict a connection to queries over its registered tables."""
    for name, function, argument in JAVA_TEXTS:
        connection.create_function(name, function, [argument], "VARCHAR")
    for statement in (*(f"create macro {macro}" for macro in macros), *_BEFORE_QUERIES):
        connection.execute(statement)


def as_store_error(error: Exception) -> BadRequest | StoreIOError:
    """Return DuckDB's error as a store error of one sentence."""
    text = str(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return StoreIOError(f"the query needs more memory or scratch space: {_first_line(text)}", hint="ask for less")
    if isinstance(error, (duckdb.IOException, duckdb.InternalException)):
        return StoreIOError(f"the query fails: {_first_line(text)}")
    return BadRequest(f"the query fails: {_first_line(text)}")


def _first_line(text: str) -> str:
    """Return DuckDB's message without the lines that repeat the query."""
    lines = [line.strip() for line in re.split(r"\n\s*LINE \d+:", text)[0].splitlines() if line.strip()]
    return " ".join(lines).removesuffix(".")[:300]
