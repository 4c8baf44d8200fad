"""A clean store of salvaged records.

    1. the log: certain records in log order, compacted or at their log offsets
    2. a placeholder for every queue offset that is missing in the middle of a queue, so that every message keeps its
       queue offset and consumer offsets stay valid: before the queue's next record or, with kept log offsets, in the
       gap of the lost records
    3. a placeholder for the last queue offset of every queue without a record, so that its next message gets the same
       queue offset as in the old store; light message queues are listed in placeholders of steps 2 and 3
    4. queues and index, through dispatch
    5. the checkpoint
    6. the broker's tables: copied before the queues are built, fitted to them afterwards
    7. the new store, built in .rmqctl/staging/, is moved to its place; the log comes last, and without it there is no
       store

Other queues that begin later than at 0 need no placeholders at the front: a broker begins such a queue with pre-blank
units. They count as expired: a compacted log begins at its second segment, and a log with kept log offsets begins as
before. If the log begins at 0, lost first records get placeholders too, and the placeholder of step 3 is in the second
segment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from store.broker_line import LINE_4_9, BrokerLine
from store.change.workspace import staging_folder
from store.config import StoreConfig
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.message import MAGIC_AT, MESSAGE_MAGIC_V2
from store.formats.run import Run
from store.formats.topics import LIGHT_PLACEHOLDERS, shares_records
from store.layout import OWN_FOLDER, SEPARATE_DATABASE, StoreLayout
from store.opened.checkpoint import StoreCheckpoint
from store.opened.detect import detect_line
from store.structures.consumequeue.lost_ends import describe_lost_end
from store.structures.tables.topics import Attributes, record_attributes
from store.verbs.rebuild.local import rebuild_locally, sync_rebuilt
from store.verbs.rebuild.scope import RebuildScope
from store.verbs.salvage.config_tables import BroughtFile, ConfigTables
from store.verbs.salvage.grade import Grade, SalvagedRun
from store.verbs.salvage.log_writer import SMALLEST_FILLER, LogWriter, Moves, NoRoom, moved_start
from store.verbs.salvage.placeholder import LIGHT_TOPIC, Placeholder, encode_placeholder, light_topic
from store.verbs.salvage.queue_gaps import NO_QUEUE_OFFSET, QueueGaps, placeholders_before, plan_placeholders
from store.verbs.waiting_queues import Queue, waiting_queues

OnProgress = Callable[[int, int], None]
IN_FILES = MappingProxyType({"storeType": "default", "indexFileWriteEnable": True})
"""New stores have files of queues and index: they need no database, and a broker reads them without a setting."""


@dataclass(slots=True)
class NewStore:
    """The numbers of records written.

    compacted  why log offsets were not kept as requested; empty if they were, or were not to be
    remarks    sentences for people
    """

    record_count: int = 0
    placeholder_count: int = 0
    filler_count: int = 0
    left_out_count: int = 0
    log_end: int = 0
    has_v2: bool = False
    brought: list[BroughtFile] = field(default_factory=list)
    moved: Moves = field(default_factory=Moves)
    compacted: str = ""
    remarks: list[str] = field(default_factory=list)

    def moves(self) -> Iterator[tuple[int, int]]:
        """Yield the (old, new) log offset of every record."""
        for old, new in self.moved.runs:
            yield from zip(old.tolist(), new.tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The contents of a new store.

    walk          returns the runs in log order, each time from the start: keeping log offsets takes a second walk
    next_offsets  the queue offset of each queue's next message, from the old queues
    lost_ends     that of queues whose files are lost, from their consumers
    on_built      called with the bytes of the new log that are in its queues and index, and its bytes in all
    """

    walk: Callable[[], Iterable[SalvagedRun]]
    next_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    lost_ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    on_built: OnProgress = lambda done_bytes, bytes_in_all: None


def write_new_store(
    salvaged: Salvaged,
    root: Path,
    config: StoreConfig,
    fs: Filesystem,
    *,
    keep_offsets: bool,
    clock: Callable[[], int],
    source: StoreLayout | None = None,
    line: BrokerLine | None = None,
) -> NewStore:
    """Write a store of the certain records to an absent or empty `root`, durably.

    A failure leaves nothing. After a kill or a power cut the log is whole or absent; commands refuse queues without it.

    source  the store whose tables are copied; None if the records are from loose files
    line    the broker version that starts on it; None for that of the source
    If a gap can't be bridged with `keep_offsets`, the log is compacted, and the report says why.
    BadRequest if `root` is not empty, or if a broker of the given line does not read a record's version.
    """
    with new_folder(root, "salvage", fs):
        found = detect_line(source, fs) if source is not None else LINE_4_9
        staged = StoreLayout(staging_folder(root, "salvage"))

        def write(keep_offsets: bool) -> NewStore:
            tables = ConfigTables(source, staged, line or found, config, fs, only_known=line is not None)
            return _write(salvaged, staged, config, fs, keep_offsets, clock, tables)

        try:
            report = write(keep_offsets)
        except NoRoom as error:
            fs.remove_tree(staged.root)
            report = write(False)
            report.compacted = str(error)
        if report.has_v2 and line is not None and not line.accepts_v2:
            raise BadRequest(f"the log has records of version 2, and a {line} broker reads version 1 alone")
        publish_store(staged, root, fs)
        return report


