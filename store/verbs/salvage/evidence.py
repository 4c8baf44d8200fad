"""Compare salvaged records with queues and index; a contradicted record becomes a partial one.

    queue unit    points to the record: its queue, queue offset and tags code must be the record's; units of
                  light queues are skipped, and one right unit of several is enough. The queue offset may differ if the
                  unit before or after in the queue differs as much: built from a log that lacks a record, a queue has
                  the later ones a place too early. A wrong size is the unit's: a record's size is that of its fields
    index entry   points to the record: an entry of another key contradicts the record if one of its keys has none; one
                  in no chain of its file has a damaged hash, and tells nothing
    properties    never end in a zero byte, unless a page was zeroed
    __CRC32#      if a record has one (5.x), it is the CRC of all its bytes, unless the message is a copy

Missing units and entries contradict nothing: they may never have been written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from store.formats.queue_unit import MAX_EXT_ADDRESS
from store.formats.run import Int64Array, Run
from store.formats.sets import distinct, is_in, is_in_sorted
from store.formats.topics import LIGHT_PLACEHOLDERS, SCHEDULE_TOPIC, shares_records
from store.structures.commitlog.property_crc import wrong_property_crcs
from store.structures.consumequeue.expect import Units, expected_units
from store.structures.consumequeue.numbering import QueueTable
from store.structures.index.expect import are_of_tags, expected_entries
from store.verbs.salvage.derived_files import NOTHING, DerivedFiles, NamedUnits
from store.verbs.salvage.grade import Grade, SalvagedRun, stretches

# An odd number near 2^64 divided by the golden ratio spreads offsets over all bits (Knuth, TAOCP 6.4).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


BoolArray = npt.NDArray[np.bool_]
Uint64Array = npt.NDArray[np.uint64]


def _is_light(topic: str) -> bool:
    """Return whether a topic has units of other topics' records alone: placeholders have their own."""
    return shares_records(topic) and not topic.startswith(LIGHT_PLACEHOLDERS)


