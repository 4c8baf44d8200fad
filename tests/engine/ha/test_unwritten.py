"""Bytes that a power cut left unwritten reach as zeros to the end of their sector."""

from __future__ import annotations

import numpy as np
import pytest

from store.engine.ha.segment_start import require_segment_start
from store.engine.ha.unwritten import unwritten
from store.errors import BadRequest


@pytest.mark.parametrize(
    ("held", "position", "marked"),
    [
        (b"\1\0\0", 509, [False, True, True]),
        (b"\0\0\1", 509, [False, False, False]),
        (b"\1\0\0\1\0", 509, [False, True, True, False, True]),
        (b"\0\0\0\0", 510, [True, True, True, True]),
        (b"\0\1", 511, [True, False]),
        (b"\0\0", 0, [True, True]),
        (b"\0\1", 1023, [True, False]),
        (b"", 7, []),
    ],
)
def test_zeros_count_up_to_the_end_of_their_sector(held: bytes, position: int, marked: list[bool]) -> None:
    assert unwritten(np.frombuffer(held, np.uint8), position).tolist() == marked


@pytest.mark.parametrize(("log_offset", "begins"), [(0, True), (1000, True), (999, False), (1001, False), (2000, True)])
def test_a_segment_begins_at_a_multiple_of_its_size(log_offset: int, begins: bool) -> None:
    if begins:
        require_segment_start(log_offset, 1000)
        return
    with pytest.raises(BadRequest, match=f"begins at {log_offset}, no multiple of 1000") as refused:
        require_segment_start(log_offset, 1000)
    assert refused.value.code == "segment-size"
