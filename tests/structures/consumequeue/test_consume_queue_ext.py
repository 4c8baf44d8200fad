"""The extension files: addresses, the end mark, and the two truncations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.formats.java import tags_code
from store.formats.queue_unit import (
    EXT_END,
    EXT_END_MARK,
    UNIT_SIZE,
    ExtUnit,
    decode_ext_address,
    encode_ext_address,
    is_ext_address,
)
from store.structures.consumequeue.consume_queue_ext import ConsumeQueueExt, _is_ended, lacks_extension
from tests.support.small_log import START_MS, SmallLog, open_queues, reopened_queues, units_of

FILE_SIZE = 100
WITH_EXT = StoreConfig(
    mapped_file_size_consume_queue=10 * UNIT_SIZE,
    enable_consume_queue_ext=True,
    mapped_file_size_consume_queue_ext=FILE_SIZE,
)


def ext_in(folder: Path) -> ConsumeQueueExt:
    files = MappedFileQueue(folder, FILE_SIZE, Filesystem(), writable=True)
    files.load()
    return ConsumeQueueExt(files)


def unit(number: int, bits: int = 8) -> ExtUnit:
    return ExtUnit(number, START_MS + number, bytes([number]) * bits)


def put(ext: ConsumeQueueExt, *units: ExtUnit) -> list[int]:
    addresses = [ext.put(one) for one in units]
    assert all(address is not None and is_ext_address(address) for address in addresses)
    return [decode_ext_address(address) for address in addresses if address is not None]


def test_a_unit_is_read_back_at_its_address(tmp_path: Path) -> None:
    ext = ext_in(tmp_path)
    positions = put(ext, unit(1), unit(2, bits=0), unit(3))
    assert positions == [0, 28, 48]
    assert [ext.read(position) for position in positions] == [unit(1), unit(2, bits=0), unit(3)]


def test_a_unit_that_does_not_fit_with_four_bytes_to_spare_begins_a_new_file(tmp_path: Path) -> None:
    ext = ext_in(tmp_path)
    assert put(ext, unit(1), unit(2), unit(3), unit(4)) == [0, 28, 56, 100]
    assert ext.files.files[0].buffer[84:86] == b"\xff\xff"


def test_a_bit_map_that_is_too_large_gets_no_address(tmp_path: Path) -> None:
    assert ext_in(tmp_path).put(unit(1, bits=40_000)) is None


def test_the_end_is_found_again_over_several_files(tmp_path: Path) -> None:
    put(ext_in(tmp_path), *map(unit, range(1, 6)))
    ext = ext_in(tmp_path)
    ext.recover()
    assert ext.files.max_offset == FILE_SIZE + 2 * 28
    assert put(ext, unit(6)) == [FILE_SIZE + 56]


def test_what_lies_behind_the_last_address_of_the_queue_is_cut_off(tmp_path: Path) -> None:
    ext = ext_in(tmp_path)
    positions = put(ext, *map(unit, range(1, 6)))
    ext.truncate_by_max_address(encode_ext_address(positions[1]))
    assert (ext.files.max_offset, len(ext.files.files)) == (56, 1)


def test_files_that_end_before_the_first_address_of_the_queue_are_deleted(tmp_path: Path) -> None:
    ext = ext_in(tmp_path)
    positions = put(ext, *map(unit, range(1, 6)))
    ext.truncate_by_min_address(encode_ext_address(positions[4]))
    assert [file.file_start for file in ext.files.files] == [FILE_SIZE]


def test_a_tags_code_that_is_no_address_cuts_nothing(tmp_path: Path) -> None:
    ext = ext_in(tmp_path)
    put(ext, unit(1))
    ext.truncate_by_max_address(1)
    assert ext.files.max_offset == 28


def test_dispatch_puts_tags_code_and_store_time_into_the_extension(tmp_path: Path) -> None:
    log = SmallLog()
    log.put(tags="a")
    log.put(tags="b")
    queues = open_queues(tmp_path, WITH_EXT)
    log.dispatch_to(queues)
    queue = queues.find_or_create("T", 0)
    codes = [one.tags_code for one in units_of(queues)]
    assert codes == [encode_ext_address(0), encode_ext_address(20)]
    assert [queue.real_tags_code(code) for code in codes] == [tags_code("a"), tags_code("b")]
    assert queue.ext is not None
    assert queue.ext.read(20) == ExtUnit(tags_code("b"), START_MS + 1000, b"")


def test_each_queue_of_a_run_gets_the_extension_units_of_its_own_messages(tmp_path: Path) -> None:
    log = SmallLog()
    for number in range(6):
        log.put("T", number % 3, tags=f"t{number}")
    queues = open_queues(tmp_path, WITH_EXT)
    log.dispatch_to(queues)
    for queue_id in range(3):
        queue = queues.find_or_create("T", queue_id)
        assert queue.ext is not None
        assert [one.tags_code for one in units_of(queues, "T", queue_id)] == [encode_ext_address(at) for at in (0, 20)]
        found = [queue.ext.read(at) for at in (0, 20, 40)]
        codes = [tags_code(f"t{number}") for number in (queue_id, queue_id + 3)]
        assert [one.tags_code if one is not None else None for one in found] == [*codes, None]


def test_recovery_keeps_the_extension_as_long_as_the_queue(tmp_path: Path) -> None:
    log = SmallLog()
    log.put_many(12, tags="a")
    log.dispatch_to(open_queues(tmp_path, WITH_EXT))
    queue = reopened_queues(tmp_path, WITH_EXT).find_or_create("T", 0)
    assert queue.ext is not None
    assert (queue.max_offset, queue.ext.files.max_offset) == (12, 3 * FILE_SIZE - FILE_SIZE + 4 * 20)


@pytest.mark.parametrize(("left", "mark"), [(1, b"\0"), (2, b"\xff\xff"), (3, b"\xff\xff\0"), (4, b"\xff\xff\0\0")])
def test_a_file_is_ended_by_a_mark_where_the_mark_has_room(left: int, mark: bytes, tmp_path: Path) -> None:
    first = unit(1, FILE_SIZE - left - 20).encode()
    (tmp_path / f"{0:020d}").write_bytes(first.ljust(FILE_SIZE, b"\0"))
    ext = ext_in(tmp_path)
    ext.recover()
    assert put(ext, unit(2)) == [FILE_SIZE]
    assert bytes(ext.files.files[0].buffer) == first + mark


def test_an_extension_ends_where_its_units_end_though_no_entry_has_an_address(tmp_path: Path) -> None:
    log = SmallLog()
    log.put_many(3, tags="a")
    log.dispatch_to(open_queues(tmp_path, WITH_EXT))
    (tmp_path / f"consumequeue/T/0/{0:020d}").write_bytes(bytes(10 * UNIT_SIZE))
    queue = reopened_queues(tmp_path, WITH_EXT).find_or_create("T", 0)
    assert queue.ext is not None
    assert (queue.max_offset, queue.ext.files.max_offset) == (0, 60)


@pytest.mark.parametrize(
    ("file_size", "bits", "is_put"),
    [(100, 76, True), (100, 77, False), (1 << 16, 32_747, True), (1 << 16, 32_748, False)],
)
def test_a_unit_is_as_large_as_a_short_says_and_a_file_holds(
    file_size: int, bits: int, is_put: bool, tmp_path: Path
) -> None:
    ext = ConsumeQueueExt(MappedFileQueue(tmp_path / "ext", file_size, Filesystem(), writable=True))
    assert (ext.put(ExtUnit(1, 2, bytes(bits))) is not None) is is_put


@pytest.mark.parametrize(("second", "starts"), [(76 - 28, [0, 28]), (76 - 27, [0, 100])])
def test_a_unit_goes_where_four_bytes_are_left_behind_it(second: int, starts: list[int], tmp_path: Path) -> None:
    ext = ext_in(tmp_path)
    assert put(ext, unit(1, 8), unit(2, second)) == starts
    ext.files.close()
    again = ext_in(tmp_path)
    again.recover()
    assert [position for position, _ in again.units()] == starts
    assert again.files.max_offset == starts[1] + 20 + second


def test_an_extension_without_units_ends_where_it_begins(tmp_path: Path) -> None:
    ext = ext_in(tmp_path)
    ext.recover()
    assert (ext.files.max_offset, ext.files.flushed_where) == (0, 0)
    put(ext, unit(1), unit(2))
    ext.files.close()
    anew = ConsumeQueueExt(MappedFileQueue(tmp_path, FILE_SIZE, Filesystem(), writable=True))
    anew.begin_anew()
    assert put(anew, unit(3)) == [0]


@pytest.mark.parametrize(("position", "is_ended"), [(92, False), (96, False), (97, True), (100, True), (40, True)])
def test_a_file_is_ended_by_its_mark_or_where_none_has_room(position: int, is_ended: bool) -> None:
    data = bytearray(100)
    data[40:44] = EXT_END.pack(EXT_END_MARK)
    assert _is_ended(memoryview(data), position) is is_ended


@pytest.mark.parametrize(
    ("named", "is_lacking"),
    [([], False), ([0, 28, 100], False), ([1, 28, 100], True), ([0, 28, 101], True), ([0, 200], True)],
)
def test_queues_lack_an_extension_whose_first_or_last_unit_is_gone(
    named: list[int], is_lacking: bool, tmp_path: Path
) -> None:
    ext = ext_in(tmp_path)
    put(ext, unit(1), unit(2), unit(3), unit(4))
    assert lacks_extension(ext, [np.array(named, np.int64)]) is is_lacking
    assert lacks_extension(None, [np.array(named, np.int64)]) is bool(named)
