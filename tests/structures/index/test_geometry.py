"""How many slots and entries a file has is found from its contents alone."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.config import StoreConfig
from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.formats.index_page import HEADER, HEADER_SIZE, SLOT_SIZE, entry_position
from store.structures.index import geometry
from store.structures.index.geometry import (
    DEFAULT_GEOMETRY,
    Geometry,
    _Contents,
    _has_default_geometry,
    geometry_of,
    geometry_of_size,
    given_geometry,
    infer_geometry,
)
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.golden import golden
from tests.support.small_log import SmallLog, open_index

fs = Filesystem()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("normal", Geometry(500, 1000)),
        ("batch", Geometry(500, 1000)),
        ("ipv6", Geometry(500, 1000)),
        ("many", Geometry(500, 1000)),
        ("normal5", Geometry(500, 1000)),
        ("crash-async-checkpoint0", Geometry(64, 256)),
        ("preblank", Geometry(64, 256)),
    ],
)
def test_the_geometry_of_files_that_brokers_wrote(name: str, expected: Geometry) -> None:
    files = sorted((golden(name).store / "index").iterdir())
    assert files
    found = [infer_geometry(path, fs) for path in files]
    assert set(found) <= {expected, None}
    assert expected in found


@given(slots=st.integers(1, 400), entries=st.integers(2, 400), keys=st.integers(1, 60))
def test_a_file_with_some_keys_tells_its_geometry(
    tmp_path_factory: pytest.TempPathFactory, slots: int, entries: int, keys: int
) -> None:
    root = tmp_path_factory.mktemp("geometry")
    index = open_index(root, StoreConfig(max_hash_slot_num=slots, max_index_num=entries))
    log = SmallLog()
    for number in range(keys):
        log.put(keys=f"key{number}")
    log.dispatch_to(index)
    index.close()
    first = min((root / "index").iterdir())
    assert infer_geometry(first, fs) == Geometry(slots, entries)
    shutil.rmtree(root)


@given(data=st.binary(max_size=3000))
def test_bytes_that_are_no_index_tell_nothing_wrong(data: bytes) -> None:
    found = geometry_of(memoryview(data)) if len(data) >= 84 else None
    assert found is None or 4 * found.slot_count + 20 * found.entry_count <= len(data) - 40


def test_an_empty_file_tells_nothing(tmp_path: Path) -> None:
    path = tmp_path / "20260101000000000"
    path.write_bytes(bytes(22040))
    assert infer_geometry(path, fs) is None
    path.write_bytes(b"")
    assert infer_geometry(path, fs) is None


@given(slots=st.integers(1, 700), entries=st.integers(40, 400), damaged=st.integers(0, 39))
def test_one_damaged_entry_does_not_hide_the_geometry(
    tmp_path_factory: pytest.TempPathFactory, slots: int, entries: int, damaged: int
) -> None:
    root = tmp_path_factory.mktemp("geometry")
    index = open_index(root, StoreConfig(max_hash_slot_num=slots, max_index_num=entries))
    log = SmallLog()
    for number in range(39):
        log.put(keys=f"key{number}")
    log.dispatch_to(index)
    index.close()
    data = bytearray(min((root / "index").iterdir()).read_bytes())
    at = entry_position(slots, damaged)
    data[at : at + 20] = b"\xff" * 20
    found = geometry_of(memoryview(data))
    assert found is not None
    assert found.slot_count == slots or damaged == 0
    shutil.rmtree(root)


@pytest.mark.parametrize("known", [None, Geometry(500, 1000), Geometry(5, 1099)])
def test_a_file_without_entries_has_the_geometry_that_is_known_for_its_size(known: Geometry | None) -> None:
    assert geometry_of(memoryview(bytes(22040)), known) == known
    assert geometry_of(memoryview(bytes(22044)), known) is None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"maxHashSlotNum": "500", "maxIndexNum": "1000"}, Geometry(500, 1000)),
        ({"maxHashSlotNum": "500"}, Geometry(500, 1000)),
        ({"maxIndexNum": 1000}, Geometry(500, 1000)),
        ({"maxHashSlotNum": 501}, None),
        ({"maxHashSlotNum": 500, "maxIndexNum": 999}, None),
        ({"maxHashSlotNum": 5500}, None),
        ({"maxHashSlotNum": 5495}, Geometry(5495, 1)),
        ({"maxIndexNum": 1100}, None),
        ({}, None),
    ],
)
def test_settings_name_the_geometry_of_files_of_their_size(
    settings: dict[str, object], expected: Geometry | None
) -> None:
    assert given_geometry(settings, 22040) == expected


FAR = 7 << 32 | 0xFFFFFF01
"""A log offset whose low half is a negative number."""


@pytest.mark.parametrize(
    ("spoilt", "is_known"),
    [
        ({}, True), ({"slot": 1}, False), ({"begin": FAR + 1}, False), ({"end": FAR + 401}, False),
        ({"begin": FAR & 0xFFFFFFFF}, False), ({"newest": 0}, False), ({"newest": 1, "end": FAR}, True),
        ({"newest": DEFAULT_GEOMETRY.entry_count - 1}, True), ({"newest": DEFAULT_GEOMETRY.entry_count}, False),
        ({"key_hash": 1}, True), ({"key_hash": 0}, False), ({"key_hash": DEFAULT_GEOMETRY.slot_count + 3}, True),
    ],
)  # fmt: skip
def test_a_file_with_the_brokers_own_numbers_is_known_by_four_small_reads(
    tmp_path: Path, spoilt: dict[str, int], is_known: bool
) -> None:
    numbers = {"key_hash": 77, "newest": 3, "begin": FAR, "end": FAR + 400, **spoilt}
    path, key_hash, newest, slots = tmp_path / "index", numbers["key_hash"], numbers["newest"], 5_000_000
    pieces = {
        0: HEADER.pack(1, 2, numbers["begin"], numbers["end"], 1, newest + 1),
        HEADER_SIZE + SLOT_SIZE * (key_hash % slots): numbers.get("slot", newest).to_bytes(4, "big"),
        entry_position(slots, newest): _entry(key_hash, FAR + 400),
        entry_position(slots, 1): _entry(key_hash, FAR),
    }
    with path.open("wb") as file:
        file.truncate(DEFAULT_GEOMETRY.file_size)
        for position, data in pieces.items():
            file.seek(position)
            file.write(data)
    assert _has_default_geometry(path, fs) is is_known
    assert not _has_default_geometry(path, FaultyFilesystem(when=lambda name, _: name == "read"))


SLOTS, ROOM = 7, 13
NEWEST = 10


def words_of(changes: dict[int, int], **header: int) -> _Contents:
    """A file with ten entries in three chains, of which some words are changed; word 0 is the first slot."""
    words, heads = [0] * (SLOTS + 5 * ROOM), dict[int, int]()
    for number in range(1, NEWEST + 1):
        key_hash = number % 3 + SLOTS
        at = FAR + 100 * number
        low = (at & 0xFFFFFFFF) - ((at & 0x80000000) << 1)
        words[SLOTS + 5 * number : SLOTS + 5 * number + 5] = [key_hash, at >> 32, low, 0, heads.get(number % 3, 0)]
        heads[number % 3] = words[number % 3] = number
    for place, value in changes.items():
        words[place] = value
    fields = {"begin": FAR + 100, "end": FAR + 100 * NEWEST, "slots": 3, "count": NEWEST + 1, **header}
    head = HEADER.pack(1, 2, fields["begin"], fields["end"], fields["slots"], fields["count"])
    return _Contents(memoryview(head + struct.pack(f">{len(words)}i", *words)))


def at(number: int, word: int = 0) -> int:
    return SLOTS + 5 * number + word


@pytest.mark.parametrize(
    ("changes", "header", "points", "rest"),
    [
        ({}, {}, 3, 3), ({1: 8}, {}, 2, 3), ({}, {"end": FAR}, 2, 3), ({}, {"begin": FAR}, 2, 3),
        ({at(1, 1): 8}, {}, 2, 3), ({at(1, 2): 1}, {}, 2, 3), ({at(NEWEST, 1): 9}, {}, 2, 3),
        ({at(NEWEST, 2): 1}, {}, 2, 3), ({}, {"slots": 4}, 3, 2), ({3: 1}, {}, 3, 2), ({SLOTS: 1}, {}, 3, 2),
        ({SLOTS + 4: 1}, {}, 3, 2), ({at(NEWEST + 1): 1}, {}, 3, 2), ({at(ROOM - 1, 4): 1}, {}, 3, 2),
        ({at(NEWEST, 4): 1}, {}, 3, 3), ({at(NEWEST): 0, 0: NEWEST}, {}, 2, 3), ({at(NEWEST): 1}, {}, 3, 3),
        ({at(NEWEST): -6}, {}, 2, 3),
    ],
)  # fmt: skip
def test_each_step_gives_its_points(changes: dict[int, int], header: dict[str, int], points: int, rest: int) -> None:
    contents = words_of(changes, **header)
    assert contents._points(np.array([SLOTS])).tolist() == [points]
    assert contents._points_of_rest(SLOTS) == rest
    assert contents.best() == Geometry(SLOTS, ROOM)


@pytest.mark.parametrize(
    ("changes", "unreachable"),
    [
        ({}, []), ({at(4): -1}, [4]), ({at(4): 0}, []), ({0: 8}, [9]), ({2: 0}, [2, 5, 8]), ({2: 7}, [8]),
        ({at(4, 4): 4}, [4]), ({at(4, 4): 3}, []), ({at(4, 4): -1}, []),
    ],
)  # fmt: skip
def test_an_entry_is_reachable_from_a_slot_that_names_it_or_a_later_one(
    changes: dict[int, int], unreachable: list[int]
) -> None:
    contents, numbers = words_of(changes), np.arange(1, NEWEST + 1)
    assert [number for number in numbers.tolist() if not contents._reachable(SLOTS, number)] == unreachable
    assert contents._share_reachable(SLOTS) == (NEWEST - len(unreachable)) / NEWEST
    assert geometry._some_entries(contents.newest, 5).tolist() == [1, 3, 5, 7, 10]


def test_the_pairs_that_a_size_allows_have_room_for_the_newest_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    for at_once in (1, 2, 99):
        monkeypatch.setattr(geometry, "_PAIRS_AT_ONCE", at_once)
        for count, pairs in ((NEWEST + 1, [2, 7, 12, 17]), (ROOM, [2, 7]), (ROOM + 1, [2]), (ROOM + 2, [])):
            contents = words_of({}, count=count)
            assert [slots for some in contents._candidates() for slots in some.tolist()] == pairs
        monkeypatch.setattr(geometry, "_BEST_PAIRS", 1)
        assert words_of({}).best() == Geometry(SLOTS, ROOM)
    five = _Contents(memoryview(HEADER.pack(1, 2, 3, 4, 5, 2) + bytes(4 * 15)))
    assert [slots for some in five._candidates() for slots in some.tolist()] == [5]


@pytest.mark.parametrize(
    ("changes", "header", "agrees"),
    [({}, {}, True), ({at(4): -1}, {"end": 1}, True), ({at(4): -1, at(5): -1}, {"end": 1}, False),
     ({at(4): -1, at(5): -1}, {}, True)],
)  # fmt: skip
def test_a_known_pair_agrees_by_its_ends_or_by_nine_in_ten_entries(
    changes: dict[int, int], header: dict[str, int], agrees: bool
) -> None:
    contents = words_of(changes, **header)
    for entries in (NEWEST, NEWEST + 1, ROOM):
        assert contents.agrees_with(Geometry(SLOTS, entries)) is (agrees and entries > NEWEST)


def test_a_broker_makes_files_of_420_000_040_bytes() -> None:
    assert (DEFAULT_GEOMETRY, DEFAULT_GEOMETRY.file_size) == ((5_000_000, 20_000_000), 420_000_040)


@pytest.mark.parametrize("size", [0, 1, 39, 40, 43, 44, 83])
def test_less_than_two_entries_tell_nothing(size: int, tmp_path: Path) -> None:
    data = HEADER.pack(1, 2, 3, 4, 5, 2).ljust(83, b"\1")[:size]
    (tmp_path / "index").write_bytes(data)
    assert (geometry_of(data), infer_geometry(tmp_path / "index", fs)) == (None, None)


def _entry(key_hash: int, log_offset: int) -> bytes:
    return key_hash.to_bytes(4, "big") + log_offset.to_bytes(8, "big") + bytes(8)


def test_a_file_whose_data_the_device_refuses_is_not_taken_for_one_of_another_geometry() -> None:
    path = sorted((golden("normal").store / "index").iterdir())[0]
    refusing = FaultyFilesystem(when=lambda name, argument: name == "written_ranges")
    with pytest.raises(StoreIOError):
        infer_geometry(path, refusing)


@pytest.mark.parametrize(
    "made",
    [
        Geometry(1, 1),
        Geometry(5, 1),
        Geometry(1, 4),
        Geometry(2, 4),
        Geometry(2, 8),
        Geometry(500, 2000),
        DEFAULT_GEOMETRY,
    ],
)
def test_a_size_is_shared_out_with_four_entries_a_slot(made: Geometry) -> None:
    assert geometry_of_size(made.file_size) == made
