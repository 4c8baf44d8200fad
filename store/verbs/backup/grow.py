"""GrowingBackup: a backup of a received log; its manifest is replaced as the log grows.

    0. once      the received log is compared with the newest segment of the backup: an address may be another broker's
    1. tables    the store's tables, once the received log reaches the newest record in their queues
    2. log       the new bytes of the newest segment as one more piece, which takes in shorter ones before it;
                 a full segment as one file instead
    3. manifest  in the place of the one before
    4. files     that no manifest needs any more are deleted an hour later, so that running readers can finish

Files never change, so a kill leaves the backup as it was. After a day the next backup begins, with the segments that
the master then has; a prune can delete the one before.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from store.errors import Diverged, StoreError, StoreIOError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.formats.backup_manifest import BackedFile, Manifest, backup_id
from store.formats.zstd_frames import FRAME_BYTES
from store.opened.detect import FoundStore
from store.verbs.backup.log import FoundEnd, find_log_end, segment_bytes
from store.verbs.backup.prune import DAY_MS
from store.verbs.backup.tables import BackedTables, back_up_tables
from store.verbs.backup.target import BackupTarget

PATIENCE = 6
"""Manifests without newer tables before a warning."""
KEPT_S = 3600.0
"""How long a replaced file stays."""


class GrowingBackup:
    """An existing backup that grows, beginning with its `manifest`.

    found     the store whose tables are copied
    received  the folder with the master's log, of verified records
    warn      is called if the tables can't be read; the former tables stay
    """

    def __init__(
        self,
        manifest: Manifest,
        found: FoundStore,
        target: BackupTarget,
        received: Path,
        scratch: Path,
        fs: Filesystem,
        clock: Callable[[], int],
        warn: Callable[[StoreError], None],
    ) -> None:
        self.manifest = manifest
        self._found, self._target, self._received, self._scratch = found, target, received, scratch
        self._fs, self._clock, self._warn = fs, clock, warn
        self._tables = BackedTables([one for one in manifest.files if not one.is_log], 0, list(manifest.notes))
        self._waiting: BackedTables | None = None
        self._wait_count = 0
        self._is_same_log = False
        errors: list[StoreError] = []
        others = [one for one in target.manifests(errors) if one.id != manifest.id]
        self._deletes = target.locks and not errors
        self._needed = {file.stored for one in others for file in one.files}
        self._replaced: list[tuple[float, str]] = []

    def grow(self, received_end: int) -> None:
        """Rewrite the manifest, up to the last record received; do nothing while that is in the backup.

        The caller keeps other writers out. StoreIOError if a prune has deleted the backup, Diverged for another log.
        """
        before = self.manifest
        if before.id not in self._target.ids():
            raise StoreIOError(f"the backup {before.id} is deleted", file=self._target.address)
        reader = StoreReader(str(self._received))
        if not self._is_same_log:
            if received_end < before.log_end:
                return
            self._require_same_log(reader)
            self._is_same_log = True
        end = find_log_end(reader, self._found.line, before.log_end)
        if end.log_end > received_end:
            # The rest of the segment is still to come.
            end = FoundEnd()
        log_end = max(before.log_end, end.log_end)
        self._update_tables(log_end)
        if self._clock() - before.began_ms >= DAY_MS:
            self._begin_next()
        self.manifest = replace(
            self.manifest,
            ended_ms=self._clock(),
            log_end=log_end,
            last_store_timestamp_ms=end.last_store_timestamp_ms or before.last_store_timestamp_ms,
            files=(*self._add_log(reader, log_end), *self._tables.files),
            notes=tuple(self._tables.notes),
        )
        self._target.finish(self.manifest)
        self._delete_replaced(before)

    def _require_same_log(self, reader: StoreReader) -> None:
        """Raise Diverged if the received log is of another store: it would replace the newest segment."""
        start = self.manifest.segments[-1].file_start if self.manifest.segments else 0
        for file in self.manifest.segments:
            if file.file_start < start or any(note.startswith(file.path) for note in self.manifest.notes):
                continue
            hasher = hashlib.sha256()
            for at in range(file.position, file.end, FRAME_BYTES):
                hasher.update(reader.read(file.path, at, min(FRAME_BYTES, file.end - at)))
            if hasher.hexdigest() != file.sha256:
                raise Diverged(
                    "the log that is received has other bytes than the store",
                    file=self._received / file.path,
                    hint=f"delete {self._received}, and give the address of this store's own broker",
                )

    def _update_tables(self, log_end: int) -> None:
        """Use new tables once the log reaches their `needed` offset; until then they wait."""
        waiting = self._waiting
        # A prune may have deleted the waiting tables.
        if waiting is None or any(self._target.stored_size(one.stored) < 0 for one in waiting.files):
            waiting, self._wait_count = self._copy_tables(), 0
        if waiting is not None and waiting.needed <= log_end:
            self._tables, waiting = waiting, None
        elif waiting is not None:
            self._wait_count += 1
            if self._wait_count == PATIENCE:
                reason = f"its queues name the log up to {waiting.needed}, and it was received up to {log_end}"
                self._warn(StoreError(f"newer tables are not in the backup: {reason}", file=self._found.layout.root))
        self._waiting = waiting

    def _copy_tables(self) -> BackedTables | None:
        try:
            return back_up_tables(self._found, self._store(), self._target, self._scratch, self._fs)
        except StoreError as error:
            self._warn(error)
            return None

    def _store(self) -> StoreReader:
        layout = self._found.layout
        return StoreReader.of(layout, self._fs)

    def _begin_next(self) -> None:
        before, now = self.manifest, self._clock()
        self._needed |= {one.stored for one in before.files}
        start = min((one.number for one in self._store().segments()), default=before.log_start)
        start = min(max(start, before.log_start), before.segments[-1].file_start) if before.segments else start
        files = tuple(one for one in before.files if not one.is_log or one.file_start >= start)
        self.manifest = replace(before, id=backup_id(now), began_ms=now, log_start=start, files=files)

    def _add_log(self, reader: StoreReader, log_end: int) -> list[BackedFile]:
        pieces: dict[str, list[BackedFile]] = {}
        for file in self.manifest.segments:
            pieces.setdefault(file.path, []).append(file)
        for segment in reader.segments():
            stop = min(segment.size, log_end - segment.number)
            found = pieces.get(segment.path, [])
            if segment.number < self.manifest.log_start or (found and found[-1].is_sealed):
                continue
            if stop == segment.size:
                pieces[segment.path] = [replace(self._add(reader, segment, range(stop)), is_sealed=True)]
            elif stop > (start := found[-1].end if found else 0):
                # A piece is written again with what follows, once that is as long: few pieces, and each byte seldom.
                start = next((one.position for one in found if one.size <= stop - one.end), start)
                kept = [one for one in found if one.end <= start]
                pieces[segment.path] = [*kept, self._add(reader, segment, range(start, stop))]
        return [one for path in sorted(pieces) for one in pieces[path]]

    def _add(self, reader: StoreReader, segment: StoredFile, part: range) -> BackedFile:
        name = f"{segment.path}+{part.start}" if part.start else segment.path
        unreadable: list[str] = []
        file = self._target.add(
            name, lambda: segment_bytes(reader, segment, part, unreadable, lambda count: None), segment.mtime_ms
        )
        if unreadable:
            raise StoreIOError("bytes that were received can't be read", file=self._received / segment.path)
        return replace(file, path=segment.path, position=part.start)

    def _delete_replaced(self, before: Manifest) -> None:
        if not self._deletes:
            return
        tables = self._waiting.files if self._waiting is not None else []
        needed = {one.stored for one in (*self.manifest.files, *tables)} | self._needed
        now = time.monotonic()
        self._replaced += [(now + KEPT_S, one.stored) for one in before.files if one.stored not in needed]
        due = {stored for when, stored in self._replaced if when <= now} - needed
        self._replaced = [one for one in self._replaced if one[0] > now]
        self._target.remove((), due)