class Evidence:
    """Queue units and index entries of one store, for a comparison with its records."""

    def __init__(self, files: DerivedFiles, delay_levels_ms: tuple[int, ...]) -> None:
        self._files = files
        self._delay_levels_ms = delay_levels_ms
        self._stretch = NOTHING
        self._table = QueueTable()
        self._numbers = np.empty(0, np.int64)
        self._has_tags = np.empty(0, bool)
        self._last_shifts = np.empty((2, 0), np.int64)
        light = [number for (topic, _), number in files.queues.items() if _is_light(topic)]
        self._light = np.array(light, np.int64)

    def log_end(self, covered: int, end: int, segment_size: int) -> int:
        """Return the log offset after the last record with a unit past `covered`; at least `end`.

        A unit more than a segment past all others may be damaged; it ends the search.
        """
        starts, stops = self._files.units_from(covered)
        reached = np.maximum.accumulate(np.concatenate([[end], stops]))
        is_far = starts - reached[:-1] > segment_size
        return int(reached[np.argmax(is_far)] if is_far.any() else reached[-1])

    def units_before(self, log_offset: int) -> int:
        """Return the number of units of records before a log offset."""
        return self._files.units_before(log_offset)

    def units_in(self, start: int, stop: int) -> tuple[NamedUnits, Sequence[tuple[str, int]]]:
        """Return units with log offsets in [start, stop), and the queues by number.

        Units of light queues are left out.
        """
        units = self._files.units_in(start, stop)
        return units.rows(~is_in(units.queue, self._light)), list(self._files.queues)

    def light_units_in(self, start: int, stop: int) -> Iterator[tuple[tuple[str, int], NamedUnits]]:
        """Yield each light queue's units with log offsets in [start, stop)."""
        if len(self._light):
            units, queues = self._files.units_in(start, stop), list(self._files.queues)
            units = units.rows(is_in(units.queue, self._light))
            for number in distinct(units.queue).tolist():
                yield queues[number], units.rows(units.queue == number)

    def review(self, found: SalvagedRun) -> Iterator[SalvagedRun]:
        """Yield the run, split into certain and contradicted records."""
        if found.grade is not Grade.CERTAIN or not found.count:
            yield found
            return
        self._reach(found)
        codes = np.zeros(found.count, np.int8)
        codes[_zero_tails(found.run)] = 3
        wrong_crcs = [log_offset for log_offset, is_copy in wrong_property_crcs(found.run) if not is_copy]
        codes[is_in_sorted(found.log_offsets, np.array(wrong_crcs, np.int64))] = 4
        wrong_keys = self._files.aside.submit(self._wrong_keys, found)
        wrong_units = self._wrong_units(found)
        codes[wrong_keys.result()] = 2
        codes[wrong_units] = 1
        for first, stop in stretches(codes):
            reason = _REASONS[int(codes[first])]
            grade = Grade.PARTIAL if reason else Grade.CERTAIN
            yield replace(found.rows(first, stop), grade=grade, reason=reason)

    def _reach(self, found: SalvagedRun) -> None:
        """Read the stretch with the records, unless it is in memory."""
        start, stop = int(found.log_offsets[0]), int(found.log_offsets[-1]) + 1
        if start < self._stretch.start or self._stretch.stop < stop:
            self._stretch = NOTHING  # Before another is read: two at a time would take twice the memory.
            self._stretch = self._files.stretch(start, stop)

    def _wrong_units(self, found: SalvagedRun) -> Int64Array:
        """Return rows with units that all differ from the record."""
        if not len(self._stretch.units.size):
            return np.empty(0, np.int64)
        expected = expected_units(found.run, self._delay_levels_ms, self._table)
        self._meet(expected.queues[len(self._numbers) :])
        units, offsets = self._stretch.units, found.log_offsets
        units = units.rows(slice(*np.searchsorted(units.log_offset, (offsets[0], offsets[-1] + 1))))
        # Mostly each record has one unit, and it is right.
        is_one_each = not len(self._light) and np.array_equal(units.log_offset, expected.log_offset)
        if is_one_each and not (self._differ(units, expected) | _shifts(units, expected).astype(bool)).any():
            return np.empty(0, np.int64)
        units, rows = self._named_by(units, offsets)
        one_of = np.full(found.count, -1)
        one_of[np.searchsorted(offsets, expected.log_offset)] = np.arange(len(expected.log_offset))
        has_unit = one_of[rows] >= 0
        units, rows = units.rows(has_unit), rows[has_unit]
        expected = expected.rows(one_of[rows])
        wrong = self._differ(units, expected)
        alike = ~wrong
        wrong[alike] = ~self._are_shared(units.queue[alike], _shifts(units, expected)[alike])
        return np.asarray(rows[wrong & ~is_in(rows, rows[~wrong])], np.int64)

    def _differ(self, units: NamedUnits, expected: Units) -> BoolArray:
        """Mark the units that differ from the expected ones, pair by pair, in more than the queue offset."""
        return np.asarray(
            (units.queue != self._numbers[expected.queue])
            | ((units.tags_code != expected.tags_code) & self._has_tags[expected.queue])
            & (units.tags_code > MAX_EXT_ADDRESS)
        )

    def _are_shared(self, queues: Int64Array, shifts: Int64Array) -> BoolArray:
        """Mark shifts of 0, and those that the unit before or after in the same queue has too."""
        known = self._last_shifts.shape[1]
        queues, shifts = np.concatenate([self._last_shifts, [queues, shifts]], axis=1)
        by_queue = np.argsort(queues, kind="stable")
        of_queue, sorted_shifts = queues[by_queue], shifts[by_queue]
        is_same = (np.diff(of_queue) == 0) & (np.diff(sorted_shifts) == 0)
        shared = shifts == 0
        shared[by_queue[1:][is_same]] = True
        shared[by_queue[:-1][is_same]] = True
        lasts = np.diff(of_queue, append=-1) != 0
        self._last_shifts = np.stack([of_queue[lasts], sorted_shifts[lasts]])
        return np.asarray(shared[known:])

    def _named_by(self, units: NamedUnits, offsets: Int64Array) -> tuple[NamedUnits, Int64Array]:
        """Return the units of records at these log offsets, without light queues', and the row of each."""
        rows = np.searchsorted(offsets, units.log_offset)
        names_record = (offsets[rows] == units.log_offset) & ~is_in(units.queue, self._light)
        return units.rows(names_record), rows[names_record]

    def _meet(self, queues: Sequence[tuple[str, int]]) -> None:
        """Note the queues that are new in a run."""
        numbers = np.array([self._files.queues.get(queue, -1) for queue in queues], np.int64)
        # The unit of a delayed message has the deliver time, or after a recovery by 4.9 the hash of the tags.
        has_tags = np.array([topic != SCHEDULE_TOPIC for topic, _ in queues], bool)
        self._numbers = np.concatenate([self._numbers, numbers])
        self._has_tags = np.concatenate([self._has_tags, has_tags])

    def _wrong_keys(self, found: SalvagedRun) -> Int64Array:
        """Return rows with an entry of a key that is not theirs, and without one of a key that is.

        Further entries contradict nothing: 5.4 and later index tags too. Nor do missing ones: the first and the last
        record of an index file may have entries in another file.
        """
        known, log_offsets = self._stretch.entries, found.log_offsets
        if not len(known.log_offset):
            return np.empty(0, np.int64)
        low, high = np.searchsorted(known.log_offset, (log_offsets[0], log_offsets[-1] + 1))
        offsets, hashes = known.log_offset[low:high], known.key_hash[low:high]
        entries = _combined(offsets, hashes)
        expected = expected_entries(found.run)
        combined = _combined(expected.log_offset, expected.key_hash)
        if np.array_equal(combined, entries):
            return np.empty(0, np.int64)
        lacking = expected.log_offset[~is_in(combined, entries)]
        strange = is_in_sorted(offsets, lacking) & ~is_in(entries, combined)
        rows = np.searchsorted(log_offsets, offsets[strange])
        return np.asarray(rows[~are_of_tags(found.run, rows, hashes[strange])], np.int64)


_REASONS = (
    "",
    "its queue entry contradicts it",
    "its index entries name other keys",
    "its properties end in zeros",
    "its __CRC32# is of other bytes",
)


def _shifts(units: NamedUnits, expected: Units) -> Int64Array:
    """Return how many places each unit is before the queue offset of its record."""
    return expected.queue_offset - units.queue_offset


def _zero_tails(run: Run) -> Int64Array:
    """Return rows whose properties end in a zero byte."""
    columns = run.columns
    last = np.maximum(columns.properties_position + columns.properties_size - 1, 0)
    content = np.frombuffer(run.buffer, np.uint8)
    return np.flatnonzero((columns.properties_size > 0) & (content[last] == 0))


def _combined(offsets: np.ndarray, hashes: np.ndarray) -> Uint64Array:
    """Combine log offset and key hash into one number; products wrap."""
    return np.asarray(offsets.astype(np.uint64) * _SPREAD + hashes.astype(np.uint64), np.uint64)
