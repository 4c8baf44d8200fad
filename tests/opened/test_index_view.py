"""The index of a store that is only read: without some of its files it answers as the whole index does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import chain, combinations
from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.formats.index_page import HEADER, HEADER_SIZE, entry_position
from store.layout import StoreLayout
from store.opened.index_view import IndexView, _cuts, is_whole
from store.opened.missing import Stretch
from store.structures.commitlog.scan import ScanRules
from store.structures.index.index_file import IndexFile
from tests.support.small_log import SMALL_CONFIG, START_MS, SmallLog, SmallSegment, open_index

SLOTS, CAPACITY = SMALL_CONFIG.max_hash_slot_num, SMALL_CONFIG.max_index_num
COUNT = 18
KEYS = ("odd", "even", "all", "k0", "k1", "k7", "k16", "none")
TIMES = [
    (0, 1 << 60),
    (5000, 10_000),
    (5001, 10_000),
    (5000, 9999),
    (5999, 12_001),
    (17_000, 17_000),
    (17_001, 1 << 60),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SmallLog]:
    """A log of 18 records with three keys each: files of 11 keys end within a record."""
    root, log = tmp_path_factory.mktemp("index"), SmallLog()
    for number in range(COUNT):
        log.put(keys=f"{('even', 'odd')[number % 2]} all k{number}")
    index = open_index(root)
    log.dispatch_to(index)
    index.close()
    return root, log


def view_of(root: Path, log: SmallLog, *, verify: bool = False, indexed: bool = True) -> tuple[IndexView, list[str]]:
    notes: list[str] = []
    view = IndexView(StoreLayout(root), SMALL_CONFIG, Filesystem(), lambda: START_MS, notes.append)
    view.load()
    segment = SmallSegment(memoryview(log.data))
    view.show([segment], Stretch(0, log.end), ScanRules(), verify=verify, indexed=indexed)
    return view, notes


def answers(view: IndexView) -> list[object]:
    """What is found for each key, how far the index reaches, and how many files were looked into."""
    found = [
        (key, most, times, view.query("T", key, most, START_MS + times[0], START_MS + times[1]))
        for key in KEYS
        for most in (1, 2, 5, 64)
        for times in TIMES
    ]
    return [(*asked, *answer[:3], len(answer.files)) for *asked, answer in found]


def files_of(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir())


LACKING = list(chain.from_iterable(combinations(range(5), count) for count in range(6)))


@pytest.mark.parametrize("lacking", LACKING)
def test_the_log_tells_the_keys_of_files_that_are_gone(
    lacking: tuple[int, ...], whole: tuple[Path, SmallLog], tmp_path: Path
) -> None:
    root, log = whole
    files = files_of(root)
    assert len(files) == 5
    shutil.copytree(root, tmp_path / "store")
    for number in lacking:
        (tmp_path / "store/index" / files[number].name).unlink()
    view, notes = view_of(tmp_path / "store", log)
    complete, no_notes = view_of(root, log)
    assert answers(view) == answers(complete)
    assert no_notes == []
    assert bool(notes) is bool(lacking)


def test_keys_that_the_log_tells_are_counted(whole: tuple[Path, SmallLog], tmp_path: Path) -> None:
    root, log = whole
    shutil.copytree(root, tmp_path / "store")
    files = files_of(tmp_path / "store")
    files[1].unlink()
    files[4].unlink()
    view, notes = view_of(tmp_path / "store", log)
    assert len(view.query("T", "k3", 64, 0, 1 << 60).log_offsets) == 1
    assert notes == [
        "11 keys are in no index file, and read from the log",
        "10 keys are in no index file, and read from the log",
    ]
    # What was read for a key is kept for its next query.
    view.query("T", "k3", 64, 0, 1 << 60)
    assert len(notes) == 2


def test_a_store_that_is_set_to_have_no_index_is_not_read_for_keys(
    whole: tuple[Path, SmallLog], tmp_path: Path
) -> None:
    root, log = whole
    shutil.copytree(root, tmp_path / "store")
    files_of(tmp_path / "store")[0].unlink()
    view, notes = view_of(tmp_path / "store", log, indexed=False)
    assert (view.query("T", "k1", 64, 0, 1 << 60).log_offsets, notes) == ([], [])


HEADER_FIELDS = ("begin_ms", "end_ms", "begin", "end", "slots", "count")


def header(**changed: int) -> Callable[[bytearray], None]:
    """Adds to fields of the header."""

    def change(data: bytearray) -> None:
        values = list(HEADER.unpack_from(data))
        for name, more in changed.items():
            values[HEADER_FIELDS.index(name)] += more
        HEADER.pack_into(data, 0, *values)

    return change


def at(position: int, digits: str) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[position : position + len(digits) // 2] = bytes.fromhex(digits)

    return change


def entry(number: int, field: int, digits: str) -> Callable[[bytearray], None]:
    return at(entry_position(SLOTS, number) + field, digits)


DAMAGES: dict[str, tuple[Callable[[bytearray], None], bool]] = {
    "none": (header(), True),
    "other times": (header(begin_ms=1, end_ms=1), True),
    "an earlier begin": (header(begin=-1), False),
    "a later begin": (header(begin=1), False),
    "an earlier end": (header(end=-1), False),
    "a later end": (header(end=1), False),
    "a slot less": (header(slots=-1), False),
    "a slot more": (header(slots=1), False),
    "an entry less": (header(count=-1), False),
    "an entry more": (header(count=1), False),
    "an empty slot more": (at(HEADER_SIZE, "00" * 4), False),
    "no hash": (entry(1, 0, "80000000"), False),
    "another hash": (entry(1, 0, "00000000"), True),
    "an offset beyond the next": (entry(2, 4, "0000000000100000"), False),
    "no offset": (entry(11, 4, "00" * 8), False),
    "an entry before itself": (entry(3, 16, "00000003"), False),
    "an entry before it": (entry(3, 16, "00000002"), True),
    "a slot at the count": (at(HEADER_SIZE, "0000000c"), False),
    "no entries": (header(count=-11), True),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_file_is_whole_where_header_slots_and_entries_agree(
    name: str, whole: tuple[Path, SmallLog], tmp_path: Path
) -> None:
    change, expected = DAMAGES[name]
    root, log = whole
    shutil.copytree(root, tmp_path / "store")
    path = files_of(tmp_path / "store")[0]
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    fs = Filesystem()
    file = IndexFile(path, SLOTS, CAPACITY, fs.open_read(path), fs, writable=False)
    assert is_whole(file) is expected
    left_out = [f"left out: {path}: not all of it was on disk at the crash"]
    assert [note for note in view_of(tmp_path / "store", log, verify=True)[1] if "crash" in note] == (
        [] if expected else left_out
    )


def test_a_file_that_cannot_be_read_is_not_whole(whole: tuple[Path, SmallLog], monkeypatch: pytest.MonkeyPatch) -> None:
    fs, path = Filesystem(), files_of(whole[0])[0]
    file = IndexFile(path, SLOTS, CAPACITY, fs.open_read(path), fs, writable=False)
    assert is_whole(file)
    monkeypatch.setattr(IndexFile, "is_readable", lambda file: False)
    assert not is_whole(file)


@pytest.mark.parametrize(
    ("count", "added", "capacity", "cuts"),
    [
        (0, 0, 10, []),
        (0, 1, 10, [0]),
        (0, 10, 10, [0]),
        (0, 11, 10, [0, 10]),
        (0, 21, 10, [0, 10, 20]),
        (3, 7, 10, [0]),
        (3, 8, 10, [0, 7]),
        (10, 10, 10, [0]),
        (13, 18, 10, [0, 7, 17]),
        (13, 17, 10, [0, 7]),
        (9, 2, 10, [0, 1]),
    ],
)
def test_keys_are_cut_where_a_file_is_full(count: int, added: int, capacity: int, cuts: list[int]) -> None:
    assert list(_cuts(count, added, capacity)) == cuts
