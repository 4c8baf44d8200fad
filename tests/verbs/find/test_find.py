"""A search in steps: what the index covers, what a scan reads, when an answer is cut; to the byte and the count."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import Message, open_store
from store.errors import BadRequest, NotAStore
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.message import COMPRESSED, INNER_BATCH, RECORD_MIN_SIZE, StoredMessage, decode_record, encode_record
from store.formats.queue_unit import PRE_BLANK_SIZE, UNIT
from store.formats.run import Stretch
from store.opened.detect import make_layout
from store.reading.inside import messages_inside
from store.verbs.find import coverage
from store.verbs.find.coverage import unnamed
from store.verbs.find.find import Finder, Found, Searched, find
from store.verbs.find.life import life_of
from store.verbs.find.places import Consumption, Place, consumers_of
from store.verbs.find.scan import scan_log, with_any_of, with_body
from tests.support.five_stores import copy_of_five, five
from tests.support.stores import SMALL, make_store

SIZE, COUNT = SMALL["mappedFileSizeCommitLog"], 150
BLANK = (0xCBD43194).to_bytes(4, "big")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("find") / "store", COUNT)


@pytest.fixture(scope="module")
def stored(root: Path) -> list[StoredMessage]:
    with open_store(root) as store:
        found = [message for queue_id in range(3) for message in store.messages("T", queue_id)]
    return sorted(found, key=lambda one: one.log_offset)


def finder(root: Path, **options: Any) -> Finder:
    return Finder(StoreReader(str(root)), make_layout(root, {}, Filesystem()), {}, Filesystem(), **options)


def covered(*spans: tuple[int, int]) -> Any:
    """Give index files that cover these spans of the log."""
    headers = [SimpleNamespace(begin_log_offset=begin, end_log_offset=end) for begin, end in spans]
    return [SimpleNamespace(header=header) for header in headers]


@pytest.mark.parametrize(
    ("files", "uncovered"),
    [
        ([], [(100, 500)]),
        ([(100, 500)], []),
        ([(101, 500)], [(100, 101)]),
        ([(99, 499)], [(499, 500)]),
        ([(300, 400), (100, 300)], [(400, 500)]),
        ([(100, 300), (301, 400)], [(300, 301), (400, 500)]),
        ([(100, 400), (200, 300), (450, 500)], [(400, 450)]),
        ([(600, 700)], [(100, 500)]),
        ([(10, 50)], [(100, 500)]),
        ([(100, 500), (600, 700)], []),
    ],
)
def test_what_no_index_file_covers_is_left_to_a_scan(
    files: list[tuple[int, int]], uncovered: list[tuple[int, int]], root: Path
) -> None:
    index = finder(root).index
    index.files = covered(*files)
    assert index.uncovered(100, 500) == uncovered


def reader_of(**queues: list[tuple[int, int]]) -> Any:
    """Give a reader of one segment of 1000 bytes, and of queues with units of these log offsets and sizes."""
    files = {name: [SimpleNamespace(path=name, size=0)] for name in queues}
    data = {name: b"".join(UNIT.pack(*unit, 0) for unit in units) for name, units in queues.items()}
    return SimpleNamespace(
        segments=lambda: [SimpleNamespace(size=1000), SimpleNamespace(size=10)],
        queues=lambda: [(name, 0) for name in queues],
        queue_files=lambda topic, queue_id: files[topic],
        salvage_written=lambda path, size: SimpleNamespace(buffer=memoryview(data[path])),
    )


@pytest.mark.parametrize(
    ("units", "gaps"),
    [
        ([], [(100, 900)]),
        ([(100, 800)], []),
        ([(100, 1000)], []),
        ([(100, 1001)], [(100, 900)]),
        ([(101, 799)], [(100, 101)]),
        ([(100, 799)], [(899, 900)]),
        ([(100, 300), (400, 500)], []),
        ([(100, 300), (401, 499)], [(400, 401)]),
        ([(100, 700), (200, 10), (800, 50), (850, 50)], []),
        ([(50, 20), (900, 100)], [(100, 900)]),
        ([(100, 800), (950, 20)], []),
        ([(950, 20)], [(100, 900)]),
        ([(0, PRE_BLANK_SIZE), (0, 0), (-1, 200), (100, 800)], []),
    ],
)
def test_what_no_unit_names_has_the_records_of_lost_queues(
    units: list[tuple[int, int]], gaps: list[tuple[int, int]]
) -> None:
    assert unnamed(reader_of(A=units[::2], B=units[1::2]), 100, 900) == gaps


def test_a_unit_of_a_light_queue_names_no_record() -> None:
    assert unnamed(reader_of(**{"%LMQ%light": [(100, 800)]}), 100, 900) == [(100, 900)]


@pytest.mark.parametrize(
    ("log", "uncovered", "parts"),
    [
        ((0, 100), [], [(0, 100, "index")]),
        ((0, 100), [(0, 100)], [(0, 100, "scan")]),
        ((5, 100), [(6, 99)], [(5, 6, "index"), (6, 99, "scan"), (99, 100, "index")]),
        ((0, 100), [(0, 10), (10, 20)], [(0, 10, "scan"), (10, 20, "scan"), (20, 100, "index")]),
    ],
)
def test_an_answer_names_the_parts_of_the_log_by_index_and_by_scan(
    log: tuple[int, int], uncovered: list[tuple[int, int]], parts: list[tuple[int, int, str]], root: Path
) -> None:
    search = finder(root)
    search._log, search._uncovered = Stretch(*log), [Stretch(*one) for one in uncovered]
    assert search._parts() == [Searched(*part) for part in parts]


@pytest.mark.turns(2)
@pytest.mark.parametrize("most", [1, COUNT - 1, COUNT, COUNT + 1])
@pytest.mark.parametrize("use_index", [True, False])
def test_an_answer_is_cut_where_more_are_found_than_asked_for(most: int, use_index: bool, root: Path) -> None:
    search = finder(root, use_index=use_index)
    places = [(one.log_offset, one.queue_offset) for one in search.find("all", COUNT).messages]
    whole = [Searched(0, 2 * SIZE, "scan")]
    assert len(places) == COUNT
    for found, searched in (
        (search.find("all", most), search._parts()),
        (search.find("essage", most), whole),
        (search.find_body("message", most), whole),
        (search.at_places(places, most), whole),
    ):
        assert [one.log_offset for one in found.messages] == [place for place, _ in places[:most]]
        assert (found.is_cut, found.searched) == (most < COUNT, searched)


@pytest.mark.parametrize("most", [1, 2])
def test_the_first_hits_of_the_index_are_taken(most: int, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = finder(root)
    places = [one.log_offset for one in search.find("all", COUNT).messages]
    search._uncovered = []
    monkeypatch.setattr(search.index, "ask", lambda topics, key: places[::-1])
    assert [one.log_offset for one in search.find("all", most).messages] == places[:most]


def test_the_index_is_asked_for_what_it_covers_and_files_of_two_sizes_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_store(tmp_path / "store", COUNT)
    with open_store(root, settings={**SMALL, "maxIndexNum": 60}, read_only=False) as store:
        for number in range(COUNT):
            assert store.put(Message.of("T", b"x", keys=[f"later{number}"])).is_ok
    inferred: list[Path] = []
    infer = coverage.infer_geometry
    monkeypatch.setattr(coverage, "infer_geometry", lambda path, fs: inferred.append(path) or infer(path, fs))
    search = finder(root)
    firsts = {path.stat().st_size: path for path in sorted((root / "index").iterdir(), reverse=True)}
    assert (len(firsts), search.index.faults) == (2, [])
    assert inferred == sorted(firsts.values())
    assert len(search.index.files) == len(list((root / "index").iterdir()))
    assert sum(one.stop - one.start for one in search._uncovered) < SIZE
    for number in range(0, COUNT, 7):
        assert len(search.find(f"k{number}", 9).messages) == len(search.find(f"later{number}", 9).messages) == 1


@pytest.mark.parametrize(
    ("stretches", "progress", "in_all"),
    [
        ([(0, 2 * SIZE)], 28_265, 2 * SIZE),
        ([(SIZE - 1, SIZE + 1)], 188, 2),
        ([(0, 400), (SIZE, SIZE + 500), (2 * SIZE, 2 * SIZE)], 961, 900),
        ([(5 * SIZE, 6 * SIZE)], 0, 0),
    ],
)
def test_a_scan_reads_the_records_that_begin_in_its_stretches(
    stretches: list[tuple[int, int]], progress: int, in_all: int, root: Path, stored: list[StoredMessage]
) -> None:
    told = [(0, in_all)]
    parts = [Stretch(*one) for one in stretches]
    found = scan_log(StoreReader(str(root)), parts, lambda run: range(run.count), lambda *both: told.append(both))
    expected = [one.log_offset for one in stored if any(part.start <= one.log_offset < part.stop for part in parts)]
    assert [one.log_offset for one in found] == expected
    assert told == sorted(told)
    assert told[-1] == (progress, in_all)
    assert {one[1] for one in told} == {in_all}


@pytest.mark.parametrize("pattern", ["message", "message 7", "message 77 ", "e", r"message \d+ ", "[m]essage 7"])
def test_a_body_is_found_however_many_records_hold_the_bytes(
    pattern: str, root: Path, stored: list[StoredMessage]
) -> None:
    compiled = re.compile(pattern.encode())
    found = scan_log(StoreReader(str(root)), [Stretch(0, 2 * SIZE)], with_body(compiled))
    assert [one.log_offset for one in found] == [one.log_offset for one in stored if compiled.search(one.body)]


def raw_record(log_offset: int, topic: str = "", queue_offset: int = 0) -> bytes:
    return encode_record(
        Message(topic, b""), topic=topic.encode(), sys_flag=0, queue_offset=queue_offset, log_offset=log_offset,
        store_timestamp_ms=7,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("claimed", "log_offset", "found"),
    [
        (RECORD_MIN_SIZE, SIZE, [SIZE, SIZE + RECORD_MIN_SIZE]),
        (RECORD_MIN_SIZE - 1, SIZE, [SIZE]),
        (RECORD_MIN_SIZE + 1, SIZE, [SIZE]),
        (RECORD_MIN_SIZE, SIZE + 1, [SIZE]),
    ],
)
def test_a_place_has_a_record_where_its_size_and_its_log_offset_fit(
    claimed: int, log_offset: int, found: list[int], tmp_path: Path
) -> None:
    folder = tmp_path / "store/commitlog"
    folder.mkdir(parents=True)
    first, second = raw_record(SIZE), raw_record(log_offset + RECORD_MIN_SIZE)
    assert len(first) == RECORD_MIN_SIZE
    (folder / f"{SIZE:020d}").write_bytes(first + claimed.to_bytes(4, "big") + second[4:])
    end = SIZE + 2 * RECORD_MIN_SIZE
    asked = [SIZE - 1, SIZE, SIZE + 1, SIZE + RECORD_MIN_SIZE, end - RECORD_MIN_SIZE + 1, end, 0]
    assert [one.log_offset for one in finder(folder.parent).at(asked)] == found


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        find(tmp_path, "k1")


def test_as_many_messages_are_found_as_asked_for_and_a_hundred_without_a_word(root: Path) -> None:
    assert [len(find(root, "all")), len(find(root, "all", most=7))] == [100, 7]


@pytest.mark.parametrize("size", [0, 32_768])
def test_a_text_is_at_least_a_byte_and_as_long_as_a_key_can_be(size: int, root: Path) -> None:
    assert finder(root).find("?", 1).searched_as == finder(root).find("?" * 32_767, 1).searched_as == "text"
    with pytest.raises(BadRequest, match=r"^give a key, a message id or a text to find$"):
        finder(root).find("~" * size, 1)


def test_a_lone_surrogate_is_refused_with_the_forty_characters_before_it(root: Path) -> None:
    with pytest.raises(BadRequest, match=f"^a lone surrogate in '{'x' * 40}'; give text that is UTF-8$"):
        finder(root).find("x" * 41 + "\ud800", 1)


def test_the_lives_of_as_many_unique_keys_are_given_as_asked_for(root: Path, stored: list[StoredMessage]) -> None:
    lives = finder(root).related([stored[4], stored[4], stored[2], stored[9]], 2)
    assert {key: [one.log_offset for one in life] for key, life in lives.items()} == {
        "U4": [stored[4].log_offset], "U2": [stored[2].log_offset],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("times", "order"), [((0, 0, 0), [100, 200, 300]), ((9, 8, 7), [200, 100, 300]), ((7, 9, 8), [300, 200, 100])]
)
def test_stages_are_in_the_order_of_time_and_then_of_the_log(times: tuple[int, ...], order: list[int]) -> None:
    records = [decode_record(raw_record(at, "T")) for at in (300, 100, 200)]
    dated = [replace(record, store_timestamp_ms=time) for record, time in zip(records, times, strict=True)]
    assert [stage.message.log_offset for stage in life_of(dated)] == order


def test_a_message_id_gives_its_record_alone_and_no_cut(root: Path, stored: list[StoredMessage]) -> None:
    found = finder(root).find(stored[7].msg_id, 1)
    assert found == Found("message id", [stored[7]], [], False, [stored[7]])


@pytest.mark.parametrize("number", [130, 61, 58])
def test_the_places_of_a_record_are_its_own_its_unit_and_an_entry_for_each_key(
    number: int, root: Path, stored: list[StoredMessage]
) -> None:
    message, search = stored[number], finder(root)
    at = message.log_offset
    files = sorted((root / "index").iterdir())
    entries = []
    for file in files:
        data = file.read_bytes()
        for row in range(1, (len(data) - 240) // 20):
            position = 40 + 4 * 50 + 20 * row
            if int.from_bytes(data[position + 4 : position + 12], "big") == at:
                entries.append((f"index/{file.name}", row, position))
    keys = dict(zip((f"U{number}", f"k{number}", "all"), entries, strict=True))
    unit, queue = message.queue_offset * 20, f"T/{number % 3}"
    queue_file = f"consumequeue/{queue}/{unit // 400 * 400:020d}"
    assert set(search.places_of(message)) == {
        Place(at, "record", f"commitlog/{at // SIZE * SIZE:020d}", at % SIZE, "ok"),
        Place(at, f"queue entry {unit // 20} of {queue}", queue_file, unit % 400, "ok"),
        *(Place(at, f"index entry {row} of {key}", file, position, "ok")
          for key, (file, row, position) in keys.items()),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("log_offset", "size", "state"),
    [
        (0, 0, "it was not written"),
        (5, 100, "it points to 5"),
        (None, 99, "it points to 0"),
        (-1, 5, "it was not written"),
    ],
)
def test_a_unit_of_another_record_is_named(log_offset: int | None, size: int, state: str, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 1, queues=1)
    unit = UNIT.pack(0 if log_offset is None else log_offset, size, 0)
    file = root / "consumequeue/T/0" / f"{0:020d}"
    file.write_bytes(unit + file.read_bytes()[20:])
    search = finder(root)
    (message,) = search.at([0])
    (place,) = [place for place in search.places_of(message) if place.place.startswith("queue entry")]
    assert place == Place(0, "queue entry 0 of T/0", f"consumequeue/T/0/{0:020d}", 0, state)


@pytest.mark.parametrize(("consumed", "is_consumed"), [(0, False), (6, False), (7, True)])
def test_a_group_has_consumed_what_is_before_its_offset(consumed: int, is_consumed: bool) -> None:
    message = decode_record(raw_record(0, "T", queue_offset=6))
    offsets: Any = {("T", "g"): {0: consumed}, ("T", "b"): {1: 9}, ("U", "g"): {0: 9}, ("T", "a"): {0: 6}}
    assert list(consumers_of(offsets, message)) == [
        Consumption(0, "a", 6, False), Consumption(0, "g", consumed, is_consumed),
    ]  # fmt: skip


@pytest.mark.parametrize("topics", [["T", "Lost"], None])
def test_a_topic_whose_folder_is_lost_is_asked_of_the_index(topics: list[str] | None, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT)
    with open_store(root, settings=SMALL, read_only=False) as store:
        for number in range(COUNT):
            assert store.put(Message.of("Lost", b"x", keys=[f"lost{number}"])).is_ok
    for path in (root / "consumequeue/Lost/0").iterdir():
        path.unlink()
    (root / "consumequeue/Lost/0").rmdir()
    (root / "consumequeue/Lost").rmdir()
    if topics is not None:
        (root / "config").mkdir()
        (root / "config/topics.json").write_text(json.dumps({"topicConfigTable": {topic: {} for topic in topics}}))
    found = finder(root).find("lost3", 9)
    assert (found.searched_as, len(found.messages)) == ("key", 1)
    assert "index" in {one.how for one in found.searched}


def test_an_index_file_whose_geometry_is_unknown_is_named_and_left_to_a_scan(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT)
    odd = min((root / "index").iterdir())
    odd.write_bytes(odd.read_bytes()[:-3])
    search = finder(root)
    assert search.index.faults == [f"index/{odd.name}: neither size nor contents tell its hash slots"]
    assert len(search.find("all", COUNT).messages) == COUNT


def test_a_key_of_records_that_the_index_covers_is_cut_too(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as store:
        for number in range(COUNT):
            assert store.put(Message.of("T", b"x", keys=["twice" if number in (3, 4) else f"k{number}"])).is_ok
    search = finder(root)
    assert [search.find("twice", most).is_cut for most in (1, 2, 3)] == [True, False, False]


def test_a_store_without_segments_has_nothing_to_search(root: Path) -> None:
    search = finder(root)
    empty = Finder(
        SimpleNamespace(segments=list, index_files=list, queues=list), make_layout(root, {}, Filesystem()), {},
        Filesystem(),
    )  # type: ignore[arg-type]  # fmt: skip
    assert (empty.whole_log(), empty.find("k1", 1).messages) == ([Searched(0, 0, "scan")], [])
    assert search.whole_log() == [Searched(0, 2 * SIZE, "scan")]


def test_a_text_is_found_in_the_record_around_it_and_not_behind_the_last(tmp_path: Path) -> None:
    reader = StoreReader(str(make_store(tmp_path / "store", 200)))
    found = [list(scan_log(reader, [Stretch(0, 3 * SIZE)], with_any_of([text]))) for text in (b"message 77 ", BLANK)]
    assert [[one.uniq_key for one in each] for each in found] == [["U77"], []]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("needle", [0, 1]), ("need.e", [0, 1]), ("^need", [0]), ("hay", [2]), ("a..eedle", [1]), ("[h].[x-z]", [2]),
    ],
)  # fmt: skip
def test_a_body_is_searched_as_its_sender_wrote_it(pattern: str, found: list[int], tmp_path: Path) -> None:
    bodies = [(zlib.compress(b"needle"), COMPRESSED), (b"a needle", 0), (b"hay", 0), (b"broken", COMPRESSED)]
    with open_store(tmp_path / "store", settings=SMALL, read_only=False) as store:
        for number, (body, sys_flag) in enumerate(bodies):
            store.put(Message.of("T", body, sys_flag=sys_flag, uniq_key=f"U{number}"))
    hits = finder(tmp_path / "store").find_body(pattern, 9).messages
    assert [one.uniq_key for one in hits] == [f"U{number}" for number in found]
    # A text is searched in bytes as they are stored, too.
    texts = {"needle": [0, 1], "hay": [2], "broken": [3], "U1": [1], "need.e": []}
    for text, numbers in texts.items():
        hits = finder(tmp_path / "store").find(text, 9).messages
        assert [one.uniq_key for one in hits] == [f"U{number}" for number in numbers]


def test_of_a_record_of_several_messages_those_are_given_that_are_hits() -> None:
    root = five("bcq") / "store"
    batch = next(one for one in finder(root, outer=True).find("5DE241593E4E58A3AD0FC262B85DA6DE", 9).records)
    assert batch.sys_flag & INNER_BATCH
    inside = messages_inside(batch)
    assert len(inside) > 1
    for message in inside[:3]:
        key = str(message.uniq_key)
        found = finder(root).find(key, 9)
        assert (found.searched_as, [one.uniq_key for one in found.messages]) == ("key", [key])
        assert [one.log_offset for one in finder(root, outer=True).find(key, 9).messages] == [batch.log_offset]
        part = finder(root).find(key[3:], 9)
        assert (part.searched_as, {one.uniq_key for one in part.messages}) == ("text", {key})


def test_a_place_that_no_file_has_is_named_without_one(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 1)
    for path in (*(root / "index").iterdir(), root / "consumequeue/T/0" / f"{0:020d}"):
        path.unlink()
    (message,) = finder(root).at([0])
    assert list(finder(root).places_of(message))[1:] == [
        Place(0, "queue entry 0 of T/0", "", -1, "no queue file holds it"),
        *(Place(0, f"index entry of {key}", "", -1, "no file has it") for key in ("U0", "k0", "all")),
    ]


def test_a_record_that_no_unit_of_its_batch_queue_names_is_named(tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    (batch,) = finder(root, outer=True).find("5DE241593E4E58A3AD0FC262B85DA6DE", 9).records
    name = f"queue entry of {batch.topic}/{batch.queue_id}"
    (unit,) = [place for place in finder(root).places_of(batch) if place.place == name]
    assert (unit.log_offset, unit.state) == (batch.log_offset, "ok")
    data = bytearray((root / unit.file).read_bytes())
    assert int.from_bytes(data[unit.position : unit.position + 8], "big") == batch.log_offset
    data[unit.position + 8 : unit.position + 12] = (7).to_bytes(4, "big")
    (root / unit.file).write_bytes(data)
    assert replace(unit, state="its size is 7") in list(finder(root).places_of(batch))
    (root / unit.file).write_bytes(bytes(len(data)))
    assert Place(batch.log_offset, name, "", -1, "no queue file holds it") in list(finder(root).places_of(batch))
