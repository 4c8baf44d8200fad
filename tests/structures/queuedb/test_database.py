"""Where a queue of a database begins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from store.structures.queuedb.database import first_offset
from store.structures.queuedb.keys import Place

PLACES = {4: 100, 5: 200, 7: 300, 8: 400}
"""Log offsets of units by queue offset: a search goes right at the hole."""


def find(queue_offset: int) -> Any:
    place = PLACES.get(queue_offset)
    return SimpleNamespace(log_offset=place) if place is not None else None


@pytest.mark.parametrize(
    ("oldest", "log_start", "first"),
    [
        (Place(100, 4), 99, 4),
        (Place(100, 4), 100, 4),
        (Place(100, 4), 101, 7),
        (Place(100, 4), 300, 7),
        (Place(100, 4), 400, 8),
        (Place(100, 4), 401, 9),
        (None, 200, 7),
        (None, 400, 8),
        (None, 401, 9),
    ],
)
def test_a_queue_begins_with_its_first_unit_in_the_log(oldest: Place | None, log_start: int, first: int) -> None:
    assert first_offset(oldest, Place(400, 8), log_start, find) == first
