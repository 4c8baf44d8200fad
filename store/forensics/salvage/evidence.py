"""Hold salvaged records against queues and index; a contradicted record becomes a partial one.

    queue unit    names the record's log offset: its queue, queue offset, size and tags code must be the record's
    index entry   names the record's log offset: the record must have the keys that the entries have, and no others
    properties    never end in a zero byte, but do where a page was zeroed

Units and entries that are missing contradict nothing: they may never have been written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from store.consumequeue.numbering import QueueTable
from store.disk.store_reader import StoreReader
from store.dispatch.expected import expected_entries, expected_units
from store.errors import StoreError
from store.forensics.salvage.grade import Grade, SalvagedRun, stretches
from store.formats.derived import entries_of, units_of
from store.formats.index_page import HEADER_SIZE, decode_header
from store.formats.queue_unit import MAX_EXT_ADDRESS, UNIT_SIZE
from store.formats.run import Int64Array, Run
from store.formats.sets import is_in, is_in_sorted
from store.formats.topics import SCHEDULE_TOPIC
from store.index.geometry import geometry_of

# An odd number near 2^64 divided by the golden ratio spreads offsets over all bits (Knuth, TAOCP 6.4).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


Uint64Array = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _UnitTable:
    """All units of a store by log offset; `queue` numbers the pairs of `queues`."""

    queues: dict[tuple[str, int], int]
    log_offset: Int64Array
    queue: Int64Array
    queue_offset: Int64Array
    size: Int64Array
    tags_code: Int64Array


class Evidence:
    """Queue units and index entries of one store, for holding records against them."""

    def __init__(
        self, units: _UnitTable, offsets: Int64Array, entries: Uint64Array, delay_levels_ms: tuple[int, ...]
    ) -> None:
        """Take the log offsets that have an entry, and each with its key hash as one number."""
        order = np.argsort(offsets, kind="stable")
        self._units = units
        self._offsets = offsets[order]
        self._entries = entries[order]
        self._delay_levels_ms = delay_levels_ms
        self._table = QueueTable()
        self._numbers = np.empty(0, np.int64)
        self._has_tags = np.empty(0, bool)

    @classmethod
    def of(cls, reader: StoreReader, delay_levels_ms: tuple[int, ...]) -> Evidence:
        """Read the evidence of a store; an unreadable file gives none."""
        return cls(_read_units(reader), *_read_entries(reader), delay_levels_ms)

    @classmethod
    def none(cls) -> Evidence:
        """For files without a store around them: the records alone are looked at."""
        empty = np.empty(0, np.int64)
        units = _UnitTable({}, empty, empty, empty, empty, empty)
        return cls(units, empty, empty.astype(np.uint64), ())

    def log_end(self, end: int, segment_size: int) -> int:
        """Log offset behind the last record that units name, where records went on behind `end`.

        A unit a segment or more behind all others may be damaged; it ends the search.
        """
        starts = self._units.log_offset
        first = int(np.searchsorted(starts, end))
        starts, stops = starts[first:], (starts + self._units.size)[first:]
        reached = np.concatenate([[end], np.maximum.accumulate(stops)])
        is_far = starts - reached[:-1] > segment_size
        return int(reached[np.argmax(is_far)] if is_far.any() else reached[-1])

    def units_before(self, log_offset: int) -> int:
        """Number of units that name records in front of a log offset."""
        return int(np.searchsorted(self._units.log_offset, log_offset))

    def review(self, found: SalvagedRun) -> Iterator[SalvagedRun]:
        """The run, with the records that are contradicted apart."""
        if found.grade is not Grade.CERTAIN or not found.count:
            yield found
            return
        codes = np.zeros(found.count, np.int8)
        codes[_zero_tails(found.run)] = 3
        codes[self._wrong_keys(found)] = 2
        codes[self._wrong_units(found)] = 1
        for first, stop in stretches(codes):
            reason = _REASONS[int(codes[first])]
            grade = Grade.PARTIAL if reason else Grade.CERTAIN
            yield replace(found.rows(first, stop), grade=grade, reason=reason)

    def _wrong_units(self, found: SalvagedRun) -> Int64Array:
        """Rows whose unit says otherwise."""
        table = self._units
        if not len(table.log_offset):
            return np.empty(0, np.int64)
        expected = expected_units(found.run, self._delay_levels_ms, self._table)
        self._meet(expected.queues[len(self._numbers) :])
        offsets = expected.log_offset
        rows = np.searchsorted(found.log_offsets, offsets)
        at = np.minimum(np.searchsorted(table.log_offset, offsets), len(table.log_offset) - 1)
        has_unit = table.log_offset[at] == offsets
        wrong = (
            (table.queue[at] != self._numbers[expected.queue])
            | (table.queue_offset[at] != expected.queue_offset)
            | (table.size[at] != expected.size)
            | ((table.tags_code[at] != expected.tags_code) & self._has_tags[expected.queue])
            & (table.tags_code[at] > MAX_EXT_ADDRESS)
        )
        return np.asarray(rows[has_unit & wrong], np.int64)

    def _meet(self, queues: Sequence[tuple[str, int]]) -> None:
        """Note the queues that a run is the first to have."""
        numbers = np.array([self._units.queues.get(queue, -1) for queue in queues], np.int64)
        # The unit of a delayed message has the deliver time, or after a recovery by 4.9 the hash of the tags.
        has_tags = np.array([topic != SCHEDULE_TOPIC for topic, _ in queues], bool)
        self._numbers = np.concatenate([self._numbers, numbers])
        self._has_tags = np.concatenate([self._has_tags, has_tags])

    def _wrong_keys(self, found: SalvagedRun) -> Int64Array:
        """Rows that have entries in the index, but of other keys."""
        if not len(self._entries):
            return np.empty(0, np.int64)
        expected = expected_entries(found.run)
        rows = np.searchsorted(found.log_offsets, expected.log_offset)
        combined = _combined(found.log_offsets[rows], expected.key_hash)
        low, high = np.searchsorted(self._offsets, (found.log_offsets[0], found.log_offsets[-1] + 1))
        offsets, entries = self._offsets[low:high], self._entries[low:high]
        if np.array_equal(combined, entries):
            return np.empty(0, np.int64)
        has_entry = is_in_sorted(found.log_offsets[rows], offsets)
        missing = has_entry & ~is_in(combined, entries)
        foreign = offsets[~is_in(entries, combined)]
        return np.concatenate([rows[missing], np.flatnonzero(is_in(found.log_offsets, foreign))])


_REASONS = ("", "its queue unit says otherwise", "its index entries name other keys", "its properties end in zeros")


def _zero_tails(run: Run) -> Int64Array:
    """Rows whose properties end in a zero byte."""
    columns = run.columns
    last = np.maximum(columns.properties_position + columns.properties_size - 1, 0)
    content = np.frombuffer(run.buffer, np.uint8)
    return np.flatnonzero((columns.properties_size > 0) & (content[last] == 0))


def _combined(offsets: np.ndarray, hashes: np.ndarray) -> Uint64Array:
    """Log offset and key hash as one number; products wrap."""
    return np.asarray(offsets.astype(np.uint64) * _SPREAD + hashes.astype(np.uint64), np.uint64)


def _read_units(reader: StoreReader) -> _UnitTable:
    numbers = {queue: number for number, queue in enumerate(reader.queues())}
    pieces: list[Int64Array] = []
    for (topic, queue_id), number in numbers.items():
        for file in reader.queue_files(topic, queue_id):
            try:
                units = units_of(reader.read_written(file.path, file.size))
            except StoreError:
                continue
            rows = np.flatnonzero((units["size"] > 0) & (units["log_offset"] >= 0))
            names = ("log_offset", "size", "tags_code")
            log_offset, size, tags_code = (units[name][rows].astype(np.int64) for name in names)
            queue_offset = rows + file.number // UNIT_SIZE
            pieces.append(np.stack([log_offset, np.full(len(rows), number), queue_offset, size, tags_code]))
    table = np.concatenate(pieces, axis=1) if pieces else np.empty((5, 0), np.int64)
    table = table[:, np.argsort(table[0], kind="stable")]
    return _UnitTable(numbers, *table)


def _read_entries(reader: StoreReader) -> tuple[Int64Array, Uint64Array]:
    """The log offsets that have an entry, and each with its key hash as one number."""
    offsets, hashes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for file in reader.index_files():
        found = reader.salvage(file.path)
        if found.unreadable:
            continue
        data = found.buffer
        geometry = geometry_of(data)
        if geometry is not None:
            header = decode_header(data[:HEADER_SIZE])
            entries = entries_of(data, geometry.slot_count, header.index_count)[1:]
            offsets.append(entries["log_offset"].astype(np.int64))
            hashes.append(entries["key_hash"].astype(np.int64))
    every = np.concatenate(offsets)
    return every, _combined(every, np.concatenate(hashes))
