"""Bind queries to the tables' columns, without a store.

Spark converts texts to numbers and DuckDB does not: `tags + 1` would give rows only on Spark. So a query that DuckDB
refuses is refused before Spark runs it.
"""

from __future__ import annotations

import duckdb

from store.query.embedded.engine import as_store_error, bound, restrict
from store.query.tables.dialect import for_duckdb
from store.query.tables.schema import TABLES, arrow_schema


def check_binds(text: str, *, is_fleet: bool = False) -> None:
    """Raise BadRequest for a query that DuckDB refuses for its names or types."""
    with duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
        restrict(connection)
        for table, columns in TABLES.items():
            named = {"store": "string", **columns} if is_fleet else columns
            connection.register(table, arrow_schema(named).empty_table())
        try:
            bound(connection, for_duckdb(text))
        except duckdb.Error as error:
            raise as_store_error(error) from None
