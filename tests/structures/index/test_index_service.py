"""The index: which keys get entries, in which files; look-up by key and time; what a broker throws away."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.config import StoreConfig
from store.errors import StoreIOError
from store.files.overlay import Overlay
from store.formats.index_page import (
    ENTRY_SIZE,
    IndexEntry,
    IndexHeader,
    decode_entry,
    decode_header,
    entry_position,
    index_key,
)
from store.formats.java import key_hash
from store.formats.message import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from store.layout import index_file_name
from store.structures.index import index_file
from store.structures.index.index_service import IndexService
from tests.support.small_log import SMALL_CONFIG, START_MS, SmallLog, open_index, tree
from tests.support.twice import KINDS

SLOTS, CAPACITY = SMALL_CONFIG.max_hash_slot_num, SMALL_CONFIG.max_index_num
LONG_AGO, FAR_AHEAD = 0, 1 << 60


def built(root: Path, log: SmallLog, **more: object) -> IndexService:
    index = open_index(root, **more)  # type: ignore[arg-type]
    log.dispatch_to(index)
    index.close()
    return open_index(root)


def offsets(
    index: IndexService, key: str, begin_ms: int = LONG_AGO, end_ms: int = FAR_AHEAD, max_count: int = 64
) -> list[int]:
    return index.query("T", key, max_count, begin_ms, end_ms).log_offsets


def test_unique_key_and_keys_lead_to_the_message(tmp_path: Path) -> None:
    log = SmallLog()
    first = log.put(uniq_key="U1", keys="a  b")
    second = log.put(uniq_key="U2", keys="b")
    index = built(tmp_path, log)
    assert offsets(index, "U1") == offsets(index, "a") == [first]
    assert offsets(index, "b") == [second, first]
    assert index.files[0].header == IndexHeader(START_MS, START_MS + 1000, first, second, 5, 6)._replace(
        hash_slot_count=index.files[0].header.hash_slot_count
    )


def test_prepared_messages_are_indexed_and_rolled_back_ones_are_not(tmp_path: Path) -> None:
    log = SmallLog()
    prepared = log.put(keys="k", sys_flag=TRANSACTION_PREPARED)
    log.put(keys="k", sys_flag=TRANSACTION_ROLLBACK)
    assert offsets(built(tmp_path, log), "k") == [prepared]


def test_a_reopened_file_is_read_in_no_farther_than_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages behind a map belong to nothing: the kernel answers that memory is lacking."""
    log, are_inside = SmallLog(), []
    log.put_many(2, keys="k")
    built(tmp_path, log)
    monkeypatch.setattr(index_file, "RESERVED_AHEAD_BYTES", 0)
    monkeypatch.setattr(
        index_file, "require_readable", lambda fs, path, view, start, stop: are_inside.append(stop <= len(view))
    )
    index = open_index(tmp_path)
    for _ in range(9):
        log.put(keys="k")
        log.dispatch_to(index)
    index.close()
    assert (len(are_inside) > 9, all(are_inside)) == (True, True)


def test_a_full_file_is_flushed_reported_and_followed_by_another(tmp_path: Path) -> None:
    log, full = SmallLog(), []
    places = log.put_many(25, keys="k")
    index = built(tmp_path, log, full=full)
    assert [file.header.index_count for file in index.files] == [12, 12, 4]
    assert full == [START_MS + 10_000, START_MS + 21_000]
    assert offsets(index, "k") == places[::-1]


def test_two_files_of_one_millisecond_have_two_names(tmp_path: Path) -> None:
    log = SmallLog()
    log.put_many(25, keys="k")
    names = [file.path.name for file in built(tmp_path, log).files]
    first = int(index_file_name(START_MS))
    assert names == [f"{first + number:017d}" for number in range(3)]


def test_a_file_is_filled_in_the_middle_of_a_message(tmp_path: Path) -> None:
    log = SmallLog()
    log.put_many(10, keys="k")
    split = log.put(keys="x y z")
    index = built(tmp_path, log)
    assert [file.header.index_count for file in index.files] == [12, 3]
    assert offsets(index, "x") == offsets(index, "z") == [split]


