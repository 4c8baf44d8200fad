"""backup restore: a new store from a backup, ready for a broker.

    1. the moment   the end of the log: all of it, a log offset at which a record begins, or the first record that was
                    stored after a time
    2. the log      segments of their whole length, each compared with its digest; of some topics, or with a bump,
                    through selection.py
    3. the tables
    4. queues and index, through dispatch; queues without a record get their end (queue_ends.py)
    5. the checkpoint; files with log offsets are truncated to the log; offsets of consumers and of delayed messages
       are moved into the queues
    6. the new store, built in .rmqctl/staging/, is moved to its place; the log comes last

The new store is as after a clean shutdown. Its files are new: retention counts from now on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from store.broker_line import LINE_4_9, broker_line
from store.change.workspace import staging_folder
from store.config import NAMED_QUEUES, StoreConfig
from store.files.backup_files import BackupFiles
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.backup_manifest import QUEUE_ENDS, BackedFile, Manifest
from store.layout import StoreLayout, segment_name
from store.opened.checkpoint import StoreCheckpoint
from store.opened.delays import DELAY_LEVELS, describe_restored_delays
from store.opened.detect import find_other_queues
from store.opened.sizes import assumed_sizes
from store.structures.registry import names_of, rooms_with
from store.verbs.backup.moment import Moment, MomentEnd, damaged_log, end_at, runs_until
from store.verbs.backup.queue_ends import BackedEnd, decode_ends, write_expired
from store.verbs.backup.segments import SegmentWriter, digested, segments_until
from store.verbs.backup.selection import EVERYTHING, SelectedLog, Selection, write_selected
from store.verbs.backup.side_by_side import SideBySide
from store.verbs.backup.tables import CHECKPOINT
from store.verbs.rebuild.local import rebuild_locally, sync_rebuilt
from store.verbs.rebuild.scope import RebuildReport, RebuildScope
from store.verbs.salvage.config_tables import BroughtFile, ConfigTables
from store.verbs.salvage.log_writer import LogWriter, moved_start
from store.verbs.salvage.new_store import IN_FILES, describe_queue_files, new_folder, publish_store


class Cluster(Protocol):
    """Workers on a cluster, with the same paths for all folders."""

    def write(self, writer: SegmentWriter, segments: Sequence[Sequence[BackedFile]]) -> None:
        """Write every segment."""

    def rebuild(self, root: Path, config: StoreConfig, scope: RebuildScope) -> RebuildReport:
        """Build queues and index of the store at `root`, in place."""


@dataclass(slots=True)
class RestoreReport:
    """The new store; `findings` and `remarks` are sentences for people."""

    log_start: int
    log_end: int
    record_count: int
    last_store_timestamp_ms: int
    expired_queue_count: int
    tables: list[BroughtFile]
    findings: list[str]
    bumped_queue_count: int = 0
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The options of a restore.

    on_progress  is called with the bytes done and in all
    cluster      does the work in tasks
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    on_progress: Callable[[int, int], None] = lambda done_bytes, bytes_in_all: None
    cluster: Cluster | None = None


def restore_backup(
    files: BackupFiles,
    manifest: Manifest,
    root: Path,
    fs: Filesystem,
    *,
    selection: Selection = EVERYTHING,
    clock: Callable[[], int],
    options: RestoreOptions | None = None,
) -> RestoreReport:
    """Write the store to an absent or empty `root`, durably.

    A failure leaves nothing. After a kill or a power cut there is no log, and commands refuse the folder.
    BadRequest if `root` is not empty, or no record begins at the log offset; DamagedFile if the backup's bytes differ
    from its manifest.
    """
    with new_folder(root, "restore", fs):
        options, end = options or RestoreOptions(), end_at(files, manifest, selection.moment)
        staged = StoreLayout(staging_folder(root, "restore"))
        report = _Restore(files, manifest, staged, fs, selection, options).run(end, clock)
        if end.log_offset == manifest.log_start < manifest.log_end:
            report.remarks.append("the backup's first record is not before the moment: the new store has no records")
        publish_store(staged, root, fs)
        return report


def _split_ends(
    ends: Sequence[BackedEnd], others: Collection[str], log_start: int
) -> tuple[list[BackedEnd], list[str]]:
    """Return the ends of plain queues, and a sentence for each expired queue of another type."""
    plain = [one for one in ends if one.topic not in others]
    expired = [one for one in ends if one.topic in others and one.newest < log_start and one.max_offset]
    reason = "its messages have expired, and its next one gets queue offset 0 instead of"
    return plain, [f"{one.topic}/{one.queue_id}: {reason} {one.max_offset}" for one in expired]


class _Restore:
    """Steps 2 to 5, in the staging folder."""

    def __init__(
        self,
        files: BackupFiles,
        manifest: Manifest,
        staged: StoreLayout,
        fs: Filesystem,
        selection: Selection,
        options: RestoreOptions,
    ) -> None:
        self._files, self._manifest, self._staged = files, manifest, staged
        self._fs, self._selection = fs, selection
        self._work = SideBySide(manifest.size, options.on_progress)
        self._cluster, self._settings = options.cluster, {**manifest.settings, **options.settings}
        self._segment_size = StoreConfig().with_settings(self._settings).mapped_file_size_commit_log

    def run(self, end: MomentEnd, clock: Callable[[], int]) -> RestoreReport:
        fs, staged = self._fs, self._staged
        line = broker_line(self._manifest.line)
        moment, ends, selection = end.log_offset, self._write_files(end.log_offset), self._selection
        selected = SelectedLog()
        if not selection.is_all:
            selected = self._select(moment, ends)
            end = MomentEnd(selected.log_end, selected.last_ms or end.last_ms)
        config = StoreConfig().with_settings({**NAMED_QUEUES, **self._settings})
        remarks = [*assumed_sizes(staged, config, self._settings, fs), *describe_queue_files(config)]
        config = config.with_settings(IN_FILES)
        if line is not LINE_4_9:
            # A 5.x broker leaves this file at every start; without it the store would be read as one of 4.9.
            fs.create_file(staged.root / "abort.bak", 0)
        scope = RebuildScope(index=config.writes_index_files, with_tags=line.indexes_tags)
        if self._cluster is not None:
            rebuilt = self._cluster.rebuild(staged.root, config, scope)
        else:
            rebuilt = rebuild_locally(StoreReader(str(staged.root), fs), staged.root, config, scope, clock=clock, fs=fs)
        sync_rebuilt(staged, fs)
        findings = [*rebuilt.findings, *selected.describe_refused()]
        if rebuilt.log_end < end.log_offset:
            findings.append(f"the log is damaged, and ends there: {rebuilt.stopped_by}")
            end = self._cut_log(rebuilt.log_end, end.log_offset)
        moved = moved_start(self._segment_size)
        start = moved if selection.topics else self._manifest.log_start
        # A log of some topics has a placeholder for each such queue.
        expired: Mapping[tuple[str, int], int] = {}
        if not selection.topics:
            plain, lost = _split_ends(ends, find_other_queues(staged, config, fs).topics, start)
            expired = write_expired(plain, staged, config, (start, moment), fs)
            findings += lost
        StoreCheckpoint(staged.checkpoint, fs, rebuilt.checkpoint(line, end.last_ms), None).flush()
        for room in rooms_with(names_of(staged, fs), "cut", "end_at"):
            room.end_at(staged.root, end.log_offset, fs)
        tables = ConfigTables(None, staged, line, config, fs)
        tables.fit(clock(), selected.jumps, names_new_offsets=not selection.topics)
        if DELAY_LEVELS not in self._settings:
            remarks += describe_restored_delays(staged, config, fs)
        counts = len(expired), tables.rows, findings, len(selected.jumps)
        restored = rebuilt.record_count - selected.placeholder_count
        return RestoreReport(start, end.log_offset, restored, end.last_ms, *counts, remarks=[*remarks, *tables.remarks])

    def _select(self, log_end: int, ends: list[BackedEnd]) -> SelectedLog:
        size = self._segment_size
        start = moved_start(size) if self._selection.topics else log_end
        writer = LogWriter(self._staged.commitlog, size, self._fs, start)
        runs = runs_until(self._files, self._manifest, log_end)
        return write_selected(runs, writer, self._selection, ends, log_end)

    def _cut_log(self, damage: int, log_end: int) -> MomentEnd:
        """Truncate the log at damage in its last segment, as a recovery does.

        DamagedFile if segments follow.
        """
        fs, size = self._fs, self._segment_size
        start = damage - damage % size
        path = self._staged.commitlog / segment_name(start)
        if log_end > start + size:
            raise damaged_log(self._files, self._manifest, damage, log_end, f"commitlog/{path.name}")
        fs.zero(fs.open_write(path), damage - start, log_end - damage)
        fs.fdatasync(fs.open_write(path))
        return end_at(self._files, self._manifest, Moment(log_offset=damage))

    def _write_files(self, log_end: int) -> list[BackedEnd]:
        """Take steps 2 and 3, and return the ends of queues."""
        ends: list[BackedEnd] = []
        fs, root = self._fs, self._staged.root
        fs.make_folder(self._staged.commitlog)
        if not self._selection.topics:
            self._write_log(log_end)
        for file in self._manifest.files:
            if file.path == QUEUE_ENDS:
                ends = decode_ends(b"".join(self._chunks(file)))
            elif file.is_log:
                if self._selection.topics:
                    deque(self._chunks(file), maxlen=0)
            elif file.path != CHECKPOINT and (file.path.startswith("config/") or not self._selection.topics):
                target = root / file.path
                for made in fs.make_folder(target.parent):
                    fs.fsync_folder(made.parent)
                descriptor, position = fs.open_new(target), 0
                for chunk in self._chunks(file):
                    fs.write(descriptor, position, chunk)
                    position += len(chunk)
                fs.fdatasync(descriptor)
                fs.fsync_folder(target.parent)
        fs.fsync_folder(self._staged.commitlog)
        return ends

    def _write_log(self, log_end: int) -> None:
        size, segments = self._segment_size, segments_until(self._manifest, log_end)
        writer = SegmentWriter(self._files.address, self._staged.commitlog, size, log_end)
        if self._cluster is not None:
            self._cluster.write(writer, segments)
            return
        copies = self._work.map(lambda one: writer.write(self._files, self._fs, one, self._work.tell), segments, size)
        deque(copies, maxlen=0)

    def _chunks(self, file: BackedFile) -> Iterator[memoryview]:
        return digested(self._files, file, self._work.tell)
