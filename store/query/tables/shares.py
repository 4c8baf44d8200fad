"""The rows of the tables: dividing each table into shares, and reading a share.

messages      a share is a LogSlice of a segment
segments      a share is a segment
consumequeue  a share is a queue
index         a share is an index file
anomalies     a share of the check (store.query.tables.anomalies)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import entries_of, is_pre_blank, units_of
from store.formats.index_page import HEADER_SIZE, decode_header
from store.formats.message import INNER_BATCH
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Run
from store.query.tables.anomalies import AnomalyShare, plan_anomalies, read_anomalies
from store.query.tables.request import Request
from store.query.tables.row_filter import RowFilter
from store.query.tables.segment_times import segment_times
from store.structures.commitlog.message_batch import TIMESTAMP, MessageRows, row_limits
from store.structures.commitlog.scan import Blank, Damage, ScanRules
from store.structures.commitlog.slices import BATCH_ROWS, LogSlice, readable_runs, split, split_into, walk_slice
from store.structures.index.geometry import geometry_of

BATCH_BYTES = 16 << 20

TableShare: TypeAlias = LogSlice | StoredFile | tuple[str, int] | AnomalyShare
"""A share of any table; a queue is given by topic and queue id."""


def plan(files: StoreReader, request: Request, wanted: RowFilter) -> Sequence[TableShare]:
    """Return the shares of the requested table that may have a wanted row."""
    return _PLANS[request.table](files, request, wanted)


def read(
    files: StoreReader, request: Request, wanted: RowFilter, share: TableShare, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield a share's wanted rows as Arrow batches of exactly this schema."""
    if request.table == "messages":
        yield from _read_messages(files, request, wanted, cast(LogSlice, share), schema)
        return
    built = wanted.columns_for(schema)
    for batch in _READERS[request.table](files, request, share, built):
        yield wanted.select(batch, schema)


# messages


def _plan_messages(files: StoreReader, request: Request, wanted: RowFilter) -> Sequence[LogSlice]:
    segments = files.segments()
    has_times = wanted.mentions("store_timestamp")
    times = segment_times(files, segments) if has_times else [(None, None)] * len(segments)
    of_file = dict(zip(segments, times, strict=True))
    chosen = wanted.choose(
        segments,
        lambda file: {"log_offset": (file.number, file.number + file.size - 1), "store_timestamp": of_file[file]},
    )
    if request.parts_per_segment:
        parts = split_into(chosen, request.parts_per_segment)
    else:
        parts = split(chosen, request.part_bytes)
    # Every record that starts inside the bounds is in a part that overlaps them.
    return wanted.choose(parts, lambda part: {"log_offset": (part.log_start, part.log_stop - 1)})


