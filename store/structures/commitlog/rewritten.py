"""Finds records that a broker wrote for another message; property REAL_TOPIC has its topic.

    topic                        sys flag     the record is
    SCHEDULE_TOPIC_XXXX          any          a delayed message that waits
    RMQ_SYS_TRANS_HALF_TOPIC     none         a half message, or a copy that a transaction check stored again
    TRANS_CHECK_MAX_TIME_TOPIC   none         a half message after its last transaction check
    any other                    commit       a committed message
    any other, with DELAY        any          a delayed message that was delivered

One scan of the log finds them all: it searches the bytes REAL_TOPIC, and decodes only records around a hit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from store.errors import DamagedRecord
from store.formats.derived import is_pre_blank, units_of
from store.formats.message import TRANSACTION_COMMIT, TRANSACTION_MASK, StoredMessage, decode_record
from store.formats.properties import NAME_VALUE_SEPARATOR, REAL_TOPIC
from store.formats.queue_unit import UNIT_SIZE, QueueUnit, decode_unit
from store.formats.run import Run
from store.formats.sets import distinct

if TYPE_CHECKING:
    from store.structures.commitlog.commit_log import CommitLog
    from store.structures.consumequeue.consume_queue import ConsumeQueue


def rewritten_records(log: CommitLog, name: str = REAL_TOPIC) -> Iterator[StoredMessage]:
    """Yield the records with a property, in log order, up to the log's end or first damage."""
    for step in log.scan():
        if isinstance(step, Run):
            yield from _of_run(step, name)


def committed_records(log: CommitLog) -> Iterator[StoredMessage]:
    """Yield the records that commit a transaction, in log order, up to the log's end or first damage."""
    for step in log.scan():
        if isinstance(step, Run):
            columns = step.columns
            for row in np.flatnonzero(columns.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT).tolist():
                position = int(columns.position[row])
                yield decode_record(step.buffer[position : position + int(columns.size[row])], position=position)


def _of_run(run: Run, name: str) -> Iterator[StoredMessage]:
    mark = re.compile(re.escape((name + NAME_VALUE_SEPARATOR).encode()))
    columns = run.columns
    first, end = int(columns.position[0]), run.end - run.file_start
    hits = np.fromiter((first + hit.start() for hit in mark.finditer(run.buffer[first:end])), np.int64)
    rows = distinct(np.searchsorted(columns.position, hits, side="right") - 1)
    for row in rows.tolist():
        position = int(columns.position[row])
        record = decode_record(run.buffer[position : position + int(columns.size[row])], position=position)
        # The bytes may be a part of a body.
        if name in record.properties:
            yield record


def queue_records(
    log: CommitLog, queue: ConsumeQueue, first: int = 0
) -> Iterator[tuple[int, QueueUnit, StoredMessage | None]]:
    """Yield queue offset, unit and record of each unit from `first` on; None for a lost record."""
    at, stop = max(first, queue.min_offset), queue.max_offset
    while at < stop:
        # All units of a file in one read, as each read checks every page up to the file's end.
        data = bytes((queue.read_range(at) or b"")[: (stop - at) * UNIT_SIZE]) or _one_unit(queue, at)
        for number, unit in _units_with_records(data):
            yield at + number, unit, read_unit(log, unit)
        at += len(data) // UNIT_SIZE or 1


def _one_unit(queue: ConsumeQueue, at: int) -> bytes:
    unit = queue.unit(at)
    return unit.encode() if unit is not None else b""


def _units_with_records(data: bytes) -> Iterator[tuple[int, QueueUnit]]:
    """Yield number and unit of each unit that references a record; most of a file may be zeros."""
    units = units_of(data)
    names_one = (units["log_offset"] >= 0) & (units["size"] > 0) & ~is_pre_blank(units)
    for number in np.flatnonzero(names_one).tolist():
        yield number, decode_unit(data, number * UNIT_SIZE)


def read_unit(log: CommitLog, unit: QueueUnit) -> StoredMessage | None:
    """Return the record of a unit; None if it is deleted or damaged."""
    data = log.read(unit.log_offset, unit.size)
    if data is None:
        return None
    try:
        return decode_record(data, position=unit.log_offset)
    except DamagedRecord:
        return None
