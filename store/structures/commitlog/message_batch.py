"""A run of records as an Arrow batch of the `messages` table; only requested columns are built.

Most columns are numbers at fixed positions of the record. Positions after an IPv6 host shift by 12 bytes. Bodies,
topics and properties are byte strings; the scan has found their positions. store.structures.commitlog.gather reads
both kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store import kernels
from store.formats.body import BodyState, compression_of, decode_body
from store.formats.host import IPV4_HOST_SIZE, IPV6_HOST_SIZE, Host
from store.formats.message import (
    BORN_HOST_AT,
    BORN_HOST_IPV6,
    BORN_TIMESTAMP_AT,
    COMPRESSED,
    FLAG_AT,
    STORE_HOST_IPV6,
)
from store.formats.properties import KEYS, TAGS, UNIQ_KEY
from store.formats.run import Columns
from store.structures.commitlog.gather import Ints, distinct_text, hex_text, ints, longs, rows, slices, text
from store.structures.commitlog.property_map import PropertyTable, split_words

TIMESTAMP = pa.timestamp("us", tz="UTC")
LAST_TIME_MS = (1 << 63) // 1000 - 1
"""The last time whose microseconds fit in 64 bits."""


@dataclass(frozen=True)
class MessageRows:
    """Records of one buffer. The columns must not change while an object of this class is in use."""

    buffer: Any
    file_start: int
    columns: Columns

    @property
    def count(self) -> int:
        return len(self.columns.position)

    def select(self, mask: np.ndarray) -> MessageRows:
        return MessageRows(self.buffer, self.file_start, Columns(*(column[mask] for column in self.columns)))

    def slice(self, start: int, stop: int) -> MessageRows:
        return MessageRows(self.buffer, self.file_start, Columns(*(column[start:stop] for column in self.columns)))

    def batch(self, schema: pa.Schema, *, with_body: bool = True) -> pa.RecordBatch:
        """Return the columns of `schema` in its order; without `with_body` bodies are null."""
        arrays = []
        for field in schema:
            if field.name in ("body", "body_problem") and not with_body:
                arrays.append(pa.nulls(self.count, field.type))
            else:
                arrays.append(_BUILDERS[field.name](self).cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    # Values that several columns share.

    @cached_property
    def log_offset(self) -> Ints:
        """Log offset of each record by its position; in a healthy log equal to its physical offset field."""
        return self.columns.position + self.file_start

    @cached_property
    def outer_queue_offsets(self) -> pa.Array:
        """Queue offset of the record around each inner message; null for a record's own message."""
        return pa.nulls(self.count, pa.int64())

    @cached_property
    def topics(self) -> pa.DictionaryArray:
        return distinct_text(slices(self.buffer, self.columns.topic_position, self.columns.topic_size))

    @cached_property
    def properties(self) -> PropertyTable:
        return PropertyTable(slices(self.buffer, self.columns.properties_position, self.columns.properties_size))

    @cached_property
    def behind_born_host(self) -> Ints:
        """Position of the store timestamp."""
        return self.columns.position + BORN_HOST_AT + self.host_size(BORN_HOST_IPV6)

    @cached_property
    def behind_store_host(self) -> Ints:
        """Position of the reconsume times."""
        return self.behind_born_host + 8 + self.host_size(STORE_HOST_IPV6)

    def host_size(self, bit: int) -> Ints:
        return np.where(self.columns.sys_flag & bit, IPV6_HOST_SIZE, IPV4_HOST_SIZE)

    def crc_ok(self) -> pa.Array:
        """Return whether each body matches its record's CRC."""
        ok, columns, row = np.ones(self.count, bool), np.array(self.columns, np.int64), 0
        while (row := kernels.first_bad_body(self.buffer, columns, row, self.count)) < self.count:
            ok[row] = False
            row += 1
        return pa.array(ok)

    @cached_property
    def compressions(self) -> pa.Array:
        """Compression of each body, null for a plain one."""
        flags, places = np.unique(self.columns.sys_flag, return_inverse=True)
        return pa.array([compression_of(flag) for flag in flags.tolist()], pa.string()).take(pa.array(places))

    @cached_property
    def bodies(self) -> pa.Array:
        return slices(self.buffer, self.columns.body_position, self.columns.body_size)

    def body_problems(self) -> pa.Array:
        """Return why a compressed body cannot be decompressed; null for all other bodies."""
        flags = self.columns.sys_flag.tolist()
        compressed = np.flatnonzero(self.columns.sys_flag & COMPRESSED).tolist()
        found = {row: decode_body(self.bodies[row].as_py(), flags[row]).problem for row in compressed}
        return pa.array([found.get(row) or None for row in range(self.count)], pa.string())

    def hosts(self, positions: Ints, bit: int) -> pa.Array:
        """Return hosts as text; each distinct one is formatted once."""
        return self._by_host_size(positions, bit, _host_text)

    def msg_ids(self) -> pa.Array:
        """Return hex of the store host and the log offset."""
        places = self.log_offset.astype(">i8").view(np.uint8).reshape(-1, 8)
        return self._by_host_size(
            self.behind_born_host + 8,
            STORE_HOST_IPV6,
            lambda hosts, rows: hex_text(np.hstack((hosts, places[rows]))),
        )

    def _by_host_size(self, positions: Ints, bit: int, make: Callable[[np.ndarray, Ints], pa.Array]) -> pa.Array:
        parts, order = [], []
        sizes = self.host_size(bit)
        for size in (IPV4_HOST_SIZE, IPV6_HOST_SIZE):
            picked = np.flatnonzero(sizes == size)
            if len(picked):
                parts.append(make(rows(self.buffer, positions[picked], size), picked))
                order.append(picked)
        match parts:
            case []:
                return pa.array([], pa.string())
            case [only]:
                return only
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(order))))


