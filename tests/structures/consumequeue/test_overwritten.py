"""Whether records behind damage go on from the ones in front of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import Message, open_store
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.message import QUEUE_OFFSET_AT, RECORD_MIN_SIZE
from store.formats.run import Run
from store.structures.commitlog.scan import ScanRules, scan_segment
from store.structures.consumequeue.overwritten import are_given_again
from tests.support.random_damage import records
from tests.support.stores import SMALL


def given_again(root: Path, first: int, gap: int, queue_id: int = 0) -> bool:
    """The log has queue offsets 0 and 1, damage whose last `gap` bytes count, and two records from `first` on."""
    with open_store(root, settings=SMALL, read_only=False) as opened:
        for number, size in enumerate([1, 1, 300, 1, 1]):
            assert opened.put(Message.of("T", b"x" * size, queue_id=queue_id if number > 2 else 0)).is_ok
    path, behind, _ = records(root)[3]
    data = bytearray(path.read_bytes())
    for number, (_, at, _) in enumerate(records(root)[3:]):
        data[at + QUEUE_OFFSET_AT : at + QUEUE_OFFSET_AT + 8] = (first + number).to_bytes(8, "big")
    path.write_bytes(data)
    reader = StoreReader(str(root), Filesystem())
    segment = StoredSegment(reader, reader.segments()[0])
    run = next(scan_segment(segment, behind, rules=ScanRules()))
    assert isinstance(run, Run)
    return are_given_again(segment, behind - gap, run)


@pytest.mark.parametrize(
    ("first", "gap", "given"),
    [
        (0, 300, True),
        (1, 300, True),
        (2, 1, False),
        (3, RECORD_MIN_SIZE - 1, True),
        (3, RECORD_MIN_SIZE, False),
        (4, 2 * RECORD_MIN_SIZE - 1, True),
        (4, 2 * RECORD_MIN_SIZE, False),
    ],
)
def test_an_offset_that_comes_twice_or_leaves_out_more_than_the_damage_holds_is_given_again(
    first: int, gap: int, given: bool, tmp_path: Path
) -> None:
    assert given_again(tmp_path / "store", first, gap) == given


def test_another_queue_tells_nothing(tmp_path: Path) -> None:
    assert not given_again(tmp_path / "store", 0, 1, queue_id=1)
