"""Units and entries by stretches of the log: bounds, the order, and files that can't be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.store_reader import StoreReader
from store.formats.queue_unit import UNIT
from store.verbs.salvage.derived_files import LOG_END, DerivedFiles, _written_units

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
        (0, LOG_END, 0, 5),
        (0, 100, 0, 0),
        (0, 101, 0, 1),
        (100, 101, 0, 1),
        (101, 200, 1, 1),
        (101, 201, 1, 2),
        (300, 400, 2, 3),
        (300, 401, 2, 4),
        (301, 500, 3, 4),
        (400, 501, 3, 5),
        (500, LOG_END, 4, 5),
        (501, LOG_END, 5, 5),
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
    for start, stop, offsets in ((0, LOG_END, [0, 2, 3]), (101, 400, [2]), (300, 301, [2]), (400, LOG_END, [3])):
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
        (5, 200, 300, (0, LOG_END)),
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
