"""Where a queue of a database begins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.structures.queuedb.database import OFFSETS, UNITS, QueueDatabase, first_offset
from store.structures.queuedb.keys import CHECKPOINT_TOPIC, Place, encode_long, encode_place, offset_key

FAMILIES = {
    UNITS: {},
    OFFSETS: {
        offset_key("T", 1, "max"): encode_place(Place(400, 8)),
        offset_key("T", 1, "min"): encode_place(Place(100, 4)),
        b"other": b"",
    },
}

PLACES = {4: 100, 5: 200, 7: 300, 8: 400}
"""Log offsets of units by queue offset: a search goes right at the hole."""


def find(queue_offset: int) -> Any:
    place = PLACES.get(queue_offset)
    return SimpleNamespace(log_offset=place) if place is not None else None


@pytest.mark.parametrize("end", [None, 0, 450])
def test_the_offset_table_has_the_ends_of_queues_and_a_checkpoint_or_none(end: int | None) -> None:
    written = {} if end is None else {offset_key(CHECKPOINT_TOPIC, 0, "max"): encode_long(end)}
    found = QueueDatabase({**FAMILIES, OFFSETS: FAMILIES[OFFSETS] | written}, Path("rocks"))
    assert (found.newest, found.oldest) == ({("T", 1): Place(400, 8)}, {("T", 1): Place(100, 4)})
    assert (found.checkpoint, found.malformed) == (end or 0, [b"other"])


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