def test_a_message_without_keys_begins_a_new_file_if_the_last_one_is_full(tmp_path: Path) -> None:
    log = SmallLog()
    log.put_many(11, keys="k")
    assert len(built(tmp_path / "full", log).files) == 1
    log.put()
    index = open_index(tmp_path / "next")
    log.dispatch_to(index, start=0)
    index.close()
    last = open_index(tmp_path / "next").files[-1]
    end = (START_MS + 10_000, log.units[10].log_offset)
    # As a broker constructs it: the times of its predecessor's end, and a count of 0 in the file until the first entry.
    assert IndexHeader._make(last.header)._replace(index_count=0) == IndexHeader(end[0], end[0], end[1], end[1], 0, 0)
    assert last.buffer[36:40] == bytes(4)


def test_messages_before_the_end_are_passed_over_and_the_one_at_the_end_is_taken_again(tmp_path: Path) -> None:
    log = SmallLog()
    places = log.put_many(3, keys="k")
    index = open_index(tmp_path)
    log.dispatch_to(index)
    log.dispatch_to(index, start=0)
    assert offsets(index, "k") == [places[2], places[2], places[1], places[0]]


def test_a_query_keeps_to_its_times(tmp_path: Path) -> None:
    log = SmallLog()
    places = log.put_many(30, keys="k")
    index = built(tmp_path, log)
    assert offsets(index, "k", START_MS + 5_000, START_MS + 7_000) == places[7:4:-1]
    assert offsets(index, "k", START_MS + 9_000, START_MS + 13_000) == places[13:8:-1]
    assert offsets(index, "k", START_MS + 40_000, START_MS + 50_000) == []
    assert offsets(index, "k", max_count=2) == places[:-3:-1]


def test_a_query_says_which_files_it_visited_and_how_far_the_index_reaches(tmp_path: Path) -> None:
    log = SmallLog()
    places = log.put_many(30, keys="k")
    index = built(tmp_path, log)
    answer = index.query("T", "k", 64, START_MS + 25_000, FAR_AHEAD)
    assert answer.files == [index.files[-1].path]
    assert (answer.last_update_timestamp_ms, answer.last_update_log_offset) == (START_MS + 29_000, places[-1])


# Entry → the one before it as the damaged file says, and the entries that a query then reads.
DAMAGED_CHAINS = [
    ({3: 3}, [3]),
    ({3: 2, 2: 3}, [3, 2, 3, 2]),
    ({1: 3}, [3, 2, 1, 3]),
    ({2: 99}, [3, 2]),
    ({3: -5}, [3]),
]


@pytest.mark.parametrize(("links", "read"), DAMAGED_CHAINS)
def test_a_damaged_chain_does_not_hold_a_query_for_ever(tmp_path: Path, links: dict[int, int], read: list[int]) -> None:
    log = SmallLog()
    places = log.put_many(3, keys="k")
    path = built(tmp_path, log).files[0].path
    data = bytearray(path.read_bytes())
    for number, previous in links.items():
        at = entry_position(SLOTS, number) + ENTRY_SIZE - 4
        data[at : at + 4] = previous.to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    assert offsets(open_index(tmp_path), "k", max_count=64) == [places[number - 1] for number in read]


@pytest.mark.parametrize(("previous", "read"), [(4, [3, 4]), (5, [3])])
def test_a_chain_leads_as_far_as_the_entry_that_is_put_next(previous: int, read: list[int], tmp_path: Path) -> None:
    log = SmallLog()
    places = log.put_many(5, keys="k")
    path = built(tmp_path, log).files[0].path
    data = bytearray(path.read_bytes())
    data[36:40] = (4).to_bytes(4, "big")
    for number, link in ((3, previous), (4, 0)):
        at = entry_position(SLOTS, number) + ENTRY_SIZE - 4
        data[at : at + 4] = link.to_bytes(4, "big")
    slot = next(at for at in range(40, 40 + 4 * SLOTS, 4) if any(data[at : at + 4]))
    data[slot : slot + 4] = (3).to_bytes(4, "big")
    path.write_bytes(data)
    assert offsets(open_index(tmp_path, writable=False), "k") == [places[number - 1] for number in read]


