"""The queues that a log holds records of, and how far a walk of it has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.store_reader import StoreReader
from store.layout import segment_name
from store.verbs.tables import topics_of_log
from tests.support.logs import record

SEGMENT_BYTES = 1000


@pytest.mark.parametrize("damage", [bytes([9]) * 10, bytes(8), bytes(10)])
def test_a_walk_names_each_queue_of_a_record_behind_damage_too_and_the_bytes_that_it_has_done(
    damage: bytes, tmp_path: Path
) -> None:
    size = len(record(b"T"))
    first = record(b"T", queue_id=1) + record(b"U", queue_id=1, position=size)
    second = record(b"T", queue_id=2, position=SEGMENT_BYTES)
    second += damage
    third_at = SEGMENT_BYTES + len(second)
    second += record(b"V", queue_id=3, position=third_at)
    (tmp_path / "commitlog").mkdir()
    for number, data in enumerate((first, second)):
        path = tmp_path / "commitlog" / segment_name(number * SEGMENT_BYTES)
        path.write_bytes(data.ljust(SEGMENT_BYTES, b"\0"))
    done: list[int] = []
    reader = StoreReader(str(tmp_path))
    found, _ = topics_of_log(reader, done.append)
    assert found == {("T", 1), ("U", 1), ("T", 2), ("V", 3)}
    assert done == [2 * size, SEGMENT_BYTES + size, third_at + size]
    (position,) = [position for _, position in reader.damage]
    assert position == size
