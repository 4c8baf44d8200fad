"""Sets of numbers by sorting.

NumPy's unique and isin use hashes since 2.3. For a million numbers in regular steps, such as log offsets, they take
seconds. The time of sorting does not depend on the numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct values, sorted."""
    found = np.sort(values, axis=None)
    if not len(found):
        return found
    first = np.ones(len(found), bool)
    np.not_equal(found[1:], found[:-1], out=first[1:])
    return found[first]


def is_in(values: np.ndarray, among: npt.ArrayLike) -> np.ndarray:
    """Mark the values that are in `among`; the mask has the shape of `values`."""
    return is_in_sorted(values, np.sort(np.asarray(among), axis=None))


def is_in_sorted(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Mark the values that are in the sorted `among`."""
    if not len(among):
        return np.zeros(np.shape(values), bool)
    places = np.minimum(np.searchsorted(among, values), len(among) - 1)
    return np.asarray(among[places] == values)
