"""One table of one or several stores as a dataset for DuckDB.

DuckDB requests a scanner from a pyarrow Dataset, with a query's columns and filter. Here the scanner reads shares of
the stores' tables (store.query.tables.shares), and builds only wanted rows and columns.

    DuckDB ──columns, filter──> TableDataset.scanner ──> shares that may hold a row ──> batches

Log slices are read in a few threads and returned in order; other tables are read one share at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from store.errors import BadRequest
from store.files.store_reader import StoreReader
from store.formats.given import check_kind, check_path, check_sequence
from store.opened.arguments import checks_arguments
from store.query.embedded.expression import ExpressionFilter
from store.query.tables.request import Request
from store.query.tables.schema import TABLES, arrow_schema
from store.query.tables.shares import plan, read
from store.structures.commitlog.slices import LogSlice
from store.verbs.check.parallel import ordered_map

STORE = "store"
"""The column with a row's store, if there are several."""

OnProgress = Callable[[int, int], None]

LOCAL_PART_BYTES = 16 << 20
# A request to an object store takes some tens of milliseconds, whatever its size.
REMOTE_PART_BYTES = 64 << 20


class Watch:
    """Counts the log bytes that the scans of a query have read, and keeps their first failure.

    From a scan's exception DuckDB passes on only the text.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self, on_progress: OnProgress | None = None) -> None:
        """Begin a query; on_progress gets the number of log bytes read so far, and of all to read."""
        self.failure: BaseException | None = None
        self.is_stopped = False
        self._on_progress = on_progress
        self._done_bytes = self._bytes_in_all = 0

    def expect(self, byte_count: int) -> None:
        self._bytes_in_all += byte_count

    def advance(self, byte_count: int) -> None:
        if self.is_stopped:
            raise KeyboardInterrupt
        self._done_bytes += byte_count
        if self._on_progress is not None:
            self._on_progress(self._done_bytes, self._bytes_in_all)


class TableDataset(ds.Dataset):  # type: ignore[misc] # pyarrow has no types
    """A table of stores. With several stores the first column is `store`, the given address."""

    def __init__(
        self,
        stores: Mapping[str, StoreReader],
        table: str,
        columns: dict[str, str],
        watch: Watch,
        *,
        outer: bool = False,
    ) -> None:
        # The base class cannot be instantiated; DuckDB only needs `schema` and `scanner` of a dataset.
        self._stores = stores
        self._table = table
        self._watch = watch
        self._outer = outer
        wanted = arrow_schema(columns)
        self._schema = pa.schema([pa.field(STORE, pa.string()), *wanted]) if len(stores) > 1 else wanted

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_options: object
    ) -> TableScanner:
        names = self._schema.names if columns is None else columns
        schema = pa.schema([self._schema.field(name) for name in names])
        return TableScanner(schema, partial(self._batches, schema, filter))

    def _batches(self, schema: pa.Schema, expression: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            for store, files in self._stores.items():
                yield from self._batches_of(store, files, schema, expression)
        except GeneratorExit:
            raise
        except BaseException as failure:
            self._watch.failure = self._watch.failure or failure
            raise

    def _batches_of(
        self, store: str, files: StoreReader, schema: pa.Schema, expression: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        constants = {STORE: store} if len(self._stores) > 1 else {}
        wanted = ExpressionFilter(expression, self._schema, constants)
        if not wanted.choose([files], lambda _: {}):
            return
        part_bytes = LOCAL_PART_BYTES if files.is_local else REMOTE_PART_BYTES
        request = Request(files.address, self._table, part_bytes=part_bytes, outer=self._outer)
        built = [column for column in schema if column.name not in constants]
        # A batch without columns would have no rows.
        built = pa.schema(built or [next(column for column in self._schema if column.name not in constants)])
        for batch in self._read(files, request, wanted, built):
            if batch.num_rows:
                yield _with_constants(batch, schema, constants)

    def _read(
        self, files: StoreReader, request: Request, wanted: ExpressionFilter, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        shares = plan(files, request, wanted)
        if request.table != "messages":
            for share in shares:
                self._watch.advance(0)
                yield from read(files, request, wanted, share, schema)
            return
        slices = cast(Sequence[LogSlice], shares)
        ends = {path: files.written_end(path) for path in {part.path for part in slices}}
        sizes = [max(min(part.stop, ends[part.path]) - part.start, 0) for part in slices]
        self._watch.expect(sum(sizes))

        def rows_of(part: LogSlice) -> list[pa.RecordBatch]:
            return list(read(files, request, wanted, part, schema))

        for size, batches in zip(sizes, ordered_map(rows_of, slices), strict=True):
            self._watch.advance(size)
            yield from batches


@dataclass(frozen=True, slots=True)
class TableScanner:
    """A scan; it can be read once."""

    projected_schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.batches())


def _with_constants(batch: pa.RecordBatch, schema: pa.Schema, constants: dict[str, str]) -> pa.RecordBatch:
    if not constants or batch.schema.names == schema.names:
        return batch
    arrays = [
        pa.repeat(constants[name], batch.num_rows) if name in constants else batch.column(name) for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def readers_of(stores: Sequence[str]) -> dict[str, StoreReader]:
    """Return readers of stores, by given address; NotAStore for an address without a store."""
    readers = {store: StoreReader(store) for store in stores}
    for reader in readers.values():
        reader.check_is_store()
    return readers


@checks_arguments
def export_arrow(
    stores: str | Path | Sequence[str | Path],
    table: str = "messages",
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
) -> pa.RecordBatchReader:
    """Read a table of one or several stores as Arrow batches.

    Only requested columns, and files that may have a requested row, are read.

    table    messages, consumequeue, index, segments or anomalies
    columns  names in the wanted order, by default all; with several stores `store` is the first
    filter   a pyarrow expression that the rows must satisfy

    >>> reader = export_arrow("/data/store", columns=["topic", "size"])  # doctest: +SKIP
    >>> pq.write_table(reader.read_all(), "messages.parquet")  # doctest: +SKIP

    Raises BadRequest for an unknown table or column, NotAStore and StoreIOError from reading a store.
    """
    if table not in TABLES:
        raise BadRequest(f"no table is called {table!r}", hint=", ".join(TABLES))
    given = [stores] if isinstance(stores, str | Path) else stores
    check_sequence("stores", given)
    for store in given:
        check_path("one of stores", store)
    if filter is not None:
        check_kind("filter", filter, pc.Expression)
    if columns is not None and not columns:
        raise BadRequest("columns is empty")
    addresses = [str(store) for store in given]
    dataset = TableDataset(readers_of(addresses), table, TABLES[table], Watch())
    unknown = sorted(set(columns or ()) - set(dataset.schema.names))
    if unknown:
        raise BadRequest(f"{table} has no column {', '.join(unknown)}", hint=", ".join(dataset.schema.names))
    return dataset.scanner(columns, filter).to_reader()
