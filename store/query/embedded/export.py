"""Exports messages in this process as Parquet, CSV or JSON lines, a folder for each partition.

    engine.ask ──batches──> rows by partition ──> one open file each, up to MOST_OPEN; then the oldest is closed

Memory holds one batch and the unwritten row groups of the open Parquet files.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from store.files.filesystem import os_errors
from store.query.embedded.bound import check_condition
from store.query.embedded.dataset import OnProgress
from store.query.embedded.engine import MESSAGES_WITH_RECORDS, Engine
from store.query.tables.dialect import for_duckdb
from store.query.tables.export import DAY, PROBLEM, TIMES, Export, published, require_to_line
from store.query.tables.json_values import plain
from store.query.tables.schema import MESSAGES, OUTER, RECORD
from store.structures.commitlog.arrow_columns import bytes_of

MOST_OPEN = 64
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# Characters that Hive and Spark escape in the name of a partition's folder.
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_CSV_TIME = "%Y-%m-%dT%H:%M:%S.%gZ"
_SHARED = [
    "store", "topic", "queue_id", "tags", "flag", "sys_flag", "born_host", "store_host", "reconsume_times",
    "prepared_transaction_offset", "size", "body_size", "compression", "body_state", "body_problem",
    "properties.key_value.key",
]  # fmt: skip
"""Columns of few values. A dictionary of others takes half of the time of writing, and more room."""


class _File(Protocol):
    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""

    def close(self) -> None:
        """Complete the file."""


def write_export(engine: Engine, target: Path, export: Export, *, on_progress: OnProgress | None = None) -> None:
    """Write the messages as files under `target`; `target` must not exist."""
    answer = _answer(engine, export, on_progress)
    count = len(answer.schema.names) - len(export.partition_by)
    written = pa.schema([answer.schema.field(i) for i in range(count)])
    with published(target) as folder, os_errors(target, "write"):
        folder.mkdir()
        files = _Files(folder, export, written)
        try:
            for batch in answer:
                export.on_inner(_inner_count(batch))
                names = [*written.names, *export.partition_by]
                nulls = {name: column.null_count for name, column in zip(names, batch.columns, strict=True)}
                if export.kind != "jsonl":
                    export.on_null_times({name: count for name, count in nulls.items() if name in TIMES})
                export.on_problems(batch.num_rows - nulls.get(PROBLEM, batch.num_rows))
                for place, rows in _by_partition(batch, count, export.partition_by):
                    files.write(place, rows)
        finally:
            files.close()


def export_lines(engine: Engine, export: Export, *, on_progress: OnProgress | None = None) -> Iterator[str]:
    """Yield the lines of an export as JSON lines, in log order and with newlines; many per text."""
    for batch in _answer(engine, export, on_progress):
        export.on_inner(_inner_count(batch))
        yield from _lines(export, batch)


def _lines(export: Export, batch: pa.RecordBatch) -> Iterator[str]:
    if export.to_lines is not None and not _inner_count(batch):
        records, ends = bytes_of(batch, batch.schema.names[0], may_be_null=False)
        return export.to_lines(records, ends[:-1], np.diff(ends))
    to_line = require_to_line(export)
    outer = batch.column(OUTER).to_pylist()
    return (to_line(*both) + "\n" for both in zip(batch.column(0).to_pylist(), outer, strict=True))


def _inner_count(batch: pa.RecordBatch) -> int:
    """Return the number of messages that lay inside records of several."""
    column = batch.schema.get_field_index(OUTER)
    return batch.num_rows - batch.column(column).null_count if column >= 0 else 0


def read_records(engine: Engine, where: str | None, *, on_progress: OnProgress | None = None) -> Iterator[bytes]:
    """Yield the records of messages that satisfy a condition, in log order; inner batches stay whole."""
    for batch in _answer(engine, Export("jsonl", where), on_progress):
        yield from batch.column(0).to_pylist()


def _answer(engine: Engine, export: Export, on_progress: OnProgress | None) -> pa.RecordBatchReader:
    """Return the columns of the files, followed by the partition columns."""
    if export.where is None and export.limit is None and not export.partition_by and export.kind != "csv":
        return engine.read_messages(list(_columns(engine, export)), on_progress)
    return engine.ask_duckdb(_query(engine, export), on_progress)


def _query(engine: Engine, export: Export) -> str:
    """Return the query of the files' columns, followed by the partition columns."""
    written = [_written(export.kind, name, kind) for name, kind in _columns(engine, export).items()]
    parts = [f'"{name}" as "partition {i}"' for i, name in enumerate(export.partition_by)]
    if export.where:
        check_condition(export.where, is_fleet=engine.is_fleet)
    where = f"where ({for_duckdb(export.where)})" if export.where else ""
    table = MESSAGES_WITH_RECORDS if export.kind == "jsonl" else "messages"
    days = f"select *, strftime(store_timestamp, '%Y-%m-%d') as {DAY} from {table}"
    limit = f"limit {export.limit}" if export.limit is not None else ""
    return f"select {', '.join([*written, *parts])} from ({days}) {where} {limit}"


