"""Sets of numbers, as NumPy's own functions give them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from store.formats.sets import distinct, is_in

LONGS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 5)
NUMBERS = st.lists(LONGS).map(lambda found: np.array(found, np.int64))


@given(NUMBERS)
def test_distinct_numbers_are_sorted_and_each_is_there_once(values: np.ndarray) -> None:
    assert distinct(values).tolist() == sorted(set(values.tolist()))


@given(NUMBERS, NUMBERS)
def test_a_number_is_in_a_set_when_it_equals_one_of_it(values: np.ndarray, among: np.ndarray) -> None:
    assert is_in(values, among).tolist() == [one in set(among.tolist()) for one in values.tolist()]
