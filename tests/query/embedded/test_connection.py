"""DuckDB's errors as errors of the store, each of one sentence."""

from __future__ import annotations

import duckdb
import pytest

from store.errors import BadRequest, StoreIOError
from store.query.embedded.connection import as_store_error


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (duckdb.OutOfMemoryException("no room."), StoreIOError,
         "the query needs more memory or scratch space: no room; ask for less"),
        (duckdb.IOException("no disk"), StoreIOError, "the query fails: no disk"),
        (duckdb.InternalException("no sense"), StoreIOError, "the query fails: no sense"),
        (duckdb.Error("Binder Error: no\n  column.\n\n LINE 12: select x\n ^"), BadRequest,
         "the query fails: Binder Error: no column"),
        (duckdb.Error("x" * 300), BadRequest, f"the query fails: {'x' * 300}"),
        (duckdb.Error("x" * 301), BadRequest, f"the query fails: {'x' * 300}"),
    ],
)  # fmt: skip
def test_an_error_is_one_sentence(error: duckdb.Error, kind: type[Exception], told: str) -> None:
    found = as_store_error(error)
    assert (type(found), str(found)) == (kind, told)
