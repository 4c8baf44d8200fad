"""Compare units of the timer log with their records' properties, many at once.

    delete mark   the record has TIMER_DEL_UNIQKEY
    slot's time   TIMER_OUT_MS or later; of a unit that rolls, that or earlier
    topic hash    that of REAL_TOPIC

A unit that this cannot confirm is for `compare` to judge, by its record alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from store.errors import DamagedRecord
from store.five.timer.files import DELETE, ROLL
from store.formats.java import string_hash
from store.formats.message import decode_record
from store.formats.properties import (
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_OUT_MS,
)
from store.formats.run import Int64Array, Run

_DIGITS = 13
"""Of a time in milliseconds, from 2001 to 2286."""
_DUE, _TOPIC, _DELETE = (
    re.compile(re.escape(f"{name}{NAME_VALUE_SEPARATOR}".encode()) + value + re.escape(PROPERTY_SEPARATOR.encode()))
    for name, value in (
        (TIMER_OUT_MS, rb"([0-9]{%d})" % _DIGITS),
        (REAL_TOPIC, rb"([^\1\2]*)"),
        (TIMER_DEL_UNIQKEY, rb"([^\1\2]*)"),
    )
)

Found = npt.NDArray[np.bool_]
Units = npt.NDArray[np.void]
_NumberOf = Callable[[bytes], int]


def confirmed(run: Run, units: Units) -> Found:
    """Tell the units that have a record in this run and agree with its properties."""
    offsets, starts = units["log_offset"].astype(np.int64), run.columns.position + run.file_start
    rows = np.minimum(np.searchsorted(starts, offsets), run.count - 1)
    found = np.asarray(starts[rows] == offsets)
    if found.any():
        found[found] = _agree(run, rows[found], units[found])
    return found


def _agree(run: Run, rows: Int64Array, units: Units) -> Found:
    at, sizes = run.columns.properties_position[rows], run.columns.properties_size[rows]
    # A separator between two records' properties: the last one may lack it, and no hit spans two.
    joined = PROPERTY_SEPARATOR.encode().join(
        [run.buffer[first : first + size] for first, size in zip(at.tolist(), sizes.tolist(), strict=True)]
    )
    properties = _Properties(joined + PROPERTY_SEPARATOR.encode(), np.cumsum(sizes + 1))
    has_due, due = properties.values(_DUE, int)
    has_topic, topic_hash = properties.values(_TOPIC, _hash_of)
    magic, slot_ms = units["magic"], units["write_time_ms"].astype(np.int64) + units["delay_ms"]
    is_in_time = np.where(magic & ROLL, slot_ms <= due, slot_ms >= due)
    is_delete = properties.counts(_DELETE) > 0
    return np.asarray(
        has_due & has_topic & is_in_time & ((magic & DELETE > 0) == is_delete) & (topic_hash == units["topic_hash"])
    )


class _Properties:
    """The properties of many records in one buffer; `ends` are the positions behind each record's."""

    def __init__(self, data: bytes, ends: Int64Array) -> None:
        self._data, self._ends = data, ends

    def counts(self, pattern: re.Pattern[bytes]) -> Int64Array:
        """How many times each record has the property."""
        return np.bincount(self._owners([hit.start() for hit in pattern.finditer(self._data)]), minlength=self._size)

    def values(self, pattern: re.Pattern[bytes], number_of: _NumberOf) -> tuple[Found, Int64Array]:
        """Tell the records that have the property once, and give the number of its value."""
        hits = [(hit.start(), number_of(hit[1])) for hit in pattern.finditer(self._data)]
        owners, numbers = self._owners([start for start, _ in hits]), np.zeros(self._size, np.int64)
        numbers[owners] = [number for _, number in hits]
        return np.bincount(owners, minlength=self._size) == 1, numbers

    @property
    def _size(self) -> int:
        return len(self._ends)

    def _owners(self, starts: list[int]) -> Int64Array:
        return np.searchsorted(self._ends, np.array(starts, np.int64), side="right")


@lru_cache(maxsize=4096)
def _hash_of(topic: bytes) -> int:
    return string_hash(topic.decode("utf-8", "replace"))


def compare(record: bytes, time_ms: int, magic: int, topic_hash: int) -> str:
    """Name the fault of a unit beside its record; empty without one, or where the record cannot be read."""
    try:
        properties = decode_record(record).properties
    except DamagedRecord:
        return ""
    due, topic = properties.get(TIMER_OUT_MS, ""), properties.get(REAL_TOPIC, "")
    if bool(magic & DELETE) != (TIMER_DEL_UNIQKEY in properties):
        return "its magic and its record's properties disagree whether it is a delete"
    # A rebuild puts a message that is overdue into a later slot.
    if due.isascii() and due.isdigit() and (time_ms > int(due) if magic & ROLL else time_ms < int(due)):
        return f"it is in the slot of {time_ms}, its message is due at {due}"
    return "" if topic_hash == string_hash(topic) else f"its topic hash is not that of {topic}"
