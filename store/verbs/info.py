"""info: a description of a store and its state from its files, without opening the store.

    1. structures and broker line         opened/detect.py
    2. lock, abort marker, free space
    3. the queues' ends                   queue_ends.py
    4. the log's ends: its first record, and a walk of its tail from the newest record with a queue unit
    5. index headers, checkpoint, tables under config/
    6. lost files of queues and index; this walks a log up to WALKED_BYTES                   lost_parts.py
    7. missing and incomplete parts, each with a code

Of a log above WALKED_BYTES only the tail is walked. A part that cannot be read is a problem; the other parts are shown
all the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from store.broker_line import LINE_4_9, BrokerLine
from store.change.quarantine import interrupted_change
from store.config import StoreConfig
from store.errors import NotAStore, StoreError
from store.files.filesystem import Filesystem
from store.files.lock import AbortMarker
from store.files.lock_holder import LockHolder, find_lock_holder
from store.files.store_reader import StoredFile, StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.checkpoint_page import CHECKPOINT_SIZE, decode_checkpoint
from store.formats.index_page import FIRST_INDEX_COUNT, HEADER_SIZE, decode_header
from store.formats.message import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from store.formats.run import Run
from store.layout import StoreLayout
from store.opened.detect import (
    detect_line,
    find_other_queues,
    finds_light,
    holds_light,
    infer_settings,
    lacks_light_files,
    newer_structures,
    traces_of_5,
    traces_of_5_5,
)
from store.structures.commitlog.scan import Damage, ScanRules
from store.structures.commitlog.segment_list import segment_list_findings
from store.structures.commitlog.slices import LogSlice, walk_slice
from store.structures.registry import WHOLLY_UNREADABLE, Present, names_of, rooms_with, unknown_names
from store.structures.tables.config_file import Load, read_config_files
from store.verbs.lost_parts import ExpectedQueues, Problem, find_lost_extensions, find_lost_parts
from store.verbs.queue_ends import QueueEnd, queue_ends

NEWER = "newer than 5.5"
"""The name of structures that no supported broker writes."""
UNKNOWN = "unknown"
"""The name of files and folders that belong to no structure."""
WALKED_BYTES = 1 << 30
"""A log up to this size is read for lost parts of queues and index; `check` reads any log."""
SOME_RECORDS = 1 << 20
"""Bytes that are walked for the first record of the log."""


@dataclass(slots=True)
class LogInfo:
    """The log: its segments, and its first and last record; -1 without one.

    unqueued_count  records at its end without a queue unit that they should have
    """

    segment_count: int = 0
    size_bytes: int = 0
    min_offset: int = -1
    end: int = -1
    first_ms: int = -1
    last_ms: int = -1
    unqueued_count: int = 0


@dataclass(slots=True)
class IndexInfo:
    """The number of index files, and the log offset of the newest record in them; -1 without one."""

    file_count: int = 0
    built_to: int = -1


@dataclass(slots=True)
class StoreInfo:
    """Kind and state of a store."""

    layout: StoreLayout
    line: BrokerLine
    traces: list[str]
    structures: list[Present]
    inferred: dict[str, Any]
    holder: LockHolder | None = None
    abort_ms: int = -1
    free_bytes: int = 0
    used_percent: int = 0
    log: LogInfo = field(default_factory=LogInfo)
    queues: list[QueueEnd] = field(default_factory=list)
    index: IndexInfo = field(default_factory=IndexInfo)
    checkpoint_ms: int = -1
    config_files: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    is_walked: bool = False
    """Whether the log was read for lost parts of queues and index."""
    unflushed_count: int = 0
    """Records of the newest segment without an entry on the disk, if a broker keeps newer entries in memory."""
    are_queues_read: bool = False
    """Whether the queues could be read; those in a database need the package rocksdict."""
    holds_log_alone: bool = False
    """Whether it is a backup or one segment, without queues."""

    @property
    def has_database(self) -> bool:
        """Whether the queues are in a database instead of files."""
        return any(one.holds_queues for one in self.structures)

    @property
    def newer_files(self) -> list[str]:
        """Files of a broker newer than the supported versions."""
        return [one.file for one in self.structures if one.name == NEWER]

    @property
    def kind(self) -> str:
        """The kind of store: by the broker's line, or by the files of a newer broker."""
        newer = ", ".join(self.newer_files)
        return f"store of a broker {NEWER} ({newer})" if newer else f"{self.line} store"

    @property
    def topic_count(self) -> int:
        return len({queue.topic for queue in self.queues})

    @property
    def message_count(self) -> int:
        """The number of messages in the queues."""
        return sum(queue.max_offset - queue.min_offset for queue in self.queues)

    @property
    def queues_built_to(self) -> int:
        """The log offset after the newest record with a queue unit, -1 without one."""
        return max((queue.end for queue in self.queues), default=-1)


