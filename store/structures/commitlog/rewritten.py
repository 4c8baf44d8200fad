"""Finds records that a broker wrote for another message; property REAL_TOPIC has its topic.

    topic                        sys flag     the record is
    SCHEDULE_TOPIC_XXXX          any          a delayed message that waits
    RMQ_SYS_TRANS_HALF_TOPIC     none         a half message, or a copy that a transaction check stored again
    TRANS_CHECK_MAX_TIME_TOPIC   none         a half message after its last transaction check
    any other                    commit       a committed message
    any other, with DELAY        any          a delayed message that was delivered

One scan of the log finds them all: it searches the bytes REAL_TOPIC, and decodes only records around a hit, and those
that commit a transaction: 5.5 commits without REAL_TOPIC.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from store.errors import DamagedRecord
from store.formats.derived import is_of_record, units_of
from store.formats.message import TRANSACTION_COMMIT, TRANSACTION_MASK, StoredMessage, decode_record
from store.formats.properties import NAME_VALUE_SEPARATOR, REAL_TOPIC
from store.formats.queue_unit import UNIT_SIZE, QueueUnit, decode_unit
from store.formats.run import Int64Array, Run
from store.formats.sets import distinct

if TYPE_CHECKING:
    from store.structures.commitlog.readable_log import ReadableLog
    from store.structures.commitlog.scan import Step
    from store.structures.consumequeue.consume_queue import ConsumeQueue


def rewritten_records(log: ReadableLog) -> Iterator[StoredMessage]:
    """Yield the records of the table above, in log order, up to the log's end or first damage."""
    for step in log.scan():
        if isinstance(step, Run):
            commits = np.flatnonzero(step.columns.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT)
            for record in _decoded(step, distinct(np.concatenate((_rows_around(step, REAL_TOPIC), commits)))):
                # The bytes may be a part of a body.
                if is_copy(record.sys_flag, record.properties):
                    yield record


def records_with(steps: Iterable[Step], name: str) -> Iterator[StoredMessage]:
    """Yield the records with a property that a walk of the log meets, in its order."""
    for step in steps:
        if isinstance(step, Run):
            yield from (one for one in _decoded(step, _rows_around(step, name)) if name in one.properties)


def records_of_topic(log: ReadableLog, topic: str) -> Iterator[StoredMessage]:
    """Yield the records of a topic, in log order, up to the log's end or first damage."""
    mark = re.compile(re.escape(topic.encode()))
    for step in log.scan():
        if isinstance(step, Run):
            yield from (one for one in _decoded(step, _rows_with(step, mark)) if one.topic == topic)


def is_copy(sys_flag: int, properties: Container[str]) -> bool:
    """Return whether a broker wrote the record for another message."""
    return REAL_TOPIC in properties or sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT


def _rows_around(run: Run, name: str) -> Int64Array:
    """Return the rows whose bytes hold the name of a property."""
    return _rows_with(run, re.compile(re.escape((name + NAME_VALUE_SEPARATOR).encode())))


def _rows_with(run: Run, mark: re.Pattern[bytes]) -> Int64Array:
    columns = run.columns
    first, end = int(columns.position[0]), run.end - run.file_start
    hits = np.fromiter((first + hit.start() for hit in mark.finditer(run.buffer[first:end])), np.int64)
    return distinct(np.searchsorted(columns.position, hits, side="right") - 1)


def _decoded(run: Run, rows: Int64Array) -> Iterator[StoredMessage]:
    for row in rows.tolist():
        yield decode_record(run.record(row), position=int(run.columns.position[row]))


def queue_records(
    log: ReadableLog, queue: ConsumeQueue, first: int = 0
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
    for number in np.flatnonzero(is_of_record(units)).tolist():
        yield number, decode_unit(data, number * UNIT_SIZE)


def read_unit(log: ReadableLog, unit: QueueUnit) -> StoredMessage | None:
    """Return the record of a unit; None if it is deleted or damaged."""
    data = log.read(unit.log_offset, unit.size)
    if data is None:
        return None
    try:
        return decode_record(data, position=unit.log_offset)
    except DamagedRecord:
        return None
