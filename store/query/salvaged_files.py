"""Salvaged messages as Parquet, with the columns of the messages table and the grade of each."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from store.query.tables.schema import MESSAGES, arrow_schema
from store.structures.commitlog.message_batch import MessageRows, row_limits
from store.verbs.salvage.grade import SalvagedRun

# The pages of a row group stay in memory until it is complete, in all five times as many bytes.
_MOST_ROWS = 1 << 16
_MOST_BYTES = 16 << 20
_REPEATED = ["topic", "queue_id", "tags", "flag", "sys_flag", "born_host", "store_host", "grade", "reason"]
"""Columns with few distinct values, to encode with a dictionary; for bodies and keys it would only take memory."""


def write_parquet(runs: Iterable[SalvagedRun], path: Path) -> int:
    """Write every record of the runs to `path`; return their number."""
    messages: pa.Schema = arrow_schema(MESSAGES)
    schema = messages.append(pa.field("grade", pa.string())).append(pa.field("reason", pa.string()))
    count = 0
    with pq.ParquetWriter(path, schema, use_dictionary=_REPEATED) as writer:
        for run in runs:
            rows = MessageRows(run.run.buffer, run.run.file_start, run.run.columns)
            limits = row_limits(run.run.columns.size, _MOST_ROWS, _MOST_BYTES)
            for start, stop in pairwise(limits):
                batch = rows.slice(start, stop).batch(messages)
                same = [pa.array([text] * batch.num_rows, pa.string()) for text in (run.grade.value, run.reason)]
                writer.write_batch(pa.record_batch([*batch.columns, *same], schema=schema))
                count += batch.num_rows
    return count