def test_a_file_that_counts_no_entry_has_none(tmp_path: Path) -> None:
    log = SmallLog()
    log.put(keys="k")
    path = built(tmp_path, log).files[0].path
    data = bytearray(path.read_bytes())
    data[36:40] = (1).to_bytes(4, "big")
    path.write_bytes(data)
    assert offsets(open_index(tmp_path, writable=False), "k") == []


def test_a_full_file_is_durable_before_it_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, done, flush = SmallLog(), list[object](), index_file.IndexFile.flush
    log.put_many(12, keys="k")
    monkeypatch.setattr(index_file.IndexFile, "flush", lambda file: (done.append(file.header.index_count), flush(file)))
    index = open_index(tmp_path, full=done)  # type: ignore[arg-type]
    log.dispatch_to(index)
    index.close()
    assert done[:2] == [12, START_MS + 10_000]


# Seconds of three entries of one key behind the file's begin, and the entries found from a time on, newest first.
TIMES = [
    ([0, 5, 9], 6, [3]),
    ([0, 9, 5], 6, []),
    ([9, 5, 9], 6, [3]),
    ([9, 5, 9], 5, [3, 2, 1]),
    ([0, 5, 9], 0, [3, 2, 1]),
    ([0, 5, 9], 10, []),
]


@pytest.mark.parametrize(("seconds", "begin", "read"), TIMES)
def test_a_query_ends_at_the_first_entry_before_its_times(
    tmp_path: Path, seconds: list[int], begin: int, read: list[int]
) -> None:
    log = SmallLog()
    places = log.put_many(3, keys="k")
    path = built(tmp_path, log).files[0].path
    data = bytearray(path.read_bytes())
    data[8:16] = (START_MS + 10_000).to_bytes(8, "big")
    for number, second in enumerate(seconds, 1):
        at = entry_position(SLOTS, number) + ENTRY_SIZE - 8
        data[at : at + 4] = second.to_bytes(4, "big")
    path.write_bytes(data)
    found = offsets(open_index(tmp_path), "k", START_MS + begin * 1000, FAR_AHEAD)
    assert found == [places[number - 1] for number in read]


def test_a_slot_beyond_the_count_is_empty_unless_this_process_is_just_writing_the_file(tmp_path: Path) -> None:
    log = SmallLog()
    places = log.put_many(3, keys="k")
    path = built(tmp_path, log).files[0].path
    data = bytearray(path.read_bytes())
    data[36:40] = (3).to_bytes(4, "big")
    path.write_bytes(data)
    assert offsets(open_index(tmp_path, writable=False), "k") == [places[2], places[1], places[0]]
    data[36:40] = (2).to_bytes(4, "big")
    path.write_bytes(data)
    assert offsets(open_index(tmp_path, writable=False), "k") == []
    assert offsets(open_index(tmp_path, writable=True), "k") == [places[1], places[0]]


@pytest.mark.parametrize("held", [1, 4, 11, 12])
def test_a_held_file_is_read_as_it_was_while_a_writer_adds_to_it(held: int, tmp_path: Path) -> None:
    log = SmallLog()
    places = log.put_many(held - 1, keys="k")
    writer, reader = open_index(tmp_path), open_index(tmp_path, writable=False)
    log.dispatch_to(writer)
    reader.load()
    for file in reader.files:
        file.hold()
    log.put_many(20, keys="k")
    log.dispatch_to(writer)
    writer.close()
    assert offsets(reader, "k") == places[::-1]


def test_a_slot_that_a_writer_has_just_set_does_not_hide_what_a_held_file_counts(tmp_path: Path) -> None:
    log = SmallLog()
    places = log.put_many(6, keys="k")
    path = built(tmp_path, log).files[0].path
    data = bytearray(path.read_bytes())
    data[36:40] = (3).to_bytes(4, "big")
    path.write_bytes(data)
    index = open_index(tmp_path, writable=False)
    index.files[0].hold()
    assert offsets(index, "k") == [places[1], places[0]]