@contextmanager
def new_folder(root: Path, work: str, fs: Filesystem) -> Iterator[None]:
    """Make the folder of a new store, or take an empty one; after a failure in the block it is as before.

    BadRequest if it is not empty.
    """
    fs.require_target(root)
    is_kept = fs.exists(root)
    if is_kept and fs.list_folder(root):
        hint = f"name a new folder; an interrupted {work} leaves one without commitlog/, which may be deleted"
        raise BadRequest("the folder is not empty", file=root, hint=hint)
    try:
        for folder in fs.make_folder(root):
            fs.fsync_folder(folder.parent)
        yield
    except BaseException:
        # A mount point, or a folder of another user's, can't be deleted: the error would hide the first one.
        fs.remove_tree(root, is_kept=is_kept)
        raise


def _write(
    salvaged: Salvaged,
    layout: StoreLayout,
    config: StoreConfig,
    fs: Filesystem,
    keep_offsets: bool,
    clock: Callable[[], int],
    tables: ConfigTables,
) -> NewStore:
    report, root = NewStore(), layout.root
    report.moved.rooms += tables.rooms_with("moved", "moved_end")
    segment_size = config.mapped_file_size_commit_log
    kinds = {"simple": tables.are_queues_simple, "holes": tables.was_database}
    planned = plan_placeholders(salvaged.walk(), segment_size, **kinds) if keep_offsets else None
    start = 0 if keep_offsets else moved_start(segment_size)
    ends = {**salvaged.next_offsets, **salvaged.lost_ends}
    light = light_topic(len({topic for topic, _ in ends if topic.startswith(LIGHT_PLACEHOLDERS)}))
    writer = _StoreWriter(LogWriter(layout.commitlog, segment_size, fs, start), planned, QueueGaps(**kinds), light)
    attributes, waiting = Attributes(), set[Queue]()
    for run in salvaged.walk():
        if run.grade is Grade.CERTAIN:
            writer.add(run, report)
            attributes |= record_attributes(run.run)
            waiting |= waiting_queues(run.run)
        else:
            report.left_out_count += run.count
    ended = writer.end_queues(ends, report)
    lost = salvaged.lost_ends
    report.remarks += [describe_lost_end(queue, lost[queue]) for queue in ended if queue in lost]
    writer.log.close()
    report.log_end, report.filler_count, report.has_v2 = writer.log.position, writer.log.filler_count, writer.has_v2
    if writer.has_v2 or tables.line is not LINE_4_9:
        # A 5.x broker leaves this file at every start; without a trace of 5.x the store would be read as one of 4.9.
        fs.create_file(root / "abort.bak", 0)
    tables.copy()
    tables.keep_attributes(clock(), attributes)
    report.remarks += describe_queue_files(config)
    config = config.with_settings(IN_FILES)
    scope = RebuildScope(index=config.writes_index_files, with_tags=tables.line.indexes_tags)
    files = StoreReader(str(root), fs)
    rebuilt = rebuild_locally(files, root, config, scope, clock=clock, fs=fs, on_progress=salvaged.on_built)
    sync_rebuilt(layout, fs)
    StoreCheckpoint(layout.checkpoint, fs, rebuilt.checkpoint(tables.line, writer.last_ms), None).flush()
    tables.fit(clock(), waiting=waiting)
    report.brought = tables.rows
    report.remarks += tables.remarks
    return report


def describe_queue_files(config: StoreConfig) -> list[str]:
    """Describe the settings that a new store needs if the queues of the old one were in a database."""
    if not config.queues_in_database:
        return []
    size = config.mapped_file_size_consume_queue
    settings = f"storeType=default and mappedFileSizeConsumeQueue={size}"
    separate = f" and {SEPARATE_DATABASE}=true" if config.changed_settings().get(SEPARATE_DATABASE) else ""
    rebuild = f"for storeType={config.store_type}{separate} rebuild its queues with this setting first"
    reason = "a broker that creates the database itself may leave older messages without entries"
    return [
        f"the new store has queue files of {size} bytes: start its broker with {settings}",
        f"{rebuild}: {reason}",
    ]


def publish_store(staged: StoreLayout, root: Path, fs: Filesystem) -> None:
    """Move a whole store to `root`."""
    for entry in fs.list_folder(staged.root):
        if entry.path not in (staged.commitlog, staged.root / OWN_FOLDER):
            fs.rename(entry.path, root / entry.path.name)
    fs.fsync_folder(root)
    fs.rename(staged.commitlog, StoreLayout(root).commitlog)
    fs.remove_tree(root / OWN_FOLDER)
    fs.fsync_folder(root)


