"""Blocks of JSON lines as columns of messages, to put many with one call.

    lines = MessageLines("Orders", now_ms, lambda topic: False)
    batch = lines.read(block)
    for row in batch.left:                          lines that the kernel leaves to an exact parser
        batch.add(row, message, None)               or nothing, if the line has no message
    batch.columns()

A batch is valid until the next one is read, as both use the same memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from store import kernels
from store.errors import BadRequest
from store.formats.host import LOCALHOST, Host
from store.formats.message import TRANSACTION_COMMIT, TRANSACTION_MASK, Message
from store.formats.run import Int64Array
from store.kernels.line_members import FROM, KIND, MOST_PARTS, NAMES, ROW_NAMES, TO, WORDS
from store.kernels.lines import TEXTS
from store.reading.record_lines import PARTS_OF_PROPERTY
from store.structures.commitlog.bulk import NUMBER_COLUMNS, MessageColumns

_ADDED = -2
"""Position of the unique key of an added row."""
_SPARE = 64
_LINES = 1 << 10
"""Rows of the first block; a block with more lines is read again."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class LineColumns:
    """Messages of lines, with store times, damage and unique keys.

    store_timestamps_ms, has_time  the store time of each line, if it has one
    damaged_count                  the number of lines with crc_ok false
    """

    messages: MessageColumns
    store_timestamps_ms: Int64Array
    has_time: npt.NDArray[np.bool_]
    damaged_count: int
    _uniq_keys: tuple[memoryview, Int64Array, Int64Array]

    def __len__(self) -> int:
        return len(self.messages)

    def times(self) -> list[int | None]:
        """Return the store time of each line, None without one."""
        pairs = zip(self.store_timestamps_ms.tolist(), self.has_time.tolist(), strict=True)
        return [time_ms if has_time else None for time_ms, has_time in pairs]

    def uniq_keys(self) -> list[bytes | None]:
        """Return the unique keys, b"" for none; None for rows that were added."""
        data, starts, ends = self._uniq_keys
        size = int(ends.max(initial=0))
        held, places = bytes(data[:size]), zip(starts.tolist(), ends.tolist(), strict=True)
        return [held[start:end] if start >= 0 else (None if start == _ADDED else b"") for start, end in places]


class MessageLines:
    """Reads blocks of lines.

    topic          for lines without a topic; None leaves such lines to the parser
    now_ms         the born time for lines without one
    is_left        whether lines of a topic are left to the parser
    leaves_copies  whether lines with the property REAL_TOPIC or the flag of a commit are left to the parser
    """

    def __init__(
        self, topic: str | None, now_ms: int, is_left: Callable[[str], bool], *, leaves_copies: bool = False
    ) -> None:
        self.now_ms = now_ms
        self.topic = topic
        self.leaves_copies = leaves_copies
        self.is_left = cache(is_left)
        words = [word.encode() for word in (*NAMES, *WORDS)]
        self._words = b"".join(words)
        self._word_ends = np.cumsum([0, *map(len, words)], dtype=np.int64)
        self._values = np.zeros((len((KIND, FROM, TO)), len(NAMES)), np.int64)
        self._parts = np.zeros((len(PARTS_OF_PROPERTY), MOST_PARTS), np.int64)
        self._bodies, self._properties = bytearray(), bytearray()
        self._capacity = _LINES

    def read(self, block: bytes) -> LineBatch:
        """Read a block of whole lines."""
        if len(self._bodies) < len(block) + _SPARE:
            self._bodies, self._properties = bytearray(len(block) + _SPARE), bytearray(len(block) + _SPARE)
        is_utf8 = _is_utf8(block)
        while True:
            rows = np.zeros((len(ROW_NAMES), self._capacity), np.int64)
            texts = np.full((2, TEXTS), -1, np.int64)
            count = kernels.read_lines(
                block, is_utf8, self.now_ms, self._words, self._word_ends, self._values, self._parts, texts,
                self._bodies, self._properties, rows,
            )  # fmt: skip
            if count >= 0:
                fields = dict(zip(ROW_NAMES, rows[:, :count], strict=True))
                return LineBatch(self, block, fields, self._bodies, self._properties)
            self._capacity *= 4


