"""What a check finds in an index file, alone and against its records: whole findings, at every boundary."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store.config import StoreConfig
from store.errors import DamagedFile
from store.files.readable import Stretch
from store.files.store_reader import StoreReader
from store.formats.index_page import (
    BEGIN_OFFSET_AT,
    BEGIN_TIME_AT,
    END_OFFSET_AT,
    END_TIME_AT,
    INDEX_COUNT_AT,
    SLOT_COUNT_AT,
    entry_position,
)
from store.formats.java import key_hash
from store.formats.run import Run
from store.structures.commitlog.scan import scan_segment
from store.structures.entry import Asked
from store.structures.findings import (
    BROKEN_CHAIN,
    INDEX_ENTRY_NOWHERE,
    INDEX_HEADER,
    INDEX_TIME,
    MISSING_INDEX_ENTRY,
    UNREADABLE_INDEX,
    Finding,
)
from store.structures.index import rising, rows
from store.structures.index.compare import EntryFile, index_differences
from store.structures.index.expect import Entries, expected_entries
from store.structures.index.geometry import Geometry
from store.structures.index.rising import RisingOffsets
from store.structures.index.survey import IndexFile, survey_index
from tests.support.bad_sectors import BadSectors
from tests.support.small_log import SMALL_CONFIG, START_MS, SmallLog, SmallSegment, open_index

SLOTS, CAPACITY = SMALL_CONFIG.max_hash_slot_num, SMALL_CONFIG.max_index_num
KNOWN = {Geometry(SLOTS, CAPACITY).file_size: Geometry(SLOTS, CAPACITY)}
COUNT = 14
"""Records with one key each: eleven fill a file, three are in the next."""


class Damaged:
    """A store with an index of two files, of which some fields are overwritten."""

    def __init__(self, root: Path, keys: list[str] | None = None, tags: str = "") -> None:
        self.log = SmallLog()
        self.places = [self.log.put(keys=key, tags=tags) for key in keys or [f"k{number}" for number in range(COUNT)]]
        index = open_index(root)
        self.log.dispatch_to(index)
        index.close()
        self.paths, self.root = sorted((root / "index").iterdir()), root

    def overwrite(self, file: int, position: int, value: int, size: int = 4) -> None:
        data = bytearray(self.paths[file].read_bytes())
        data[position : position + size] = value.to_bytes(size, "big", signed=True)
        self.paths[file].write_bytes(data)

    def surveyed(self, *, is_written_to: bool = False) -> tuple[list[IndexFile], list[Finding]]:
        reader = StoreReader(str(self.root))
        rows = [
            row
            for file in reader.index_files()
            for row in survey_index(reader, file, KNOWN, is_written_to=is_written_to)
        ]
        found = [row for row in rows if isinstance(row, Finding)]
        return [row for row in rows if isinstance(row, IndexFile)], found

    def differences(self, expected: Entries | None = None) -> list[Finding]:
        reader, (files, _) = StoreReader(str(self.root)), self.surveyed()
        run = next(scan_segment(SmallSegment(memoryview(self.log.data))))
        assert isinstance(run, Run)
        entries = [EntryFile(reader, file) for file in files]
        wanted = expected_entries(run) if expected is None else expected
        return list(index_differences("segment", entries, 0, self.log.end, wanted, run))

    def finding(self, kind: str, file: int, offset: int, detail: str, count: int = 1) -> Finding:
        return Finding(kind, str(self.paths[file]), offset, count=count, detail=detail)


@pytest.fixture
def index(tmp_path: Path) -> Damaged:
    return Damaged(tmp_path)


def test_a_sound_index_is_surveyed_by_its_files(index: Damaged) -> None:
    files, findings = index.surveyed()
    size, places = Geometry(SLOTS, CAPACITY).file_size, index.places
    rows = [
        IndexFile(
            f"index/{path.name}", size, SLOTS, count, low, high, True, True, START_MS + begin, START_MS + end, is_full
        )
        for path, count, low, high, begin, end, is_full in (
            (index.paths[0], 12, 0, places[10], 0, 10_000, True),
            (index.paths[1], 4, places[11], places[13], 11_000, 13_000, False),
        )
    ]
    assert (files, findings, index.differences()) == (rows, [], [])


HEADERS = [
    (BEGIN_OFFSET_AT, 8, 5, "begin log offset is 5, the entries make it {first}"),
    (END_OFFSET_AT, 8, 5, "end log offset is 5, the entries make it {last}"),
    (SLOT_COUNT_AT, 4, 9, "number of used slots is 9, the entries make it {slots}"),
    (BEGIN_TIME_AT, 8, 0, "begin time is 0 ms"),
    (BEGIN_TIME_AT, 8, START_MS + 13_001, None),
    (BEGIN_TIME_AT, 8, 1, None),
]


@pytest.mark.parametrize(("position", "size", "value", "words"), HEADERS)
def test_a_header_says_what_its_entries_do(
    position: int, size: int, value: int, words: str | None, index: Damaged
) -> None:
    used = int.from_bytes(index.paths[1].read_bytes()[SLOT_COUNT_AT : SLOT_COUNT_AT + 4], "big")
    index.overwrite(1, position, value, size)
    detail = (words or "").format(first=index.places[11], last=index.places[13], slots=used)
    assert index.surveyed()[1] == ([index.finding(INDEX_HEADER, 1, 0, detail)] if words else [])
    assert index.surveyed(is_written_to=True)[1] == []


@pytest.mark.parametrize(("count", "words"), [(12, None), (13, "the count is 13, the file has room for 12 entries")])
def test_a_count_is_at_most_the_files_room(count: int, words: str | None, index: Damaged) -> None:
    index.overwrite(0, INDEX_COUNT_AT, count)
    files, found = index.surveyed()
    assert found == ([] if words is None else [index.finding(INDEX_HEADER, 0, 0, words)])
    assert (files[0].count, files[0].is_full) == (count, True)


def test_a_header_is_compared_before_the_chains(index: Damaged) -> None:
    index.overwrite(1, END_OFFSET_AT, 5, 8)
    index.overwrite(1, entry_position(SLOTS, 3) + 16, 3)
    assert [one.kind for one in index.surveyed()[1]] == [INDEX_HEADER, BROKEN_CHAIN]


@pytest.mark.parametrize("size", [0, 39, 40])
def test_a_file_without_room_for_a_header_is_named(size: int, index: Damaged) -> None:
    index.paths[1].write_bytes(bytes(size))
    detail = f"{size} bytes are too few for a header"
    assert index.surveyed()[1] == [index.finding(INDEX_HEADER, 1, 0, detail)] * (size < 40)


@pytest.mark.parametrize("count", [0, 1])
def test_a_file_without_entries_points_nowhere(count: int, index: Damaged) -> None:
    size = Geometry(SLOTS, CAPACITY).file_size
    index.paths[1].write_bytes((bytes(INDEX_COUNT_AT) + count.to_bytes(4, "big")).ljust(size, b"\0"))
    row = IndexFile(f"index/{index.paths[1].name}", size, SLOTS, 1, 0, -1, True, True, 0, 0, False)
    assert index.surveyed() == ([index.surveyed()[0][0], row], [])


def test_a_file_of_one_entry_has_a_header_to_compare(tmp_path: Path) -> None:
    index = Damaged(tmp_path, ["k"])
    index.overwrite(0, END_OFFSET_AT, 5, 8)
    assert index.surveyed()[1] == [index.finding(INDEX_HEADER, 0, 0, "end log offset is 5, the entries make it 0")]


@pytest.mark.parametrize(("page", "rows"), [(0, 0), (1, 1)])
def test_a_file_is_surveyed_without_the_pages_that_cannot_be_read(page: int, rows: int, tmp_path: Path) -> None:
    config = StoreConfig(max_hash_slot_num=SLOTS, max_index_num=1000)
    log, writer = SmallLog(), open_index(tmp_path, config)
    places = log.put_many(600, keys="k")
    log.dispatch_to(writer)
    writer.close()
    (path,) = (tmp_path / "index").iterdir()
    reader = StoreReader(str(tmp_path), BadSectors({path.name: {page}}))
    (file,) = reader.index_files()
    found = list(survey_index(reader, file, {file.size: Geometry(SLOTS, 1000)}))
    detail = f"can't read bytes {page * 4096} to {(page + 1) * 4096}"
    assert found[0] == Finding(UNREADABLE_INDEX, str(path), 0, detail=detail)
    assert [(one.count, one.high, one.rises) for one in found[1:] if isinstance(one, IndexFile)] == [
        (601, places[-1], False)
    ] * rows
    if rows:
        (surveyed,) = found[1:]
        assert isinstance(surveyed, IndexFile)
        numbers, _ = EntryFile(reader, surveyed).between(0, log.end)
        # Entries that begin or end in the page have numbers 202 to 406.
        first, last = (4096 - entry_position(SLOTS, 0)) // 20, (8191 - entry_position(SLOTS, 0)) // 20
        assert numbers.tolist() == [number for number in range(1, 601) if not first <= number <= last]


def test_the_entries_that_are_given_were_read_in(index: Damaged, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[range] = []
    monkeypatch.setattr(Stretch, "require", lambda self, start, stop: asked.append(range(start, stop)))
    file = EntryFile(StoreReader(str(index.root)), index.surveyed()[0][0])
    monkeypatch.setattr(file, "_rising", SimpleNamespace(row_of=lambda at: at))
    assert file.between(2, 7)[0].tolist() == [3, 4, 5, 6, 7]
    assert asked == [range(entry_position(SLOTS, 3), entry_position(SLOTS, 8))]


def test_a_file_of_an_unknown_geometry_is_named_where_it_counts_entries(index: Damaged) -> None:
    detail = "size and contents do not tell the number of hash slots; the broker's setting maxHashSlotNum does"
    for count, found in ((2, [index.finding(INDEX_HEADER, 1, 0, detail)]), (1, [])):
        index.paths[1].write_bytes(bytes(INDEX_COUNT_AT) + count.to_bytes(4, "big") + bytes(400))
        assert index.surveyed()[1] == found


def test_an_entry_names_the_next_older_one_of_its_slot_and_a_slot_its_newest(tmp_path: Path) -> None:
    index = Damaged(tmp_path, ["k"] * 5)
    index.overwrite(0, entry_position(SLOTS, 3) + 16, 1)
    index.overwrite(0, entry_position(SLOTS, 4) + 16, 1)
    detail = "an entry does not name the next older one of its slot"
    assert index.surveyed()[1] == [index.finding(BROKEN_CHAIN, 0, 3, detail, 2)]


@pytest.mark.parametrize(("stored", "is_wrong"), [(5, False), (4, True), (0, True), (6, True), (-1, True)])
def test_a_slot_names_its_newest_entry(stored: int, is_wrong: bool, tmp_path: Path) -> None:
    index = Damaged(tmp_path, ["k"] * 5)
    data = index.paths[0].read_bytes()
    (slot,) = [slot for slot in range(SLOTS) if any(data[40 + 4 * slot : 44 + 4 * slot])]
    index.overwrite(0, 40 + 4 * slot, stored)
    found = [index.finding(BROKEN_CHAIN, 0, 0, "a slot does not name its newest entry")] * is_wrong
    assert index.surveyed()[1] == found


@pytest.mark.parametrize(("empty", "stored", "is_wrong"), [(True, 9, False), (True, -1, False), (True, 5, True)])
def test_a_slot_without_entries_names_none_of_them(empty: bool, stored: int, is_wrong: bool, tmp_path: Path) -> None:
    index = Damaged(tmp_path, ["k"] * 5)
    data = index.paths[0].read_bytes()
    slot = next(slot for slot in range(SLOTS) if any(data[40 + 4 * slot : 44 + 4 * slot]) != empty)
    index.overwrite(0, 40 + 4 * slot, stored)
    assert [found.kind for found in index.surveyed()[1]] == [BROKEN_CHAIN] * is_wrong


BEGIN = "the header's begin time is {begin} ms, the record of entry 1 has {first} ms"
TIMES = [
    (1, BEGIN_TIME_AT, START_MS + 10_999, BEGIN),
    (1, END_TIME_AT, START_MS + 13_001, "the header's end time is {over} ms, the record of entry 3 has {last} ms"),
]


@pytest.mark.parametrize(("file", "position", "value", "words"), TIMES)
def test_a_header_has_the_times_of_its_first_and_last_record(
    file: int, position: int, value: int, words: str, index: Damaged
) -> None:
    index.overwrite(file, position, value, 8)
    times = {
        "begin": START_MS + 10_999,
        "first": START_MS + 11_000,
        "over": START_MS + 13_001,
        "last": START_MS + 13_000,
    }
    assert index.differences() == [index.finding(INDEX_TIME, file, 0, words.format(**times))]


def test_a_begin_time_behind_the_end_time_is_held_against_the_records(index: Damaged) -> None:
    index.overwrite(1, BEGIN_TIME_AT, START_MS + 13_001, 8)
    assert [(found.kind, found.count) for found in index.differences()] == [(INDEX_TIME, 2), (INDEX_TIME, 1)]


def test_entries_have_the_seconds_of_their_records(index: Damaged) -> None:
    for number in (1, 2, 3):
        index.overwrite(1, entry_position(SLOTS, number) + 12, 7)
    detail = "7 s after the begin time, the record makes it 1"
    assert index.differences() == [index.finding(INDEX_TIME, 1, 2, detail, 2)]


SECONDS = "{stored} s after the begin time, the record makes it {made}"


@pytest.mark.parametrize(
    ("begin", "made"), [(0, None), (1, (START_MS + 11_999) // 1000), (START_MS + 12_500, 0), (START_MS + 13_500, 0)]
)
def test_seconds_count_from_the_headers_begin_if_it_has_one(begin: int, made: int | None, index: Damaged) -> None:
    index.overwrite(1, BEGIN_TIME_AT, begin, 8)
    wrong = index.finding(INDEX_TIME, 1, 2, SECONDS.format(stored=1, made=made), 2)
    header = index.finding(INDEX_TIME, 1, 0, BEGIN.format(begin=begin, first=START_MS + 11_000))
    assert index.differences() == [*([] if made is None else [wrong]), header]


@pytest.mark.parametrize(("last", "number", "count"), [(12, 3, 1), (11, 2, 2)])
def test_an_entry_behind_the_last_record_with_keys_leads_nowhere(
    last: int, number: int, count: int, index: Damaged
) -> None:
    run = next(scan_segment(SmallSegment(memoryview(index.log.data))))
    assert isinstance(run, Run)
    detail = f"points to {index.places[last + 1]}, whose record has no such key"
    expected = expected_entries(run).up_to(index.places[last])
    assert index.differences(expected) == [index.finding(INDEX_ENTRY_NOWHERE, 1, number, detail, count)]


def test_a_missing_key_is_placed_by_its_log_offset_wherever_the_stretch_begins(index: Damaged) -> None:
    run = next(scan_segment(SmallSegment(memoryview(index.log.data)), index.places[9]))
    assert isinstance(run, Run)
    found = list(index_differences("segment", [], index.places[9], index.log.end, expected_entries(run), run))
    detail = "keys of this record are in no index file"
    assert found == [Finding(MISSING_INDEX_ENTRY, "segment", index.places[9], count=5, detail=detail)]


def test_an_entry_without_its_key_and_a_key_without_an_entry_are_named(index: Damaged) -> None:
    index.overwrite(1, entry_position(SLOTS, 2), 77)
    nowhere = f"points to {index.places[12]}, whose record has no such key"
    missing = Finding(
        MISSING_INDEX_ENTRY, "segment", index.places[12], detail="keys of this record are in no index file"
    )
    assert index.differences() == [index.finding(INDEX_ENTRY_NOWHERE, 1, 2, nowhere), missing]


@pytest.mark.parametrize(
    ("topic", "tags", "is_known"),
    [("T", "paid", True), ("T", "paid2", False), ("U", "paid", False), ("T", "PAID", False), ("T", "", False)],
)
def test_an_entry_of_the_records_tags_is_one_of_5_4(topic: str, tags: str, is_known: bool, tmp_path: Path) -> None:
    index = Damaged(tmp_path, tags="paid")
    index.overwrite(1, entry_position(SLOTS, 2), key_hash(f"{topic}#T#{tags}"))
    kinds = [MISSING_INDEX_ENTRY] if is_known else [INDEX_ENTRY_NOWHERE, MISSING_INDEX_ENTRY]
    assert [one.kind for one in index.differences()] == kinds


def test_an_entry_of_no_tags_belongs_to_no_record(index: Damaged) -> None:
    index.overwrite(1, entry_position(SLOTS, 2), key_hash("T#T#"))
    assert [one.kind for one in index.differences()] == [INDEX_ENTRY_NOWHERE, MISSING_INDEX_ENTRY]


def test_missing_keys_are_counted_from_the_first_record(index: Damaged) -> None:
    index.paths[1].unlink()
    detail = "keys of this record are in no index file"
    assert index.differences() == [Finding(MISSING_INDEX_ENTRY, "segment", index.places[11], count=3, detail=detail)]


def test_no_record_demands_entries_of_nothing(index: Damaged) -> None:
    none = Entries(*(np.empty(0, np.int64) for _ in range(3)))
    found = [(found.kind, found.count) for found in index.differences(none)]
    assert found == [(INDEX_ENTRY_NOWHERE, 11), (INDEX_ENTRY_NOWHERE, 3)]


# From and to which record, and the numbers of the entries: of a sound file, and of one whose last entry points to 0.
BETWEEN = [(0, 0, [], []), (0, 1, [1], [1, 6]), (1, 2, [2], [2]), (1, 3, [2, 3], [2, 3]), (3, 6, [4, 5, 6], [4, 5])]


@pytest.mark.parametrize(("low", "high", "sound", "falling"), BETWEEN)
def test_entries_between_log_offsets_are_those_from_the_first_to_before_the_last(
    low: int, high: int, sound: list[int], falling: list[int], tmp_path: Path
) -> None:
    index = Damaged(tmp_path, [f"k{number}" for number in range(6)])
    places = [*index.places, index.log.end]
    for numbers, rises in ((sound, True), (falling, False)):
        if not rises:
            index.overwrite(0, entry_position(SLOTS, 6) + 4, 0, 8)
        ((file,), _) = index.surveyed()
        found, entries = EntryFile(StoreReader(str(index.root)), file).between(places[low], places[high])
        assert (file.rises, found.tolist()) == (rises, numbers)
        offsets = [places[number - 1] if rises or number < 6 else 0 for number in numbers]
        assert entries["log_offset"].tolist() == offsets


class Watched:
    """Log offsets 0, 10, 20 …, of which only rows may be looked at that were read in."""

    def __init__(self, count: int) -> None:
        self.count, self.read = count, set[int]()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> int:
        assert row in self.read
        return 10 * row

    def require(self, first: int, stop: int) -> None:
        assert 0 <= first <= stop <= self.count
        self.read |= set(range(first, stop))


def test_a_first_search_begins_with_the_first_row() -> None:
    for wanted in (-1, 0, 1, 10, 11, 30):
        column: Any = Watched(3)
        assert RisingOffsets(column, column.require).row_of(wanted) == min(3, max(0, -(-wanted // 10)))


@pytest.mark.turns(4)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8, 40])
@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_a_row_is_found_by_rows_that_were_read_in(count: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rising, "_ROWS_AT_ONCE", at_once)
    for before in range(-1, 10 * count + 12, 7):
        for wanted in range(-1, 10 * count + 12):
            column: Any = Watched(count)
            search = RisingOffsets(column, column.require)
            rows = [search.row_of(before), search.row_of(wanted)]
            assert rows == [min(count, max(0, -(-at // 10))) for at in (before, wanted)]
            assert search.found == (rows[1], wanted)


def test_the_entries_of_a_file_follow_its_header(tmp_path: Path) -> None:
    store = Damaged(tmp_path)
    reader, asked = StoreReader(str(tmp_path)), Asked(settings={"maxHashSlotNum": SLOTS, "maxIndexNum": CAPACITY})
    made = []
    for file in rows.files(reader, asked):
        head, *entries = rows.rows(reader, file, asked)
        assert (head.kind, head.number, head.start, len(head.data)) == ("header", 0, 0, 40)
        begin_ms = {each.name: each.value for each in head.fields}["begin_timestamp_ms"]
        for number, entry in enumerate(entries, 1):
            fields = [each.value for each in entry.fields]
            assert (entry.kind, entry.start) == ("entry", entry_position(SLOTS, number))
            assert entry.extra["entry_index"] == number
            assert entry.extra["slot"] == fields[0] % SLOTS
            assert entry.extra["store_timestamp_ms"] == begin_ms + fields[2] * 1000
            made.append((fields[0], fields[1]))
    assert made == [(key_hash(f"T#k{number}"), at) for number, at in enumerate(store.places)]


def test_a_file_that_is_shorter_than_its_header_is_damaged(tmp_path: Path) -> None:
    store, asked = Damaged(tmp_path), Asked()
    for size in (39, 40):
        store.paths[0].write_bytes(bytes(size))
        reader = StoreReader(str(tmp_path))
        if size == 40:
            assert len(list(rows.rows(reader, rows.files(reader, asked)[0], asked))) == 1
        else:
            with pytest.raises(DamagedFile):
                list(rows.rows(reader, rows.files(reader, asked)[0], asked))