def _columns(engine: Engine, export: Export) -> dict[str, str]:
    if export.kind == "jsonl":
        return {RECORD: "binary", OUTER: MESSAGES[OUTER]}
    stores = {"store": "string"} if engine.is_fleet else {}
    return {name: kind for name, kind in (stores | export.columns).items() if name not in export.partition_by}


def _written(kind: str, name: str, column: str) -> str:
    """Return a column's expression: in CSV bytes become base64, lists and maps JSON."""
    if kind == "csv" and column == "timestamp":
        return f'strftime("{name}", \'{_CSV_TIME}\') as "{name}"'
    if kind == "csv" and column in ("binary", "array<string>", "map<string,string>"):
        return f'{"base64" if column == "binary" else "to_json"}("{name}") as "{name}"'
    return f'"{name}"'


def _by_partition(
    batch: pa.RecordBatch, count: int, partition_by: Sequence[str]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield each partition's folder path and rows; only the first `count` columns are written."""
    written = batch.select(range(count))
    if not partition_by:
        yield "", written
        return
    rows: dict[tuple[Any, ...], list[int]] = {}
    values = [batch.column(count + i).to_pylist() for i in range(len(partition_by))]
    for number, key in enumerate(zip(*values, strict=True)):
        rows.setdefault(key, []).append(number)
    for key, numbers in rows.items():
        place = "/".join(f"{name}={_folder_name(value)}" for name, value in zip(partition_by, key, strict=True))
        yield place, written.take(pa.array(np.array(numbers)))


def _folder_name(value: Any) -> str:
    if value is None or value == "":
        return NO_VALUE
    return _ESCAPED.sub(lambda found: f"%{ord(found.group()):02X}", str(plain(value)))


class _Files:
    """The open files of an export, by partition; the least recently written file is closed first."""

    def __init__(self, folder: Path, export: Export, schema: pa.Schema) -> None:
        self._folder = folder
        self._export = export
        self._schema = schema
        self._open: OrderedDict[str, _File] = OrderedDict()
        self._count = 0

    def write(self, place: str, batch: pa.RecordBatch) -> None:
        if place not in self._open:
            if len(self._open) >= MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            self._open[place] = self._create(place)
        self._open.move_to_end(place)
        self._open[place].write(batch)

    def close(self) -> None:
        if not self._count and self._folder.is_dir():
            self.write("", pa.RecordBatch.from_pylist([], schema=self._schema))
        while self._open:
            self._open.popitem()[1].close()

    def _create(self, place: str) -> _File:
        folder = self._folder / place
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"part-{self._count:05d}.{self._export.kind}"
        self._count += 1
        if self._export.kind == "parquet":
            import pyarrow.parquet as pq

            parquet: _File = pq.ParquetWriter(path, self._schema, use_dictionary=_SHARED)
            return parquet
        if self._export.kind == "csv":
            import pyarrow.csv as csv

            options = csv.WriteOptions(quoting_style="needed")
            table: _File = csv.CSVWriter(path, self._schema, write_options=options)
            return table
        return _LineFile(path, self._export)


class _LineFile:
    def __init__(self, path: Path, export: Export) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")
        self._export = export

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.writelines(_lines(self._export, batch))

    def close(self) -> None:
        self._file.close()
