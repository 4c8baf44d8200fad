"""How many slots and entries a file has is found from its contents alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.config import StoreConfig
from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.formats.index_page import HEADER, HEADER_SIZE, SLOT_SIZE, entry_position
from store.structures.index.geometry import (
    DEFAULT_GEOMETRY,
    Geometry,
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
        ({}, None),
    ],
)
def test_settings_name_the_geometry_of_files_of_their_size(
    settings: dict[str, object], expected: Geometry | None
) -> None:
    assert given_geometry(settings, 22040) == expected


@pytest.mark.parametrize("spoilt", [None, "the newest entry's slot", "the first log offset", "the count"])
def test_a_file_with_the_brokers_own_numbers_is_known_by_four_small_reads(tmp_path: Path, spoilt: str | None) -> None:
    path, key_hash, newest, slots = tmp_path / "index", 77, 3, DEFAULT_GEOMETRY.slot_count
    count = 1 if spoilt == "the count" else newest + 1
    begin = 101 if spoilt == "the first log offset" else 100
    slot = 1 if spoilt == "the newest entry's slot" else newest
    pieces = {
        0: HEADER.pack(1, 2, begin, 400, 1, count),
        HEADER_SIZE + SLOT_SIZE * key_hash: slot.to_bytes(4, "big"),
        entry_position(slots, 1): _entry(key_hash, 100),
        entry_position(slots, newest): _entry(key_hash, 400),
    }
    with path.open("wb") as file:
        file.truncate(DEFAULT_GEOMETRY.file_size)
        for position, data in pieces.items():
            file.seek(position)
            file.write(data)
    assert _has_default_geometry(path, fs) == (spoilt is None)


def _entry(key_hash: int, log_offset: int) -> bytes:
    return key_hash.to_bytes(4, "big") + log_offset.to_bytes(8, "big") + bytes(8)


def test_a_file_whose_data_the_device_refuses_is_not_taken_for_one_of_another_geometry() -> None:
    path = sorted((golden("normal").store / "index").iterdir())[0]
    refusing = FaultyFilesystem(when=lambda name, argument: name == "written_ranges")
    with pytest.raises(StoreIOError):
        infer_geometry(path, refusing)


@pytest.mark.parametrize(
    "made",
    [Geometry(1, 1), Geometry(1, 4), Geometry(2, 4), Geometry(2, 8), Geometry(500, 2000), DEFAULT_GEOMETRY],
)
def test_a_size_is_shared_out_with_four_entries_a_slot(made: Geometry) -> None:
    assert geometry_of_size(made.file_size) == made
