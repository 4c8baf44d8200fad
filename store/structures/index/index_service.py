"""IndexService: all index files of a store; builds them from the log and looks up keys.

    index/<yyyyMMddHHmmssSSS>     entries are put into the newest file until it is full

Every message except rolled-back ones gets an entry for its unique key, then one for each of its keys. A message before
the newest file's end has its entries and is skipped. Only the last message of that file gets them again, as in a
broker.

After an abnormal exit the broker deletes every file with messages newer than the checkpoint (`unsafe_files`).

Source: IndexService (4.9.8).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from store.config import StoreConfig
from store.errors import StoreError, StoreIOError, is_passing
from store.files.filesystem import Descriptor, Filesystem
from store.files.overlay import Overlay, StagedFile, stage_copy, stage_new_file
from store.formats.columns import COLUMN_NAMES
from store.formats.index_page import IndexHeader, entry_position, index_file_size, index_key
from store.formats.run import Int64Array, Run
from store.layout import StoreLayout, index_file_name, parse_index_file_name
from store.structures.index.index_file import IndexFile
from store.structures.index.keys import KeyHasher, Keys
from store.threads import Worker

LOG_OFFSET = COLUMN_NAMES.index("log_offset")
READ_WHOLE_BYTES = 64 << 20
FLUSH_PAUSES_S = (0.1, 0.4, 1.5, 5.0, 0.0)
"""Pauses after each try to flush a full file while too many files are open."""


class QueryOffsets(NamedTuple):
    """Log offsets by key, newest first, and time and log offset of the index's last entry."""

    log_offsets: list[int]
    last_update_timestamp_ms: int
    last_update_log_offset: int
    files: list[Path]


class IndexSource(Protocol):
    """Keys of a stretch of log: an index file, or the substitute for a lost one."""

    @property
    def path(self) -> Path: ...

    @property
    def header(self) -> IndexHeader: ...

    def matches_time(self, begin_ms: int, end_ms: int) -> bool: ...

    def select(self, key: str, max_count: int, begin_ms: int, end_ms: int, found: list[int]) -> None: ...


class IndexedLog(IndexSource, Protocol):
    """The index of a database over the log offsets `first` to `last`."""

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...

    def within(self, first: int, last: int) -> IndexedLog: ...

    def places(self, topics: Iterable[str], text: str) -> set[int]: ...


