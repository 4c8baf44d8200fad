"""Verify the chains of an index file.

Every entry holds the number of the next older entry of its slot, and every slot that of its newest entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from store import kernels
from store.files.readable import WINDOW_BYTES, Salvaged
from store.formats.index_page import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from store.formats.run import Int64Array
from store.kernels.index import (
    FALLING_ENTRIES,
    FIRST_WRONG_ENTRY,
    FOUND_COUNT,
    HIGH_OFFSET,
    LOW_OFFSET,
    WRONG_ENTRIES,
)
from store.structures.findings import BROKEN_CHAIN, Finding

_WINDOW_ENTRIES = WINDOW_BYTES // ENTRY_SIZE


@dataclass(frozen=True, slots=True)
class Chains:
    """The number of broken links in a file's chains, and the range of its log offsets.

    low, high   the least and the greatest log offset; 0 and -1 without entries
    rises       whether no entry's log offset is less than that of the entry before it
    """

    wrong_entries: int
    first_wrong_entry: int
    wrong_slots: int
    used_slots: int
    low: int
    high: int
    rises: bool

    @classmethod
    def of(cls, file: Salvaged, slot_count: int, count: int) -> Chains:
        """Follow the chains of the entries 1 … count - 1."""
        data, entries_at = file.buffer, HEADER_SIZE + SLOT_SIZE * slot_count
        slots, found = bytearray(SLOT_SIZE * slot_count), np.zeros(FOUND_COUNT, np.int64)
        for first in range(1, count, _WINDOW_ENTRIES):
            stop = min(count, first + _WINDOW_ENTRIES)
            file.read_again(entries_at + ENTRY_SIZE * first, entries_at + ENTRY_SIZE * stop)
            kernels.follow_chains(data, slot_count, first, stop, slots, found)
        newest = np.frombuffer(slots, ">i4")
        return cls(
            wrong_entries=int(found[WRONG_ENTRIES]),
            first_wrong_entry=int(found[FIRST_WRONG_ENTRY]),
            wrong_slots=_count_wrong(np.frombuffer(data, ">i4", slot_count, HEADER_SIZE), newest, count),
            used_slots=int(np.count_nonzero(newest)),
            low=int(found[LOW_OFFSET]),
            high=int(found[HIGH_OFFSET]) if count > 1 else -1,
            rises=not found[FALLING_ENTRIES],
        )

    def findings(self, name: str) -> Iterator[Finding]:
        if self.wrong_entries:
            detail = "an entry does not name the next older one of its slot"
            yield Finding(BROKEN_CHAIN, name, self.first_wrong_entry, count=self.wrong_entries, detail=detail)
        if self.wrong_slots:
            detail = "a slot does not name its newest entry"
            yield Finding(BROKEN_CHAIN, name, 0, count=self.wrong_slots, detail=detail)


def unnamed_entries(entries: np.ndarray, slots: np.ndarray) -> Int64Array:
    """Return the numbers of entries that neither the next one of their slot's chain names nor the slot.

    A damaged key hash puts an entry into the chain of another slot.

    entries  1 … of the file
    """
    slot = entries["key_hash"].astype(np.int64) % len(slots)
    by_slot = np.argsort(slot, kind="stable")
    of_slot, numbers = slot[by_slot], by_slot + 1
    named = slots[of_slot].astype(np.int64)
    has_next = np.flatnonzero(of_slot[1:] == of_slot[:-1])
    named[has_next] = entries["previous"][by_slot[has_next + 1]]
    return np.asarray(numbers[named != numbers])


def _count_wrong(stored: Int64Array, newest: Int64Array, count: int) -> int:
    """Count slots with another number than their newest entry's; a number of no entry counts as empty."""
    differing = np.flatnonzero(stored != newest)
    named = stored[differing]
    return int(np.count_nonzero(np.where((named < 0) | (named > count), 0, named) != newest[differing]))
