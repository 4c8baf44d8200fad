"""usage: who fills the commit log, by topic, queue, tag or day. One walk with the local engine, no Spark.

Every run of records becomes a few columns, is grouped by Arrow, and adds to the sums; what stays in memory
is a row per group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from store.commitlog.scan import ScanRules
from store.commitlog.slices import LogSlice, walk_slice
from store.disk.store_reader import StoreReader
from store.errors import BadRequest
from store.kernels.run import Run
from store.tables.message_batch import TIMESTAMP, MessageRows

GROUPS = {"topic": pa.string(), "queue": pa.int32(), "tag": pa.string(), "day": pa.string()}
_COLUMNS = {"topic": "topic", "queue": "queue_id", "tag": "tags", "day": "store_timestamp"}


@dataclass(slots=True)
class Usage:
    """The sums of one group."""

    messages: int = 0
    bytes: int = 0
    first_ms: int = 0
    last_ms: int = 0


def usage(
    files: StoreReader, by: Sequence[str], on_progress: Callable[[int], None] = lambda done_bytes: None
) -> list[dict[str, Any]]:
    """One row per group, largest first: the group's values, messages, bytes, share of all bytes, first and
    last time."""
    unknown = [name for name in by if name not in GROUPS]
    if unknown or not by:
        raise BadRequest(f"cannot group by {', '.join(unknown) or 'nothing'}", hint=f"use some of {', '.join(GROUPS)}")
    files.check_is_store()
    sums: dict[tuple[Any, ...], Usage] = {}
    done = 0
    for segment in files.segments():
        part = LogSlice(segment.path, segment.number, segment.size, 0, segment.size)
        for step in walk_slice(files, part, ScanRules(check_crc=False)):
            if isinstance(step, Run):
                _add(sums, step, by)
                on_progress(done + step.end - segment.number)
        done += segment.size
    total = sum(found.bytes for found in sums.values())
    rows = [
        {
            **{name if name != "queue" else "queue_id": value for name, value in zip(by, key, strict=True)},
            "messages": found.messages,
            "size_bytes": found.bytes,
            "share_percent": round(100 * found.bytes / total, 2),
            "first_ms": found.first_ms,
            "last_ms": found.last_ms,
        }
        for key, found in sums.items()
    ]
    return sorted(rows, key=lambda row: (-row["size_bytes"], *(str(row[n]) for n in row)))


def _add(sums: dict[tuple[Any, ...], Usage], run: Run, by: Sequence[str]) -> None:
    fields = [pa.field(_COLUMNS[name], TIMESTAMP if name == "day" else GROUPS[name]) for name in by]
    batch = MessageRows(run.buffer, run.file_start, run.columns).batch(pa.schema(fields))
    table = pa.table(
        {name: _day(column) if name == "day" else column for name, column in zip(by, batch.columns, strict=True)}
        | {"size": run.columns.size, "ms": run.columns.store_timestamp_ms}
    )
    aggregates = [("size", "count"), ("size", "sum"), ("ms", "min"), ("ms", "max")]
    for row in table.group_by(list(by)).aggregate(aggregates).to_pylist():
        found = sums.setdefault(tuple(row[name] for name in by), Usage(first_ms=row["ms_min"]))
        found.messages += row["size_count"]
        found.bytes += row["size_sum"]
        found.first_ms, found.last_ms = min(found.first_ms, row["ms_min"]), max(found.last_ms, row["ms_max"])


def _day(times: pa.Array) -> pa.Array:
    return pc.strftime(times, format="%Y-%m-%d")
