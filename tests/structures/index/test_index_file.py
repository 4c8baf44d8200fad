"""One index file: how much of it is asked for, reserved and made durable; which damage it has for itself."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store.config import StoreConfig
from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.overlay import Overlay
from store.formats.index_page import HEADER_SIZE, entry_position
from store.formats.run import Run
from store.layout import StoreLayout
from store.structures.commitlog.scan import scan_segment
from store.structures.index import index_file, index_service
from store.structures.index.index_file import IndexFile
from store.structures.index.index_service import IndexService
from store.structures.index.keys import Keys
from tests.support.bad_sectors import BadSectors
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.small_log import SMALL_CONFIG, START_MS, SmallLog, SmallSegment, open_index
from tests.support.times import set_time

SLOTS, CAPACITY = SMALL_CONFIG.max_hash_slot_num, SMALL_CONFIG.max_index_num
SIZE = entry_position(SLOTS, CAPACITY)


def index_with(root: Path, fs: Filesystem, **more: Any) -> IndexService:
    index = IndexService(StoreLayout(root), SMALL_CONFIG, fs, writable=True, clock=lambda: START_MS, **more)
    index.load()
    return index


def made(root: Path, count: int) -> tuple[SmallLog, list[Path]]:
    """A log of `count` records with one key each, and the files of its index."""
    log, index = SmallLog(), open_index(root)
    log.put_many(count, keys="k")
    log.dispatch_to(index)
    index.close()
    return log, sorted((root / "index").iterdir())


@pytest.mark.parametrize(("size", "has_header"), [(0, False), (39, False), (40, True)])
def test_a_file_has_a_header_from_40_bytes_on(size: int, has_header: bool, tmp_path: Path) -> None:
    _, (path,) = made(tmp_path, 3)
    path.write_bytes(path.read_bytes()[:size])
    assert open_index(tmp_path, writable=False).files[0].has_header is has_header


# Size of the file behind entry 3's end, the slot's entry, the count, and whether the newest counted entry is lacking.
NEWEST = [(0, 3, 4, False), (-1, 3, 4, True), (0, 2, 4, True), (0, 4, 4, False), (0, 0, 1, False), (0, 0, 0, False),
          (-1, 1, 2, False), (20, 3, 5, True), (999, 11, 99, False), (999, 10, 99, True)]  # fmt: skip


@pytest.mark.parametrize(("size", "slot", "count", "lacks"), NEWEST)
def test_the_newest_counted_entry_is_in_the_file_and_in_its_slot(
    size: int, slot: int, count: int, lacks: bool, tmp_path: Path
) -> None:
    _, (path,) = made(tmp_path, 3)
    data = bytearray(path.read_bytes())
    at = next(at for at in range(HEADER_SIZE, entry_position(SLOTS, 0), 4) if any(data[at : at + 4]))
    for number in (4, 11):
        data[entry_position(SLOTS, number) : entry_position(SLOTS, number + 1)] = data[entry_position(SLOTS, 1) :][:20]
    data[at : at + 4], data[36:40] = slot.to_bytes(4, "big"), count.to_bytes(4, "big")
    path.write_bytes(data[: entry_position(SLOTS, 4) + size])
    assert open_index(tmp_path, writable=False).files[0].lacks_newest is lacks


class Watched(Filesystem):
    """Notes the ranges that get blocks."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def preallocate(self, descriptor: Any, position: int, size: int) -> None:
        self.ranges.append((position, position + size))
        super().preallocate(descriptor, position, size)


def test_keys_are_put_where_the_file_has_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "RESERVED_AHEAD_BYTES", 0)
    log, _ = made(tmp_path, 3)
    fs = Watched()
    index = index_with(tmp_path, fs)
    ends = []
    for _ in range(4):
        log.put_many(2, keys="k")
        log.dispatch_to(index)
        ends.append(fs.ranges[-1][1])
    index.close()
    assert [start for start, _ in fs.ranges] == [0, *(end for _, end in fs.ranges[:-1])]
    # A run of two keys is put behind 3, 5, 7 and 9 entries.
    assert ends == [entry_position(SLOTS, number) for number in (6, 8, 10, 12)]
    assert ends[-1] == SIZE


