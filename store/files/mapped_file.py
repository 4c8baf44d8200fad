"""MappedFile: one preallocated file of fixed size, written through a map, flushed by fdatasync.

    0          flushed        committed         wrote               size
    |-- durable --|-- in the file --|-- in the pool buffer --|-- zeros --|

    wrote      end of the appended bytes
    committed  end of the bytes copied from the pool buffer into the file; only used with a pool buffer
    flushed    end of the bytes that survive a crash of the machine
    flushed <= committed <= wrote <= size while appending; the owner may set all three after recovery.

`wrote` is a cell of 8 bytes; the appending kernel advances it in the call that writes the record. Other code writes
into `write_buffer`, then raises `wrote`. In CPython the interpreter lock orders these two steps for readers, and
readers stay below `readable_position`. One thread appends at a time; the commit log ensures that.
A new file is a hole, as Java creates it. Before bytes are written through the map, `reserve` allocates their blocks, as
a page fault on a full disk would kill the process (SIGBUS). Before bytes are read, `read` and `readable_end` read their
pages into memory, as a bad sector or a shortened file would kill it too.
The file is mapped at its first use, without a descriptor. close() drops the map and refuses to map again. Views keep
the map until the last of them is freed, so closing waits for no reader (no BufferError, no SIGSEGV).

Source: MappedFile, 4.9.8; its reference count has no counterpart here.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from store.errors import BadRequest, StoreClosed, StoreError
from store.files.filesystem import Descriptor, Filesystem
from store.files.mapped_bytes import MappedBytes
from store.files.mapping import PAGE_SIZE
from store.files.newest import Newest
from store.files.readable import shortened
from store.files.transient_pool import TransientStorePool

_MOST_RESERVED_BYTES = 16 << 20
_RESERVED_PARTS = 256
_CELL_SIZE = 8
MOST_MAPS = 30_000
"""Files mapped at a time, without those that keep a descriptor: vm.max_map_count is 65,530."""
WRITTEN_BYTES = 8192
"""From so many bytes on, `append` writes by a system call."""
MOST_DESCRIPTORS = 128
"""Files that keep a descriptor because `append` wrote to them by a system call."""
_mapped: Newest[MappedFile] = Newest(MOST_MAPS)
_written: Newest[MappedFile] = Newest(MOST_DESCRIPTORS)


class MappedFile(MappedBytes):
    """One file of a MappedFileQueue. Sizes and positions are bytes.

    keeps_descriptor  keep the descriptor after a flush, for the few files that are flushed all the time
    """

    __slots__ = (
        "__weakref__", "_descriptor", "_fs", "_is_closed", "_is_listed", "_keeps_descriptor",
        "_lent", "_lock", "_name_is_new", "_pool", "_view", "committed", "file_start", "first_created_in_queue",
        "flushed", "path", "reserved", "size", "store_timestamp_ms", "writable", "wrote_cell",
    )  # fmt: skip

    file_start: int
    wrote_cell: bytearray
    """`wrote` as a long of 8 bytes; the appending kernel raises it."""
    committed: int
    flushed: int
    reserved: int
    """Bytes from `wrote` up to here have blocks; reserve() before writing beyond it."""
    store_timestamp_ms: int
    """Store time of the last message appended; set by the appender."""
    first_created_in_queue: bool
    """Whether the queue had no file before this one."""

    def __init__(
        self,
        path: Path,
        file_start: int,
        size: int,
        fs: Filesystem,
        *,
        writable: bool,
        transient_pool: TransientStorePool | None = None,
        descriptor: Descriptor | None = None,
        keeps_descriptor: bool = False,
    ) -> None:
        """Touch no disk; `descriptor` belongs to a file that was just created and has no durable name yet."""
        self.path = path
        self.file_start = file_start
        self.size = size
        self.wrote_cell = bytearray(_CELL_SIZE)
        self.set_positions(0)
        self.store_timestamp_ms = 0
        self.first_created_in_queue = False
        self.writable = writable
        self._fs = fs
        self._descriptor = descriptor
        self._keeps_descriptor = keeps_descriptor
        self._name_is_new = descriptor is not None
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_known_readable = False
        self._is_listed = False
        self._view: memoryview | None = None
        self._lent = transient_pool.borrow() if transient_pool is not None else None
        self._pool = transient_pool if self._lent is not None else None

    @classmethod
    def create(
        cls,
        path: Path,
        file_start: int,
        size: int,
        fs: Filesystem,
        *,
        transient_pool: TransientStorePool | None = None,
        keeps_descriptor: bool = False,
        is_durable: bool = False,
    ) -> MappedFile:
        """Create a file of `size` zeros; on any failure nothing is left behind.

        is_durable  make its length durable before its name appears
        """
        descriptor = fs.create_file(path, size, reserved=_reserved_ahead(size, 0), is_durable=is_durable)
        file = cls(
            path,
            file_start,
            size,
            fs,
            writable=True,
            transient_pool=transient_pool,
            descriptor=descriptor,
            keeps_descriptor=keeps_descriptor,
        )
        file.reserved = min(size, _reserved_ahead(size, 0))
        return file

    def __repr__(self) -> str:
        return f"MappedFile({self.path}, wrote={self.wrote}, committed={self.committed}, flushed={self.flushed})"

    # Bytes.

    @property
    def buffer(self) -> memoryview:
        """The whole map, read-only unless the file is writable; pages may be unreadable (readable_end)."""
        view = self._view
        return view if view is not None else self._map()

    @property
    def write_buffer(self) -> memoryview:
        """The buffer to append to: the pool buffer if there is one, else `buffer`."""
        lent = self._lent
        return lent if lent is not None else self.buffer

    # Positions.

    @property
    def wrote(self) -> int:
        """End of the appended bytes."""
        return int.from_bytes(self.wrote_cell, "big")

    @wrote.setter
    def wrote(self, position: int) -> None:
        self.wrote_cell[:] = position.to_bytes(_CELL_SIZE, "big")

    @property
    def has_lent_buffer(self) -> bool:
        return self._pool is not None

    @property
    def readable_position(self) -> int:
        """End of the readable bytes."""
        return self.wrote if self._pool is None else self.committed

    @property
    def is_full(self) -> bool:
        return self.wrote == self.size

    def set_positions(self, position: int) -> None:
        """Set all positions: bytes before `position` count as written and durable, later ones do not."""
        self.wrote = self.committed = self.flushed = self.reserved = position

    # Appending, and what was written.

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Append `data` after the written bytes; return its position.

        From WRITTEN_BYTES on, a system call writes the data: a fault for each page would cost more. Into a file without
        a map it also writes less, while the descriptor is open or the data ends in the first page. The first fault of a
        map reads megabytes of the hole, and most of 100,000 queues never need a map.
        """
        self._require_open()
        position = self.wrote
        end = position + len(data)
        if end > self.size:
            raise BadRequest(f"{len(data)} bytes do not fit into the rest of the file", file=self.path, offset=position)
        is_unmapped = self._view is None and (self._descriptor is not None or end <= PAGE_SIZE)
        if self._lent is None and (is_unmapped or len(data) >= WRITTEN_BYTES):
            self._fs.write(self._descriptor_to_write(), position, data)
        else:
            self.reserve(end)
            self.write_buffer[position:end] = data
        self.wrote = end
        return position

    def reserve(self, end: int) -> None:
        """Allocate blocks up to `end` and some beyond; StoreIOError when the disk is full."""
        if end <= self.reserved:
            return
        if end > self.size:
            raise BadRequest(f"the file has no place for {end} bytes", file=self.path, offset=self.reserved)
        stop = min(self.size, end + _reserved_ahead(self.size, end))
        self._fs.preallocate(self._opened(), self.reserved, stop - self.reserved)
        self.reserved = stop

    def make_writable(self, start: int, stop: int) -> None:
        """Make the pages of a reserved range writable by one call, instead of one fault per page."""
        self._fs.make_writable(self.buffer, start, stop)

    # Making durable.

    def waits_for_flush(self, least_pages: int) -> bool:
        """Return whether at least `least_pages` pages are waiting (0: any byte)."""
        return not self._is_closed and self._has_pages(least_pages, self.flushed, self.readable_position)

    def flush(self, least_pages: int) -> int:
        """Flush if at least `least_pages` pages are waiting (0: any byte); return the flushed position."""
        if not self.waits_for_flush(least_pages):
            return self.flushed
        position = self.readable_position
        try:
            descriptor = self._opened()
            self._fs.fdatasync(descriptor)
            # A sync does not report that another process has shortened the file.
            if (size := self._fs.size_of(descriptor)) < self.size:
                raise shortened(self.path, self.size, size)
            self._sync_name()
        except StoreError:
            if self._is_closed:
                # Another thread has deleted the file meanwhile.
                return self.flushed
            raise
        if not self._keeps_descriptor or self.is_full:
            self._descriptor = None
        self.note_flushed(position)
        return self.flushed

    @property
    def steady_descriptor(self) -> Descriptor | None:
        """The descriptor of a file that one sync flushes; None if its flush needs more steps."""
        takes_more = self._is_closed or self._name_is_new or self._lent is not None or not self._keeps_descriptor
        return None if takes_more else self._descriptor

    def note_flushed(self, position: int) -> None:
        """Count the bytes before `position` as durable, unless a truncation has set `wrote` back."""
        self.flushed = min(position, self.wrote)

    def sync_new(self) -> None:
        """Make the name and length of a file durable, unless a flush has done it."""
        if self._name_is_new:
            self._fs.fdatasync(self._opened())
            self._sync_name()

    def _sync_name(self) -> None:
        if self._name_is_new:
            self._fs.fsync_folder(self.path.parent)
            self._name_is_new = False

    def commit(self, least_pages: int) -> int:
        """Copy new bytes of the pool buffer into the file if at least `least_pages` pages are waiting.

        A fully committed buffer returns to the pool. Return the committed position."""
        if self._pool is None:
            return self.wrote
        if self._has_pages(least_pages, self.committed, self.wrote) and not self._is_closed:
            start, end = self.committed, self.wrote
            if end > start:
                self._fs.write(self._opened(), start, self.write_buffer[start:end])
                self.committed = end
        if self.committed == self.size:
            self._give_buffer_back()
        return self.committed

    def warm(self) -> None:
        """Write and sync the zeros of a new file, so that its pages are in memory and its blocks initialised.

        The first flush of a block that is only reserved needs an entry in the file system's journal."""
        if self.wrote or not self.writable:
            raise BadRequest("only a new file can be warmed", file=self.path)
        descriptor = self._opened()
        self._fs.zero(descriptor, 0, self.size)
        self._fs.fdatasync(descriptor)
        self.reserved = self.size

    # Life.

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Drop map, descriptor and pool buffer.

        Bytes of the pool buffer beyond `committed` are lost.
        """
        with self._lock:
            self._is_closed = True
            self._view = self._descriptor = None
        self._give_buffer_back()

    def destroy(self) -> None:
        """Delete the file. Its map stays until the last reader drops this object."""
        with contextlib.suppress(StoreError):
            self._map()
        with self._lock:
            self._is_closed = True
            self._descriptor = None
        self._give_buffer_back()
        self._fs.unlink(self.path)

    def unmap(self) -> None:
        """Drop map and descriptor of a file that stays in use; the next use maps it again.

        A process may have 65,530 maps (vm.max_map_count), but a store may have more queues."""
        with self._lock:
            if not self._is_closed:
                self._view = self._descriptor = None

    # Helpers.

    def _map(self) -> memoryview:
        is_new = False
        with self._lock:
            if self._view is None:
                self._require_open()
                descriptor = self._descriptor or self._open()
                self._view = self._fs.map(descriptor, self.size, writable=self.writable)
                if not self._keeps_descriptor:
                    self._descriptor, is_new = None, True
            view = self._view
        if is_new:
            oldest = _mapped.add(self)
            if oldest is not None and oldest is not self:
                oldest.unmap()
        return view

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("the file was closed or deleted", file=self.path)

    def _open(self) -> Descriptor:
        return self._fs.open_write(self.path) if self.writable else self._fs.open_read(self.path)

    def _opened(self) -> Descriptor:
        """Return a descriptor of the file, for system calls that need one."""
        self._require_open()
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = self._open()
            if self._keeps_descriptor:
                self._descriptor = descriptor
        return descriptor

    def _descriptor_to_write(self) -> Descriptor:
        """Return a descriptor, and keep it until MOST_DESCRIPTORS other files were written to."""
        descriptor = self._opened()
        if not self._keeps_descriptor and not self._is_listed:
            self._is_listed = True
            oldest = _written.add(self)
            if oldest is not None:
                oldest._descriptor, oldest._is_listed = None, False
        if self._is_listed:
            self._descriptor = descriptor
        return descriptor

    def _has_pages(self, least_pages: int, done: int, end: int) -> bool:
        if end == self.size and done < end:
            return True
        if least_pages > 0:
            return end // PAGE_SIZE - done // PAGE_SIZE >= least_pages
        return end > done

    def _give_buffer_back(self) -> None:
        pool, lent = self._pool, self._lent
        self._pool = self._lent = None
        if pool is not None and lent is not None:
            pool.give_back(lent)


def _reserved_ahead(size: int, end: int) -> int:
    """Return the number of bytes to reserve beyond `end`: a part of the file's size, or of `end`."""
    part = -(-size // _RESERVED_PARTS // PAGE_SIZE) * PAGE_SIZE
    return min(_MOST_RESERVED_BYTES, max(part, end // 2))