def test_a_chain_beyond_the_count_that_leads_to_itself_is_empty(tmp_path: Path) -> None:
    log = SmallLog()
    log.put_many(6, keys="k")
    path = built(tmp_path, log).files[0].path
    data = bytearray(path.read_bytes())
    data[36:40] = (3).to_bytes(4, "big")
    at = entry_position(SLOTS, 6) + ENTRY_SIZE - 4
    data[at : at + 4] = (6).to_bytes(4, "big")
    path.write_bytes(data)
    assert offsets(open_index(tmp_path, writable=True), "k") == []


@pytest.mark.parametrize("end", [-1, 0, 1])
def test_a_file_begins_with_the_end_of_the_one_before_it_or_with_zeros(end: int, tmp_path: Path) -> None:
    log = SmallLog()
    log.put(keys="k")
    file = built(tmp_path, log).files[0]
    file.start_after(IndexHeader(7, end, 7, end, 7, 7))
    begin = max(0, end)
    assert bytes(file.buffer[:40]) == IndexHeader(begin, begin, begin, begin, 0, 0).encode()


def test_after_a_crash_a_broker_throws_away_what_the_checkpoint_does_not_cover(tmp_path: Path) -> None:
    log = SmallLog()
    log.put_many(25, keys="k")
    index = built(tmp_path, log)
    assert index.unsafe_files(START_MS + 10_000) == index.files[1:]
    assert index.unsafe_files(0) == index.files
    index.remove(index.unsafe_files(START_MS + 10_000))
    assert len(tree(tmp_path)) == 1


def test_files_that_end_before_the_log_expire_but_never_the_newest(tmp_path: Path) -> None:
    log = SmallLog()
    places = log.put_many(25, keys="k")
    index = built(tmp_path, log)
    assert index.expired_files(places[10]) == []
    assert index.expired_files(places[11]) == index.files[:1]
    assert index.expired_files(log.end) == index.files[:2]


def test_a_foreign_name_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index/notes.txt").write_text("mine")
    (tmp_path / "index/20260101000000000").mkdir()
    log = SmallLog()
    place = log.put(keys="k")
    assert offsets(built(tmp_path, log), "k") == [place]


def test_a_short_file_reads_as_if_zeros_followed_and_is_not_touched_by_reading(tmp_path: Path) -> None:
    log = SmallLog()
    places = log.put_many(5, keys="k")
    path = built(tmp_path, log).files[0].path
    used = path.read_bytes()[: entry_position(SLOTS, 6)]
    path.write_bytes(used)
    assert offsets(open_index(tmp_path, writable=False), "k") == places[::-1]
    assert path.read_bytes() == used


def test_an_overlay_copies_the_file_it_goes_on_with(tmp_path: Path) -> None:
    log, real = SmallLog(), tmp_path / "store"
    places = log.put_many(3, keys="k")
    built(real, log)
    before = tree(real)
    places += log.put_many(12, keys="k")
    index = open_index(real, overlay=Overlay(tmp_path / "staged"))
    log.dispatch_to(index)
    assert offsets(index, "k") == places[::-1]
    assert [place for place, _ in index.staged_files()] == [file.path for file in index.files]
    assert tree(real) == before


def test_an_overlay_that_has_nothing_to_add_copies_nothing(tmp_path: Path) -> None:
    log, real = SmallLog(), tmp_path / "store"
    log.put_many(3, keys="k")
    log.put()
    built(real, log)
    index = open_index(real, overlay=Overlay(tmp_path / "staged"))
    log.dispatch_to(index, start=log.units[3].log_offset)
    assert index.staged_files() == []
    assert not (tmp_path / "staged").exists()


