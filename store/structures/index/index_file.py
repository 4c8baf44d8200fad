"""IndexFile: one hash file of the index, from a key's hash to log offsets, newest first.

    put_hashes  entry number `count` takes the slot's chain as its successor and becomes the slot's newest
    select      follow the slot's chain; an entry counts if its hash and its time agree

An entry holds whole seconds since the file's first message, so its time is at most a second too early. The key is not
stored: a caller must read the record. A chain is followed for at most as many steps as the file has entries, so that a
damaged chain ends too.

Source: IndexFile (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from store import kernels
from store.errors import StoreIOError
from store.files.filesystem import Descriptor, Filesystem
from store.files.mapping import PAGE_SIZE, anonymous_map
from store.files.readable import require_readable, require_written_readable
from store.formats.index_page import (
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexEntry,
    IndexHeader,
    decode_entry,
    decode_header,
    decode_slot,
    entry_position,
    index_file_size,
)
from store.formats.java import key_hash
from store.formats.run import Int64Array

RESERVED_AHEAD_BYTES = 1 << 20


class IndexFile:
    """One file. `path` is its place in the store, also while its bytes are still staged elsewhere."""

    def __init__(
        self,
        path: Path,
        slot_count: int,
        entry_count: int,
        descriptor: Descriptor,
        fs: Filesystem,
        *,
        writable: bool,
        is_new: bool = False,
    ) -> None:
        self.path = path
        self.slot_count = slot_count
        self.entry_count = entry_count
        self.writable = writable
        self._fs = fs
        # Only a file that is written to is flushed.
        self._descriptor = descriptor if writable else None
        self._read_path = descriptor.path
        self._name_is_new = writable
        self._is_new = is_new
        self._reserved = 0
        self._slots_are_writable = not is_new
        self._held: IndexHeader | None = None
        self.stored_size = fs.stat(descriptor.path).st_size
        self.buffer = _map(descriptor, index_file_size(slot_count, entry_count), fs, writable=writable)

    @property
    def header(self) -> IndexHeader:
        """The held header, otherwise the present one; StoreIOError if it can't be read."""
        if self._held is not None:
            return self._held
        if not self._is_new:
            # A new file's pages are not read from the disk.
            self.require(0, HEADER_SIZE)
        return decode_header(self.buffer)

    def hold(self) -> None:
        """Hold the present header, so that later entries of a writer are not read.

        StoreIOError as for `header`.
        """
        header = self.header
        while (again := self.header) != header:
            # A writer is changing the fields; read again until two reads agree.
            header = again
        self._held = header

    @property
    def is_full(self) -> bool:
        return self.header.index_count >= self.entry_count

    @property
    def has_header(self) -> bool:
        """Whether a header was ever stored: a power cut may leave a name and 0 bytes."""
        return self.stored_size >= HEADER_SIZE

    @property
    def lacks_newest(self) -> bool:
        """Whether the newest counted entry is past the file's end or unreachable from its slot.

        It is unreachable if the file has another number of slots than `slot_count`.
        """
        newest = min(self.header.index_count, self.entry_count) - 1
        if newest > 0 and self.stored_size >= entry_position(self.slot_count, newest + 1):
            slot = self._entry(newest).key_hash % self.slot_count
            self.require(HEADER_SIZE + SLOT_SIZE * slot, SLOT_SIZE)
            # While the file is written, a slot may hold a later entry than the count includes.
            return decode_slot(self.buffer, slot) < newest
        return newest > 0

    def start_after(self, previous: IndexHeader) -> None:
        """Begin the header with the end of the full previous file, as a broker does."""
        offset, time_ms = max(0, previous.end_log_offset), max(0, previous.end_timestamp_ms)
        # The count stays 0 in the file until the first entry, and is read as 1.
        self.write_header(IndexHeader(time_ms, time_ms, offset, offset, 0, 0))

    def put_hashes(self, hashes: Int64Array, records: Int64Array, start: int, stop: int, columns: Int64Array) -> int:
        """Put the keys start … stop - 1; return the next key, before `stop` if the file is full."""
        self._reserve(stop - start)
        header = np.array(self.header, np.int64)
        return kernels.put_index_entries(
            self.buffer,
            self.slot_count,
            self.entry_count,
            hashes,
            records,
            start,
            stop,
            columns,
            header,
        )

    def matches_time(self, begin_ms: int, end_ms: int) -> bool:
        """Return whether the file may hold messages of that time (IndexFile.isTimeMatched)."""
        return self.header.matches_time(begin_ms, end_ms)

    def select(self, key: str, max_count: int, begin_ms: int, end_ms: int, found: list[int]) -> None:
        """Append log offsets of entries with the key's hash to `found`, newest first, up to `max_count`."""
        begin = self.header.begin_timestamp_ms
        hash_code = key_hash(key)
        for _, entry in self._chain(hash_code):
            if len(found) >= max_count:
                return
            time_ms = begin + entry.time_diff_seconds * 1000
            if entry.key_hash == hash_code and begin_ms <= time_ms <= end_ms:
                found.append(entry.log_offset)
            if time_ms < begin_ms:
                return

    def entry_numbers(self, key: str, log_offset: int) -> list[int]:
        """Return the numbers of entries with the key's hash and this log offset, newest first."""
        hash_code = key_hash(key)
        chain = self._chain(hash_code)
        return [number for number, one in chain if (one.key_hash, one.log_offset) == (hash_code, log_offset)]

    def position_of(self, number: int) -> int:
        """Return the position in the file of entry `number`."""
        return entry_position(self.slot_count, number)

    def _chain(self, hash_code: int) -> Iterator[tuple[int, IndexEntry]]:
        """Yield number and entry along the hash's chain, newest first, up to the first invalid one."""
        header = self.header
        if header.index_count <= 1:
            return
        # A damaged count must not lead out of the file. A broker includes the number of the next entry.
        count = min(header.index_count - (self._held is not None), self.entry_count - 1)
        number = self._newest_counted(hash_code % self.slot_count, count)
        if number <= 0:
            return
        for _ in range(count):
            entry = self._entry(number)
            if entry.time_diff_seconds < 0:
                return
            yield number, entry
            if not 0 < entry.previous <= count or entry.previous == number:
                return
            number = entry.previous

    def _newest_counted(self, slot: int, count: int) -> int:
        """Return the number of the slot's newest counted entry; 0 if there is none.

        While the file is written, slots are ahead of the count by a run of messages, and further ahead of a held
        header. Then the chain leads back to the counted entries.
        """
        self.require(HEADER_SIZE + SLOT_SIZE * slot, SLOT_SIZE)
        number = decode_slot(self.buffer, slot)
        leads_back = self.writable or self._held is not None
        while leads_back and count < number < self.entry_count:
            previous = self._entry(number).previous
            number = previous if previous < number else 0
        return number if number <= count else 0

    def _entry(self, number: int) -> IndexEntry:
        self.require(entry_position(self.slot_count, number), ENTRY_SIZE)
        return decode_entry(self.buffer, self.slot_count, number)

    def is_readable(self) -> bool:
        """Return whether header, slots and entries can be read."""
        try:
            require_written_readable(self._fs, self._read_path, self.buffer)
        except StoreIOError:
            return False
        return True

    def require(self, position: int, size: int) -> None:
        """Raise StoreIOError if these bytes can't be read."""
        require_readable(self._fs, self._read_path, self.buffer, position, position + size)

    def flush(self) -> None:
        """Make the file durable."""
        if self._descriptor is None:
            return
        self._fs.fdatasync(self._descriptor)
        if self._name_is_new:
            # index/ may be new as well.
            for folder in (self._descriptor.path.parent, self._descriptor.path.parent.parent):
                self._fs.fsync_folder(folder)
            self._name_is_new = False

    def _reserve(self, entry_count: int) -> None:
        """Allocate blocks for header, slots and `entry_count` more entries; StoreIOError on a full disk."""
        newest = self.header.index_count
        end = entry_position(self.slot_count, min(self.entry_count, newest + entry_count))
        if end > self._reserved and self._descriptor is not None:
            if not self._is_new:
                # The kernel reads slots and entries of keys that it puts.
                self.require(self._reserved, end - self._reserved)
            stop = min(len(self.buffer), end + RESERVED_AHEAD_BYTES)
            self._fs.preallocate(self._descriptor, self._reserved, stop - self._reserved)
            self._reserved = stop
        slots_end = entry_position(self.slot_count, 0)
        if not self._slots_are_writable and entry_count * PAGE_SIZE >= slots_end:
            # So many keys touch most pages of the slots.
            self._fs.make_writable(self.buffer, 0, slots_end)
            self._slots_are_writable = True

    def write_header(self, header: IndexHeader) -> None:
        """Overwrite the header."""
        HEADER.pack_into(self.buffer, 0, *header)


def _map(descriptor: Descriptor, size: int, fs: Filesystem, *, writable: bool) -> memoryview:
    """Return the file's bytes; a short file is padded with zeros, as a broker would lengthen it."""
    actual = fs.stat(descriptor.path).st_size
    if actual >= size:
        return memoryview(fs.map(descriptor, size, writable=writable))
    if writable:
        fs.truncate(descriptor, size)
        return memoryview(fs.map(descriptor, size, writable=True))
    # An anonymous map takes memory only for the pages that are touched.
    padded = anonymous_map(size)
    padded[:actual] = fs.read(descriptor, 0, actual)
    return padded.toreadonly()
