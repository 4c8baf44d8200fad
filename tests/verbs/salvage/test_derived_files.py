"""Units and entries by stretches of the log: bounds, the order, and files that can't be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.queue_unit import UNIT
from store.structures.commitlog.end import END_OF_LOG
from store.structures.index import rising
from store.verbs.salvage.derived_files import DerivedFiles, _written_units
from tests.support.bad_sectors import BadSectors
from tests.support.stores import make_store
from tests.verbs.salvage.records import write

UNITS = {
    "T/0/00000000000000000000": [(100, 50), (300, 50)],
    "T/0/00000000000000000040": [(500, 50), (0, 0)],
    "T/1/00000000000000000000": [(400, 50), (200, 60)],
    "T/2/00000000000000000000": [(0, 0), (0, 0)],
}
"""Log offset and size of each unit, by queue file; those of T/1 fall."""


@pytest.fixture
def files(tmp_path: Path) -> DerivedFiles:
    for number in range(2):
        (tmp_path / "commitlog").mkdir(exist_ok=True)
        (tmp_path / "commitlog" / f"{number * 300:020d}").write_bytes(bytes(300))
    for name, units in UNITS.items():
        path = tmp_path / "consumequeue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(UNIT.pack(log_offset, size, log_offset * 7) for log_offset, size in units))
    return DerivedFiles(StoreReader(str(tmp_path)))


def test_the_units_of_a_file_end_with_its_last_written_one(files: DerivedFiles, tmp_path: Path) -> None:
    reader = StoreReader(str(tmp_path))
    found = {one.path: len(_written_units(reader, one)) for one in reader.numbered_files("consumequeue/T/0")}
    assert found == {f"consumequeue/{name}": count for name, count in zip(UNITS, (2, 1), strict=False)}


ROWS = [(100, 0, 0, 50), (200, 1, 1, 60), (300, 0, 1, 50), (400, 1, 0, 50), (500, 0, 2, 50)]
"""Log offset, queue, queue offset and size of each unit."""


@pytest.mark.parametrize(
    ("start", "stop", "first", "behind"),
    [
        (0, END_OF_LOG, 0, 5),
        (0, 100, 0, 0),
        (0, 101, 0, 1),
        (100, 101, 0, 1),
        (101, 200, 1, 1),
        (101, 201, 1, 2),
        (300, 400, 2, 3),
        (300, 401, 2, 4),
        (301, 500, 3, 4),
        (400, 501, 3, 5),
        (500, END_OF_LOG, 4, 5),
        (501, END_OF_LOG, 5, 5),
    ],
)
def test_units_are_those_that_name_offsets_in_the_stretch(
    start: int, stop: int, first: int, behind: int, files: DerivedFiles
) -> None:
    found = files.units_in(start, stop)
    names = [queue_id for _, queue_id in files.queues]
    rows = zip(
        found.log_offset.tolist(), [names[one] for one in found.queue.tolist()], found.queue_offset.tolist(),
        found.size.tolist(), strict=True,
    )  # fmt: skip
    assert [*rows] == ROWS[first:behind]
    assert found.tags_code.tolist() == [7 * row[0] for row in ROWS[first:behind]]
    starts, stops = files.units_from(start)
    assert [*zip(starts.tolist(), stops.tolist(), strict=True)] == [(row[0], row[0] + row[3]) for row in ROWS[first:]]


def test_units_on_both_sides_of_one_that_was_not_written_are_named(tmp_path: Path) -> None:
    path = tmp_path / "consumequeue/T/0" / f"{0:020d}"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(UNIT.pack(*unit) for unit in ((100, 50, 1), (0, 0, 0), (300, 50, 3), (400, 50, 4))))
    made = DerivedFiles(StoreReader(str(tmp_path)))
    for start, stop, offsets in ((0, END_OF_LOG, [0, 2, 3]), (101, 400, [2]), (300, 301, [2]), (400, END_OF_LOG, [3])):
        assert made.units_in(start, stop).queue_offset.tolist() == offsets
    assert [made.units_before(at) for at in (100, 101, 300, 301, 401)] == [0, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("log_offset", "count"),
    [(0, 0), (100, 0), (101, 1), (200, 1), (201, 2), (300, 2), (301, 3), (400, 3), (401, 4), (500, 4), (501, 5)],
)
def test_units_are_counted_that_name_records_in_front(log_offset: int, count: int, files: DerivedFiles) -> None:
    assert files.units_before(log_offset) == count


@pytest.mark.parametrize(
    ("items", "start", "stop", "stretch"),
    [
        (5, 200, 300, (0, END_OF_LOG)),
        (4, 200, 300, (200, 200 + 600 * 4 // 5 + 1)),
        (4, 200, 900, (200, 900)),
        (1, 0, 1, (0, 600 // 5 + 1)),
    ],
)
def test_a_stretch_is_as_long_as_so_many_units_take(
    items: int, start: int, stop: int, stretch: tuple[int, int], tmp_path: Path, files: DerivedFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("store.verbs.salvage.derived_files.STRETCH_ITEMS", items)
    found = DerivedFiles(StoreReader(str(tmp_path))).stretch(start, stop)
    assert (found.start, found.stop) == stretch
    assert found.units.log_offset.tolist() == [row[0] for row in ROWS if stretch[0] <= row[0] < stretch[1]]


def test_without_a_store_there_is_nothing() -> None:
    files = DerivedFiles(None)
    found = files.stretch(0, 100)
    assert (found.units.log_offset.tolist(), found.entries.log_offset.tolist(), files.units_before(100)) == ([], [], 0)


def made(root: Path, units: list[tuple[int, int]], *, fs: Filesystem | None = None, first: int = 0) -> DerivedFiles:
    """Give a queue of these units, and two segments from `first` on."""
    for number in range(2):
        write(root / "commitlog" / f"{first + number * 300:020d}", bytes(300))
    write(root / f"consumequeue/T/0/{0:020d}", b"".join(UNIT.pack(*unit, 7) for unit in units))
    return DerivedFiles(StoreReader(str(root), fs))


def test_the_first_byte_of_the_log_and_a_record_of_one_byte_count(tmp_path: Path) -> None:
    files = made(tmp_path, [(0, 1), (0, 1), (1, 1)])
    assert files.units_in(0, END_OF_LOG).log_offset.tolist() == [0, 0, 1]
    assert [files.units_before(at) for at in (0, 1, 2)] == [0, 2, 3]
    files = made(tmp_path, [(1, 1), (0, 1), (0, 0), (2, -1)])
    assert files.units_in(0, END_OF_LOG).log_offset.tolist() == [0, 1]
    assert [files.units_before(at) for at in (0, 1, 2)] == [0, 1, 2]


@pytest.mark.parametrize("first", [0, 600])
def test_the_length_of_a_stretch_is_a_share_of_the_log_from_its_first_segment(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.verbs.salvage.derived_files.STRETCH_ITEMS", 2)
    found = made(tmp_path, [(first, 50), (first + 100, 50), (first + 200, 50)], first=first).stretch(first, first)
    assert (found.start, found.stop) == (first, first + 600 * 2 // 3 + 1)


@pytest.mark.parametrize(
    ("start", "stop", "count"),
    [(0, 100, 10), (100, 2000, 190), (0, 14_331, 0), (0, END_OF_LOG, 0)],
)
def test_units_on_a_page_that_cannot_be_read_are_none_and_others_are_read(
    start: int, stop: int, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units name 0, 10, 20 and so on; those from 14,330 to 16,380 are on the bad page."""
    monkeypatch.setattr(rising, "_ROWS_AT_ONCE", 50)
    fs = BadSectors({})
    files = made(tmp_path, [(10 * number, 10) for number in range(3000)], fs=fs)
    fs.pages = {f"{0:020d}": {7}}
    assert len(files.units_in(start, stop).log_offset) == count


@pytest.mark.parametrize("shares", [(0, 0), (0, 1), (1, 2), (3, 7), (7, 20), (19, 20), (0, 20)])
def test_entries_of_the_index_are_those_that_name_offsets_in_the_stretch(
    shares: tuple[int, int], indexed: Path
) -> None:
    with open_store(indexed) as store:
        offsets = sorted(one.log_offset for queue in range(3) for one in store.messages("T", queue))
    start, stop = (([*offsets, END_OF_LOG])[share] for share in shares)
    files = DerivedFiles(StoreReader(str(indexed)))
    for first, low in ((start, shares[0]), (start + 1, shares[0] + 1)):
        named = [one for one in offsets[low : shares[1]] for _ in range(3)]
        assert files._entries_in(first, stop).log_offset.tolist() == named
    assert DerivedFiles(None)._entries_in(0, END_OF_LOG).log_offset.tolist() == []


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 messages, each with three entries in the index."""
    return make_store(tmp_path_factory.mktemp("indexed") / "store", 20)
