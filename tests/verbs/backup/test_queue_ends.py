"""The ends of queues in a backup, and the files of queues whose messages the restored log does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.formats.derived import units_of
from store.formats.queue_unit import PRE_BLANK_SIZE
from store.layout import StoreLayout
from store.verbs.backup.queue_ends import BackedEnd, decode_ends, encode_ends, write_expired

ENDS = [BackedEnd("A", 0, 0, 3, 100, 287), BackedEnd("A", 1, 2, 5, 300, 487), BackedEnd("B", 0, 1, 1, -1, -1)]


def test_the_file_has_a_queue_a_line_by_name_and_id() -> None:
    text = encode_ends([ENDS[2], ENDS[1], ENDS[0]])
    assert text == b'[["A", 0, 0, 3, 100, 287],\n["A", 1, 2, 5, 300, 487],\n["B", 0, 1, 1, -1, -1]]\n'
    assert decode_ends(text) == ENDS


LOG = (1000, 5000)
EXPIRED = [
    # first and next queue offset, log offset and end of the newest record; next, file and last unit of the new queue
    ((0, 30, 400, 587), (30, 20, (400, 187, 0))),
    ((0, 20, 400, 587), (20, 0, (400, 187, 0))),
    ((0, 21, 400, 587), (21, 20, (400, 187, 0))),
    ((0, 1, 0, 187), (1, 0, (0, 187, 0))),
    ((0, 0, 400, 587), None),
    ((0, 30, 999, 1000), (30, 20, (999, 1, 0))),
    ((0, 30, 1000, 1187), None),
    ((0, 30, 4999, 5000), None),
    ((7, 30, 5000, 5187), (7, 0, (0, 1, 0))),
    ((0, 30, 5000, 5187), None),
    ((1, 30, -1, -1), (30, 20, (0, 1, 0))),
]


@pytest.mark.parametrize(("end", "made"), EXPIRED)
def test_a_queue_without_a_record_in_the_log_gets_its_last_unit(
    end: tuple[int, int, int, int], made: tuple[int, int, tuple[int, int, int]] | None, tmp_path: Path
) -> None:
    config = StoreConfig().with_settings({"mappedFileSizeConsumeQueue": 400})
    found = write_expired([BackedEnd("T", 2, *end)], StoreLayout(tmp_path), config, LOG, Filesystem())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    if made is None:
        assert (found, files) == ({}, [])
        return
    next_offset, first, last = made
    assert found == {("T", 2): next_offset}
    assert files == [tmp_path / f"consumequeue/T/2/{20 * first:020d}"]
    units = units_of(files[0].read_bytes()).tolist()
    count = next_offset - first
    assert units == [(0, PRE_BLANK_SIZE, 0)] * (count - 1) + [last] + [(0, 0, 0)] * (20 - count)


def test_a_queue_that_is_there_or_has_no_folders_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "consumequeue/T/2").mkdir(parents=True)
    ends = [BackedEnd("T", 2, 0, 30, 400, 587), BackedEnd("../T", 2, 0, 30, 400, 587)]
    assert write_expired(ends, StoreLayout(tmp_path), StoreConfig(), LOG, Filesystem()) == {}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
