"""Search rising log offsets, as most index files and queue files have them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

_ROWS_AT_ONCE = 1 << 16
"""Rows read at once: more than most stretches of log have."""


class RisingOffsets:
    """Find rows by log offset in a mapped column that rises.

    require  reads rows before they are used
    found    the last search's row and log offset; the next search starts there unless its log offset is lower
    """

    def __init__(
        self, offsets: np.ndarray, require: Callable[[int, int], None], found: tuple[int, int] = (0, 0)
    ) -> None:
        self.found = found
        self._offsets, self._require = offsets, require

    def row_of(self, log_offset: int) -> int:
        """Return the row of the first item with this log offset or a higher one."""
        row, found_for = self.found
        row, count = row if log_offset >= found_for else 0, len(self._offsets)
        behind = min(row + _ROWS_AT_ONCE, count)
        while behind < count and self._at(behind - 1) < log_offset:
            row, behind = behind, min(3 * behind - 2 * row, count)
        while behind - row > _ROWS_AT_ONCE:
            middle = (row + behind) // 2
            row, behind = (middle, behind) if self._at(middle) < log_offset else (row, middle)
        self._require(row, behind)
        self.found = bisect_left(self._offsets, log_offset, row, behind), log_offset
        return self.found[0]

    def _at(self, row: int) -> int:
        self._require(row, row + 1)
        return int(self._offsets[row])
