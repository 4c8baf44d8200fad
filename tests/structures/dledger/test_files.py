"""The files beside the entries of a DLedger member: faults of a start, units of its index, and its state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from store.files.store_reader import StoredFile, StoreReader
from store.structures.dledger.files import (
    INDEX_DTYPE,
    INDEX_FILE_SIZE,
    EntryIndex,
    MemberState,
    read_member_state,
    start_faults,
)

NAME = "dledger-n0"


def test_an_index_file_holds_five_million_units_of_32_bytes() -> None:
    assert (INDEX_FILE_SIZE, INDEX_DTYPE.itemsize) == (167_772_160, 32)


def files(*sizes: tuple[int, int]) -> list[StoredFile]:
    return [StoredFile(f"f/{number}", number, size, 0) for number, size in sizes]


@pytest.mark.parametrize(
    ("index", "data", "faults"),
    [
        ([], [], []),
        ([(0, INDEX_FILE_SIZE), (INDEX_FILE_SIZE, INDEX_FILE_SIZE)], [(0, 10), (10, 10), (20, 5)], []),
        ([(0, 31)], [], [("f/0", f"31 bytes instead of {INDEX_FILE_SIZE}")]),
        (
            [(0, INDEX_FILE_SIZE), (2 * INDEX_FILE_SIZE, INDEX_FILE_SIZE)],
            [],
            [(f"f/{2 * INDEX_FILE_SIZE}", f"the index files between 0 and {2 * INDEX_FILE_SIZE} are missing")],
        ),
        ([], [(0, 10), (11, 10)], [("f/11", "the data files between 0 and 11 are missing")]),
        ([], [(0, 10), (9, 10)], [("f/9", "the data files between 0 and 9 are missing")]),
    ],
)
def test_files_follow_each_other_without_a_gap(
    index: list[tuple[int, int]], data: list[tuple[int, int]], faults: list[tuple[str, str]]
) -> None:
    assert list(start_faults(files(*index), files(*data))) == faults


def write_index(root: Path, *magics: int, per_file: int) -> EntryIndex:
    units = np.array([(magic, 100 * number, 100, number, 1) for number, magic in enumerate(magics)], INDEX_DTYPE)
    folder = root / NAME / "index"
    folder.mkdir(parents=True)
    for first in range(0, len(units), per_file):
        (folder / f"{32 * first:020d}").write_bytes(units[first : first + per_file].tobytes())
    return EntryIndex(StoreReader(str(root)), NAME)


@pytest.mark.parametrize(
    ("first", "count", "found"),
    [
        (0, 1, [0]),
        (0, 5, [0, 1, 2, 3, 4]),
        (1, 1, [1]),
        (1, 2, [1, 2]),
        (3, 1, [3]),
        (4, 9, [4]),
        (5, 1, []),
        (2, 0, []),
    ],
)
def test_units_are_read_over_the_seams_of_files(first: int, count: int, found: list[int], tmp_path: Path) -> None:
    index = write_index(tmp_path, 1, 1, 1, 1, 1, per_file=2)
    assert index.units(first, count)["index"].tolist() == found


@pytest.mark.parametrize(
    ("magics", "newer"),
    [((1, 1, 1), []), ((1, 2, 3), [1]), ((2, 3), [0]), ((1, 1, 3), [2]), ((3, 1, 2), [0]), ((1, 4, 0), [])],
)
def test_the_first_entry_of_a_newer_kind_is_found(magics: tuple[int, ...], newer: list[int], tmp_path: Path) -> None:
    assert write_index(tmp_path, *magics, per_file=2).first_newer()["index"].tolist() == newer


@pytest.mark.parametrize(
    ("checkpoint", "term", "state"),
    [
        (None, None, MemberState()),
        ("#time\ncommittedIndex=0\nendIndex= 7 \n", "currTerm=3\nvoteLeader=n0\n", MemberState(0, 7, 3, "n0")),
        ("committedIndex=x\n", "currTerm=\nvoteLeader=\n", MemberState(None, None, None, "")),
        ("endIndex=5", "voteLeader=a=b", MemberState(None, 5, None, "a=b")),
    ],
)
def test_a_member_s_state_has_what_its_files_say(
    checkpoint: str | None, term: str | None, state: MemberState, tmp_path: Path
) -> None:
    (tmp_path / NAME).mkdir()
    for name, text in (("checkpoint", checkpoint), ("currterm", term)):
        if text is not None:
            (tmp_path / NAME / name).write_text(text, encoding="utf-8")
    assert read_member_state(StoreReader(str(tmp_path)), NAME) == state
