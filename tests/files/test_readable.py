"""Pages that can't be read are found before anything touches them, and the pages around them are used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from store.errors import StoreIOError
from store.files import mapping, readable
from store.files.filesystem import Filesystem
from store.files.mapped_file import MappedFile
from store.files.mapping import PAGE_SIZE
from store.files.readable import Salvaged, Stretch
from tests.support.bad_sectors import BadSectors

SIZE = 64 * PAGE_SIZE


def written(folder: Path, fs: Filesystem) -> MappedFile:
    path = folder / f"{0:020d}"
    path.write_bytes(bytes(range(256)) * (SIZE // 256))
    file = MappedFile(path, 0, SIZE, fs, writable=False)
    file.set_positions(SIZE)
    return file


@pytest.mark.parametrize("pages", [{0}, {5}, {63}, {5, 6, 7}, {5, 20}, set(range(64))])
def test_the_first_bad_page_ends_what_can_be_read(tmp_path: Path, pages: set[int]) -> None:
    file = written(tmp_path, BadSectors({f"{0:020d}": pages}))
    assert file.readable_end(0, SIZE) == min(pages) * PAGE_SIZE
    following = next((page for page in range(min(pages), 65) if page not in pages), 64)
    assert file.behind_unreadable(min(pages) * PAGE_SIZE, SIZE) == min(following * PAGE_SIZE, SIZE)


def test_a_range_that_begins_inside_a_bad_page_ends_where_it_begins(tmp_path: Path) -> None:
    file = written(tmp_path, BadSectors({f"{0:020d}": {5}}))
    assert file.readable_end(5 * PAGE_SIZE + 100, SIZE) == 5 * PAGE_SIZE + 100


def test_a_read_across_a_bad_page_is_an_error_with_the_place_and_others_work(tmp_path: Path) -> None:
    file = written(tmp_path, BadSectors({f"{0:020d}": {5}}))
    with pytest.raises(StoreIOError, match="cannot read this page") as caught:
        file.read(5 * PAGE_SIZE - 10, 20)
    assert (caught.value.file, caught.value.offset) == (file.path, 5 * PAGE_SIZE)
    assert len(file.read(4 * PAGE_SIZE, PAGE_SIZE) or b"") == PAGE_SIZE


def test_a_file_that_another_process_has_shortened_is_an_error_and_no_signal(tmp_path: Path) -> None:
    file = written(tmp_path, Filesystem())
    assert len(file.read(0, SIZE) or b"") == SIZE
    os.truncate(file.path, 10 * PAGE_SIZE)
    assert file.readable_end(0, SIZE) == 10 * PAGE_SIZE
    with pytest.raises(StoreIOError, match="shortened"):
        file.read(20 * PAGE_SIZE, 10)
    assert len(file.read(0, 10) or b"") == 10


def test_without_populating_maps_the_pages_are_read_into_a_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "_MADV_POPULATE_READ", 9999)
    file = written(tmp_path, Filesystem())
    assert file.readable_end(0, SIZE) == SIZE
    os.truncate(file.path, 10 * PAGE_SIZE)
    assert file.readable_end(0, SIZE) == 10 * PAGE_SIZE


@pytest.mark.parametrize(
    ("ranges", "items"),
    [
        ([(0, 8)], []),
        ([(0, 9)], [(0, 1)]),
        ([(0, 28)], [(0, 1)]),
        ([(0, 29)], [(0, 2)]),
        ([(27, 28)], [(0, 1)]),
        ([(28, 29)], [(1, 2)]),
        ([(8, 28), (48, 49)], [(0, 1), (2, 3)]),
    ],
)
def test_an_item_with_an_unreadable_byte_is_unreadable(
    ranges: list[tuple[int, int]], items: list[tuple[int, int]]
) -> None:
    assert list(Salvaged(memoryview(b""), tuple(ranges)).items(8, 20)) == items


@pytest.mark.parametrize(("start", "items"), [(7, (0, 2)), (8, (0, 2)), (9, (1, 2))])
def test_an_item_of_one_byte_is_unreadable_alone(start: int, items: tuple[int, int]) -> None:
    assert list(Salvaged(memoryview(b""), ((start, 10),)).items(8, 1)) == [items]


@pytest.mark.parametrize(
    ("start", "stop", "end"),
    [(0, 50, 50), (0, 100, 100), (0, 101, 100), (99, 150, 100), (100, 150, 100), (150, 120, 120)],
)
def test_bytes_in_memory_can_be_read_up_to_their_end(start: int, stop: int, end: int) -> None:
    bare = Stretch(memoryview(bytes(100)))
    assert (bare.readable_end(start, stop), bare.behind_unreadable(start, stop)) == (end, stop)
    assert bare.next_written(start) == start


@pytest.mark.parametrize("start", [0, PAGE_SIZE])
def test_a_stretch_has_its_places_from_its_own_beginning(start: int, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(3 * PAGE_SIZE))
    whole = memoryview(file.read_bytes())
    part = Stretch(whole[start:], Filesystem(), file, whole, start)
    size = 3 * PAGE_SIZE - start
    assert part.readable_end(0, size) == part.readable_end(0, size + 1) == part.readable_end(size, size + 9) == size
    assert part.behind_unreadable(size, size + 5) == size + 5
    assert part.next_written(size) == size


@pytest.mark.parametrize("start", [0, PAGE_SIZE])
@pytest.mark.parametrize(
    ("first", "stop", "bad"),
    [
        (2 * PAGE_SIZE, 3 * PAGE_SIZE, None),
        (2 * PAGE_SIZE, 3 * PAGE_SIZE + 1, 3 * PAGE_SIZE),
        (4 * PAGE_SIZE - 1, 4 * PAGE_SIZE, 4 * PAGE_SIZE - 1),
        (4 * PAGE_SIZE, 5 * PAGE_SIZE, None),
    ],
)
def test_a_stretch_names_an_unreadable_page_by_its_place_in_the_file(
    start: int, first: int, stop: int, bad: int | None, tmp_path: Path
) -> None:
    """Page 3 is bad."""
    path, fs = tmp_path / "file", BadSectors({"file": {3}})
    path.write_bytes(bytes(SIZE))
    whole = fs.map(fs.open_read(path), SIZE, writable=False)
    part = Stretch(whole[start:], fs, path, whole, start)
    if bad is None:
        part.require(first - start, stop - start)
        return
    with pytest.raises(StoreIOError, match="cannot read this page") as caught:
        part.require(first - start, stop - start)
    assert (caught.value.file, caught.value.offset) == (path, bad)


@pytest.mark.parametrize(
    ("margin", "bad", "is_refused"),
    [
        (0, 1, True),
        (0, 2, False),
        (1, 2, True),
        (PAGE_SIZE, 2, True),
        (PAGE_SIZE, 3, False),
        (PAGE_SIZE + 1, 3, True),
        (9 * PAGE_SIZE, 4, True),
        (9 * PAGE_SIZE, 5, False),
    ],
)
def test_up_to_a_margin_behind_what_is_written_pages_have_to_be_readable(
    margin: int, bad: int, is_refused: bool, tmp_path: Path
) -> None:
    """Two pages are written: no margin is longer than these and a page."""
    path = tmp_path / "file"
    path.write_bytes(bytes([1]) * 2 * PAGE_SIZE)
    os.truncate(path, SIZE)
    fs = BadSectors({"file": {bad}})
    file = MappedFile(path, 0, SIZE, fs, writable=False)
    file.set_positions(SIZE)
    if is_refused:
        with pytest.raises(StoreIOError, match="cannot read this page") as caught:
            file.require_written(margin)
        assert caught.value.offset == bad * PAGE_SIZE
    else:
        file.require_written(margin)


def test_a_stretch_without_its_whole_map_has_no_page_to_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(SIZE))
    buffer, fs = memoryview(bytes(SIZE)), BadSectors({"file": set(range(64))})
    for part in (Stretch(buffer), Stretch(buffer, fs), Stretch(buffer, fs, tmp_path / "file")):
        part.require(0, SIZE)
    with pytest.raises(StoreIOError):
        Stretch(buffer, fs, tmp_path / "file", buffer).require(0, SIZE)


@pytest.mark.parametrize("step", [8, 9, 10, 11, 12, 64])
def test_a_pattern_is_found_wherever_a_search_begins_anew(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readable, "_SEARCH_BYTES", step)
    for place in range(37):
        found = Stretch(memoryview(bytes(place) + b"abcd" + bytes(36 - place)))
        for start, stop, places in [(0, 40, [place]), (place, place + 1, [place]), (place + 1, 40, []), (0, place, [])]:
            assert list(found.find(re.compile(b"abcd"), start, stop)) == places, (place, start, stop)


@pytest.mark.parametrize(
    ("pages", "ranges"),
    [(set(), []), ({0}, [(0, 1)]), ({3, 4, 6}, [(3, 5), (6, 7)]), ({63}, [(63, 64)]), (set(range(64)), [(0, 64)])],
)
def test_unreadable_ranges_are_those_of_bad_pages(
    pages: set[int], ranges: list[tuple[int, int]], tmp_path: Path
) -> None:
    fs = BadSectors({f"{0:020d}": pages})
    file = written(tmp_path, fs)
    view = file._map()
    found = islice(readable.unreadable_ranges(fs, file.path, view, 0, SIZE), 9)
    assert [(start // PAGE_SIZE, stop // PAGE_SIZE) for start, stop in found] == ranges


@pytest.mark.parametrize(
    ("position", "found"),
    [(0, 0), (PAGE_SIZE, PAGE_SIZE), (2 * PAGE_SIZE, 4 * PAGE_SIZE), (5 * PAGE_SIZE, 6 * PAGE_SIZE)],
)
@pytest.mark.parametrize("start", [0, PAGE_SIZE])
def test_what_is_written_next_is_at_most_the_end_of_the_stretch(
    start: int, position: int, found: int, tmp_path: Path
) -> None:
    """Pages 0, 1, 4 and 9 are written; the stretch has pages 0 to 5."""
    path = tmp_path / "file"
    with path.open("wb") as file:
        for page in (0, 1, 4, 9):
            file.seek(page * PAGE_SIZE)
            file.write(b"x" * PAGE_SIZE)
    whole = Filesystem().map(Filesystem().open_read(path), 10 * PAGE_SIZE, writable=False)
    part = Stretch(whole[start : 6 * PAGE_SIZE], Filesystem(), path, whole, start)
    assert part.next_written(max(position - start, 0)) == max(found - start, 0)


@pytest.mark.parametrize(
    ("start", "size", "lost"),
    [(0, 1, (3, 4)), (1, 1, (3, 4)), (0, 2, (2, 4)), (2, 2, (2, 4)), (0, 3, (3, 6)), (2, 8, (2, 8))],
)
def test_items_around_an_unreadable_page_are_zeros(
    start: int, size: int, lost: tuple[int, int], tmp_path: Path
) -> None:
    """Page 3 of eight is bad; `start`, `size` of an item and `lost` count pages."""
    path, fs = tmp_path / "file", BadSectors({"file": {3}})
    path.write_bytes(b"x" * 8 * PAGE_SIZE)
    whole = fs.map(fs.open_read(path), 8 * PAGE_SIZE, writable=False)
    found = Stretch(whole[start * PAGE_SIZE :], fs, path, whole, start * PAGE_SIZE).salvage(size * PAGE_SIZE)
    left = (b"\0" if lost[0] <= page < lost[1] else b"x" for page in range(start, 8))
    assert bytes(found.buffer) == b"".join(one * PAGE_SIZE for one in left)
    assert (found.unreadable, found.mapped) == (((3 * PAGE_SIZE, 4 * PAGE_SIZE),), None)


@pytest.mark.parametrize(
    ("start", "stop", "found"),
    [
        (0, 10, [(0, 2), (4, 5), (9, 10)]),
        (1, 9, [(0, 1), (3, 4)]),
        (2, 4, []),
        (4, 10, [(0, 1), (5, 6)]),
    ],
)
def test_the_written_ranges_of_a_stretch_are_inside_of_it(
    start: int, stop: int, found: list[tuple[int, int]], tmp_path: Path
) -> None:
    """Pages 0, 1, 4 and 9 of ten are written; `start`, `stop` and `found` count pages."""

    class Listing(Filesystem):
        def written_ranges(self, path: Path, start: int) -> Iterator[tuple[int, int]]:
            for first, behind in ((0, 2), (4, 5), (9, 10)):
                if behind * PAGE_SIZE > start:
                    yield first * PAGE_SIZE, behind * PAGE_SIZE

    part = Stretch(memoryview(bytes((stop - start) * PAGE_SIZE)), Listing(), tmp_path, None, start * PAGE_SIZE)
    assert [(at // PAGE_SIZE, end // PAGE_SIZE) for at, end in part._written()] == found
