"""StoreCheckpoint: the store times of log, queues and index that can be trusted after a crash.

    physic  of the last message in the flushed log; set by a sync and by a thorough flush
    logics  of the last message put into a consume queue (in memory, not flushed)
    index   of the last key in the last full index file, once that is flushed

A full index file, a thorough queue flush and a shutdown write the page. So on disk it is up to a minute old. An
abnormal recovery starts at the newest segment whose first message is at least 3 s older than physic and logics. With
messageIndexSafe it must not be newer than index either.

Source: StoreCheckpoint, CommitLog.isMappedFileMatchedRecover (4.9.8).
"""

from __future__ import annotations

import errno
import threading
from pathlib import Path

from store.errors import StoreIOError
from store.files.filesystem import Descriptor, Filesystem
from store.formats.checkpoint_page import CHECKPOINT_SIZE, CheckpointPage, decode_checkpoint


def read_checkpoint_file(path: Path, fs: Filesystem) -> bytes:
    """Return the file's bytes; empty after a read error of the device (EIO)."""
    try:
        return fs.read_file(path)
    except StoreIOError as error:
        if error.errno != errno.EIO:
            raise
        return b""


class StoreCheckpoint:
    """The checkpoint of one store: times and offsets as plain attributes, durable after flush()."""

    def __init__(self, path: Path, fs: Filesystem, page: CheckpointPage, file_size: int | None) -> None:
        self.path = path
        self.physic_ms = page.physic_ms
        self.logics_ms = page.logics_ms
        self.index_ms = page.index_ms
        self.logics_log_offset = page.logics_log_offset
        """5.5: the log offset of the newest flushed queue entry's record."""
        self.master_flushed_offset = page.master_flushed_offset
        """5.x: the log offset up to which the master of a replica had flushed its log."""
        self.confirm_log_offset = page.confirm_log_offset
        """5.x: the log offset of the last recovery's last record; with a controller, the end that all replicas have."""
        self.file_size = file_size
        """Bytes of the file when it was read, None without a file."""
        self._fs = fs
        self._page = page
        self._flushing = threading.Lock()

    @classmethod
    def load(cls, path: Path, fs: Filesystem) -> StoreCheckpoint:
        """Read the page; a missing or short file reads as zeros, as it does for a broker. Writes nothing."""
        if not fs.exists(path):
            return cls(path, fs, CheckpointPage(), None)
        data = read_checkpoint_file(path, fs)
        page = decode_checkpoint(data[:CHECKPOINT_SIZE])
        # After fields that no broker writes, the rest is damage as well.
        return cls(path, fs, page if page.is_possible else page._replace(logics_log_offset=0, rest=b""), len(data))

    @property
    def page(self) -> CheckpointPage:
        """The page for flush() to write; it keeps 5.x fields and unknown bytes."""
        return self._page._replace(
            physic_ms=self.physic_ms,
            logics_ms=self.logics_ms,
            index_ms=self.index_ms,
            master_flushed_offset=self.master_flushed_offset,
            confirm_log_offset=self.confirm_log_offset,
            logics_log_offset=self.logics_log_offset,
        )

    @property
    def min_timestamp_ms(self) -> int:
        return self.page.min_timestamp_ms

    @property
    def is_whole(self) -> bool:
        """Whether the file was there and held a whole page."""
        return self.file_size is not None and self.file_size >= CHECKPOINT_SIZE

    @property
    def min_timestamp_index_ms(self) -> int:
        return self.page.min_timestamp_index_ms

    def note_stored(self, store_timestamp_ms: int) -> None:
        """Set the store time of the last message that was put into a queue."""
        self.logics_ms = store_timestamp_ms

    def set_index_ms(self, end_timestamp_ms: int) -> None:
        """Set the end time of the last full index file."""
        self.index_ms = end_timestamp_ms

    def note_full_index(self, end_timestamp_ms: int) -> None:
        """Set the end time of the last full and flushed index file, and flush the page."""
        self.set_index_ms(end_timestamp_ms)
        self.flush()

    def flush(self) -> None:
        """Write the page and sync it, from any thread.

        Raises StoreIOError if the device fails.
        """
        with self._flushing:
            descriptor = self._fs.open_write(self.path) if self._fs.exists(self.path) else self._create()
            self._fs.write(descriptor, 0, self.page.encode_mended())
            self._fs.fdatasync(descriptor)

    def _create(self) -> Descriptor:
        self._fs.make_folder(self.path.parent)
        descriptor = self._fs.create_file(self.path, CHECKPOINT_SIZE)
        self._fs.fsync_folder(self.path.parent)
        return descriptor
