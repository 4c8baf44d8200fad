"""The entries that the message database should have for the log's records.

    index   for every record with a unique key that is not rolled back: its keys, its tags, its unique key
    timer   for a message in the queue of timers with a time and a unique key
    trans   for a half message, until a record of the op topic has its log offset

Source: IndexRocksDBStore.buildIndex, Timeline, TransMessageRocksDBStore (5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from store.files.store_reader import StoreReader
from store.formats.message import is_indexed
from store.formats.properties import KEYS, REAL_TOPIC, TAGS, TIMER_OUT_MS, UNIQ_KEY, decode_properties
from store.formats.run import Int64Array, Run
from store.formats.topics import ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC, TIMER_TOPIC
from store.structures.commitlog.resync import read_log
from store.structures.messagedb.keys import HalfEntry, IndexEntry, TimerEntry, index_entries

TRANS_OFFSET, TRANSACTION_ID = "TRANS_OFFSET", "__transactionId__"


class Record(NamedTuple):
    """The fields of a record that its entries are made of."""

    topic: str
    log_offset: int
    size: int
    sys_flag: int
    queue_offset: int
    store_timestamp_ms: int
    properties: dict[str, str]

    def index_entries(self) -> list[IndexEntry]:
        """Return the record's entries in the index."""
        if not is_indexed(self.sys_flag):
            return []
        keys, tags, unique_key = (self.properties.get(name, "") for name in (KEYS, TAGS, UNIQ_KEY))
        return index_entries(self.topic, keys, tags, unique_key, self.log_offset, self.store_timestamp_ms)

    def timer(self) -> TimerEntry | None:
        """Return the record's timer; None for other messages."""
        delivery_ms, unique_key = self.properties.get(TIMER_OUT_MS, ""), self.properties.get(UNIQ_KEY, "")
        if self.topic != TIMER_TOPIC or not (delivery_ms.isdigit() and unique_key):
            return None
        return TimerEntry(int(delivery_ms), unique_key, self.size, self.log_offset)

    def half(self) -> HalfEntry | None:
        """Return the record's half message entry with no checks; None for other messages."""
        topic, unique_key = self.properties.get(REAL_TOPIC, ""), self.properties.get(TRANSACTION_ID, "")
        is_half = self.topic == ROCKSDB_HALF_TOPIC and topic and unique_key
        return HalfEntry(self.log_offset, topic, unique_key, 0, self.size) if is_half else None

    def ended_half(self) -> int | None:
        """Return the log offset of the half message that this op record ends; None for other records."""
        offset = self.properties.get(TRANS_OFFSET, "")
        return int(offset) if self.topic == ROCKSDB_OP_TOPIC and offset.isdigit() else None


@dataclass(slots=True)
class OpenHalves:
    """The half messages of a scanned log that no record has ended."""

    halves: dict[int, HalfEntry] = field(default_factory=dict)
    ended_at: dict[int, int] = field(default_factory=dict)
    """Half message's log offset → its op record's log offset."""
    op_records: set[int] = field(default_factory=set)
    """Log offsets of the records that end half messages."""
    newest: int = -1
    """Log offset of the newest half message, -1 without one."""

    def take(self, record: Record) -> None:
        """Note a half message, or the end of one."""
        if record.topic == ROCKSDB_OP_TOPIC:
            self.op_records.add(record.log_offset)
        if (half := record.half()) is not None:
            self.halves[half.log_offset] = half
            self.newest = half.log_offset
        if (ended := record.ended_half()) is not None:
            self.halves.pop(ended, None)
            self.ended_at[ended] = record.log_offset


def walk_records(files: StoreReader) -> Iterator[Record]:
    """Yield the readable records of a log's files."""
    for step in read_log(files)[1]:
        if isinstance(step, Run):
            yield from records_of(step)


def of_transactions(run: Run) -> Iterator[Record]:
    """Return the half messages and op records of a run."""
    sizes = run.columns.topic_size
    rows = np.flatnonzero((sizes == len(ROCKSDB_HALF_TOPIC)) | (sizes == len(ROCKSDB_OP_TOPIC)))
    return (one for one in records_of(run, rows) if one.topic in (ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC))


def records_of(run: Run, rows: Int64Array | slice = slice(None)) -> Iterator[Record]:
    """Yield the records of a run, or those of some rows."""
    content = memoryview(run.buffer)
    columns = run.columns
    names: Iterable[str] = ("topic_position", "topic_size", "properties_position", "properties_size")
    places = [getattr(columns, name)[rows].tolist() for name in names]
    numbers = ("size", "sys_flag", "queue_offset", "store_timestamp_ms")
    values = [getattr(columns, name)[rows].tolist() for name in numbers]
    offsets = run.log_offsets[rows].tolist()
    for topic_at, topic_size, at, size, offset, *fields in zip(*places, offsets, *values, strict=True):
        topic = str(content[topic_at : topic_at + topic_size], "utf-8", "replace")
        record_size, sys_flag, queue_offset, store_timestamp_ms = fields
        properties = decode_properties(content[at : at + size])
        yield Record(topic, offset, record_size, sys_flag, queue_offset, store_timestamp_ms, properties)
