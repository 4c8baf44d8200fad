"""Bind queries to the tables' columns, without a store.

A query that DuckDB refuses, or whose types DuckDB alone takes, is refused before an engine runs it: in the same words
here and on Spark.
"""

from __future__ import annotations

import json
import re

import duckdb

from store.query.embedded.connection import as_store_error, restrict
from store.query.embedded.value_types import check_types
from store.query.tables.dialect import MACROS, for_types, interval_refusal
from store.query.tables.export import DAY
from store.query.tables.schema import TABLES, arrow_schema

# Their own conversions are no conversions of the query.
_TYPES_ALONE = {
    "size_of": "size_of(x) as try_cast(hash(x) % 7 as bigint)",
    "to_string": "to_string(x) as try_cast(x as varchar)",
    "to_bigint": "to_bigint(x) as try_cast(x as bigint)",
    "part_of": "part_of(x, first) as substring(x, first), (x, first, count) as substring(x, first, count)",
    "trunc_of": "trunc_of(unit, x) as case when unit || '' = '' then try_cast(x as timestamptz) end",
}
_MACROS = [_TYPES_ALONE.get(macro.split("(")[0], re.sub(r"\bcast\(", "try_cast(", macro)) for macro in MACROS]
_PLAN = "select json_serialize_plan(?, optimize := false, skip_null := true, skip_empty := true, skip_default := true)"

_NAN = re.compile('("value":)-?nan', re.IGNORECASE)
"""A value as DuckDB writes it, which is not JSON."""


def check_binds(text: str, *, is_fleet: bool = False) -> None:
    """Raise BadRequest for a query with names or types that one of the engines refuses."""
    asked = for_types(text)
    with duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
        for table, columns in TABLES.items():
            rows = arrow_schema({"store": "string", **columns} if is_fleet else columns).empty_table()
            connection.register("rows", rows)
            connection.execute(f'create table "{table}" as from rows')
        restrict(connection, _MACROS)
        try:
            query = connection.sql(asked)
            for name, kind in zip(query.columns, query.types, strict=True):
                if kind == "INTERVAL":
                    raise interval_refusal(name)
            [(written,)] = connection.execute(_PLAN, [asked]).fetchall()
        except duckdb.Error as error:
            raise as_store_error(error) from None
    plan = json.loads(_NAN.sub(r"\1NaN", written))
    if plan["error"]:
        raise as_store_error(duckdb.Error(plan["error_message"]))
    check_types(plan["plans"], asked)


def check_condition(condition: str, *, is_fleet: bool = False) -> None:
    """Raise BadRequest for a condition on messages with names or types that one of the engines refuses."""
    days = f"select *, cast(cast(store_timestamp as date) as string) as {DAY} from messages"
    check_binds(f"select topic from ({days}) where ({condition}\n)", is_fleet=is_fleet)
