"""Sets of numbers by sorting.

NumPy's own unique and isin hash since 2.3; a million numbers in regular steps, as log offsets are, take seconds.
Sorting takes as long for any numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def distinct(values: np.ndarray) -> np.ndarray:
    """Sort the values, each once."""
    found = np.sort(values, axis=None)
    if not len(found):
        return found
    first = np.ones(len(found), bool)
    np.not_equal(found[1:], found[:-1], out=first[1:])
    return found[first]


def is_in(values: np.ndarray, among: npt.ArrayLike) -> np.ndarray:
    """Tell for each value whether it is among the others; a mask of the shape of `values`."""
    return is_in_sorted(values, np.sort(np.asarray(among), axis=None))


def is_in_sorted(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Tell for each value whether it is among the sorted others."""
    if not len(among):
        return np.zeros(np.shape(values), bool)
    places = np.minimum(np.searchsorted(among, values), len(among) - 1)
    return np.asarray(among[places] == values)