def look_at_store(layout: StoreLayout, settings: Mapping[str, object], fs: Filesystem) -> StoreInfo:
    """Run steps 1 to 7. NotAStore if the folder is absent or holds no file of a broker."""
    root = fs.look_at(layout.root)
    if root is None:
        raise NotAStore.absent(layout.root)
    if not root.is_folder:
        raise NotAStore.for_file(layout.root)
    look = _Look(layout, settings, fs)
    names = [*layout.commitlogs, layout.consumequeue, layout.checkpoint, layout.index, layout.config]
    if not any(fs.exists(name) for name in names) and all(one.name == UNKNOWN for one in look.info.structures):
        raise NotAStore.empty(layout.root)
    return look.look()


class _Look:
    """One examination of a store; a step that fails leaves its part empty, and adds a problem."""

    def __init__(self, layout: StoreLayout, settings: Mapping[str, object], fs: Filesystem) -> None:
        self.layout, self.fs, self.settings = layout, fs, settings
        self.reader = StoreReader.of(layout, fs)
        self.failures: list[Problem] = []
        self._flushed_ms = -1
        self.info = StoreInfo(layout, LINE_4_9, [], [], {})
        with self._noting():
            self.info.structures = find_structures(layout, fs)
        with self._noting():
            self.info.inferred = infer_settings(layout, settings, fs)
        with self._noting():
            self.info.line = detect_line(layout, fs)
            self.info.traces = [*traces_of_5_5(layout, fs), *traces_of_5(layout, fs)]

    def look(self) -> StoreInfo:
        info, fs, layout = self.info, self.fs, self.layout
        with self._noting():
            info.holder = find_lock_holder(layout.lock, fs)
        with self._noting():
            info.free_bytes, info.used_percent = fs.free_bytes(layout.root), round(100 * fs.used_ratio(layout.root))
        files: list[StoredFile] = []
        with self._noting():
            files = self.reader.segments(with_empty=True)
        segments, first = [file for file in files if file.size], files[0].number if files else -1
        info.log = LogInfo(len(segments), sum(one.size for one in segments), first)
        with self._noting():
            info.queues = list(queue_ends(self.reader, max(0, first), info.line))
            info.holds_log_alone = self.reader.holds_log_alone and not info.queues
            info.are_queues_read = not info.holds_log_alone
        with self._noting():
            self._look_at_checkpoint()
        with self._noting():
            self._look_at_log(segments)
        for step in (self._look_at_abort, self._look_at_index, self._look_at_config):
            with self._noting():
                step()
        if (info.has_database or self._config.queues_in_database) and (info.abort_ms >= 0 or info.holder is not None):
            info.unflushed_count = info.log.unqueued_count
        lost: list[Problem] = []
        with self._noting():
            lost = list(self._lost_parts(segments))
        found = [*_state_problems(info), *self._file_problems(files), *self._behind_problems(info), *lost]
        info.problems = [*found, *info.problems, *self.failures]
        return info

    def _behind_problems(self, info: StoreInfo) -> Iterator[Problem]:
        """Yield the problems of derived files; a backup has none of them."""
        found = _behind_problems(info, has_index=self._config.writes_index_files)
        return (one for one in found if one.code == "no-log") if self.reader.holds_log_alone else found

    @property
    def _config(self) -> StoreConfig:
        return StoreConfig().with_settings({**self.info.inferred, **self.settings})

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """Note a step's failure as a problem."""
        try:
            yield
        except StoreError as error:
            problem = Problem("unreadable", str(error), code="unreadable")
            if error.code in WHOLLY_UNREADABLE:
                problem = problem._replace(code=error.code)
            if problem not in self.failures:
                self.failures.append(problem)

    def _look_at_abort(self) -> None:
        abort = AbortMarker(self.layout.abort, self.fs)
        if abort.exists():
            self.info.abort_ms = self.fs.mtime_ns(abort.path) // 1_000_000

    # The log's two ends.

    def _look_at_log(self, segments: list[StoredFile]) -> None:
        log = self.info.log
        for segment in segments:
            if self._is_written(segment):
                log.first_ms = self._first_time(segment)
                break
        for segment in reversed(segments):
            if self._is_written(segment):
                self._walk_tail(segment)
                return
        log.end = log.min_offset

    def _is_written(self, segment: StoredFile) -> bool:
        return any(self.reader.read(segment.path, 0, 8))

    def _first_time(self, segment: StoredFile) -> int:
        part = LogSlice(segment.path, segment.number, segment.size, 0, min(segment.size, SOME_RECORDS), is_exact=True)
        first = next(walk_slice(self.reader, part, ScanRules(), go_on=False), None)
        return int(first.columns.store_timestamp_ms[0]) if isinstance(first, Run) else -1

    def _walk_tail(self, segment: StoredFile) -> None:
        """Walk the last written segment from the newest record with a queue unit.

        If no record starts there, or the checkpoint is newer than what follows, the walk begins at the segment's start:
        a broker's own truncation leaves units and records past the log's end.
        """
        log = self.info.log
        named = [queue.newest for queue in self.info.queues if 0 <= queue.newest - segment.number < segment.size]
        damage = self._walk_from(segment, max(named, default=segment.number) - segment.number)
        is_doubtful = damage is not None if log.last_ms < 0 else log.last_ms < self._flushed_ms
        if named and is_doubtful:
            damage = self._walk_from(segment, 0)
        if damage is not None and not self._is_overwritten(segment):
            place = f"{damage.path.name}, offset {damage.file_start + damage.position - segment.number}"
            detail = f"the log ends in damage ({place}): {damage.describe_reason()}"
            self.failures.append(Problem("damage", detail, code="damage"))

    def _is_overwritten(self, segment: StoredFile) -> bool:
        # Few logs end in damage.
        from store.structures.consumequeue.overwritten import is_overwritten

        log = self.info.log
        return is_overwritten(StoredSegment(self.reader, segment), log.end, log.last_ms)

    def _walk_from(self, segment: StoredFile, start: int) -> Damage | None:
        """Walk up to the first bytes that are no record, and note their log offset.

        Return the damage, if these bytes are damaged.
        """
        log = self.info.log
        part = LogSlice(segment.path, segment.number, segment.size, start, segment.size, is_exact=True)
        log.end, log.unqueued_count = part.log_start, 0
        for step in walk_slice(self.reader, part, ScanRules(), go_on=False):
            if not isinstance(step, Run):
                return step if isinstance(step, Damage) else None
            log.end = step.end
            log.last_ms = int(step.columns.store_timestamp_ms[-1])
            flags = step.columns.sys_flag & TRANSACTION_MASK
            is_queued = (flags == TRANSACTION_NONE) | (flags == TRANSACTION_COMMIT)
            log.unqueued_count += int((is_queued & (step.columns.log_offset >= self.info.queues_built_to)).sum())
        return None

    def _look_at_index(self) -> None:
        files = self.reader.index_files()
        self.info.index.file_count = len(files)
        for file in files:
            data = bytes(self.reader.read(file.path, 0, HEADER_SIZE))
            header = decode_header(data.ljust(HEADER_SIZE, b"\0"))
            if header.index_count > FIRST_INDEX_COUNT:
                self.info.index.built_to = max(self.info.index.built_to, header.end_log_offset)

    def _look_at_checkpoint(self) -> None:
        if self.fs.exists(self.layout.checkpoint):
            data = self.fs.read(self.fs.open_read(self.layout.checkpoint), 0, CHECKPOINT_SIZE)
            page = decode_checkpoint(data)
            self.info.checkpoint_ms, self._flushed_ms = page.min_timestamp_ms, page.physic_ms

    def _look_at_config(self) -> None:
        for file in read_config_files(self.layout.config, self.fs):
            if file.loaded is not None:
                self.info.config_files.append(file.name)
            if file.load in (Load.LOST, Load.REFUSED, Load.BACKUP):
                self.info.problems.append(
                    Problem("config", f"{file.name}: a broker {file.load.value}", code="config-table")
                )

    def _file_problems(self, files: list[StoredFile]) -> Iterator[Problem]:
        with self._noting():
            change = interrupted_change(self.layout.root, self.fs)
            if change is not None:
                yield Problem("interrupted change", f"{change.id} was cut short", change.code, change)
        size = int(str(self.settings.get("mappedFileSizeCommitLog", 0)))
        for finding in segment_list_findings(self.reader, files, size):
            yield Problem(finding.kind, finding.detail, code=finding.kind)
        with self._noting():
            for entry, fault in self.reader.foreign_in_commitlog():
                yield Problem("foreign file", f"commitlog/{entry.path.name}: {fault}", code="foreign-file")

    def _lost_parts(self, segments: list[StoredFile]) -> Iterator[Problem]:
        """Yield lost extensions and, by a walk of the log, other lost parts; a long log is not walked."""
        info = self.info
        parts = list(find_lost_extensions(self.reader, info.queues))
        info.is_walked = info.log.size_bytes <= WALKED_BYTES and not info.has_database
        is_closed = info.holder is None and info.abort_ms < 0
        if info.is_walked and info.queues_built_to >= 0 and self.reader.is_local:
            config = self._config
            stop = info.log.end if is_closed else min(info.log.end, info.queues_built_to)
            of_records = finds_light(self.layout, self.settings, self.fs)
            expected = ExpectedQueues(
                config.mapped_file_size_consume_queue,
                find_other_queues(self.layout, config, self.fs).topics,
                (config.enable_multi_dispatch and not holds_light(self.layout, config, self.fs)) or of_records,
                of_records and lacks_light_files(self.layout, info.line, self.fs),
            )
            parts += find_lost_parts(self.reader, segments, info.queues, stop, expected)
        yield from parts