class IndexService:
    """The index. With an `overlay` nothing under the store's folder is written.

    clock      milliseconds, for the names of new files
    on_full    called with the end time of a file that is full and flushed
    with_tags  whether a message's tags get an entry after its keys, as in 5.4 and later
    """

    def __init__(
        self,
        layout: StoreLayout,
        config: StoreConfig,
        fs: Filesystem,
        *,
        writable: bool,
        clock: Callable[[], int],
        overlay: Overlay | None = None,
        on_full: Callable[[int], None] = lambda end_timestamp_ms: None,
        with_tags: bool = False,
    ) -> None:
        self.files: list[IndexFile] = []
        self.failures: list[StoreError] = []
        """The errors of unreadable files."""
        self._folder = layout.index
        self._root = layout.root
        self._slot_count = config.max_hash_slot_num
        self._max_query_count = config.max_msgs_num_batch
        self._entry_count = config.max_index_num
        self._fs = fs
        self._writable = writable
        self._clock = clock
        self._overlay = overlay
        self._on_full = on_full
        self.with_tags = with_tags
        self._hasher = KeyHasher(with_tags=with_tags)
        self._flushing: Worker | None = None
        self._flush_failure: StoreError | None = None
        self.creation_pauses_s: Sequence[float] = ()
        """Pauses before further tries to create a file that the disk refuses."""
        self._files_lock = threading.Lock()
        self._staged: dict[Path, Path] = {}
        self._removed: list[Path] = []

    def load(self) -> None:
        """Open every file, oldest first; pad short files with zeros and skip foreign names.

        A file with an unreadable header is left out and its error added to `failures`.
        """
        for entry in self._fs.list_folder(self._folder):
            if entry.is_file and parse_index_file_name(entry.path.name) is not None:
                file = self._open(entry.path)
                try:
                    _ = file.header
                except StoreIOError as error:
                    error.hint = "rebuild the index from the log"
                    self.failures.append(error)
                else:
                    self.files.append(file)

    def unsafe_files(self, index_timestamp_ms: int) -> list[IndexFile]:
        """Return the files with messages newer than the checkpoint.

        A broker deletes them after an abnormal exit.
        """
        return [file for file in self.files if file.header.end_timestamp_ms > index_timestamp_ms]

    @property
    def flushed_until_ms(self) -> int:
        """The latest end time of all full files, 0 without one; a damaged header may hold an earlier time."""
        return max([0, *(file.header.end_timestamp_ms for file in self.files if file.is_full)])

    def expired_files(self, min_log_offset: int) -> list[IndexFile]:
        """Return the files that end before the log begins, oldest first, never the newest."""
        expired = []
        for file in self.files[:-1]:
            if file.header.end_log_offset >= min_log_offset:
                break
            expired.append(file)
        return expired

    def remove(self, files: list[IndexFile]) -> None:
        """Delete these files; with an overlay, note them as removed."""
        for file in files:
            if self._overlay is None:
                self._fs.unlink(file.path)
            else:
                staged = self._staged.pop(file.path, None)
                if staged is not None:
                    self._fs.unlink(staged)
                if self._fs.exists(file.path):
                    self._removed.append(file.path)
        with self._files_lock:
            self.files = [file for file in self.files if file not in files]

    def drop_unreadable(self, *, with_empty: bool) -> int | None:
        """Remove unreadable files and all later ones; return the log offset to index again from.

        The newest file and small files are read whole, of other files the header: reading all of a large index takes
        long. Return None if all are readable.

        with_empty  also removes files shorter than a header
        """
        asked = [file for file in self.files if file is self.files[-1] or len(file.buffer) <= READ_WHOLE_BYTES]
        bad = [error.file for error in self.failures if error.file is not None]
        bad += [file.path for file in asked if not file.is_readable()]
        bad += [file.path for file in self.files if with_empty and not file.has_header]
        if not bad:
            return None
        first = min(bad)
        behind = [file for file in self.files if file.path >= first]
        self.remove(behind)
        self._removed += [path for path in bad if path not in self._removed]
        self.failures = []
        return max([0, *(file.header.end_log_offset for file in self.files)])

    # Building.

    def dispatch(self, run: Run) -> None:
        """Add the keys of a run's messages."""
        for keys in self._hasher.keys_of(run):
            self.put_keys(run, keys)

    def put_keys(self, run: Run, keys: Keys) -> None:
        """Put hashed keys of a run; create new files as needed."""
        # A broker gets or creates the file for every message, even one without keys or one that is skipped.
        self._file_to_write()
        log_offsets = run.array[LOG_OFFSET]
        at, count = 0, len(keys.hashes)
        while at < count:
            file = self._file_to_write()
            at += _passed_over(log_offsets, keys.records[at:], file.header.end_log_offset)
            if at < count:
                file = file if file.writable else self._replace(file)
                at = file.put_hashes(keys.hashes, keys.records, at, count, run.array)
        if count and keys.records[-1] + 1 < keys.stop:
            self._file_to_write()

    def _file_to_write(self) -> IndexFile:
        """Return the newest file that is not full; a full one is flushed when its successor is created."""
        if self._flush_failure is not None:
            raise self._flush_failure
        last = self.files[-1] if self.files else None
        if last is not None and not last.is_full:
            return last
        file = self._create_with_patience()
        if last is not None:
            file.start_after(last.header)
            self._flush_full(last)
        return file

    def _flush_full(self, file: IndexFile) -> None:
        """Flush a full file in a thread, because it may be large.

        The plan of the change flushes a staged file.
        """
        if self._overlay is not None:
            self._on_full(file.header.end_timestamp_ms)
            return

        before = self._flushing

        def work() -> None:
            # One after the other, so that the checkpoint's time does not go back.
            if before is not None:
                before.join()
            for pause_s in FLUSH_PAUSES_S:
                try:
                    file.flush()
                    self._on_full(file.header.end_timestamp_ms)
                    self._flush_failure = None
                    return
                except StoreError as error:
                    self._flush_failure = error
                    if not is_passing(error):
                        return
                    time.sleep(pause_s)

        self._flushing = Worker(work, "FlushIndexFile")
        self._flushing.start()

    def _create_with_patience(self) -> IndexFile:
        for pause_s in self.creation_pauses_s:
            try:
                return self._create()
            except StoreIOError:
                time.sleep(pause_s)
        return self._create()

    def _create(self) -> IndexFile:
        # For two files within a millisecond, or after the clock went back, the name is the newest name plus one.
        name = max([int(index_file_name(self._clock())), *(int(file.path.name) + 1 for file in self.files)])
        while self._fs.exists(self._folder / f"{name:017d}"):
            name += 1
        path = self._folder / f"{name:017d}"
        size = index_file_size(self._slot_count, self._entry_count)
        if self._overlay is None:
            self._fs.make_folder(self._folder)
            descriptor = self._fs.create_file(path, size, reserved=entry_position(self._slot_count, 1))
        else:
            descriptor = stage_new_file(self._stage(path), size, self._fs)
        file = self._new_file(path, descriptor)
        # A cleaning pass may remove old files at the same time.
        with self._files_lock:
            self.files = [*self.files, file]
        return file

    def lengthen_short(self) -> list[Path]:
        """Stage short files at full size, as a broker maps them; return their paths."""
        size = index_file_size(self._slot_count, self._entry_count)
        short = [file for file in self.files if not file.writable and file.stored_size < size]
        for file in short:
            self._replace(file)
        return [file.path for file in short]

    def _replace(self, file: IndexFile) -> IndexFile:
        """Return a writable copy of a file in the overlay, of its full size at least."""
        assert self._overlay is not None
        size = max(file.stored_size, index_file_size(self._slot_count, self._entry_count))
        descriptor = stage_copy(file.path, self._stage(file.path), size, self._fs)
        copy = self._new_file(file.path, descriptor)
        self.files = [copy if one is file else one for one in self.files]
        return copy

    def _new_file(self, path: Path, descriptor: Descriptor) -> IndexFile:
        return IndexFile(path, self._slot_count, self._entry_count, descriptor, self._fs, writable=True, is_new=True)

    def _stage(self, path: Path) -> Path:
        assert self._overlay is not None
        staged = self._overlay.folder / path.relative_to(self._root)
        self._staged[path] = staged
        return staged

    # Asking.

    def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> QueryOffsets:
        """Return log offsets for a key, newest first; other keys with the same hash are included."""
        if self.failures:
            raise self.failures[0]
        name = index_key(topic, key)
        return self._ask(self.sources(name), name, max_count, begin_ms, end_ms)

    def _ask(
        self, sources: Sequence[IndexSource], name: str, max_count: int, begin_ms: int, end_ms: int
    ) -> QueryOffsets:
        found: list[int] = []
        visited: list[Path] = []
        max_count = min(max_count, self._max_query_count)
        for file in reversed(sources):
            if file.matches_time(begin_ms, end_ms):
                visited.append(file.path)
                file.select(name, max_count, begin_ms, end_ms, found)
            if file.header.begin_timestamp_ms < begin_ms or len(found) >= max_count:
                break
        last = sources[-1].header if sources else None
        return QueryOffsets(found, last.end_timestamp_ms if last else 0, last.end_log_offset if last else 0, visited)

    def sources(self, key: str) -> Sequence[IndexSource]:
        """Return sources that a query for the key reads, oldest first."""
        return self.files

    # Keeping.

    def flush(self) -> None:
        for file in self.files:
            if file.writable:
                file.flush()

    def close(self) -> None:
        """Wait for the flush of full files, and release all files."""
        if self._flushing is not None:
            self._flushing.join()
        self.files = []

    # What an overlay holds.

    def staged_files(self) -> list[StagedFile]:
        return [StagedFile(path, staged) for path, staged in sorted(self._staged.items())]

    def removed_paths(self) -> list[Path]:
        return sorted(self._removed)

    def _open(self, path: Path) -> IndexFile:
        writable = self._writable and self._overlay is None
        descriptor: Descriptor = self._fs.open_write(path) if writable else self._fs.open_read(path)
        return IndexFile(path, self._slot_count, self._entry_count, descriptor, self._fs, writable=writable)


def _passed_over(log_offsets: Int64Array, records: Int64Array, end_log_offset: int) -> int:
    """Count the leading keys of messages that are in the file already."""
    if log_offsets[records[0]] >= end_log_offset:
        return 0
    new = log_offsets[records] >= end_log_offset
    first = int(np.argmax(new))
    return first if new[first] else len(new)
