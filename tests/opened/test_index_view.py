"""The index of a store that is only read: without some of its files it answers as the whole index does."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import chain, combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.config import StoreConfig
from store.errors import StoreError, StoreIOError
from store.files.filesystem import Filesystem
from store.formats.index_page import HEADER, HEADER_SIZE, IndexHeader, entry_position, index_file_size
from store.formats.run import Run, Stretch
from store.layout import StoreLayout
from store.opened import index_view
from store.opened.index_view import (
    IndexView,
    LogKeys,
    _cuts,
    _entries_of_first_record,
    _entries_of_last_record,
    is_whole,
)
from store.structures.commitlog.resync import runs_between
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


@pytest.mark.turns(5)
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


@pytest.mark.parametrize("length", [1, 2, 5])
def test_the_log_tells_the_same_keys_however_it_is_read(
    length: int, whole: tuple[Path, SmallLog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short_runs(*given: Any, rules: ScanRules) -> Iterator[Run]:
        for run in runs_between(*given, rules=rules):
            yield from (run.part(at, min(at + length, run.count)) for at in range(0, run.count, length))

    root, log = whole
    shutil.copytree(root, tmp_path / "store")
    for file in files_of(tmp_path / "store")[1:4]:
        file.unlink()
    monkeypatch.setattr(index_view, "runs_between", short_runs)
    view, _ = view_of(tmp_path / "store", log)
    complete, _ = view_of(root, log)
    assert answers(view) == answers(complete)


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


def opened(path: Path, capacity: int = CAPACITY) -> IndexFile:
    fs = Filesystem()
    return IndexFile(path, SLOTS, capacity, fs.open_read(path), fs, writable=False)


def test_the_entries_of_the_records_at_both_ends_of_a_file_are_counted(whole: tuple[Path, SmallLog]) -> None:
    """Three keys a record, eleven a file."""
    files = [opened(path) for path in files_of(whole[0])]
    ends = [(_entries_of_first_record(file), _entries_of_last_record(file)) for file in files]
    assert ends == [(3, 2), (1, 1), (2, 3), (3, 2), (1, 3)]


@pytest.mark.parametrize(("count", "expected"), [(1, (1, 1)), (255, (255, 255)), (256, (255, 256)), (300, (255, 256))])
def test_of_a_record_with_many_keys_no_more_than_256_entries_are_looked_at(
    count: int, expected: tuple[int, int], tmp_path: Path
) -> None:
    log, index = SmallLog(), open_index(tmp_path, StoreConfig(max_hash_slot_num=SLOTS, max_index_num=400))
    log.put(keys=" ".join(f"k{number}" for number in range(count)))
    log.dispatch_to(index)
    index.close()
    file = opened(files_of(tmp_path)[0], 400)
    assert (_entries_of_first_record(file), _entries_of_last_record(file)) == expected


def failing(*_: object, **__: object) -> None:
    raise StoreIOError("unreadable")


@pytest.mark.parametrize(
    ("size", "notes"),
    [
        (0, []),
        (HEADER_SIZE - 1, []),
        (HEADER_SIZE, ["left out: {path}: the file has 40 bytes instead of {size}"]),
        (1000, ["left out: {path}: the file has 1000 bytes instead of {size}"]),
    ],
)
def test_a_file_of_another_size_is_left_out_with_a_note(
    size: int, notes: list[str], whole: tuple[Path, SmallLog], tmp_path: Path
) -> None:
    root, log = whole
    shutil.copytree(root, tmp_path / "store")
    path = files_of(tmp_path / "store")[1]
    path.write_bytes(bytes(size))
    view, found = view_of(tmp_path / "store", log)
    assert found == [note.format(path=path, size=index_file_size(SLOTS, CAPACITY)) for note in notes]
    assert len(view.files) == 4
    assert answers(view) == answers(view_of(root, log)[0])


@pytest.mark.parametrize("method", ["hold", "require"])
def test_a_file_that_cannot_be_opened_or_read_at_its_ends_is_left_out_with_a_note(
    method: str, whole: tuple[Path, SmallLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IndexFile, method, failing)
    view, notes = view_of(*whole)
    assert (view.files, notes) == ([], ["left out: unreadable"] * 5)


def test_a_file_whose_slots_lack_its_newest_key_is_left_out_with_a_note(
    whole: tuple[Path, SmallLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = files_of(whole[0])[0]
    monkeypatch.setattr(IndexFile, "lacks_newest", property(lambda file: file.path == first))
    view, notes = view_of(*whole)
    assert notes == [f"left out: {first}: its slots do not lead to its newest key"]
    assert len(view.files) == 4


def test_a_file_that_fails_during_a_query_is_left_out_and_its_keys_are_read_from_the_log(
    whole: tuple[Path, SmallLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, failed = answers(view_of(*whole)[0]), files_of(whole[0])[2]
    select = IndexFile.select

    def fails_once(file: IndexFile, *asked: object) -> None:
        if file.path == failed:
            raise StoreIOError("unreadable", file=failed)
        select(file, *asked)  # type: ignore[arg-type]

    monkeypatch.setattr(IndexFile, "select", fails_once)
    view, notes = view_of(*whole)
    assert answers(view) == expected
    assert notes[0] == f"left out: {failed}: unreadable"
    monkeypatch.setattr(IndexFile, "select", failing)
    with pytest.raises(StoreIOError, match="unreadable"):
        view.query("T", "all", 64, 0, 1 << 60)


def test_a_database_that_cannot_be_read_is_noted_once(
    whole: tuple[Path, SmallLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise StoreError("no database")

    monkeypatch.setattr(index_view, "rooms_with", unreadable)
    view, notes = view_of(*whole)
    assert [len(view.query("T", "k3", 64, 0, 1 << 60).log_offsets) for _ in range(2)] == [1, 1]
    assert notes == ["no database; keys are read from the log"]


@pytest.mark.parametrize(
    ("held", "most", "times", "expected"),
    [
        ([], 64, (0, 1 << 60), [30, 20, 10]),
        ([], 2, (0, 1 << 60), [30, 20]),
        ([1], 2, (0, 1 << 60), [1, 30]),
        ([1, 2], 2, (0, 1 << 60), [1, 2]),
        ([], 64, (5000, 5000), [20, 10]),
        ([], 64, (5001, 7000), [30]),
        ([], 64, (7000, 7000), [30]),
        ([], 64, (7001, 1 << 60), []),
        ([], 64, (0, 4999), []),
        ([], 64, (0, 6999), [20, 10]),
    ],
)
def test_keys_of_the_log_are_selected_newest_first_by_whole_seconds_since_the_first(
    held: list[int], most: int, times: tuple[int, int], expected: list[int]
) -> None:
    keys = LogKeys(Path("log"), IndexHeader(5000, 7500, 10, 30, 0, 4), [10, 20, 30], [5000, 5999, 7500])
    found = list(held)
    keys.select("k", most, *times, found)
    assert found == expected


# A stretch of log, how many keys of its first record are known, and its parts: `db` in the database, which has the keys
# of log offsets 10 to 20.
@pytest.mark.parametrize(
    ("start", "stop", "known", "parts"),
    [
        (0, 30, 0, [(0, 10, 0), ("db", 10, 20), (20, 30, index_view._ALL)]),
        (10, 20, 0, [("db", 10, 19)]),
        (10, 21, 0, [("db", 10, 20)]),
        (10, 22, 0, [("db", 10, 20), (20, 22, index_view._ALL)]),
        (10, 30, 1, [(10, 11, 1), ("db", 11, 20), (20, 30, index_view._ALL)]),
        (9, 21, 1, [(9, 10, 1), ("db", 10, 20)]),
        (20, 30, 0, [("db", 20, 20), (20, 30, index_view._ALL)]),
        (20, 30, 2, [(20, 30, 2)]),
        (21, 30, 0, [(21, 30, 0)]),
        (0, 10, 0, [(0, 10, 0)]),
        (0, 11, 0, [(0, 10, 0), ("db", 10, 10)]),
    ],
)
def test_a_stretch_without_a_file_is_divided_at_the_ends_of_the_database(
    start: int, stop: int, known: int, parts: list[tuple[Any, ...]]
) -> None:
    view, notes = object.__new__(IndexView), list[str]()
    indexed = SimpleNamespace(first=10, last=20, path=Path("s/db"), within=lambda first, last: ("db", first, last))
    view.__dict__.update(_indexed_log=indexed, _note=notes.append)
    found: list[Any] = list(view._divided(index_view._Uncovered(Stretch(start, stop), known, 2)))
    assert [(*one.stretch, one.known) if isinstance(one, index_view._Uncovered) else one for one in found] == parts
    # Keys of the last record that the file after the stretch has.
    assert [one.later for one in found if isinstance(one, index_view._Uncovered)] == [
        2 * (one[1] == stop) for one in parts if one[0] != "db"
    ]
    within = [f"keys of log offsets {one[1]} to {one[2]} are looked up in db" for one in parts if one[0] == "db"]
    assert notes == within


def test_keys_of_a_log_begin_with_the_header_of_an_index_file_before_its_first_key() -> None:
    log = SmallLog()
    log.put_many(2)
    run = next(
        one
        for one in runs_between([SmallSegment(memoryview(log.data))], 0, log.end, rules=ScanRules())
        if isinstance(one, Run)
    )
    time_ms, at = int(run.columns.store_timestamp_ms[1]), int(run.columns.log_offset[1])
    keys = LogKeys.begin(Path("index"), run, 1)
    assert (keys.path, keys.header) == (Path(f"index/(log from {at})"), IndexHeader(time_ms, time_ms, at, at, 0, 1))
    assert (keys.log_offsets, keys.times_ms) == ([], [])