def _host_text(hosts: np.ndarray, _rows: Ints) -> pa.Array:
    count, width = hosts.shape
    flat = pa.py_buffer(np.ascontiguousarray(hosts))
    encoded = pa.Array.from_buffers(pa.binary(width), count, [None, flat]).dictionary_encode()
    names = pa.array([str(Host.decode(host.as_py())) for host in encoded.dictionary], pa.string())
    return names.take(encoded.indices)


def _times(milliseconds: Ints) -> pa.Array:
    beyond = np.abs(milliseconds.astype(np.float64)) > LAST_TIME_MS
    return pa.array(milliseconds * 1000, pa.int64(), mask=beyond).cast(TIMESTAMP)


_BUILDERS: dict[str, Callable[[MessageRows], pa.Array]] = {
    "topic": lambda m: m.topics.cast(pa.string()),
    "queue_id": lambda m: pa.array(m.columns.queue_id),
    "queue_offset": lambda m: pa.array(m.columns.queue_offset),
    "log_offset": lambda m: pa.array(m.log_offset),
    "size": lambda m: pa.array(m.columns.size),
    "msg_id": lambda m: m.msg_ids(),
    "uniq_key": lambda m: text(m.properties.column(UNIQ_KEY.encode())),
    "keys": lambda m: split_words(m.properties.column(KEYS.encode())),
    "tags": lambda m: distinct_text_or_null(m.properties.column(TAGS.encode())),
    "flag": lambda m: pa.array(ints(m.buffer, m.columns.position + FLAG_AT)),
    "sys_flag": lambda m: pa.array(m.columns.sys_flag),
    "born_timestamp": lambda m: _times(longs(m.buffer, m.columns.position + BORN_TIMESTAMP_AT)),
    "born_host": lambda m: m.hosts(m.columns.position + BORN_HOST_AT, BORN_HOST_IPV6),
    "store_timestamp": lambda m: _times(m.columns.store_timestamp_ms),
    "store_host": lambda m: m.hosts(m.behind_born_host + 8, STORE_HOST_IPV6),
    "reconsume_times": lambda m: pa.array(ints(m.buffer, m.behind_store_host)),
    "prepared_transaction_offset": lambda m: pa.array(longs(m.buffer, m.behind_store_host + 4)),
    "body_crc": lambda m: pa.array(m.columns.body_crc),
    "crc_ok": lambda m: m.crc_ok(),
    "body_size": lambda m: pa.array(m.columns.body_size),
    "properties": lambda m: m.properties.maps(),
    "property_bytes": lambda m: m.properties.left_over(),
    "compression": lambda m: m.compressions,
    "body_state": lambda m: pc.if_else(m.compressions.is_null(), BodyState.PLAIN.value, BodyState.STORED.value),
    "body_problem": lambda m: m.body_problems(),
    "body": lambda m: m.bodies,
    "outer_queue_offset": lambda m: m.outer_queue_offsets,
    "record": lambda m: slices(m.buffer, m.columns.position, m.columns.size),
}


def distinct_text_or_null(strings: pa.Array) -> pa.Array:
    """Return byte strings with few distinct values as text; nulls stay null."""
    return distinct_text(strings).cast(pa.string())


def row_limits(sizes: Ints, most_rows: int, most_bytes: int) -> Sequence[int]:
    """Return the row numbers that bound pieces of at most `most_rows` rows and `most_bytes` bytes.

    A single larger row is a piece of its own.
    """
    cuts, start = [0], 0
    ends = np.cumsum(sizes)
    while start < len(sizes):
        spent = int(ends[start - 1]) if start else 0
        by_bytes = int(np.searchsorted(ends, spent + most_bytes, "right"))
        start = min(start + most_rows, max(by_bytes, start + 1), len(sizes))
        cuts.append(start)
    return cuts