def test_a_full_disk_is_told_before_a_key_is_put(tmp_path: Path) -> None:
    log, (path,) = made(tmp_path, 3)
    before = path.read_bytes()
    index = index_with(tmp_path, FaultyFilesystem(when=lambda name, _: name == "preallocate"))
    log.put(keys="k")
    with pytest.raises(StoreIOError):
        log.dispatch_to(index)
    assert path.read_bytes() == before


@pytest.mark.parametrize("count", [11, 4, 99])
def test_a_slot_that_names_the_entry_behind_the_last_one_is_empty(count: int, tmp_path: Path) -> None:
    _, (path,) = made(tmp_path, 11)
    data = bytearray(path.read_bytes())
    for at in range(HEADER_SIZE, entry_position(SLOTS, 0), 4):
        data[at : at + 4] = CAPACITY.to_bytes(4, "big")
    data[36:40] = count.to_bytes(4, "big")
    path.write_bytes(data)
    assert open_index(tmp_path).query("T", "k", 64, 0, 1 << 60).log_offsets == []


def test_the_folders_of_a_file_are_made_durable_with_its_first_flush(tmp_path: Path) -> None:
    made(tmp_path, 3)
    fs = FaultyFilesystem()
    index = index_with(tmp_path, fs)
    index.flush()
    index.flush()
    asked = [argument for name, argument in fs.operations if name == "fsync_folder"]
    assert (asked, fs.count("fdatasync")) == ([tmp_path / "index", tmp_path], 2)
    open_index(tmp_path, writable=False).flush()


@pytest.mark.parametrize("size", [0, 39, 100, SIZE])
def test_a_short_file_is_lengthened_where_it_is_written_to(size: int, tmp_path: Path) -> None:
    log, (path,) = made(tmp_path, 3)
    path.write_bytes(path.read_bytes()[:size])
    index = open_index(tmp_path)
    assert path.stat().st_size == SIZE
    at = log.put(keys="last")
    log.dispatch_to(index)
    assert index.query("T", "last", 64, 0, 1 << 60).log_offsets == [at]


def test_a_file_whose_header_cannot_be_read_is_left_out_with_the_reason(tmp_path: Path) -> None:
    _, paths = made(tmp_path, 14)
    index = index_with(tmp_path, BadSectors({paths[0].name: {0}}))
    assert [file.path for file in index.files] == paths[1:]
    assert [(error.file, error.hint) for error in index.failures] == [(paths[0], "rebuild the index from the log")]


@pytest.mark.parametrize(
    ("bad", "kept", "begin"),
    [([], 3, None), ([2], 2, 21), ([1], 1, 10), ([0], 0, None), ([1, 2], 1, 10), ([0, 2], 0, None)],
)
def test_behind_a_file_that_cannot_be_read_the_index_begins_anew(
    bad: list[int], kept: int, begin: int | None, tmp_path: Path
) -> None:
    log, paths = made(tmp_path, 25)
    fs = BadSectors({paths[number].name: {0} for number in bad})
    index = index_with(tmp_path, fs, overlay=Overlay(tmp_path / "staged"))
    expected = None if not bad else log.units[begin].log_offset if begin is not None else 0
    assert index.drop_unreadable(with_empty=False) == expected
    assert [file.path for file in index.files] == paths[:kept]
    assert (sorted(index.removed_paths()), index.failures) == (paths[kept:], [])


@pytest.mark.parametrize(("with_empty", "kept"), [(False, 3), (True, 2)])
def test_a_file_without_a_header_is_dropped_where_it_is_asked_for(with_empty: bool, kept: int, tmp_path: Path) -> None:
    _, paths = made(tmp_path, 25)
    paths[2].write_bytes(b"")
    index = index_with(tmp_path, Filesystem(), overlay=Overlay(tmp_path / "staged"))
    index.drop_unreadable(with_empty=with_empty)
    assert [file.path for file in index.files] == paths[:kept]