def find_structures(layout: StoreLayout, fs: Filesystem) -> list[Present]:
    """Describe the store's structures in the registry's order, then newer and unknown files."""
    names = names_of(layout, fs)
    found = [line for room in rooms_with(names, "show", "describe") for line in room.describe(layout, fs)]
    for path, clause in newer_structures(layout, fs):
        found.append(Present(NEWER, path.name, f"{clause}: the store is only read"))
    for name in unknown_names(names):
        is_folder = fs.is_folder(layout.root / name)
        found.append(Present(UNKNOWN, name, "a folder" if is_folder else "a file"))
    return found


def _state_problems(info: StoreInfo) -> Iterator[Problem]:
    if info.abort_ms >= 0 and info.holder is None:
        yield Problem("not shut down", "the abort marker is there, and the lock is free", code="not-shut-down")


def _behind_problems(info: StoreInfo, *, has_index: bool) -> Iterator[Problem]:
    """Yield parts that are missing or do not reach the log's end; a live store may still write them."""
    log, is_live = info.log, info.holder is not None
    has_records = log.first_ms >= 0 or log.last_ms >= 0
    if log.min_offset < 0:
        yield Problem("no log", "there is no segment in commitlog/", code="no-log")
    if not info.are_queues_read:
        pass
    elif has_records and info.queues_built_to < 0 and not (info.has_database and info.abort_ms >= 0):
        yield Problem("no queues", "no consume queue has an entry", code="no-queues")
    elif log.unqueued_count and not is_live:
        reach = f"the queues at {info.queues_built_to}" if info.queues_built_to >= 0 else "and no queue has an entry"
        detail = f"the log ends at {log.end}, {reach}"
        yield Problem("queues incomplete", detail, code="queues-behind")
    elif info.queues_built_to > log.end:
        detail = f"a queue reaches {info.queues_built_to}, the log ends at {log.end}"
        yield Problem("queues ahead", detail, code="queues-ahead")
    if has_index and not is_live and has_records and not info.index.file_count:
        yield Problem("no index", "there is no index file; nothing can be found by key", code="no-index")
    if info.checkpoint_ms < 0:
        yield Problem("no checkpoint", "a recovery would scan the whole log", code="no-checkpoint")
    for queue in info.queues:
        if queue.fault:
            yield Problem("unreadable queue", queue.fault, code="unreadable-queue")