class NaiveIndex:
    """buildIndex and putKey once more: lists of entries and dictionaries of slots."""

    def __init__(self) -> None:
        self.files: list[tuple[list[IndexEntry], dict[int, int], list[int]]] = []

    def add(self, log_offset: int, time_ms: int, keys: list[str]) -> None:
        self._last()
        if log_offset < self._last()[2][3]:
            return
        for key in keys:
            entries, slots, header = self._last()
            hash_code, number = key_hash(index_key("T", key)), len(entries) + 1
            seconds = max(0, time_ms - header[0]) // 1000 if header[0] > 0 else 0
            entries.append(IndexEntry(hash_code, log_offset, seconds, slots.get(hash_code % SLOTS, 0)))
            slots[hash_code % SLOTS] = number
            if number == 1:
                header[0], header[2] = time_ms, log_offset
            header[1], header[3] = time_ms, log_offset

    def _last(self) -> tuple[list[IndexEntry], dict[int, int], list[int]]:
        if not self.files or len(self.files[-1][0]) == CAPACITY - 1:
            end = self.files[-1][2] if self.files else [0, 0, 0, 0]
            self.files.append(([], {}, [end[1], end[1], end[3], end[3]]))
        return self.files[-1]


@given(
    messages=st.lists(st.lists(st.sampled_from("abcdefg中"), max_size=4), max_size=40),
    again_from=st.integers(0, 40),
    kind=st.sampled_from(sorted(KINDS)),
)
def test_every_sequence_of_messages_gives_what_one_by_one_gives(
    tmp_path_factory: pytest.TempPathFactory, messages: list[list[str]], again_from: int, kind: str
) -> None:
    log, naive, index = SmallLog(), NaiveIndex(), open_index(tmp_path_factory.mktemp("index"))
    for keys in messages:
        log.put(keys=" ".join(keys))
    starts = [0, *(unit.log_offset for unit in log.units[again_from : again_from + 1])]
    for start in starts:
        with KINDS[kind]():
            log.dispatch_to(index, start=start)
        for number, keys in enumerate(messages):
            if log.units[number].log_offset >= start:
                naive.add(log.units[number].log_offset, START_MS + 1000 * number, keys)
    assert len(index.files) == len(naive.files)
    for file, (entries, slots, header) in zip(index.files, naive.files, strict=True):
        got = [decode_entry(file.buffer, SLOTS, number) for number in range(1, file.header.index_count)]
        assert got == entries
        expected = (header[0], header[1], header[2], header[3], len(slots), len(entries) + 1)
        assert decode_header(file.buffer) == expected
    index.close()


def test_a_bigger_file_is_only_read_as_far_as_the_settings_say(tmp_path: Path) -> None:
    log = SmallLog()
    place = log.put(keys="k")
    path = built(tmp_path, log).files[0].path
    path.write_bytes(path.read_bytes() + bytes(100))
    assert offsets(open_index(tmp_path, StoreConfig(max_hash_slot_num=SLOTS, max_index_num=CAPACITY)), "k") == [place]


class Source:
    """A file of one topic's keys that gives these log offsets for any key; times in seconds."""

    def __init__(self, begin: int, end: int, *log_offsets: int) -> None:
        self.path = Path(str(begin))
        self.header = IndexHeader(begin * 1000, end * 1000, begin, end, 1, 2)
        self.log_offsets = log_offsets
        self.is_full = True

    def matches_time(self, begin_ms: int, end_ms: int) -> bool:
        return self.header.matches_time(begin_ms, end_ms)

    def select(self, key: str, max_count: int, begin_ms: int, end_ms: int, found: list[int]) -> None:
        found += self.log_offsets[: max_count - len(found)]


def index_of(root: Path, *sources: Source) -> IndexService:
    index = open_index(root)
    index.files = list(sources)  # type: ignore[arg-type]
    return index


FOUR = (Source(10, 19, 1, 2), Source(20, 29, 3), Source(30, 39, 5, 4), Source(40, 49, 7, 6))