def test_short_files_are_staged_at_their_full_size_and_others_are_not(tmp_path: Path) -> None:
    _, paths = made(tmp_path, 25)
    paths[0].write_bytes(paths[0].read_bytes()[:-1])
    index = index_with(tmp_path, Filesystem(), overlay=Overlay(tmp_path / "staged"))
    assert index.lengthen_short() == paths[:1]
    assert [place for place, _ in index.staged_files()] == paths[:1]
    assert [staged.stat().st_size for _, staged in index.staged_files()] == [SIZE]
    assert index.lengthen_short() == []


def test_a_staged_file_that_is_removed_leaves_nothing(tmp_path: Path) -> None:
    log, paths = made(tmp_path, 3)
    index = index_with(tmp_path, Filesystem(), overlay=Overlay(tmp_path / "staged"))
    log.put_many(12, keys="k")
    log.dispatch_to(index)
    staged = [one for _, one in index.staged_files()]
    assert (len(staged), all(one.exists() for one in staged)) == (2, True)
    index.remove(index.files)
    assert [one.exists() for one in staged] == [False, False]
    assert (index.staged_files(), index.removed_paths(), index.files) == ([], paths, [])


@pytest.mark.parametrize(
    ("pages", "is_readable", "is_found"), [((), True, True), ((1,), False, False), ((6,), True, True)]
)
def test_a_page_of_entries_that_cannot_be_read_is_an_error(
    pages: tuple[int, ...], is_readable: bool, is_found: bool, tmp_path: Path
) -> None:
    config = StoreConfig(max_hash_slot_num=SLOTS, max_index_num=2000)
    log, writer = SmallLog(), open_index(tmp_path, config)
    places = log.put_many(600, keys="k")
    log.dispatch_to(writer)
    writer.close()
    fs = BadSectors({writer_path.name: pages for writer_path in (tmp_path / "index").iterdir()})
    index = IndexService(StoreLayout(tmp_path), config, fs, writable=False, clock=lambda: 0)
    index.load()
    assert index.files[0].is_readable() is is_readable
    assert index.query("T", "k", 1, 0, 1 << 60).log_offsets == places[-1:]
    if is_found:
        assert index.files[0].entry_numbers("T#k", places[300]) == [301]
    else:
        with pytest.raises(StoreIOError) as error:
            index.files[0].entry_numbers("T#k", places[300])
        assert error.value.offset == entry_position(SLOTS, 406)


def test_an_empty_slot_leads_to_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, (path,) = made(tmp_path, 3)
    assert not any(path.read_bytes()[HEADER_SIZE : HEADER_SIZE + 4])
    monkeypatch.setattr(index_file, "key_hash", lambda key: 0)
    assert open_index(tmp_path).query("T", "k", 64, 0, 1 << 60).log_offsets == []


def test_a_full_file_is_reported_from_an_overlay_too(tmp_path: Path) -> None:
    log, full = SmallLog(), list[int]()
    log.put_many(12, keys="k")
    log.dispatch_to(open_index(tmp_path, overlay=Overlay(tmp_path / "staged"), full=full))
    assert full == [START_MS + 10_000]


