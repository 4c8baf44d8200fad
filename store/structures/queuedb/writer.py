"""DatabaseWriter: a new RocksDB with consume queues, in an empty folder.

The files are those after a broker's shutdown: CURRENT, IDENTITY, LOCK, MANIFEST, OPTIONS, tables, an empty log. Table
format, block size, checksum, Bloom filter and compression are the broker's, so RocksDB 8.3 of a 5.3 broker opens them.
A broker writes an entry for a queue's first unit only on a request for it; this writer writes none.

Source: RocksDBOptionsFactory, ConsumeQueueRocksDBStorage (5.3.3).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.rocksdb_copy import remove_own_files
from store.structures.consumequeue.batch_units import BatchUnitArray
from store.structures.queuedb.database import QueueDatabase, QueueKey, require_binding
from store.structures.queuedb.keys import (
    CHECKPOINT_TOPIC,
    OFFSETS,
    VALUE_DTYPE,
    Place,
    encode_long,
    encode_place,
    offset_key,
    queue_prefix,
)

_BLOCK_SIZE, _BLOOM_BITS, _HASH_RATIO, _FORMAT_VERSION = 32 << 10, 16, 0.75, 5
_BATCH = 4096


class DatabaseWriter:
    """A new database: call `put_units` for each queue, then `finish`."""

    def __init__(self, folder: Path, fs: Filesystem) -> None:
        binding = require_binding(folder)
        self._binding, self._folder, self._fs = binding, folder, fs
        self._newest: dict[QueueKey, Place] = {}
        fs.make_folder(folder.parent)
        try:
            self._database = binding.Rdict(
                str(folder), _options(binding, has_units=True), {OFFSETS: _options(binding, has_units=False)}
            )
        # rocksdict raises a plain Exception.
        except Exception as error:
            raise _io_error(folder, error) from error
        self._offsets = self._database.get_column_family_handle(OFFSETS)
        self._without_log = binding.WriteOptions()
        # As in a broker: after a crash, units that are in no table are dispatched again.
        self._without_log.disable_wal = True

    def put_units(self, queue: QueueKey, units: BatchUnitArray) -> None:
        """Add units of a queue, in the log's order; the last one becomes its newest."""
        units = units[units["queue_offset"] >= 0]
        if not len(units):
            return
        values = np.empty(len(units), VALUE_DTYPE)
        for name in VALUE_DTYPE.names or ():
            values[name] = units[name]
        prefix, width = queue_prefix(*queue), VALUE_DTYPE.itemsize
        offsets, data = units["queue_offset"].tobytes(), values.tobytes()
        for start in range(0, len(units), _BATCH):
            batch = self._binding.WriteBatch(raw_mode=True)
            for row in range(start, min(start + _BATCH, len(units))):
                batch.put(prefix + offsets[8 * row : 8 * row + 8], data[width * row : width * row + width])
            self._write(batch)
        self._newest[queue] = Place(int(units["log_offset"][-1]), int(units["queue_offset"][-1]))

    def keep(self, database: QueueDatabase, dropped: set[QueueKey]) -> None:
        """Copy every key of another database, except those of the dropped queues."""
        prefixes = tuple(queue_prefix(*queue) for queue in dropped)
        names = {offset_key(*queue, kind) for queue in dropped for kind in ("max", "min")}
        batch = self._binding.WriteBatch(raw_mode=True)
        for key, value in database.entries():
            if not key.startswith(prefixes):
                batch.put(key, value)
                batch = self._write(batch) if len(batch) >= _BATCH else batch
        for key, value in database.offset_entries():
            if key not in names:
                batch.put(key, value, self._offsets)
        self._write(batch)

    @property
    def queues(self) -> set[QueueKey]:
        """The queues that have units or an end here."""
        return set(self._newest)

    def keep_ends(self, newest: dict[QueueKey, Place]) -> None:
        """Keep the newest units of another database for queues that have no units here."""
        self._newest = newest | self._newest

    def finish(self, checkpoint: int | None) -> None:
        """Write the newest unit of each queue and the checkpoint, then close the files."""
        batch = self._binding.WriteBatch(raw_mode=True)
        for queue, place in self._newest.items():
            batch.put(offset_key(*queue, "max"), encode_place(place), self._offsets)
        if checkpoint is not None:
            batch.put(offset_key(CHECKPOINT_TOPIC, 0, "max"), encode_long(checkpoint), self._offsets)
        self._write(batch)
        try:
            for family in (self._database, self._database.get_column_family(OFFSETS)):
                # Closing flushes the family, and raises if that fails.
                family.close()
        except Exception as error:
            raise _io_error(self._folder, error) from error
        remove_own_files(self._folder, self._fs)

    def _write(self, batch: Any) -> Any:
        """Write a batch and return an empty one."""
        try:
            self._database.write(batch, self._without_log)
        except Exception as error:
            raise _io_error(self._folder, error) from error
        return self._binding.WriteBatch(raw_mode=True)


def _options(binding: Any, *, has_units: bool) -> Any:
    """Return the options that determine the bytes of tables."""
    options, table = binding.Options(raw_mode=True), binding.BlockBasedOptions()
    table.set_format_version(_FORMAT_VERSION)
    table.set_block_size(_BLOCK_SIZE)
    table.set_bloom_filter(_BLOOM_BITS, False)
    table.set_checksum_type(binding.ChecksumType.crc32c())
    kinds = binding.DBCompressionType
    if has_units:
        table.set_data_block_index_type(binding.DataBlockIndexType.binary_and_hash())
        table.set_data_block_hash_ratio(_HASH_RATIO)
        options.set_bottommost_compression_type(kinds.zstd())
        options.set_compaction_style(binding.DBCompactionStyle.universal())
    options.set_compression_type(kinds.lz4() if has_units else kinds.none())
    options.set_block_based_table_factory(table)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_target_file_size_base((256 if has_units else 64) << 20)
    options.set_error_if_exists(True)
    options.set_atomic_flush(True)
    return options


def _io_error(folder: Path, error: Exception) -> StoreIOError:
    return StoreIOError(f"RocksDB can't write the consume queues: {' '.join(str(error).split())}", file=folder)