@pytest.mark.parametrize(
    ("max_count", "begin", "end", "log_offsets", "visited"),
    [
        (64, 0, 99, [7, 6, 5, 4, 3, 1, 2], ["40", "30", "20", "10"]),
        (4, 0, 99, [7, 6, 5, 4], ["40", "30"]),
        (3, 0, 99, [7, 6, 5], ["40", "30"]),
        (2, 0, 99, [7, 6], ["40"]),
        # No file is visited behind the first that begins before the time asked for.
        (64, 30, 99, [7, 6, 5, 4], ["40", "30"]),
        (64, 31, 99, [7, 6, 5, 4], ["40", "30"]),
        (64, 29, 99, [7, 6, 5, 4, 3], ["40", "30", "20"]),
        (64, 0, 35, [5, 4, 3, 1, 2], ["30", "20", "10"]),
        (64, 50, 99, [], []),
    ],
)
def test_a_query_goes_from_the_newest_file_on_until_it_has_enough_or_the_time_is_over(
    max_count: int, begin: int, end: int, log_offsets: list[int], visited: list[str], tmp_path: Path
) -> None:
    answer = index_of(tmp_path, *FOUR).query("T", "k", max_count, begin * 1000, end * 1000)
    assert (answer.log_offsets, [path.name for path in answer.files]) == (log_offsets, visited)
    assert (answer.last_update_timestamp_ms, answer.last_update_log_offset) == (49_000, 49)


@pytest.mark.parametrize(("begin", "visited"), [(29, ["30", "20", "10"]), (30, ["30", "20", "10"]), (31, ["30"])])
def test_a_file_that_begins_before_the_time_asked_for_is_the_last_though_older_ones_match(
    begin: int, visited: list[str], tmp_path: Path
) -> None:
    """Times went back between the files."""
    index = index_of(tmp_path, Source(10, 99), Source(30, 99), Source(30, 39))
    index.files[1].path = Path("20")
    assert [path.name for path in index.query("T", "k", 64, begin * 1000, FAR_AHEAD).files] == visited


def test_a_query_gives_no_more_than_the_setting_allows(tmp_path: Path) -> None:
    index = index_of(tmp_path, Source(10, 19, *range(100)))
    assert len(index.query("T", "k", 100, 0, FAR_AHEAD).log_offsets) == SMALL_CONFIG.max_msgs_num_batch


def test_no_file_is_no_answer_and_reaches_nowhere(tmp_path: Path) -> None:
    index = index_of(tmp_path)
    assert index.query("T", "k", 64, 0, FAR_AHEAD) == ([], 0, 0, [])
    assert (index.flushed_until_ms, index.expired_files(1), index.unsafe_files(0)) == (0, [], [])


def test_the_first_file_that_cannot_be_read_is_the_error_of_a_query(tmp_path: Path) -> None:
    index = index_of(tmp_path, *FOUR)
    index.failures = [StoreIOError(name, file=tmp_path) for name in ("first", "second", "third")]
    with pytest.raises(StoreIOError) as error:
        index.query("T", "k", 64, 0, FAR_AHEAD)
    assert error.value is index.failures[0]


@pytest.mark.parametrize(("log_start", "count"), [(0, 0), (19, 0), (20, 1), (29, 1), (30, 2), (39, 2), (99, 3)])
def test_a_file_expires_that_ends_before_the_log_and_never_the_newest(
    log_start: int, count: int, tmp_path: Path
) -> None:
    assert index_of(tmp_path, *FOUR).expired_files(log_start) == list(FOUR[:count])


def test_a_file_that_is_kept_keeps_those_behind_it(tmp_path: Path) -> None:
    kept = index_of(tmp_path, Source(10, 90), Source(20, 29), Source(30, 39))
    assert kept.expired_files(50) == []


def test_what_is_flushed_is_what_full_files_hold(tmp_path: Path) -> None:
    index = index_of(tmp_path, Source(10, 19), Source(20, 29), Source(30, 39))
    index.files[2].is_full = False  # type: ignore[misc]
    assert index.flushed_until_ms == 29_000
    unsafe = [[file.path.name for file in index.unsafe_files(end_ms)] for end_ms in (18_999, 19_000, 29_000, 39_000)]
    assert unsafe == [["10", "20", "30"], ["20", "30"], ["30"], []]
