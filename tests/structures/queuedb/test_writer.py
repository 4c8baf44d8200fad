"""What is asked of RocksDB: the options that make tables of the bytes that a broker's have."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, call

import numpy as np
import pytest

from store.files import rocksdb_copy
from store.files.filesystem import Filesystem
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE, BatchUnitArray
from store.structures.queuedb import writer
from store.structures.queuedb.database import QueueDatabase, open_database
from store.structures.queuedb.keys import Place
from store.structures.queuedb.writer import DatabaseWriter, _options

MIB = 1 << 20


def kinds(binding: MagicMock) -> tuple[Any, Any, Any]:
    compression = binding.DBCompressionType
    return compression.lz4(), compression.zstd(), compression.none()


@pytest.mark.parametrize("has_units", [True, False])
def test_tables_have_the_options_of_a_broker(has_units: bool) -> None:
    binding = MagicMock()
    options, table = binding.Options.return_value, binding.BlockBasedOptions.return_value
    lz4, zstd, none = kinds(binding)
    assert _options(binding, has_units=has_units) is options
    assert binding.Options.mock_calls[:1] == [call(raw_mode=True)]
    assert table.mock_calls == [
        call.set_format_version(5),
        call.set_block_size(32 << 10),
        call.set_bloom_filter(16, False),
        call.set_checksum_type(binding.ChecksumType.crc32c()),
        *([
            call.set_data_block_index_type(binding.DataBlockIndexType.binary_and_hash()),
            call.set_data_block_hash_ratio(0.75),
        ] if has_units else []),
    ]  # fmt: skip
    assert options.mock_calls == [
        *([
            call.set_bottommost_compression_type(zstd),
            call.set_compaction_style(binding.DBCompactionStyle.universal()),
        ] if has_units else []),
        call.set_compression_type(lz4 if has_units else none),
        call.set_block_based_table_factory(table),
        call.create_if_missing(True),
        call.create_missing_column_families(True),
        call.set_target_file_size_base(256 * MIB if has_units else 64 * MIB),
        call.set_error_if_exists(True),
        call.set_atomic_flush(True),
    ]  # fmt: skip


def test_an_edited_copy_keeps_its_tables_and_writes_those_of_a_5_5_broker() -> None:
    binding = MagicMock()
    options, table = binding.Options.return_value, binding.BlockBasedOptions.return_value
    assert rocksdb_copy._edit_options(binding) is options
    assert table.mock_calls == [
        call.set_format_version(5),
        call.set_checksum_type(binding.ChecksumType.crc32c()),
    ]
    assert options.mock_calls == [
        call.set_block_based_table_factory(table),
        call.set_compression_type(binding.DBCompressionType.none()),
        call.set_disable_auto_compactions(True),
        call.create_if_missing(True),
        call.create_missing_column_families(True),
        call.set_atomic_flush(True),
    ]


def units(*queue_offsets: int) -> BatchUnitArray:
    """Units of 100 bytes, each at a log offset of 1000 times its queue offset."""
    found = np.zeros(len(queue_offsets), BATCH_UNIT_DTYPE)
    found["queue_offset"] = queue_offsets
    found["log_offset"], found["size"] = 1000 * found["queue_offset"], 100
    found["message_count"], found["compacted_offset"] = 1, -1
    return found


def opened(folder: Path, scratch: Path) -> QueueDatabase:
    scratch.mkdir()
    return open_database(folder, scratch, Filesystem())


def test_a_database_has_the_units_that_were_put_from_0_on_and_each_queues_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rocksdict")
    monkeypatch.setattr(writer, "_BATCH", 2)
    made = DatabaseWriter(tmp_path / "made", Filesystem())
    made.put_units(("T", 0), units(-1, 0, 1, 2))
    made.put_units(("T", 1), units(-1))
    made.put_units(("U", 7), units(5))
    made.keep_ends({("T", 0): Place(9, 9), ("V", 3): Place(40, 4)})
    assert made.queues == {("T", 0), ("U", 7), ("V", 3)}
    made.finish(123)
    found = opened(tmp_path / "made", tmp_path / "scratch")
    assert found.newest == {("T", 0): Place(2000, 2), ("U", 7): Place(5000, 5), ("V", 3): Place(40, 4)}
    assert (found.oldest, found.checkpoint, found.malformed) == ({}, 123, [])
    assert found.units(("T", 0)).tolist() == units(0, 1, 2).tolist()
    assert (len(found.units(("T", 1))), len(found.units(("V", 3)))) == (0, 0)
    assert [found.unit(("T", 0), at) is not None for at in (-1, 0, 2, 3)] == [False, True, True, False]
    assert found.extent(("U", 7), 0) == (5, 6, 5000, 5100)
    assert found.extent(("V", 3), 0)[1:] == (5, 40, 40)


def test_another_databases_queues_are_kept_but_for_the_dropped(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    first = DatabaseWriter(tmp_path / "first", Filesystem())
    for queue in (("T", 0), ("T", 1), ("T1", 0)):
        first.put_units(queue, units(0, 1))
    first.finish(7)
    second = DatabaseWriter(tmp_path / "second", Filesystem())
    second.keep(opened(tmp_path / "first", tmp_path / "scratch"), {("T", 1)})
    second.finish(None)
    found = opened(tmp_path / "second", tmp_path / "again")
    assert (sorted(found.newest), found.checkpoint) == ([("T", 0), ("T1", 0)], 7)
    assert [len(found.units(queue)) for queue in (("T", 0), ("T", 1), ("T1", 0))] == [2, 0, 2]
    assert sum(1 for _ in found.entries()) == 4
