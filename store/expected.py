"""What the derived files should hold of a run of records: one queue unit each, and one index entry per key.

The values are those that dispatch writes (CommitLog.checkMessageAndReturnSize, ConsumeQueue.putMessagePositionInfo,
IndexService.buildIndex, 4.9.8): no unit for prepared and rolled-back transactions, no entry for rolled-back ones,
the unique key's entry before those of KEYS.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from store.kernels.run import Columns, Run
from store.formats.java import decode_utf8, key_hash, tags_code
from store.formats.message import SCHEDULE_TOPIC, TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from store.formats.properties import DELAY, KEYS, TAGS, UNIQ_KEY, decode_properties, split_keys

Ints = npt.NDArray[np.int64]

UNKNOWN_DELAY_MS = 1000


class Units(NamedTuple):
    """Queue units in log order; `queue` numbers the pairs in `queues`."""

    queues: list[tuple[str, int]]
    queue: Ints
    queue_offset: Ints
    log_offset: Ints
    size: Ints
    tags_code: Ints


class Entries(NamedTuple):
    """Index entries in log order."""

    key_hash: Ints
    log_offset: Ints
    store_timestamp_ms: Ints


def log_offsets(run: Run) -> Ints:
    """Where each record lies, whatever it says of itself."""
    return run.columns.position + run.file_start


def expected_units(run: Run, delay_levels_ms: tuple[int, ...]) -> Units:
    """The units of a run's records."""
    columns = run.columns
    kind = columns.sys_flag & TRANSACTION_MASK
    picked = np.flatnonzero((kind != TRANSACTION_PREPARED) & (kind != TRANSACTION_ROLLBACK))
    queues: dict[tuple[str, int], int] = {}
    queue = np.empty(len(picked), np.int64)
    codes = np.empty(len(picked), np.int64)
    for row, i in enumerate(picked):
        topic = _topic(run, columns, i)
        queue[row] = queues.setdefault((topic, int(columns.queue_id[i])), len(queues))
        codes[row] = _tags_code(run, columns, i, topic, delay_levels_ms)
    return Units(
        list(queues), queue, columns.queue_offset[picked], log_offsets(run)[picked], columns.size[picked], codes
    )


def expected_entries(run: Run) -> Entries:
    """The index entries of a run's records."""
    columns = run.columns
    hashes: list[int] = []
    rows: list[int] = []
    for i in range(run.count):
        if columns.sys_flag[i] & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            continue
        properties = _properties(run, columns, i)
        topic = _topic(run, columns, i)
        keys = [*filter(None, [properties.get(UNIQ_KEY)]), *split_keys(properties.get(KEYS, ""))]
        hashes += [key_hash(f"{topic}#{key}") for key in keys]
        rows += [i] * len(keys)
    picked = np.array(rows, np.int64)
    return Entries(np.array(hashes, np.int64), log_offsets(run)[picked], columns.store_timestamp_ms[picked])


def _topic(run: Run, columns: Columns, i: int) -> str:
    at = int(columns.topic_position[i])
    return decode_utf8(run.buffer[at : at + int(columns.topic_size[i])])


def _properties(run: Run, columns: Columns, i: int) -> dict[str, str]:
    at = int(columns.properties_position[i])
    return decode_properties(run.buffer[at : at + max(0, int(columns.properties_size[i]))])


def _tags_code(run: Run, columns: Columns, i: int, topic: str, delay_levels_ms: tuple[int, ...]) -> int:
    properties = _properties(run, columns, i)
    delay = properties.get(DELAY) if topic == SCHEDULE_TOPIC else None
    level = min(int(delay), len(delay_levels_ms)) if delay else 0
    if level > 0:
        return int(columns.store_timestamp_ms[i]) + delay_levels_ms[level - 1]
    return tags_code(properties.get(TAGS, ""))
