"""LogCopy: the commit log of a store folder, to whose end another store's log is copied.

    0           durable        end                 file end
    |--- synced ---|-- written ---|--- zeros, or a torn tail ---|

Bytes past the end are compared before they are overwritten: they must be zeros or equal to the new bytes. A power cut
may leave zeros before the end too: a sector that was not written, or the rest of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from store.broker_line import LINE_4_9, LINE_5_3
from store.engine.ha.segment_start import require_segment_start
from store.engine.ha.unwritten import unwritten
from store.errors import BadRequest, Diverged, StoreIOError, UncleanStore
from store.files.durable import sync_files
from store.files.filesystem import Descriptor, Filesystem
from store.files.lock import StoreLock
from store.files.mapped_file_queue import MappedFileQueue
from store.layout import StoreLayout, segment_name
from store.opened.checkpoint import StoreCheckpoint
from store.opened.detect import (
    FoundStore,
    detect_line,
    find_store,
    is_absent_or_empty,
    make_layout,
    refuse_unchangeable,
    require_store,
)
from store.opened.log_end import find_closed_end
from store.structures.commitlog.scan import VERIFYING
from store.structures.registry import RECEIVE


class LogCopy:
    """The log of the store at `root`, whose lock it holds. An absent or empty folder becomes a store.

    first   log offset of the first byte
    end     log offset after the last byte
    compat  the master's version, else that of a former copy; 5.3 is kept in the checkpoint, as by a 5.x slave
    """

    def __init__(self, root: Path, settings: Mapping[str, Any], fs: Filesystem, *, compat: str | None = None) -> None:
        self._layout = make_layout(root, settings)
        self._fs = fs
        self._is_line_given = compat is not None
        self._lock = StoreLock(self._layout.lock, fs)
        self._file: Descriptor | None = None
        self._file_start: int
        self.first = self.end = self.durable = self._old_end = 0
        self._made = _prepare(self._layout, fs)
        self._lock.acquire()
        try:
            self._load(find_store(self._layout, settings, fs, compat=compat), "mappedFileSizeCommitLog" in settings)
        except BaseException:
            self._lock.release()
            raise

    def _load(self, found: FoundStore, is_size_given: bool) -> None:
        self._line = found.line
        self.segment_size = found.config.mapped_file_size_commit_log
        segments = MappedFileQueue(self._layout.commitlog, self.segment_size, self._fs, writable=False)
        segments.load(found.line)
        self.is_size_assumed = not is_size_given and len(segments.files) <= 1
        if segments.files:
            self.first = segments.min_offset
            self.end = self.durable = find_closed_end(list(segments.files), found.line, VERIFYING).end.log_end
            # A copy that was killed may have left bytes that no sync has covered.
            sync_files([segments.files[-1].path], self._fs)
            self._old_end = segments.files[-1].file_start + self.segment_size
        segments.close()

    @property
    def is_empty(self) -> bool:
        return self.end <= self.first

    @property
    def root(self) -> Path:
        """The store's folder."""
        return self._layout.root

    @property
    def folder(self) -> Path:
        """The folder of the segments."""
        return self._layout.commitlog

    def begin(self, log_offset: int) -> None:
        """Let an empty copy begin at `log_offset`. BadRequest if no segment can begin there."""
        require_segment_start(log_offset, self.segment_size)
        self.first = self.end = self.durable = log_offset

    def drop_before(self, log_offset: int) -> None:
        """Delete segments that end there or before, except for the newest one."""
        while self.first + self.segment_size <= min(log_offset, self.end - 1):
            self._fs.unlink(self.folder / segment_name(self.first))
            self.first += self.segment_size

    def correct_segment_size(self, size: int) -> None:
        """Set the only segment to the length that its blank shows."""
        if size == self.segment_size:
            return
        self.segment_size = size
        self._old_end = min(self._old_end, self.first + size)
        path = self.folder / segment_name(self.first)
        if self._fs.exists(path):
            self._fs.truncate(self._fs.open_write(path), size)

    def require_same(self, log_offset: int, data: memoryview) -> None:
        """Raise Diverged unless the copy holds `data` at `log_offset`, before its end.

        Bytes that a power cut left unwritten are written, durably. Dropped segments are not compared: they may be
        dropped while a master that was asked for them sends them.
        """
        dropped = max(0, self.first - log_offset)
        log_offset, data = log_offset + dropped, data[dropped:]
        while len(data):
            position = log_offset % self.segment_size
            part = data[: self.segment_size - position]
            path = self.folder / segment_name(log_offset - position)
            held = np.frombuffer(self._fs.read(self._fs.open_read(path), position, len(part)), np.uint8)
            differs = held != np.frombuffer(part, np.uint8)[: len(held)]
            if len(held) < len(part):
                raise StoreIOError(f"the file ends at {position + len(held)}", file=path)
            _refuse_difference(differs & ~unwritten(held, position), log_offset)
            if differs.any():
                file = self._fs.open_write(path)
                self._fs.write(file, position, part)
                self._fs.fdatasync(file)
            log_offset += len(part)
            data = data[len(part) :]

    def append(self, log_offset: int, data: memoryview) -> None:
        """Write `data` at the end, across no segment's end. Diverged if other bytes are there."""
        assert log_offset == self.end, (log_offset, self.end)
        position = log_offset % self.segment_size
        file = self._segment(log_offset - position)
        if log_offset < self._old_end:
            held = np.frombuffer(self._fs.read(file, position, len(data)), np.uint8)
            _refuse_difference((held != 0) & (held != np.frombuffer(data, np.uint8)), log_offset)
        self._fs.write(file, position, data)
        self.end += len(data)

    def sync(self) -> None:
        """Make all appended bytes durable."""
        if self._file is not None and self.durable < self.end:
            self._fs.fdatasync(self._file)
        self.durable = self.end

    def note_v2(self) -> None:
        """Take the copy for one of 5.3, unless its version is given; call it after a record of version 2."""
        if self._line is LINE_4_9 and not self._is_line_given:
            self._line = LINE_5_3

    def close(self) -> None:
        """Make everything durable, and release the store."""
        try:
            self.sync()
            self._keep_line()
        finally:
            self._file = None
            self._lock.release()

    def _keep_line(self) -> None:
        """Write the master's offset into the checkpoint if nothing else shows a 5.x broker."""
        if self._line is not LINE_4_9 and not self.is_empty and detect_line(self._layout, self._fs) is LINE_4_9:
            page = StoreCheckpoint.load(self._layout.checkpoint, self._fs).page
            page = page._replace(master_flushed_offset=self.durable)
            StoreCheckpoint(self._layout.checkpoint, self._fs, page, None).flush()

    def remove_if_unused(self) -> None:
        """Remove the folders of a new store if nothing was copied."""
        if self._made and self.is_empty and not self._fs.list_folder(self.folder):
            # Before the lock is released: afterwards another process may hold it.
            self._fs.unlink(self._layout.lock)
            for folder in reversed(self._made):
                self._fs.remove_folder(folder)

    def _segment(self, file_start: int) -> Descriptor:
        if self._file is not None and file_start == self._file_start:
            return self._file
        self.sync()
        path = self.folder / segment_name(file_start)
        if self._fs.exists(path):
            self._file = self._fs.open_write(path)
        else:
            self._file = self._fs.create_file(path, self.segment_size, reserved=0, is_durable=True)
            self._fs.fsync_folder(self.folder)
        self._file_start = file_start
        return self._file


def _prepare(layout: StoreLayout, fs: Filesystem) -> list[Path]:
    """Create a new store's folders, and return them; refuse a store that was not shut down."""
    made: list[Path] = []
    if len(layout.commitlogs) > 1:
        raise BadRequest("a log is copied into one folder, not into several", file=layout.root)
    if is_absent_or_empty(layout, fs):
        made = fs.make_folder(layout.root)
    else:
        require_store(layout, fs)
        refuse_unchangeable(layout, fs, RECEIVE)
    made += fs.make_folder(layout.commitlog)
    for folder in made:
        fs.fsync_folder(folder.parent)
    if fs.exists(layout.abort):
        raise UncleanStore("the last owner did not shut down", file=layout.abort, code="unclean-copy")
    return made


def _refuse_difference(differs: np.ndarray[Any, np.dtype[np.bool_]], log_offset: int) -> None:
    if differs.any():
        raise Diverged(
            "the copy holds other bytes than the master",
            offset=log_offset + int(np.argmax(differs)),
            hint="nothing was overwritten; copy into another folder and compare both",
        )
