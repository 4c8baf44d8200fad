"""The units of one queue of a RocksDB, in scratch files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from store.files.filesystem import Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE, BatchUnitArray
from store.structures.queuedb.keys import Place
from store.structures.queuedb.queue import RocksQueue

OFFSETS = (3, 4, 7)
"""Of the queue: two are missing."""


def units(*offsets: int) -> BatchUnitArray:
    """Units of records of 100 bytes that follow each other."""
    return np.array([(100 * at, 100, 0, 1, at, 1, -1, 0) for at in offsets], BATCH_UNIT_DTYPE)


@pytest.fixture
def queue(tmp_path: Path) -> RocksQueue:
    """A queue in files of two units."""
    found = RocksQueue("T", 0, MappedFileQueue(tmp_path, 2 * BATCH_UNIT_DTYPE.itemsize, Filesystem(), writable=True))
    found.append_units(units(*OFFSETS))
    return found


@pytest.mark.parametrize(
    ("queue_offset", "found", "behind"),
    [(2, None, 3), (3, [3, 4], 3), (4, [4], 4), (5, None, 7), (7, [7], 7), (8, None, 8), (9, None, 8)],
)
def test_units_are_read_up_to_a_hole_and_a_hole_is_passed(
    queue_offset: int, found: list[int] | None, behind: int, queue: RocksQueue
) -> None:
    read = queue.units_from(queue_offset)
    assert (None if read is None else [unit.queue_offset for unit in read], queue.pass_hole(queue_offset)) == (
        found,
        behind,
    )
    unit = queue._find(queue_offset)
    assert (None if unit is None else unit.queue_offset) == (queue_offset if found else None)


def test_units_that_are_added_after_a_read_are_read_too(queue: RocksQueue) -> None:
    assert queue.units_from(8) is None
    queue.append_units(units(8))
    assert [unit.queue_offset for unit in queue.units_from(8) or ()] == [8]
    assert queue._all()[0] is queue._all()[0]


def test_a_queue_whose_units_have_expired_ends_behind_its_newest_one(queue: RocksQueue, tmp_path: Path) -> None:
    empty = RocksQueue("T", 1, MappedFileQueue(tmp_path / "1", BATCH_UNIT_DTYPE.itemsize, Filesystem(), writable=True))
    ends = [empty.max_offset]
    for each in (empty, queue):
        each.newest = Place(1900, 19)
        ends.append(each.max_offset)
    assert ends == [0, 20, 8]


def test_no_queue_of_a_database_has_lost_an_extension(queue: RocksQueue) -> None:
    assert not queue.has_lost_extension(0)
