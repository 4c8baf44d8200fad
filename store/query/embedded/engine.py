"""DuckDB in this process, with the tables of stores in it.

    with open_engine(["/data/store"]) as engine:
        for batch in engine.ask("select topic, count(*) from messages group by topic"):
            ...

A query can only read the tables: it has no access to files, extensions and settings. Data beyond DuckDB's memory limit
goes to a scratch folder, which is removed.

Tried with DuckDB 2.0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from store.errors import BadRequest
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.query.embedded.bound import check_binds
from store.query.embedded.connection import as_store_error, restrict
from store.query.embedded.dataset import OnProgress, TableDataset, Watch, readers_of
from store.query.tables.dialect import for_duckdb
from store.query.tables.interrupts import interrupts_wait
from store.query.tables.json_values import Row, rows_of, unique_names
from store.query.tables.query_text import check_is_query, is_translated
from store.query.tables.schema import MESSAGES, RECORD, TABLES

MESSAGES_WITH_RECORDS = "messages_with_records"
"""The table `messages` with the column RECORD."""

MOST_MEMORY_BYTES = 2 << 30
INTERRUPT_EVERY_S = 0.1
ANSWER_BATCH_ROWS = 1 << 16


class Engine:
    """A DuckDB connection with the tables of stores; `watch` has the progress of its scans."""

    def __init__(
        self,
        connection: Any,
        stores: Mapping[str, StoreReader],
        watch: Watch,
        worker: Executor,
        *,
        outer: bool = False,
    ) -> None:
        self.is_fleet = len(stores) > 1
        self._connection = connection
        self._watch = watch
        self._worker = worker
        for table, columns in TABLES.items():
            connection.register(table, TableDataset(stores, table, columns, watch, outer=outer))
        self._messages = TableDataset(stores, "messages", MESSAGES | {RECORD: "binary"}, watch, outer=outer)
        connection.register(MESSAGES_WITH_RECORDS, self._messages)

    def query(self, text: str, *, limit: int, on_progress: OnProgress | None = None) -> tuple[list[str], list[Row]]:
        """Return the columns' names and the first `limit` rows of the answer, with values as in JSON."""
        rows: list[Row] = []
        answer = self.ask(text, on_progress)
        for batch in answer:
            rows += rows_of(batch.slice(0, limit - len(rows)))
            if len(rows) >= limit:
                break
        return unique_names(answer.schema.names), rows

    def ask(self, text: str, on_progress: OnProgress | None = None) -> pa.RecordBatchReader:
        """Return the answer of a query; the scans run while it is read.

        BadRequest for a text that is no query, or an invalid one.
        """
        check_is_query(text)
        if is_translated(text):
            check_binds(text, is_fleet=self.is_fleet)
            text = for_duckdb(text)
        return self.ask_duckdb(text, on_progress)

    def ask_duckdb(self, text: str, on_progress: OnProgress | None = None) -> pa.RecordBatchReader:
        """Return the answer of a query in DuckDB's own dialect."""
        self._watch.begin(on_progress)
        with self._errors():
            reader = self._wait(lambda: self._connection.sql(text).to_arrow_reader(ANSWER_BATCH_ROWS))
        return pa.RecordBatchReader.from_batches(reader.schema, self._batches(reader))

    def read_messages(self, columns: Sequence[str], on_progress: OnProgress | None = None) -> pa.RecordBatchReader:
        """Return columns of all messages and of RECORD, in log order and without DuckDB."""
        self._watch.begin(on_progress)
        reader = self._messages.scanner(columns).to_reader()
        return pa.RecordBatchReader.from_batches(reader.schema, self._batches(reader))

    def _batches(self, reader: Any) -> Iterator[pa.RecordBatch]:
        while True:
            with self._errors():
                batch = self._wait(lambda: next(reader, None))
            if batch is None:
                return
            yield batch

    def _wait(self, call: Callable[[], Any]) -> Any:
        """Call DuckDB in another thread, as this thread could handle no signal before the end of the call."""
        waiting: Future[Any] | None = None
        try:
            with interrupts_wait():
                waiting = self._worker.submit(call)
            # The wait is in steps, as a signal just before a wait does not end it.
            while not waiting.done():
                wait([waiting], timeout=INTERRUPT_EVERY_S)
            return waiting.result()
        except KeyboardInterrupt:
            self._watch.is_stopped = True
            while waiting is not None and not waiting.done():
                # Repeated, as an interrupt before the start of the query is lost, or refused.
                with suppress(duckdb.Error):
                    self._connection.interrupt()
                wait([waiting], timeout=INTERRUPT_EVERY_S)
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise the failure of a scan, or DuckDB's error as one sentence."""
        try:
            yield
        except Exception as error:
            failure, self._watch.failure = self._watch.failure, None
            if failure is not None:
                raise failure from error
            raise error if isinstance(error, BadRequest) else as_store_error(error) from error


@contextmanager
def open_engine(
    stores: Sequence[str] | Mapping[str, StoreReader],
    memory_bytes: int | None = None,
    *,
    outer: bool = False,
    scratch: Path | None = None,
) -> Iterator[Engine]:
    """Start DuckDB with the tables of these stores.

    stores        addresses, or readers of checked stores by their name in the column `store`
    memory_bytes  DuckDB's limit; by default a quarter of the machine's memory, at most MOST_MEMORY_BYTES
    outer         a record of several messages is one row of `messages`, instead of one row per message (5.x)
    scratch       parent of the folder for data beyond the limit; by default the temporary folder
    """
    readers = stores if isinstance(stores, Mapping) else readers_of(stores)
    watch = Watch()
    with Scratch(scratch) as spilled:
        connection = duckdb.connect(
            config={
                "memory_limit": f"{memory_bytes or _memory_bytes()}B",
                "temp_directory": str(spilled.folder / "spill"),
                "python_enable_replacements": "false",
            }
        )
        try:
            restrict(connection)
            with ThreadPoolExecutor(1) as worker:
                yield Engine(connection, readers, watch, worker, outer=outer)
        finally:
            watch.is_stopped = True
            connection.close()


def _memory_bytes() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(machine // 4, MOST_MEMORY_BYTES)