class LineBatch:
    """The lines of one block, one row each.

    left  rows left to the parser; `add` sets their messages
    len() the number of lines
    """

    def __init__(
        self, lines: MessageLines, block: bytes, fields: dict[str, Int64Array], bodies: bytearray, properties: bytearray
    ) -> None:
        self._block, self._fields = block, fields
        self._bodies, self._properties = memoryview(bodies), memoryview(properties)
        self._added: dict[int, Message] = {}
        is_sound = fields["is_sound"] == 1
        if lines.leaves_copies:
            is_sound &= (fields["has_real_topic"] == 0) & (fields["sys_flag"] & TRANSACTION_MASK != TRANSACTION_COMMIT)
        topics, topic_of = self._texts("topic")
        named = [lines.topic if topic is None else topic for topic in topics]
        self._topics, self._topic_of = _once(named, topic_of)
        is_sound &= ~_of_rows([topic is None or lines.is_left(topic) for topic in self._topics], self._topic_of)
        sides = []
        for side in ("born_host", "store_host"):
            texts, host_of = self._texts(side)
            hosts = [_host(text) for text in texts]
            is_sound &= ~_of_rows([host is None for host in hosts], host_of)
            sides.append(([host or LOCALHOST for host in hosts], host_of))
        (born, born_of), (stored, stored_of) = sides
        keys, pair_of = _numbered(born_of * len(stored) + stored_of)
        pairs = [(born[key // len(stored)], stored[key % len(stored)]) for key in keys]
        self._pairs, self._pair_of = _once(pairs, pair_of)
        self._end = len(is_sound)
        self._is_kept = is_sound
        self.left: list[int] = np.flatnonzero(~is_sound).tolist()

    def __len__(self) -> int:
        return len(self._is_kept)

    def line(self, row: int) -> bytes:
        """Return the text of a line, with its end."""
        return self._block[int(self._fields["line_start"][row]) : int(self._fields["line_end"][row]) + 1]

    def add(self, row: int, message: Message, store_timestamp_ms: int | None, *, is_damaged: bool = False) -> None:
        """Set the message of a line in `left`; the message must have a born time."""
        self._added[row] = message
        fields = self._fields
        for name in NUMBER_COLUMNS:
            fields[name][row] = getattr(message, name)
        fields["store_timestamp_ms"][row] = store_timestamp_ms or 0
        fields["has_store_time"][row] = store_timestamp_ms is not None
        fields["is_damaged"][row] = is_damaged
        fields["uniq_key"][row] = fields["uniq_key_end"][row] = _ADDED
        self._is_kept[row] = True

    def end_before(self, row: int) -> None:
        """Leave out this line and all later ones."""
        self._end = row

    def columns(self) -> LineColumns:
        """Return the messages in line order."""
        fields, kept = self._fields, self._is_kept
        kept[self._end :] = False
        self._place_added()
        bodies, body_ends = self._joined(self._bodies, "body_end", {row: m.body for row, m in self._added.items()})
        properties, property_ends = self._joined(
            self._properties, "property_end", {row: m.properties for row, m in self._added.items()}
        )
        topics, topic_of = _numbered(self._topic_of[kept])
        messages = MessageColumns(
            [str(self._topics[topic]) for topic in topics],
            topic_of,
            bodies,
            body_ends,
            properties,
            property_ends,
            {name: fields[name][kept] for name in NUMBER_COLUMNS},
            hosts=self._pairs,
            hosts_of=self._pair_of[kept],
        )
        return LineColumns(
            messages,
            fields["store_timestamp_ms"][kept],
            fields["has_store_time"][kept] == 1,
            int(fields["is_damaged"][kept].sum()),
            (self._properties, fields["uniq_key"][kept], fields["uniq_key_end"][kept]),
        )

    def _place_added(self) -> None:
        """Add the topics and hosts of added messages to the tables."""
        topics: dict[str | None, int] = {topic: place for place, topic in enumerate(self._topics)}
        pairs = {pair: place for place, pair in enumerate(self._pairs)}
        for row, message in self._added.items():
            self._topic_of[row] = topics.setdefault(message.topic, len(topics))
            self._pair_of[row] = pairs.setdefault((message.born_host, message.store_host), len(pairs))
        self._topics, self._pairs = list(topics), list(pairs)

    def _joined(self, data: memoryview, name: str, added: dict[int, bytes]) -> tuple[Any, Int64Array]:
        """Return the joined parts of all kept rows, and their ends."""
        ends = np.concatenate(([0], self._fields[name]))
        sizes = np.diff(ends)
        for row, part in added.items():
            sizes[row] = len(part)
        kept_ends = np.concatenate(([0], np.cumsum(sizes[self._is_kept])))
        if self._is_kept.all() and not added:
            return data, kept_ends
        pieces: list[bytes | memoryview] = []
        start = 0
        for row in self.left[: bisect_left(self.left, self._end)]:
            pieces += [data[int(ends[start]) : int(ends[row])], added.get(row, b"")]
            start = row + 1
        pieces.append(data[int(ends[start]) : int(ends[self._end])])
        return memoryview(b"".join(pieces)), kept_ends

    def _texts(self, name: str) -> tuple[list[str | None], Int64Array]:
        """Return the distinct texts, and the index of each row's text."""
        starts = self._fields[name]
        found, places = _numbered(starts)
        rows = np.zeros(len(found), np.int64)
        rows[places] = np.arange(len(starts))
        sizes = self._fields[f"{name}_size"][rows].tolist()
        spans = zip(found, sizes, strict=True)
        # In lines left to the parser the bytes may be no UTF-8.
        texts = [
            self._block[start : start + size].decode("utf-8", "replace") if start >= 0 else None
            for start, size in spans
        ]
        return texts, places


def _is_utf8(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _host(text: str | None) -> Host | None:
    """Return the host, LOCALHOST for no text; None for an invalid host."""
    if not text:
        return LOCALHOST
    try:
        host = Host.parse(text)
    except BadRequest:
        return None
    return host if -(1 << 31) <= host.port < 1 << 31 else None


def _of_rows(marks: Sequence[bool], places: Int64Array) -> npt.NDArray[np.bool_]:
    return np.array(marks, np.bool_)[places]


def _once(values: Sequence[_Value], places: Int64Array) -> tuple[list[_Value], Int64Array]:
    """Return the distinct values, and `places` mapped to their indexes."""
    found = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return list(found), np.array([found[value] for value in values], np.int64)[places]


def _numbered(values: Int64Array) -> tuple[list[int], Int64Array]:
    """Return the distinct values, and the index of each row's value."""
    if len(values) and (values == values[0]).all():
        return [int(values[0])], np.zeros(len(values), np.int64)
    found, places = np.unique(values, return_inverse=True)
    return found.tolist(), places.astype(np.int64)
