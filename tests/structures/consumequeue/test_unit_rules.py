"""Bounds of units: which of a batch queue are written, and how queue offsets must count."""

from __future__ import annotations

import numpy as np
import pytest

from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE, is_written, written_count
from store.structures.consumequeue.compare import continuity_findings
from store.structures.findings import QUEUE_DUPLICATE, QUEUE_GAP

WRITTEN = {"log_offset": 0, "size": 1, "queue_offset": 0, "message_count": 1}


@pytest.mark.parametrize("field", [None, *WRITTEN])
def test_a_batch_unit_is_written_with_all_four_of_its_numbers(field: str | None) -> None:
    units = np.zeros(3, BATCH_UNIT_DTYPE)
    for name, least in WRITTEN.items():
        units[name] = least
        units[name][1] -= name == field
    assert is_written(units).tolist() == [True, field is None, True]
    assert written_count(units) == (3 if field is None else 1)


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        ([6, 7, 8], []),
        ([7], [(QUEUE_GAP, 100, "queue offset 7 follows 5")]),
        ([6, 8, 10], [(QUEUE_GAP, 101, "queue offset 8 follows 6")]),
        ([5], [(QUEUE_DUPLICATE, 100, "queue offset 5 follows 5")]),
        ([6, 6], [(QUEUE_DUPLICATE, 101, "queue offset 6 follows 6")]),
        (
            [6, 8, 7],
            [(QUEUE_GAP, 101, "queue offset 8 follows 6"), (QUEUE_DUPLICATE, 102, "queue offset 7 follows 8")],
        ),
    ],
)
def test_queue_offsets_count_up_by_one(offsets: list[int], found: list[tuple[str, int, str]]) -> None:
    places = np.arange(100, 100 + len(offsets), dtype=np.int64)
    findings = continuity_findings("log", ("T", 0), 5, np.array(offsets, np.int64), places)
    assert [(one.kind, one.offset, one.detail) for one in findings] == found
