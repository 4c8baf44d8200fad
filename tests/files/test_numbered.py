"""The files of a store with an offset as name, and their usual size."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from store.files.filesystem import Entry, Filesystem
from store.files.newest import Newest
from store.files.numbered import SOME_QUEUES, numbered_files, some_queue_files, usual_size
from store.layout import segment_name


class File:
    """A file that may be released."""


@pytest.mark.parametrize("most", [0, 1, 3])
def test_past_the_most_files_the_oldest_one_is_given_back(most: int) -> None:
    files, newest = [File() for _ in range(5)], Newest[File](most)
    assert [newest.add(file) for file in files] == [None] * most + files[: 5 - most]


def test_a_file_that_nobody_holds_is_not_given_back() -> None:
    newest = Newest[File](1)
    assert newest.add(File()) is None
    gc.collect()
    assert newest.add(File()) is None


@pytest.mark.parametrize(
    ("sizes", "usual"), [([], 0), ([0, 0], 0), ([7], 7), ([7, 8, 8], 8), ([0, 0, 0, 9], 9), ([5, 6], 6), ([6, 5], 6)]
)
def test_the_usual_size_is_that_of_most_files(sizes: list[int], usual: int) -> None:
    assert usual_size(Entry(Path("a"), size, 0, False) for size in sizes) == usual


@pytest.mark.parametrize(
    ("files", "usual"),
    [
        ({0: 7, 8: 8}, 8),
        ({0: 9, 8: 8}, 8),
        ({0: 8, 8: 7}, 8),
        ({0: 7, 8: 9}, 9),
        ({0: 7, 8: 7, 16: 8}, 8),
        ({0: 8, 16: 8, 24: 7}, 8),
        ({0: 8, 16: 7}, 8),
    ],
)
def test_the_distance_between_two_files_tells_the_size_of_the_first(files: dict[int, int], usual: int) -> None:
    assert usual_size(Entry(Path(segment_name(number)), size, 0, False) for number, size in files.items()) == usual


def test_files_with_an_offset_as_name_are_listed_in_order(tmp_path: Path) -> None:
    for name in (segment_name(200), segment_name(100), "abort", f"{segment_name(1)}.bak"):
        (tmp_path / name).touch()
    (tmp_path / segment_name(300)).mkdir()
    assert [int(entry.path.name) for entry in numbered_files(tmp_path, Filesystem())] == [100, 200]


def test_some_queues_are_the_first_with_files(tmp_path: Path) -> None:
    count = SOME_QUEUES + 2
    for number in range(count):
        folder = tmp_path / f"T{number:03}" / "0"
        folder.mkdir(parents=True)
        if number != 1:
            (folder / segment_name(0)).touch()
            (folder / segment_name(20)).touch()
    (tmp_path / "T000" / "note").touch()
    found = [entry.path.parent.parent.name for entry in some_queue_files(tmp_path, Filesystem())]
    queues = [f"T{number:03}" for number in range(count) if number != 1][:SOME_QUEUES]
    assert (SOME_QUEUES, found) == (16, [name for name in queues for _ in range(2)])
