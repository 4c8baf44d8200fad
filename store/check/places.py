"""Which units or entries point into a stretch of log, and which of them at no record's beginning."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from store.dispatch.expected import Ints

NO_RECORD = "where no record begins"


class _Offsets:
    """The log offsets of units or entries as a sequence, for bisecting without converting all of them."""

    def __init__(self, column: np.ndarray) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, i: int) -> int:
        return int(self.column[i])


def rows_between(column: np.ndarray, low: int, high: int, rises: bool) -> Ints:
    """The rows with low <= log offset < high; halving the way when the offsets rise."""
    if rises:
        offsets = _Offsets(column)
        return np.arange(bisect_left(offsets, low), bisect_left(offsets, high))
    return np.flatnonzero((column >= low) & (column < high))


def split_by_start(there: Ints, rows: Ints, starts: Ints, otherwise: str) -> Iterator[tuple[Ints, str]]:
    """The rows that point at no record's start (NO_RECORD), and those that point at one (`otherwise`)."""
    at_start = np.isin(there[rows], starts)
    for picked, why in ((rows[~at_start], NO_RECORD), (rows[at_start], otherwise)):
        if len(picked):
            yield picked, why
