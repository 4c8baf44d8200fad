"""Writes the files of queues and index from the pieces of the log, as tasks of a rebuild on Spark.

    QueueFile    one file of a queue with consecutive units: every unit has a fixed position
    WholeQueue   a queue with a repeat or a gap: units are put one by one by the broker's rules (ConsumeQueue.put)
    IndexKeys    the keys of one index file; or all keys, for as many files as they fill

Each is one share. Files are created again, so a retried task writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from store.files.filesystem import Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.formats.columns import COLUMN_NAMES
from store.formats.derived import units_of
from store.formats.index_page import IndexHeader, entry_position, index_file_size
from store.formats.queue_unit import PRE_BLANK, UNIT_SIZE
from store.formats.run import Int64Array
from store.query.spark.pieces import KEY_BYTES, LOG_OFFSET, RECORD_BYTES, STORE_TIME, KeyPiece, UnitPiece
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.index.index_file import IndexFile
from store.verbs.rebuild.scope import Queue

_CHUNK_UNITS = 8192


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a queue that begins at `first_address`.

    The file has the addresses file_start … file_start + size - 1.
    """

    path: Path
    file_start: int
    size: int
    first_address: int
    pieces: tuple[UnitPiece, ...]

    @property
    def weight_bytes(self) -> int:
        return self.size

    def write(self) -> int:
        """Write fillers up to the queue's first unit, then this file's units from the pieces; return 1."""
        fs = Filesystem()
        fs.unlink(self.path)
        descriptor = fs.create_file(self.path, self.size)
        if self.first_address > self.file_start:
            fillers = (self.first_address - self.file_start) // UNIT_SIZE
            fs.write(descriptor, 0, PRE_BLANK.encode() * fillers)
        for piece in self.pieces:
            address = piece.first * UNIT_SIZE
            start = max(address, self.file_start)
            stop = min(address + piece.unit_count * UNIT_SIZE, self.file_start + self.size)
            data = _read(fs, piece, start - address, stop - start)
            fs.write(descriptor, start - self.file_start, data)
        fs.fdatasync(descriptor)
        return 1


@dataclass(frozen=True, slots=True)
class WholeQueue:
    """All units of one queue."""

    path: Path
    queue: Queue
    file_size: int
    pieces: tuple[UnitPiece, ...]

    @property
    def weight_bytes(self) -> int:
        return sum(piece.unit_count for piece in self.pieces) * UNIT_SIZE

    def write(self) -> int:
        """Put all units one by one; return the number of files."""
        fs = Filesystem()
        fs.remove_tree(self.path)
        files = MappedFileQueue(self.path, self.file_size, fs, writable=True)
        queue = ConsumeQueue(*self.queue, files)
        for piece in self.pieces:
            for unit in _units_of(piece):
                queue.put(*unit)
        while not queue.flush(0):
            pass
        count = len(files.files)
        queue.close()
        return count


@dataclass(frozen=True, slots=True)
class IndexKeys:
    """Keys by rank: `count` keys of the pieces; the first `skip` keys belong to the previous file.

    path               of the first file; further files have rising names
    has_record_behind  a record without keys follows: after a full file the broker creates an empty one
    """

    path: Path
    slot_count: int
    entry_count: int
    pieces: tuple[KeyPiece, ...]
    skip: int
    count: int
    has_record_behind: bool

    @property
    def weight_bytes(self) -> int:
        return index_file_size(self.slot_count, self.count)

    def write(self) -> int:
        """Put all keys one by one, as the broker does; return the number of files."""
        files: list[IndexFile] = []
        before: IndexHeader | None = None
        rank = -self.skip
        for piece in self.pieces:
            keys = _keys_of(piece)
            at, stop = max(-rank, 0), min(piece.key_count, self.count - rank)
            before = keys.header_at(at - 1) if at else before
            while at < stop:
                file = self._file_to_write(files, before)
                at = file.put_hashes(keys.hashes, keys.records, at, stop, keys.columns)
            rank += piece.key_count
        if self.has_record_behind:
            self._file_to_write(files, before)
        for file in files:
            file.flush()
        return len(files)

    def _file_to_write(self, files: list[IndexFile], before: IndexHeader | None) -> IndexFile:
        """Return the last file, or a new one if it is full."""
        if files and not files[-1].is_full:
            return files[-1]
        fs, path = Filesystem(), self.path.with_name(f"{int(self.path.name) + len(files):017d}")
        fs.unlink(path)
        size = index_file_size(self.slot_count, self.entry_count)
        descriptor = fs.create_file(path, size, reserved=entry_position(self.slot_count, 1))
        file = IndexFile(path, self.slot_count, self.entry_count, descriptor, fs, writable=True, is_new=True)
        previous = files[-1].header if files else before
        if previous is not None:
            file.start_after(previous)
        files.append(file)
        return file


Share = QueueFile | WholeQueue | IndexKeys


class _Keys(NamedTuple):
    """Keys in the form of the kernels' arguments."""

    hashes: Int64Array
    records: Int64Array
    columns: Int64Array

    def header_at(self, number: int) -> IndexHeader:
        """Return a header with the end time and offset of a file that ends with this key."""
        row = self.records[number]
        time_ms, log_offset = int(self.columns[STORE_TIME, row]), int(self.columns[LOG_OFFSET, row])
        return IndexHeader(end_timestamp_ms=time_ms, end_log_offset=log_offset)


def _keys_of(piece: KeyPiece) -> _Keys:
    keys, records = piece.key_count, piece.record_count
    data = memoryview(_read(Filesystem(), piece, 0, keys * KEY_BYTES + records * RECORD_BYTES))
    numbers = np.frombuffer(data[: keys * KEY_BYTES], np.int32).astype(np.int64)
    of_records = np.frombuffer(data[keys * KEY_BYTES :], np.int64)
    columns = np.empty((len(COLUMN_NAMES), records), np.int64)
    columns[LOG_OFFSET], columns[STORE_TIME] = of_records[:records], of_records[records:]
    return _Keys(numbers[:keys], numbers[keys:], columns)


def _units_of(piece: UnitPiece) -> Iterator[tuple[int, int, int, int]]:
    """Yield units with their queue offsets, read in chunks, as objects take ten times their bytes."""
    fs, offsets_at = Filesystem(), piece.unit_count * UNIT_SIZE
    for start in range(0, piece.unit_count, _CHUNK_UNITS):
        count = min(_CHUNK_UNITS, piece.unit_count - start)
        units = units_of(_read(fs, piece, start * UNIT_SIZE, count * UNIT_SIZE))
        if piece.is_dense:
            offsets = np.arange(piece.first + start, piece.first + start + count)
        else:
            offsets = np.frombuffer(_read(fs, piece, offsets_at + start * 8, count * 8), np.int64)
        for unit, queue_offset in zip(units.tolist(), offsets.tolist(), strict=True):
            yield *unit, queue_offset


def _read(fs: Filesystem, piece: UnitPiece | KeyPiece, start: int, size: int) -> bytes:
    return fs.read(fs.open_read(Path(piece.path)), piece.position + start, size)
