"""A SQL condition on rows under their JSON names, for rows that are no table of a store.

    RowWhere("log_offset > 1000 and tags = 'paid'").select(rows)

DuckDB gets the rows as an Arrow table, and the condition can only read them. A name without a value in any row is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import duckdb
import pyarrow as pa

from store.query.embedded.connection import as_store_error, restrict
from store.query.tables.dialect import for_duckdb
from store.query.tables.query_text import check_is_query

ROW = "row_number_in_batch"


class RowWhere:
    """One condition. `known` are names that rows may have; BadRequest for an invalid condition."""

    def __init__(self, condition: str, known: Sequence[str]) -> None:
        self._query = f"select {ROW} from rows where ({for_duckdb(condition)}\n) order by 1"
        check_is_query(self._query)
        self._known = known
        self._connection = duckdb.connect(config={"python_enable_replacements": "false"})
        restrict(self._connection)

    def select(self, rows: Sequence[Mapping[str, object]]) -> list[int]:
        """Return the numbers of the rows that satisfy the condition."""
        if not rows:
            return []
        names = dict.fromkeys([*self._known, *(name for row in rows for name in row)])
        columns = {name: _column([row.get(name) for row in rows]) for name in names}
        columns[ROW] = pa.array(range(len(rows)))
        self._connection.register("rows", pa.table(columns))
        try:
            return [number for (number,) in self._connection.sql(self._query).fetchall()]
        except duckdb.Error as error:
            raise as_store_error(error) from None

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _column(values: Sequence[Any]) -> pa.Array:
    """Return the column of one name; maps and lists keep their form, mixed types become text."""
    if any(isinstance(value, Mapping) for value in values):
        pairs = [list(value.items()) if isinstance(value, Mapping) else None for value in values]
        return pa.array(pairs, pa.map_(pa.string(), pa.string()))
    try:
        column = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        column = pa.array([None if value is None else str(value) for value in values])
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column
