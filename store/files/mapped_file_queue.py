"""MappedFileQueue: files of equal length as one address space.

    file_start   0          S          2S
    file         [----------][----------][-----.....]
                 ^ min_offset                  ^ max_offset (readable)
    flushed_where <= committed_where <= end of the written bytes: offsets in the same space

The first files may have expired, and a file in the middle may be missing: that does not change offsets.
A file's name is its start, a byte address also in a consume queue (queue_offset x 20).
    load            lists files and their sizes, opens nothing; a file of another length stops it, as it stops a broker
    last_file       the file to append to; creates the next one when the last is full
    truncate_dirty_files, delete_files   delete at the two ends
`files` is replaced, never changed, so that readers iterate over it without a lock.

Source: MappedFileQueue, 4.9.8; the broker line gives the rules of 5.3.3.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from store.broker_line import LINE_4_9, BrokerLine
from store.errors import DamagedFile, ForeignFile, StoreError, WrongFileSize, is_passing
from store.files.filesystem import MOVE_IT_OUT, Entry, Filesystem
from store.files.mapped_file import MappedFile
from store.files.segment_folders import SegmentFolders, UnsyncedFolders
from store.layout import parse_segment_name, segment_name

if TYPE_CHECKING:
    from store.kernels import CommitGroups


class Allocator(Protocol):
    """A source of new files, usually an AllocateMappedFileService."""

    def take(self, folder: Path, file_start: int, size: int, next_folder: Path) -> MappedFile: ...


class MappedFileQueue:
    """The files of `folder`, each `file_size` bytes. Without `writable` nothing on disk is changed.

    keeps_descriptors  for a queue that is flushed all the time; other queues open a file for each flush
    folders            for a log in several folders; `folder` is then the first of them
    unsynced           new folders, shared by many queues so that each folder is synced once
    """

    def __init__(
        self,
        folder: Path,
        file_size: int,
        fs: Filesystem,
        *,
        writable: bool,
        allocate: Allocator | None = None,
        keeps_descriptors: bool = False,
        folders: SegmentFolders | None = None,
        unsynced: UnsyncedFolders | None = None,
    ) -> None:
        self.folder = folder
        self.folders = folders or SegmentFolders((folder,), file_size=file_size)
        self.file_size = file_size
        self.files: list[MappedFile] = []
        self.empty_last: Path | None = None
        """The last file, if it has length zero and was left out."""
        self.flushed_where = 0
        self.committed_where = 0
        self.store_timestamp_ms = 0
        """Store time of the last message that a thorough flush (least_pages 0) covered."""
        self._flush_count = 0
        """The number of syncs that made bytes durable."""
        self._fs = fs
        self._writable = writable
        self._allocate = allocate
        self._keeps_descriptors = keeps_descriptors
        self._unsynced = unsynced if unsynced is not None else UnsyncedFolders()
        self._change_lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._flush_failure: StoreError | None = None

    # Loading.

    def load(self, line: BrokerLine = LINE_4_9, refuse: Callable[[StoreError], None] | None = None) -> None:
        """List the existing files; all positions are the files' ends until recovery sets them.

        WrongFileSize or ForeignFile if a broker would refuse to start. 5.x skips folders, and deletes a last file of
        length zero; a read-only queue only leaves it out, as `empty_last`.

        refuse  called with the error of a file; the file is then left out"""
        entries = self.folders.entries(self._fs)
        if line.skips_folders:
            entries = [entry for entry in entries if not entry.is_folder]
        if line.drops_empty_last_file:
            entries = self._without_empty_last(entries)
        accepted = [file for entry in entries if (file := self._accepted(entry, refuse)) is not None]
        self.files = sorted(accepted, key=lambda file: file.file_start)
        self.set_positions_full()

    def set_positions_full(self) -> None:
        """Count every file as written to its end."""
        for file in self.files:
            file.set_positions(self.file_size)

    def _without_empty_last(self, entries: list[Entry]) -> list[Entry]:
        if not entries:
            return entries
        *before, last = entries
        if last.size or not last.is_file:
            return entries
        self.empty_last = last.path
        if self._writable:
            self._fs.unlink(last.path)
        return before

    def _accepted(self, entry: Entry, refuse: Callable[[StoreError], None] | None) -> MappedFile | None:
        try:
            return self._accept(entry)
        except DamagedFile as error:
            if refuse is None:
                raise
            refuse(error)
            return None

    def _accept(self, entry: Entry) -> MappedFile:
        file_start = parse_segment_name(entry.path.name)
        if file_start is None or entry.is_folder:
            raise ForeignFile(
                "a folder among the segments" if entry.is_folder else "not the name of a segment",
                file=entry.path,
                hint="move it away",
            )
        if not entry.is_file:
            raise ForeignFile(f"{entry.kind}, where a file is expected", file=entry.path, hint=MOVE_IT_OUT)
        if entry.size != self.file_size:
            raise WrongFileSize.of(entry.size, self.file_size, entry.path)
        return MappedFile(
            entry.path,
            file_start,
            self.file_size,
            self._fs,
            writable=self._writable,
            keeps_descriptor=self._keeps_descriptors,
        )

    # Looking.

    @property
    def first(self) -> MappedFile | None:
        files = self.files
        return files[0] if files else None

    @property
    def last(self) -> MappedFile | None:
        files = self.files
        return files[-1] if files else None

    @property
    def min_offset(self) -> int:
        """Start of the first file, -1 without files."""
        first = self.first
        return first.file_start if first is not None else -1

    @property
    def max_offset(self) -> int:
        """End of the readable bytes, 0 without files."""
        last = self.last
        return last.file_start + last.readable_position if last is not None else 0

    @property
    def max_wrote_offset(self) -> int:
        """End of the appended bytes, 0 without files."""
        last = self.last
        return last.file_start + last.wrote if last is not None else 0

    def find_by_offset(self, offset: int, first_if_missing: bool = False) -> MappedFile | None:
        """Return the file with the byte at `offset`; else the first file if `first_if_missing`, else None."""
        files = self.files
        if not files:
            return None
        index = offset // self.file_size - files[0].file_start // self.file_size
        if not (0 <= index < len(files) and _holds(files[index], offset)):
            # A file is missing in the middle, or a name is no multiple of the size.
            index = bisect_right(files, offset, key=lambda file: file.file_start) - 1
        if index >= 0 and _holds(files[index], offset):
            return files[index]
        return files[0] if first_if_missing else None

    def find_by_time(self, time_ms: int) -> MappedFile | None:
        """Return the first file last modified at `time_ms` or later, else the last file."""
        files = self.files
        for file in files:
            if file.mtime_ms >= time_ms:
                return file
        return files[-1] if files else None

    # Appending.

    def last_file(self, start_offset: int = 0) -> MappedFile:
        """Return the file to append to. If there are no files, create the one for `start_offset`."""
        last = self.last
        if last is not None and not last.is_full:
            return last
        with self._change_lock:
            last = self.last
            if last is not None and not last.is_full:
                return last
            if last is None:
                file = self._create(start_offset - start_offset % self.file_size)
                file.first_created_in_queue = True
            else:
                file = self._create(last.file_start + self.file_size)
            self.files = [*self.files, file]
            return file

    def writable_file(self, file: MappedFile) -> MappedFile:
        """Return the file to write to instead of `file`; an overlay returns a copy."""
        return file

    def _create(self, file_start: int) -> MappedFile:
        folder = self.folders.folder_of(file_start)
        if not self.files or len(self.folders.all) > 1:
            self._unsynced.add(made.parent for made in self._fs.make_folder(folder))
        if self._allocate is not None:
            next_folder = self.folders.folder_of(file_start + self.file_size)
            return self._allocate.take(folder, file_start, self.file_size, next_folder)
        last = self.last
        if last is not None:
            # After a power cut, a file must not exist without the previous one, or after one of 0 bytes.
            last.sync_new()
        path = folder / segment_name(file_start)
        return MappedFile.create(
            path,
            file_start,
            self.file_size,
            self._fs,
            keeps_descriptor=self._keeps_descriptors,
        )

    # Making durable.

    @property
    def flush_count(self) -> int:
        """The number of flushes so far; waits for a running flush."""
        with self._flush_lock:
            return self._flush_count

    def waits_for_flush(self, least_pages: int) -> bool:
        """Return whether `flush` has something to do, or a failure to raise."""
        file = self._file_at_or_after(self.flushed_where)
        return self._flush_failure is not None or (file is not None and file.waits_for_flush(least_pages))

    def flush(self, least_pages: int) -> bool:
        """Flush the file with `flushed_where`; return True if that offset did not move.

        After one failure every later call fails too, as the kernel reports a lost page only once."""
        with self._flushing():
            file = self._file_at_or_after(self.flushed_where)
            if file is None:
                return True
            store_timestamp_ms = file.store_timestamp_ms
            # Folders are synced first, so a file counts as flushed only after its folders.
            self._unsynced.sync(self._fs)
            where = file.file_start + file.flush(least_pages)
            unmoved = where == self.flushed_where
            self.flushed_where = where
            self._flush_count += not unmoved
            if least_pages == 0:
                self.store_timestamp_ms = store_timestamp_ms
            return unmoved

    def flush_groups(self, groups: CommitGroups) -> bool:
        """Flush for one group of waiting threads after another, without the GIL.

        Return False if no group was served: then the caller flushes for it."""
        with self._flushing():
            file = self._file_at_or_after(self.flushed_where)
            descriptor = file.steady_descriptor if file is not None else None
            if file is None or descriptor is None or self._unsynced.are_left:
                return False
            covered_ms, file_end = file.store_timestamp_ms, file.file_start + self.file_size
            opened, syncs, where = self._fs.sync_for_groups(
                descriptor, groups, self.file_size, self.flushed_where, file_end
            )
            if syncs:
                # For messages put meanwhile, the last store time holds only if all of them are flushed.
                newest_ms, is_all = file.store_timestamp_ms, where == file.file_start + file.wrote
                self.store_timestamp_ms = newest_ms if is_all else covered_ms
                self._flush_count += syncs
                self.flushed_where = where
                file.note_flushed(where - file.file_start)
            return opened > 0

    @contextmanager
    def _flushing(self) -> Iterator[None]:
        """Hold the flush lock; raise the failure of an earlier flush, and keep a failure of this one.

        A passing error is not kept: with too many open files a flush fails, but its pages can be written later."""
        with self._flush_lock:
            if self._flush_failure is not None:
                raise self._flush_failure.with_traceback(None)
            try:
                yield
            except StoreError as error:
                if not is_passing(error):
                    self._flush_failure = error
                raise

    def commit(self, least_pages: int) -> bool:
        """Copy from the pool buffer into the file with `committed_where`; return True if it did not move."""
        file = self._file_at_or_after(self.committed_where)
        if file is None:
            return True
        where = file.file_start + file.commit(least_pages)
        unmoved = where == self.committed_where
        self.committed_where = where
        return unmoved

    def _file_at_or_after(self, offset: int) -> MappedFile | None:
        file = self.find_by_offset(offset)
        if file is None:
            # After a gap, or before a first file that does not start at 0.
            file = next((later for later in self.files if later.file_start >= offset), None)
        return file

    # Removing.

    def truncate_dirty_files(self, offset: int) -> list[Path]:
        """Make `offset` the end: set positions in the file around it, and delete later files.

        Bytes past the end are unchanged. Deletion begins with the newest file, so that an interruption leaves no gap.
        Return the deleted paths."""
        behind = []
        for file in self.files:
            if file.file_start + self.file_size <= offset:
                continue
            if offset >= file.file_start:
                file.set_positions(offset - file.file_start)
            else:
                behind.append(file)
        for file in reversed(behind):
            self._delete(file)
        self._forget(behind)
        return [file.path for file in behind]

    def delete_last_file(self) -> None:
        """Delete the last file."""
        last = self.last
        if last is not None:
            self._delete(last)
            self._forget([last])

    def delete_files(self, files: Iterable[MappedFile]) -> None:
        """Delete these files of the queue; new readers no longer find them."""
        for file in files:
            self._forget([file])
            self._delete(file)

    def _delete(self, file: MappedFile) -> None:
        """Delete one file from the disk."""
        file.destroy()

    def _forget(self, gone: Iterable[MappedFile]) -> None:
        names = set(gone)
        if names:
            with self._change_lock:
                self.files = [file for file in self.files if file not in names]

    # Ending.

    def close(self) -> None:
        """Drop maps, descriptors and the list of files. Views that callers hold stay valid."""
        for file in self.files:
            file.close()
        self.files = []

    def destroy(self) -> None:
        """Delete every file, and each folder that is then empty."""
        for file in reversed(self.files):
            self._delete(file)
        self.files = []
        self.flushed_where = self.committed_where = 0
        for folder in self.folders.all:
            self._fs.remove_folder(folder)


def _holds(file: MappedFile, offset: int) -> bool:
    return file.file_start <= offset < file.file_start + file.size