@pytest.mark.parametrize(("code", "failures", "tries"), [(errno.EMFILE, 2, 3), (errno.EMFILE, 9, 5), (errno.EIO, 1, 1)])
def test_a_full_file_is_flushed_again_while_too_many_files_are_open(
    code: int, failures: int, tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    paused: list[float] = []

    def fails(name: str, _: object) -> bool:
        asked.extend([name] * (name == "fdatasync"))
        return name == "fdatasync" and len(asked) <= failures

    log, full = SmallLog(), list[int]()
    set_time(monkeypatch, index_service, sleep=paused.append)
    index = index_with(tmp_path, FaultyFilesystem(errno_code=code, when=fails), on_full=full.append)
    log.put_many(12, keys="k")
    log.dispatch_to(index)
    index.close()
    assert (len(asked), full) == (tries, [START_MS + 10_000] * (tries == 3))
    assert paused == list(index_service.FLUSH_PAUSES_S[: min(failures, 5)] if code == errno.EMFILE else [])
    if full:
        log.put(keys="k")
        log.dispatch_to(index)
    else:
        with pytest.raises(StoreIOError):
            log.dispatch_to(index, start=0)


def test_entries_of_a_record_are_named_newest_first_by_number_and_place(tmp_path: Path) -> None:
    log = SmallLog()
    at = [log.put(keys="k k a") for _ in range(2)][1]
    index = open_index(tmp_path)
    log.dispatch_to(index)
    file: IndexFile = index.files[0]
    assert file.entry_numbers("T#k", at) == [5, 4]
    assert (file.entry_numbers("T#a", at), file.entry_numbers("T#b", at)) == ([6], [])
    assert [file.position_of(number) for number in (1, 5)] == [40 + 4 * SLOTS + 20, 40 + 4 * SLOTS + 100]
    index.close()


def test_of_a_large_index_the_newest_file_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = StoreConfig(max_hash_slot_num=SLOTS, max_index_num=300)
    log, writer = SmallLog(), open_index(tmp_path, config)
    log.put_many(500, keys="k")
    log.dispatch_to(writer)
    writer.close()
    paths = sorted((tmp_path / "index").iterdir())
    monkeypatch.setattr(index_service, "READ_WHOLE_BYTES", 0)
    for bad, kept in ((0, 2), (1, 1)):
        fs = BadSectors({paths[bad].name: {1}})
        overlay = Overlay(tmp_path / f"staged{bad}")
        index = IndexService(StoreLayout(tmp_path), config, fs, writable=True, clock=lambda: 0, overlay=overlay)
        index.load()
        index.drop_unreadable(with_empty=False)
        assert [file.path for file in index.files] == paths[:kept]


def test_keys_that_a_file_holds_already_stage_nothing(tmp_path: Path) -> None:
    log, (path,) = made(tmp_path, 8)
    index = index_with(tmp_path, Filesystem(), overlay=Overlay(tmp_path / "staged"))
    run = next(scan_segment(SmallSegment(memoryview(log.data)), capacity=5))
    assert isinstance(run, Run)
    index.dispatch(run)
    assert index.staged_files() == []
    path.write_bytes(path.read_bytes() + bytes(100))
    index = index_with(tmp_path, Filesystem(), overlay=Overlay(tmp_path / "staged"))
    log.put(keys="k")
    log.dispatch_to(index)
    assert [staged.stat().st_size for _, staged in index.staged_files()] == [SIZE + 100]


@pytest.mark.parametrize(("first", "stop", "is_all"), [(0, 3, True), (1, 3, False), (0, 2, False), (1, 2, False)])
def test_keys_are_those_of_all_records_of_a_run_or_of_some(first: int, stop: int, is_all: bool) -> None:
    hashes = np.arange(3)
    keys, run = Keys(hashes, hashes, first, stop), SimpleNamespace(count=3)
    assert keys.is_all_of(run) is is_all  # type: ignore[arg-type]
    kept = keys.copy()
    hashes[:] = 9
    assert (kept.hashes.tolist(), kept.records.tolist(), kept[2:]) == ([0, 1, 2], [0, 1, 2], (first, stop))


@pytest.mark.parametrize(("seconds", "count"), [(0, 3), (-1, 0), (-2, 0)])
def test_an_entry_before_its_files_begin_ends_the_chain(seconds: int, count: int, tmp_path: Path) -> None:
    _, (path,) = made(tmp_path, 3)
    data = bytearray(path.read_bytes())
    at = entry_position(SLOTS, 3) + 12
    data[at : at + 4] = seconds.to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    assert len(open_index(tmp_path).query("T", "k", 64, 0, 1 << 60).log_offsets) == count
