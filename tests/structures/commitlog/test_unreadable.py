"""A walk over pages that can't be read says where they are and goes on behind them, at the next record."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from store import Message, open_store
from store.files import readable
from store.files.filesystem import Filesystem
from store.files.mapped_file import MappedFile
from store.files.mapping import PAGE_SIZE
from store.files.store_reader import StoreReader
from store.formats.columns import DamageReason
from store.formats.run import Run
from store.structures.commitlog import scan
from store.structures.commitlog.resync import readable_behind
from store.structures.commitlog.scan import Damage, End, Step, scan_segment
from store.structures.commitlog.slices import LogSlice, split, walk_slice
from tests.support.bad_sectors import BadSectors

SEGMENT = f"{0:020d}"
SIZE = 1 << 20
COUNT = 300
SETTINGS = {"mappedFileSizeCommitLog": SIZE, "mappedFileSizeConsumeQueue": 20000, "maxHashSlotNum": 64}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with records of about 1 KiB, some of several pages."""
    folder = tmp_path_factory.mktemp("unreadable") / "s"
    with open_store(folder, read_only=False, settings=SETTINGS) as store:
        for number in range(COUNT):
            assert store.put(Message("T", b"%d" % number * (5000 if number % 50 == 7 else 300))).is_ok
    return folder


@pytest.fixture(params=[8e9, math.inf], ids=["cached", "read ahead"])
def is_slow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages come as they do, or too slowly for pages from the cache."""
    monkeypatch.setattr(scan, "_CACHED_BYTES_PER_S", request.param)


@pytest.fixture(params=[PAGE_SIZE, 16 * PAGE_SIZE, 1 << 20])
def small_windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, is_slow: None) -> None:
    monkeypatch.setattr(scan, "FIRST_WINDOW_BYTES", request.param)
    monkeypatch.setattr(scan, "WINDOW_BYTES", request.param)
    monkeypatch.setattr(readable, "WINDOW_BYTES", request.param)


def segment(root: Path, fs: Filesystem) -> MappedFile:
    file = MappedFile(root / "commitlog" / SEGMENT, 0, SIZE, fs, writable=False)
    file.set_positions(SIZE)
    return file


def offsets(steps: Iterator[Step]) -> list[tuple[int, int]]:
    """Start and end of every record."""
    found = []
    for step in steps:
        if isinstance(step, Run):
            starts, sizes = step.columns.position + step.file_start, step.columns.size
            found += zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
    return found


def whole(root: Path) -> list[tuple[int, int]]:
    return offsets(scan_segment(segment(root, Filesystem())))


def test_windows_change_nothing_about_a_walk(root: Path, small_windows: None) -> None:
    steps = list(scan_segment(segment(root, Filesystem())))
    assert len(offsets(iter(steps))) == COUNT
    assert isinstance(steps[-1], End)


@pytest.mark.turns(5)
@pytest.mark.parametrize("pages", [{0}, {1}, {5, 6}, {10, 20, 21, 30}, {69}])
def test_every_record_outside_of_the_bad_pages_is_read(root: Path, pages: set[int], small_windows: None) -> None:
    fs, bad = BadSectors({SEGMENT: pages}), [(page * PAGE_SIZE, (page + 1) * PAGE_SIZE) for page in pages]
    sound = [
        (start, stop) for start, stop in whole(root) if not any(start < end and begin < stop for begin, end in bad)
    ]
    assert offsets(readable_behind([segment(root, fs)], 0)) == sound
    files = StoreReader(str(root), fs)
    for part_bytes in (SIZE, 100_000):
        parts = split(files.segments(), part_bytes)
        assert [record for part in parts for record in offsets(walk_slice(files, part, scan.VERIFYING))] == sound


def test_the_damage_says_which_bytes_cannot_be_read(root: Path, small_windows: None) -> None:
    fs = BadSectors({SEGMENT: {20, 21}})
    files = StoreReader(str(root), fs)
    steps = walk_slice(files, LogSlice(f"commitlog/{SEGMENT}", 0, SIZE, 0, SIZE, True), scan.VERIFYING)
    damages = [step for step in steps if isinstance(step, Damage)]
    assert [damage.reason for damage in damages] == [DamageReason.UNREADABLE]
    assert damages[0].unreadable == (20 * PAGE_SIZE, 22 * PAGE_SIZE)
    assert 19 * PAGE_SIZE <= damages[0].position <= 20 * PAGE_SIZE
    assert "bytes 81920 to 90112" in damages[0].describe()