def _read_messages(
    files: StoreReader, request: Request, wanted: RowFilter, part: LogSlice, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for run in readable_runs(files, part, ScanRules(check_crc=request.check_crc)):
        found = wanted.select_messages(_rows_of(run, outer=request.outer))
        if not found.count:
            continue
        cuts = row_limits(found.columns.size, BATCH_ROWS, BATCH_BYTES)
        for start, stop in itertools.pairwise(cuts):
            yield found.slice(start, stop).batch(schema, with_body=request.with_body)


def _rows_of(run: Run, *, outer: bool) -> MessageRows:
    """Return a row for each record of a run, or for each message of records with several."""
    if outer or not (run.columns.sys_flag & INNER_BATCH).any():
        return MessageRows(run.buffer, run.file_start, run.columns)
    from store.query.tables.inner_rows import rows_of_messages

    return rows_of_messages(run)


# segments


def _read_segment(
    files: StoreReader, request: Request, file: StoredFile, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    part = LogSlice(file.path, file.number, file.size, 0, file.size)
    count, used, first, last = 0, 0, None, None
    outcome, reason = "end", None
    for step in walk_slice(files, part, ScanRules(check_crc=request.check_crc), go_on=False):
        if isinstance(step, Run):
            times = step.columns.store_timestamp_ms
            count, used = count + step.count, step.end - file.number
            first, last = int(times[0]) if first is None else first, int(times[-1])
        elif isinstance(step, Damage):
            outcome, reason = "damage", step.describe_reason()
        else:
            outcome = "blank" if isinstance(step, Blank) else "end"
    row = {
        "file": files.name_of(file.path),
        "file_start": file.number,
        "file_size": file.size,
        "used_bytes": used,
        "record_count": count,
        "first_store_timestamp": None if first is None else first * 1000,
        "last_store_timestamp": None if last is None else last * 1000,
        "modified": file.mtime_ms * 1000,
        "outcome": outcome,
        "reason": reason,
    }
    yield pa.RecordBatch.from_pylist([{name: row[name] for name in schema.names}], schema=schema)


# consumequeue


def _read_queue(files: StoreReader, _: Request, queue: tuple[str, int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    topic, queue_id = queue
    for file in files.queue_files(topic, queue_id):
        units = units_of(files.read(file.path))
        for start in range(0, len(units), BATCH_ROWS):
            piece = units[start : start + BATCH_ROWS]
            written = np.flatnonzero((piece["log_offset"] >= 0) & (piece["size"] > 0))
            if not len(written):
                continue
            piece = piece[written]
            yield _batch(
                schema,
                {
                    "topic": pa.repeat(topic, len(piece)),
                    "queue_id": pa.repeat(queue_id, len(piece)),
                    "queue_offset": file.number // UNIT_SIZE + start + written,
                    "log_offset": piece["log_offset"].astype(np.int64),
                    "size": piece["size"].astype(np.int32),
                    "tags_code": piece["tags_code"].astype(np.int64),
                    "is_pre_blank": is_pre_blank(piece),
                },
            )


# index


def _read_index(files: StoreReader, _: Request, file: StoredFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    data = files.read(file.path)
    if memoryview(data).nbytes < HEADER_SIZE:
        return
    header = decode_header(memoryview(data)[:HEADER_SIZE])
    geometry = geometry_of(data)
    if geometry is None:
        return
    entries = entries_of(data, geometry.slot_count, header.index_count)
    for start in range(1, len(entries), BATCH_ROWS):
        piece = entries[start : start + BATCH_ROWS]
        times = (header.begin_timestamp_ms + piece["time_diff"].astype(np.int64) * 1000) * 1000
        yield _batch(
            schema,
            {
                "file": pa.repeat(files.name_of(file.path), len(piece)),
                "entry_index": np.arange(start, start + len(piece), dtype=np.int32),
                "key_hash": piece["key_hash"].astype(np.int32),
                "log_offset": piece["log_offset"].astype(np.int64),
                "store_timestamp": pa.array(times).cast(TIMESTAMP),
                "previous_entry": piece["previous"].astype(np.int32),
            },
        )


def _batch(schema: pa.Schema, columns: dict[str, Any]) -> pa.RecordBatch:
    def column(field: pa.Field) -> pa.Array:
        made = columns[field.name]
        return (made if isinstance(made, pa.Array) else pa.array(made)).cast(field.type)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)


def _plan_segments(files: StoreReader, _: Request, wanted: RowFilter) -> Sequence[StoredFile]:
    return wanted.choose(files.segments(), lambda file: {"file_start": (file.number, file.number)})


def _plan_queues(files: StoreReader, _: Request, wanted: RowFilter) -> Sequence[tuple[str, int]]:
    return wanted.choose(files.queues(), lambda queue: {"topic": (queue[0],) * 2, "queue_id": (queue[1],) * 2})


_PLANS: dict[str, Callable[[StoreReader, Request, RowFilter], Sequence[TableShare]]] = {
    "messages": _plan_messages,
    "segments": _plan_segments,
    "consumequeue": _plan_queues,
    "index": lambda files, *_: files.index_files(),
    "anomalies": lambda files, *_: plan_anomalies(files),
}
_READERS: dict[str, Callable[[StoreReader, Request, Any, pa.Schema], Iterator[pa.RecordBatch]]] = {
    "segments": _read_segment,
    "consumequeue": _read_queue,
    "index": _read_index,
    "anomalies": lambda files, _, share, schema: read_anomalies(files, share, schema),
}
