"""Light message queues (LMQ): further queues of a message, with its queue offset in each.

    INNER_MULTI_DISPATCH        %LMQ%a,%LMQ%b     names
    INNER_MULTI_QUEUE_OFFSET    17,4              one queue offset for each name

A broker writes the second property only where enableMultiDispatch is set.

Source: ConsumeQueue.multiDispatchLmqQueue, CommitLog (4.9.8).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from store import kernels
from store.config import StoreConfig
from store.errors import UnsupportedFormat
from store.formats.columns import Column
from store.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from store.formats.run import Int64Array, Run
from store.formats.sets import is_in
from store.formats.topics import LMQ_PREFIX, RETRY_PREFIX
from store.layout import is_topic_folder_name

QueueKey = tuple[str, int]

_RETRY_TOPIC_PREFIX = RETRY_PREFIX.encode()
_NAMES = INNER_MULTI_DISPATCH.encode()
_LAST_OFFSET = (1 << 63) - 1
NOT_ON_SPARK = f"light queues ({INNER_MULTI_DISPATCH}) are not built on Spark"


class LightPart(NamedTuple):
    """Hold the records of one light queue as a run, and their rows in the source run."""

    key: QueueKey
    run: Run
    rows: Int64Array


class LightParts(NamedTuple):
    """Hold the parts of a run in light queues.

    faults     log offsets of records with a queue offset that is no number: each stops the dispatch of 5.3
    unmatched  log offsets of records with more or fewer names than queue offsets: they are in no light queue
    """

    parts: list[LightPart]
    faults: list[int]
    unmatched: list[int]


def has_light_files(config: StoreConfig) -> bool:
    """Return whether the settings give light queues files, and not entries in a database alone."""
    return config.enable_multi_dispatch and not config.has_named_queues_in_database


def find_light_parts(run: Run, rows: Int64Array, config: StoreConfig | None = None) -> LightParts:
    """Find the light queues of these records, in the log's order.

    config  with enableLmq light queues have queue id 0, otherwise the record's queue id; None counts as enabled
    """
    enable_lmq = config is None or config.enable_lmq
    columns, named = run.columns, np.empty(run.count, np.int64)
    named = named[: kernels.rows_with_property(run.buffer, run.array, run.count, _NAMES, named)]
    faults: list[int] = []
    unmatched: list[int] = []
    found: dict[QueueKey, list[tuple[int, int]]] = {}
    for row in rows[is_in(rows, named)].tolist():
        if run.topic(row).startswith(_RETRY_TOPIC_PREFIX):
            # A consumer returned the message.
            continue
        try:
            queues = _light_queues(run.properties(row))
        except ValueError:
            faults.append(int(columns.log_offset[row]))
            continue
        if queues is None:
            unmatched.append(int(columns.log_offset[row]))
        for name, queue_offset in queues or ():
            queue_id = 0 if enable_lmq and name.startswith(LMQ_PREFIX) else int(columns.queue_id[row])
            found.setdefault((name, queue_id), []).append((row, queue_offset))
    return LightParts([_part(run, key, units) for key, units in found.items()], faults, unmatched)


def refuse_light_parts(run: Run) -> None:
    """Raise UnsupportedFormat if a record has queue offsets in light queues."""
    rows = np.empty(run.count, np.int64)
    if kernels.rows_with_property(run.buffer, run.array, run.count, INNER_MULTI_QUEUE_OFFSET.encode(), rows):
        at = int(run.columns.log_offset[rows[0]])
        raise UnsupportedFormat(NOT_ON_SPARK, file=run.path, offset=at, code="not-on-spark")


def _part(run: Run, key: QueueKey, units: list[tuple[int, int]]) -> LightPart:
    rows, offsets = np.array(units, np.int64).T
    array = np.ascontiguousarray(run.array[:, rows])
    array[Column.QUEUE_OFFSET] = offsets
    return LightPart(key, Run(run.file_start, run.path, run.buffer, array, len(rows)), rows)


def _light_queues(properties: dict[str, str]) -> list[tuple[str, int]] | None:
    """Return names and queue offsets of a message's light queues; None if the lists differ in length.

    ValueError for an offset that is no long; it stops a broker's dispatch.
    """
    names = _split(properties.get(INNER_MULTI_DISPATCH, ""))
    offsets = _split(properties.get(INNER_MULTI_QUEUE_OFFSET, ""))
    if not offsets:
        # The broker had light queues switched off.
        return []
    if len(names) != len(offsets):
        return None
    return [(name, _long(text)) for name, text in zip(names, offsets, strict=True) if is_topic_folder_name(name)]


def _long(text: str) -> int:
    """Return the number that Java's Long.parseLong reads, else raise ValueError."""
    # Python's int() also accepts blanks and underscores.
    value = int(text) if not set(text) - set("+-0123456789") else _LAST_OFFSET + 1
    if not -_LAST_OFFSET <= value <= _LAST_OFFSET:
        raise ValueError("a queue offset is no long")
    return value


def _split(text: str) -> list[str]:
    """Return the words between commas without empty ones at the end, as Java splits."""
    words = text.split(",")
    while words and not words[-1]:
        words.pop()
    return words
