"""A log that ends in the middle of a record: recovery ends it at a record's boundary, wherever the cut is."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store
from tests.support.boundaries import boundaries
from tests.support.golden import copy_store, golden
from tests.support.stores import LATER_MS, Clock, make_store, recover, stored_messages, text_message, truncate

COUNT = 12


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 12 messages that was not shut down."""
    root = make_store(tmp_path_factory.mktemp("whole") / "store", COUNT)
    (root / "abort").touch()
    return root


def last_record(root: Path) -> tuple[int, int]:
    """Position and size of the last record of a one-segment log."""
    data = segment_of(root).read_bytes()
    position = 0
    while True:
        size = int.from_bytes(data[position : position + 4], "big")
        following = int.from_bytes(data[position + size : position + size + 4], "big")
        if not following:
            return position, size
        position += size


def segment_of(root: Path) -> Path:
    return root / "commitlog" / f"{0:020d}"


@pytest.mark.slow
def test_every_cut_of_the_last_record_ends_at_a_record_boundary(whole: Path, tmp_path: Path) -> None:
    position, size = last_record(whole)
    body_end = position + 88 + 60
    for cut in range(position, position + size):
        root = copy_store(whole, tmp_path / str(cut))
        zero(segment_of(root), cut, position + size)
        change, _ = recover(root)
        # The CRC covers the body alone: what is torn behind it may go unnoticed, but never moves a boundary.
        ends = {position} if cut < body_end else {position, position + size}
        assert change.report.log_end in ends
        with open_store(root) as store:
            kept = COUNT - (change.report.log_end == position)
            assert bodies(stored_messages(store)) == [f"message {number} " for number in range(kept)]


@pytest.mark.parametrize("rest", [1, 4, 8, 40, 91])
def test_a_torn_record_at_the_end_of_a_full_segment_is_cut(rest: int, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 200)
    (root / "abort").touch()
    # With a checkpoint as old as this the walk begins at the first segment.
    (root / "checkpoint").write_bytes(bytes(4096))
    first = segment_of(root)
    data = first.read_bytes()
    end = boundaries(data)[-1]
    zero(first, boundaries(data)[-2] + rest, len(data))
    change, _ = recover(root)
    assert change.report.log_end == boundaries(data)[-2]
    assert end > change.report.log_end
    assert [path.name for path in sorted((root / "commitlog").iterdir())] == [first.name]


def test_new_messages_follow_a_cut_without_a_gap(whole: Path, tmp_path: Path) -> None:
    root = copy_store(whole, tmp_path / "store")
    position, size = last_record(root)
    zero(segment_of(root), position + 20, position + size)
    recover(root)
    with open_store(root, read_only=False, clock=Clock(LATER_MS)) as store:
        result = store.put(text_message(99, queue_id=(COUNT - 1) % 3))
        assert (result.log_offset, result.queue_offset) == (position, (COUNT - 1) // 3)
    with open_store(root) as store:
        assert len(bodies(stored_messages(store))) == COUNT


@pytest.mark.parametrize("name", ["aborted", "torn", "corrupt-mid", "no-derived"])
def test_a_golden_crash_ends_at_a_record_boundary(name: str, tmp_path: Path) -> None:
    archive = golden(name)
    root = copy_store(archive.store, tmp_path / "store")
    change, _ = recover(root, settings=archive.settings)
    ends = {put.answer["wroteOffset"] + put.answer["wroteBytes"] for put in archive.puts()}
    assert change.report.log_end in ends


def test_truncating_at_any_boundary_keeps_exactly_what_lies_before(tmp_path: Path) -> None:
    whole = make_store(tmp_path / "whole", 30)
    cuts = boundaries(segment_of(whole).read_bytes())
    for kept, cut in list(enumerate(cuts))[:: len(cuts) // 6]:
        root = copy_store(whole, tmp_path / str(cut))
        truncate(root, cut)
        with open_store(root) as store:
            assert store.max_log_offset == cut
            assert len(bodies(stored_messages(store))) == kept


def zero(path: Path, start: int, end: int) -> None:
    data = bytearray(path.read_bytes())
    data[start:end] = bytes(end - start)
    path.write_bytes(data)


def bodies(messages: dict[tuple[str, int], list[tuple[int, bytes]]]) -> list[str]:
    """The texts of all messages, in the order in which they were put."""
    texts = [body.rstrip(b".").decode() for queue in messages.values() for _, body in queue]
    return sorted(texts, key=lambda text: int(text.split()[1]))
