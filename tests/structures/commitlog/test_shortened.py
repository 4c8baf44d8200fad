"""A segment that another process has shortened since it was listed is walked to its bytes' end, and no further."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from store import StoreIOError
from store.files.store_reader import StoredFile, StoreReader
from store.files.stored_segment import StoredSegment
from store.structures.commitlog.resync import find_record, readable_behind
from store.structures.commitlog.scan import Damage, Run, ScanRules
from store.structures.commitlog.slices import walk_slice, whole_segment
from tests.support.stores import make_store

KEPT = 5000


@pytest.fixture
def listed(tmp_path: Path) -> tuple[StoreReader, StoredFile]:
    """A segment as it was listed, and shortened behind that."""
    root = make_store(tmp_path / "store", 60)
    reader = StoreReader(str(root))
    segment = reader.segments()[0]
    os.truncate(root / segment.path, KEPT)
    return reader, segment


def test_what_is_behind_the_bytes_counts_as_unreadable(listed: tuple[StoreReader, StoredFile]) -> None:
    segment = StoredSegment(*listed)
    assert segment.size > KEPT == len(segment.buffer)
    assert [segment.readable_end(start, segment.size) for start in (0, 100, KEPT, KEPT + 1)] == [
        KEPT, KEPT, KEPT, KEPT + 1,
    ]  # fmt: skip
    assert [segment.behind_unreadable(start, segment.size) for start in (KEPT, KEPT + 1)] == [segment.size] * 2
    assert segment.next_written(KEPT + 1) == KEPT + 1


def test_a_walk_gives_the_records_before_and_names_the_range(listed: tuple[StoreReader, StoredFile]) -> None:
    segment = StoredSegment(*listed)
    steps = list(readable_behind([segment], 0, rules=ScanRules()))
    assert [type(step) for step in steps] == [Run, Damage]
    assert isinstance(steps[1], Damage)
    assert steps[1].unreadable == (KEPT, segment.size)
    assert find_record(segment, KEPT + 1) == -1


def test_a_slice_of_it_is_an_error_with_both_sizes(listed: tuple[StoreReader, StoredFile]) -> None:
    reader, segment = listed
    with pytest.raises(StoreIOError, match=f"it had {segment.size} bytes, and has {KEPT}") as caught:
        list(walk_slice(reader, whole_segment(segment), ScanRules()))
    assert caught.value.offset == KEPT
