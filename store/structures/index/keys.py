"""The keys of a run, hashed some thousands at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from store import kernels
from store.formats.run import Int64Array, Run
from store.kernels.index import MAX_KEYS_OF_RECORD

# Enough for a run of records with three keys each.
CAPACITY = 2 * MAX_KEYS_OF_RECORD


class Keys(NamedTuple):
    """The keys of the records first … stop - 1 of a run: for each key its hash and its record's number."""

    hashes: Int64Array
    records: Int64Array
    first: int
    stop: int

    def is_all_of(self, run: Run) -> bool:
        """Return whether these are the keys of all records of the run."""
        return not self.first and self.stop == run.count

    def copy(self) -> Keys:
        return self._replace(hashes=self.hashes.copy(), records=self.records.copy())


class KeyHasher:
    """Hash the keys of runs, up to `capacity` at a time; `with_tags` adds each record's tags."""

    def __init__(self, capacity: int = CAPACITY, *, with_tags: bool = False) -> None:
        self._with_tags = int(with_tags)
        self._hashes: Int64Array = np.empty(capacity, np.int64)
        self._records: Int64Array = np.empty(capacity, np.int64)

    def keys_of(self, run: Run) -> Iterator[Keys]:
        """Yield all keys in log order.

        The next step overwrites the yielded keys; `copy` keeps them.
        """
        return self._pieces(
            run,
            lambda first, state: kernels.key_hashes(
                run.buffer, run.array, first, run.count, self._with_tags, self._hashes, self._records, state
            ),
        )

    def keys_and_codes(self, run: Run, delay_levels_ms: Int64Array, codes: Int64Array) -> Iterator[Keys]:
        """Yield all keys like keys_of; fill `codes` with the tags codes up to the yielded piece's records."""
        return self._pieces(
            run,
            lambda first, state: kernels.dispatch_requests(
                run.buffer,
                run.array,
                first,
                run.count,
                delay_levels_ms,
                codes,
                self._with_tags,
                self._hashes,
                self._records,
                state,
            ),
        )

    def _pieces(self, run: Run, hash_from: Callable[[int, Int64Array], int]) -> Iterator[Keys]:
        state = np.zeros(1, np.int64)
        while (first := int(state[0])) < run.count:
            count = hash_from(first, state)
            yield Keys(self._hashes[:count], self._records[:count], first, int(state[0]))
