"""Make one row for each message of a run whose records hold several messages (5.x batch queues).

    record | record of 3 messages | record        becomes        record | message | message | message | record

Each message is encoded as a separate record, in a buffer for the run. The table's columns are built from this buffer as
from a segment. A record with unreadable messages stays one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from store.errors import DamagedRecord
from store.formats.inner_batch import unwrap
from store.formats.message import INNER_BATCH, MAX_TOPIC_SIZE_V1, StoredMessage, decode_record, encode_record
from store.formats.run import Columns, Int64Array, Run
from store.structures.commitlog.message_batch import MessageRows

_NO_OUTER = -1
_PLACES = ("position", "body_position", "topic_position", "properties_position")


@dataclass(frozen=True)
class InnerRows(MessageRows):
    """Messages in a separate buffer.

    outer  queue offset of the record around each inner message, -1 for a record's own message
    """

    log_offsets: Int64Array
    outer: Int64Array

    @cached_property
    def log_offset(self) -> Int64Array:
        return self.log_offsets

    @cached_property
    def outer_queue_offsets(self) -> pa.Array:
        return pa.array(self.outer, mask=self.outer == _NO_OUTER)

    def select(self, mask: np.ndarray) -> InnerRows:
        columns = Columns(*(column[mask] for column in self.columns))
        return InnerRows(self.buffer, self.file_start, columns, self.log_offsets[mask], self.outer[mask])

    def slice(self, start: int, stop: int) -> InnerRows:
        return self.select(np.arange(start, stop))


def rows_of_messages(run: Run) -> InnerRows:
    """Return one row for each message of a run."""
    pieces: list[_Piece] = []
    done = 0
    for row in np.flatnonzero(run.columns.sys_flag & INNER_BATCH).tolist():
        messages = list(_messages_of(run, row))
        if messages:
            pieces += [_as_stored(run, done, row), *map(_encoded, messages)]
            done = row + 1
    pieces.append(_as_stored(run, done, run.count))
    starts = np.cumsum([0, *(len(piece.data) for piece in pieces[:-1])]).tolist()
    parts = [piece.moved_to(start) for piece, start in zip(pieces, starts, strict=True)]
    columns = Columns(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    log_offsets, outer = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("log_offset", "outer")
    )
    return InnerRows(b"".join(piece.data for piece in pieces), run.file_start, columns, log_offsets, outer)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes of some rows, and their columns with positions inside these bytes."""

    data: bytes | memoryview
    columns: Columns
    log_offset: Int64Array
    outer: Int64Array

    def moved_to(self, start: int) -> Columns:
        return self.columns._replace(**{name: getattr(self.columns, name) + start for name in _PLACES})


def _as_stored(run: Run, first: int, stop: int) -> _Piece:
    """Return the records first … stop - 1 of a run."""
    columns = Columns(*(column[first:stop] for column in run.columns))
    if first == stop:
        return _Piece(b"", columns, columns.position, columns.position)
    begin, end = int(columns.position[0]), int(columns.position[-1] + columns.size[-1])
    moved = columns._replace(**{name: getattr(columns, name) - begin for name in _PLACES})
    outer = np.full(stop - first, _NO_OUTER, np.int64)
    return _Piece(run.buffer[begin:end], moved, columns.position + run.file_start, outer)


def _messages_of(run: Run, row: int) -> Iterator[StoredMessage]:
    try:
        yield from list(unwrap(decode_record(run.record(row))))
    except DamagedRecord:
        return


def _encoded(message: StoredMessage) -> _Piece:
    """Return the message encoded as a separate record."""
    topic = message.topic.encode("utf-8", "surrogatepass")
    data = encode_record(
        message.as_put(),
        topic=topic,
        sys_flag=message.sys_flag,
        queue_offset=message.queue_offset,
        log_offset=message.log_offset,
        store_timestamp_ms=message.store_timestamp_ms,
    )
    properties = len(data) - len(message.property_text)
    topic_at = properties - 2 - len(topic)
    body = topic_at - (2 if len(topic) > MAX_TOPIC_SIZE_V1 else 1) - len(message.body)
    numbers = (0, len(data), body, len(message.body), topic_at, len(topic), properties, len(message.property_text))
    fields = (message.queue_id, message.queue_offset, message.log_offset, message.sys_flag)
    columns = (*numbers, *fields, message.store_timestamp_ms, message.body_crc)
    one = [np.array([value], np.int64) for value in (*columns, message.log_offset, message.outer_queue_offset)]
    return _Piece(data, Columns(*one[:-2]), one[-2], one[-1])
