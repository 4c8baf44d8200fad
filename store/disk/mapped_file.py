"""MappedFile: one preallocated file of fixed size, written through a map and made durable by fdatasync.

    0          flushed        committed         wrote               size
    |-- durable --|-- in the file --|-- in the lent buffer --|-- zeros --|

    wrote      end of what was appended
    committed  end of what was copied from the lent buffer into the file; only used while a buffer is lent
    flushed    end of what a crash of the machine can't take away
    flushed <= committed <= wrote <= size while appending; the owner may set all three after recovery.

The positions, `buffer` and `write_buffer` are plain slots, because a put touches them several times per message: the
appending thread writes into `write_buffer`, then raises `wrote`. In CPython the interpreter lock orders these two
steps for readers, who look only below `readable_position`. One thread appends at a time (the put lock sees to that).

`buffer` and `write_buffer` are slots that stay unset until first use: the lookup then fails and lands in __getattr__,
which maps the file. So neither loading a store with thousands of files nor appending to a mapped one costs anything.

A reader calls hold() before and release() after; destroy() waits for readers as the broker does. A view that is kept
longer is safe too: the map is never closed but dropped, and the last view takes it along (no BufferError, no SIGSEGV).

Source: MappedFile and ReferenceResource, 4.9.8.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from store.disk.filesystem import Descriptor, Filesystem
from store.disk.transient_pool import TransientStorePool
from store.errors import BadRequest, StoreClosed

PAGE_SIZE = 4096


class MappedFile:
    """One file of a MappedFileQueue. `fs` is the door to the disk; sizes and positions are bytes."""

    __slots__ = (
        "_available",
        "_cleaned",
        "_descriptor",
        "_first_shutdown_ms",
        "_fs",
        "_holders",
        "_lock",
        "_name_is_new",
        "_pool",
        "buffer",
        "committed",
        "file_start",
        "first_created_in_queue",
        "flushed",
        "path",
        "size",
        "store_timestamp_ms",
        "writable",
        "write_buffer",
        "wrote",
    )

    path: Path
    file_start: int
    size: int
    wrote: int
    committed: int
    flushed: int
    buffer: memoryview
    """The whole map; read-only unless the file is writable."""
    write_buffer: memoryview
    """Where to append: the lent buffer while there is one, else `buffer`."""
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
    ) -> None:
        """Touches no disk. `descriptor` is that of a file created just now, whose name is still to be made durable."""
        self.path = path
        self.file_start = file_start
        self.size = size
        self.wrote = self.committed = self.flushed = 0
        self.store_timestamp_ms = 0
        self.first_created_in_queue = False
        self.writable = writable
        self._fs = fs
        self._descriptor = descriptor
        self._name_is_new = descriptor is not None
        self._lock = threading.Lock()
        self._holders = 1
        self._available = True
        self._cleaned = False
        self._first_shutdown_ms = 0
        self._pool: TransientStorePool | None = None
        lent = transient_pool.borrow() if transient_pool is not None else None
        if lent is not None:
            self._pool = transient_pool
            self.write_buffer = lent

    @classmethod
    def create(
        cls,
        path: Path,
        file_start: int,
        size: int,
        fs: Filesystem,
        *,
        transient_pool: TransientStorePool | None = None,
    ) -> MappedFile:
        """A new file of `size` zeros with its blocks reserved; on any failure nothing is left behind."""
        descriptor = fs.create_file(path, size)
        return cls(path, file_start, size, fs, writable=True, transient_pool=transient_pool, descriptor=descriptor)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> memoryview:
            # Only reached for a slot that is unset.
            if name == "buffer":
                return self._map()
            if name == "write_buffer":
                self.write_buffer = self.buffer
                return self.write_buffer
            raise AttributeError(name)

    def __repr__(self) -> str:
        return f"MappedFile({self.path}, wrote={self.wrote}, committed={self.committed}, flushed={self.flushed})"

    # Positions.

    @property
    def has_lent_buffer(self) -> bool:
        return self._pool is not None

    @property
    def readable_position(self) -> int:
        """End of what readers may see."""
        return self.wrote if self._pool is None else self.committed

    @property
    def is_full(self) -> bool:
        return self.wrote == self.size

    @property
    def mtime_ms(self) -> int:
        return self._fs.mtime_ns(self.path) // 1_000_000

    def set_positions(self, position: int) -> None:
        """Everything before `position` counts as written and durable, nothing behind it."""
        self.wrote = self.committed = self.flushed = position

    # Appending and reading.

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Copies `data` behind what was written and gives the position it got."""
        position = self.wrote
        end = position + len(data)
        if end > self.size:
            raise BadRequest(f"{len(data)} bytes do not fit into the rest of the file", file=self.path, offset=position)
        self.write_buffer[position:end] = data
        self.wrote = end
        return position

    def read(self, position: int, size: int) -> memoryview | None:
        """A view of `size` readable bytes, or None when not all of them are readable. Copies nothing."""
        if position < 0 or size < 0 or position + size > self.readable_position:
            return None
        return self.buffer[position : position + size]

    # Making durable.

    def flush(self, least_pages: int) -> int:
        """Flushes if at least `least_pages` pages are waiting (0: any byte); gives the flushed position."""
        if not self._has_pages(least_pages, self.flushed, self.readable_position) or not self.hold():
            return self.flushed
        try:
            position = self.readable_position
            self._fs.fdatasync(self._open_for_flush())
            if self._name_is_new:
                self._fs.fsync_folder(self.path.parent)
                self._name_is_new = False
            # A truncation meanwhile may have set the positions back.
            self.flushed = min(position, self.wrote)
        finally:
            self.release()
        return self.flushed

    def commit(self, least_pages: int) -> int:
        """Copies the lent buffer's news into the file if at least `least_pages` pages are waiting.

        A buffer that was committed to its end goes back to the pool. Gives the committed position."""
        if self._pool is None:
            return self.wrote
        if self._has_pages(least_pages, self.committed, self.wrote) and self.hold():
            try:
                self._copy_lent_bytes()
            finally:
                self.release()
        if self.committed == self.size:
            self._give_buffer_back()
        return self.committed

    def warm(self) -> None:
        """Writes the zeros of a new file out, which leaves its pages in memory and its blocks initialised.

        A block that is merely reserved costs its first flush an entry in the file system's journal."""
        if self.wrote or not self.writable:
            raise BadRequest("only a new file can be warmed", file=self.path)
        descriptor = self._open_for_flush()
        self._fs.zero(descriptor, 0, self.size)
        self._fs.fdatasync(descriptor)

    # Life.

    def hold(self) -> bool:
        """Keeps the file from being given up until release(); False when it already is."""
        with self._lock:
            if not self._available or self._holders <= 0:
                return False
            self._holders += 1
            return True

    def release(self) -> None:
        """Ends one hold(); the last one after shutdown() gives the file up."""
        with self._lock:
            self._holders -= 1
            if self._holders > 0 or self._cleaned:
                return
            self._cleaned = True
        self._give_up()

    def is_available(self) -> bool:
        """False as soon as shutdown() was called, though readers may still hold the file."""
        return self._available

    def is_given_up(self) -> bool:
        """Whether map, descriptor and lent buffer are gone."""
        return self._cleaned

    def shutdown(self, forcible_interval_ms: int) -> None:
        """Refuses new readers.

        A call that comes `forcible_interval_ms` after the first no longer waits for the old ones."""
        now_ms = time.monotonic_ns() // 1_000_000
        with self._lock:
            first = self._available
            self._available = False
            if first:
                self._first_shutdown_ms = now_ms
            elif self._holders <= 0 or now_ms - self._first_shutdown_ms < forcible_interval_ms:
                return
            else:
                # One release below gives up, those of the hung readers do nothing.
                self._holders = 1
        self.release()

    def destroy(self, forcible_interval_ms: int) -> bool:
        """Gives the file up and deletes it; False while readers hold it (try again later)."""
        self.shutdown(forcible_interval_ms)
        if not self._cleaned:
            return False
        self._fs.unlink(self.path)
        return True

    def unmap(self) -> None:
        """Drops map and descriptor of a file that stays in use; the next use maps it again.

        For walks over many files, such as recovery over thousands of queues. Not while a buffer is lent."""
        if self._pool is None:
            self._drop_views()
            self._descriptor = None

    # Helpers.

    def _map(self) -> memoryview:
        with self._lock:
            if self._cleaned:
                raise StoreClosed("the file was closed or deleted", file=self.path)
            with contextlib.suppress(AttributeError):
                # Another thread was faster.
                return object.__getattribute__(self, "buffer")  # type: ignore[no-any-return]
            descriptor = self._descriptor or self._open()
            self.buffer = memoryview(self._fs.map(descriptor, self.size, writable=self.writable))
            return self.buffer

    def _open(self) -> Descriptor:
        return self._fs.open_write(self.path) if self.writable else self._fs.open_read(self.path)

    def _open_for_flush(self) -> Descriptor:
        """The map keeps a descriptor of its own; a second one is opened only for files that are flushed."""
        if self._descriptor is None:
            self._descriptor = self._open()
        return self._descriptor

    def _has_pages(self, least_pages: int, done: int, end: int) -> bool:
        if end == self.size and done < end:
            return True
        if least_pages > 0:
            return end // PAGE_SIZE - done // PAGE_SIZE >= least_pages
        return end > done

    def _copy_lent_bytes(self) -> None:
        start, end = self.committed, self.wrote
        if end > start:
            self._fs.write(self._open_for_flush(), start, self.write_buffer[start:end])
            self.committed = end

    def _give_buffer_back(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            lent = self.write_buffer
            del self.write_buffer
            pool.give_back(lent)

    def _drop_views(self) -> None:
        for name in ("write_buffer", "buffer"):
            with contextlib.suppress(AttributeError):
                delattr(self, name)

    def _give_up(self) -> None:
        # The owner commits before it shuts a file down; what the lent buffer holds beyond that is lost with it.
        self._give_buffer_back()
        self._drop_views()
        self._descriptor = None
