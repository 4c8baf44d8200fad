"""follow_chains: what is wrong in the chains of an index file, against a dictionary of newest entries."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from store.formats.index_page import decode_entry, index_file_size
from store.kernels.index import FOUND_COUNT
from tests.support.twice import both

ENTRY = st.tuples(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-5, 5000), st.integers(-2, 12))


def index_file(slot_count: int, entries: list[tuple[int, int, int]]) -> bytearray:
    """An index file whose entries have these hashes, log offsets and previous entries."""
    data = bytearray(index_file_size(slot_count, len(entries) + 1))
    for number, (key_hash, log_offset, previous) in enumerate(entries, 1):
        at = 40 + 4 * slot_count + 20 * number
        data[at : at + 20] = b"".join(
            value.to_bytes(size, "big", signed=True)
            for value, size in ((key_hash, 4), (log_offset, 8), (0, 4), (previous, 4))
        )
    return data


def follow(data: bytearray, slot_count: int, count: int) -> tuple[list[int], list[int]]:
    def ask(kernels: ModuleType) -> tuple[list[int], list[int]]:
        newest, found = bytearray(4 * slot_count), np.zeros(FOUND_COUNT, np.int64)
        kernels.follow_chains(data, slot_count, 1, count, newest, found)
        return np.frombuffer(newest, ">i4").tolist(), found.tolist()

    answer: tuple[list[int], list[int]] = both(ask)
    return answer


@given(st.integers(1, 7), st.lists(ENTRY, max_size=20))
def test_every_entry_must_name_the_one_before_in_its_chain(slots: int, entries: list[tuple[int, int, int]]) -> None:
    data, newest, wrong = index_file(slots, entries), dict.fromkeys(range(slots), 0), []
    for number in range(1, len(entries) + 1):
        entry = decode_entry(data, slots, number)
        if entry.previous != newest[entry.key_hash % slots]:
            wrong.append(number)
        newest[entry.key_hash % slots] = number
    offsets = [entry[1] for entry in entries]
    falling = sum(after < before for before, after in pairwise(offsets))
    first = wrong[0] if wrong else 0
    bounds = [min(offsets, default=0), max(offsets, default=0)]
    assert follow(data, slots, len(entries) + 1) == (list(newest.values()), [len(wrong), first, *bounds, falling])


def test_the_bounds_are_those_of_the_entries_below_zero_too() -> None:
    assert follow(index_file(1, [(0, -5, 0)]), 1, 2) == ([1], [0, 0, -5, -5, 0])
    assert follow(index_file(1, [(0, -5, 0), (0, -9, 1), (0, -7, 2)]), 1, 4) == ([3], [0, 0, -9, -5, 1])
    assert follow(index_file(1, [(0, 9, 0), (0, 5, 1), (0, 7, 2)]), 1, 4) == ([3], [0, 0, 5, 9, 1])