def _records_of(run: Run) -> memoryview:
    """Join the bytes of a run's records, without the headers of a group's entries between them."""
    position, size = run.columns.position, run.columns.size
    start, stop = int(position[0]), int(position[-1] + size[-1])
    if stop - start == int(size.sum()):
        return run.buffer[start:stop]
    places = zip(position.tolist(), size.tolist(), strict=True)
    return memoryview(b"".join(run.buffer[at : at + count] for at, count in places))


class _StoreWriter:
    """A writer of the log, with placeholders before records or in the gaps planned for them.

    light  an unused topic of placeholders in light queues alone
    """

    def __init__(
        self, log: LogWriter, planned: dict[int, list[Placeholder]] | None, gaps: QueueGaps, light: bytes
    ) -> None:
        self.log = log
        self.last_ms = 0
        self.has_v2 = False
        self._planned = planned
        self._gaps = gaps
        self._end = -1
        self._light, self._light_counts = light, Counter[int]()

    def add(self, salvaged: SalvagedRun, report: NewStore) -> None:
        """Append a run, with placeholders for missing queue offsets."""
        if self._planned is not None:
            self._gaps.meet(salvaged)
            self._bridge(salvaged, self._planned, report)
            self._append(salvaged, report)
            return
        for piece, missing in self._gaps.split(salvaged):
            if piece.count:
                self._append(piece, report)
            for placeholder in placeholders_before(missing):
                self._place(placeholder, self.last_ms, report)

    def end_queues(self, next_offsets: Mapping[tuple[str, int], int], report: NewStore) -> list[tuple[str, int]]:
        """Append a placeholder for the last queue offset of each queue without a record; return these queues."""
        met, ended = self._gaps.names, list[tuple[str, int]]()
        for (topic, queue_id), next_offset in next_offsets.items():
            if next_offset > 0 and met and (topic, queue_id) not in met:
                if self._planned is not None and next_offset > 1:
                    self.log.skip_to(moved_start(self.log.segment_size), self.last_ms)
                own = Placeholder(topic.encode(), queue_id, next_offset - 1)
                light = Placeholder(LIGHT_TOPIC, 0, NO_QUEUE_OFFSET, ((own.topic, own.queue_offset),))
                self._place(light if shares_records(topic) else own, self.last_ms, report)
                ended.append((topic, queue_id))
        return ended

    def _append(self, part: SalvagedRun, report: NewStore) -> None:
        columns = part.run.columns
        self._end = part.run.end
        data = _records_of(part.run)
        if self._planned is not None and len(data) != int(
            columns.position[-1] + columns.size[-1] - columns.position[0]
        ):
            raise NoRoom("records in the entries of a group's log cannot keep their log offsets in a plain one")
        self.log.append(data, columns.size, moves=report.moved if self._planned is None else None)
        self.last_ms = max(self.last_ms, int(columns.store_timestamp_ms.max()))
        versions = np.frombuffer(part.run.buffer, np.uint8)[columns.position + MAGIC_AT + 3]
        self.has_v2 |= bool((versions == MESSAGE_MAGIC_V2 & 0xFF).any())
        report.record_count += part.count

    def _bridge(self, part: SalvagedRun, planned: dict[int, list[Placeholder]], report: NewStore) -> None:
        """Write placeholders, a filler or blanks up to the run's log offset."""
        log_offset, time_ms = int(part.log_offsets[0]), int(part.run.columns.store_timestamp_ms[0])
        if self._end < 0:
            self._end = self.log.position = log_offset - log_offset % self.log.segment_size
        placeholders = planned.get(self._end, [])
        left = log_offset - self.log.position - sum(len(encode_placeholder(one, 0, 0)) for one in placeholders)
        for number, placeholder in enumerate(placeholders, start=1):
            # A rest too small for a filler goes into the last placeholder's body.
            padding = left if number == len(placeholders) and left < SMALLEST_FILLER else 0
            self._place(placeholder, time_ms, report, padding)
        self.log.skip_to(log_offset, time_ms)

    def _place(self, placeholder: Placeholder, time_ms: int, report: NewStore, padding: int = 0) -> None:
        if placeholder.queue_offset == NO_QUEUE_OFFSET:
            count = self._light_counts[placeholder.queue_id]
            placeholder = placeholder._replace(topic=self._light, queue_offset=count)
            self._light_counts[placeholder.queue_id] += 1
        record = encode_placeholder(placeholder, self.log.position, time_ms, padding)
        # It may move into the next segment; no record refers to it.
        self.log.append(memoryview(record), np.array([len(record)], np.int64), moves=Moves())
        report.placeholder_count += 1
