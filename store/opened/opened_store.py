"""OpenedStore: every file set of one store, opened in the broker's order, before recovery.

    commit log → consume queues → checkpoint → index

With an `overlay` folder the store itself is opened read-only, and files that are built or truncated go to that folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from store.broker_line import BrokerLine
from store.config import StoreConfig
from store.errors import ForeignFile, StoreError, WrongFileSize
from store.files.allocate import AllocateMappedFileService
from store.files.filesystem import Filesystem
from store.files.lock import AbortMarker
from store.files.mapped_file_queue import MappedFileQueue
from store.files.overlay import Overlay, OverlayFileQueue
from store.files.scratch import Scratch
from store.files.segment_folders import SegmentFolders
from store.formats.run import Run
from store.layout import StoreLayout
from store.opened.checkpoint import StoreCheckpoint
from store.opened.detect import FoundStore, find_other_queues
from store.opened.index_view import IndexView
from store.opened.queue_view import QueueView
from store.structures.commitlog.readable_log import ReadableLog
from store.structures.commitlog.resync import runs_between
from store.structures.commitlog.scan import ScanRules
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.consumequeue.multi_dispatch import has_light_files
from store.structures.consumequeue.queue_set import QueueKey
from store.structures.consumequeue.resting import RestingQueue
from store.structures.findings import EMPTY_SEGMENT, WRONG_SIZE
from store.structures.index.index_service import IndexService
from store.structures.registry import names_of, rooms_with

if TYPE_CHECKING:
    from store.structures.commitlog.commit_log import CommitLog


@dataclass(slots=True)
class OpenedStore:
    """The file sets of one store; the rules of the broker line `line` apply."""

    layout: StoreLayout
    config: StoreConfig
    fs: Filesystem
    clock: Callable[[], int]
    line: BrokerLine
    log: ReadableLog
    queues: ConsumeQueueStore
    index: IndexService
    checkpoint: StoreCheckpoint
    abort: AbortMarker
    overlay: Overlay | None
    assumed: tuple[str, ...] = ()
    """Settings that were assumed or inferred and may be wrong, as sentences for people."""
    gives_delays: bool = False
    """Whether the user gave messageDelayLevel."""
    finds_light: bool = False
    """Whether the records decide on light queues, if the config has none."""
    scratch: Scratch | None = None
    """A folder that is removed when the store is closed."""
    as_broker: bool = False
    """Whether a record counts as at the log offset in its fields, as for a broker, even if damage changed that."""
    next_offset: Callable[[QueueKey], int] | None = None
    """The next queue offsets of queues in a database, after a simulated start."""

    @property
    def has_light_units(self) -> bool:
        """Whether records may have units in the files of light queues."""
        return has_light_files(self.config) or self.finds_light

    @classmethod
    def load(
        cls,
        found: FoundStore,
        fs: Filesystem,
        clock: Callable[[], int],
        *,
        writable: bool = False,
        overlay: Overlay | None = None,
        allocate: AllocateMappedFileService | None = None,
        refuse: Callable[[StoreError], None] | None = None,
        resting: Mapping[QueueKey, RestingQueue] | None = None,
    ) -> OpenedStore:
        """Load all file sets; raise errors that would keep a broker from starting.

        refuse   is called with the error of a queue's file or of a foreign name; the file is left out
        resting  idle queues that were read before and have not changed since
        """
        layout, config, line, assumed, others, gives_delays, finds_light, *_ = found
        loads = _loading(line, layout)
        if overlay is not None:
            files: MappedFileQueue = _overlaid_log(found, fs, overlay)
        else:
            files = MappedFileQueue(
                layout.commitlog,
                config.mapped_file_size_commit_log,
                fs,
                writable=writable,
                allocate=allocate,
                keeps_descriptors=writable,
                folders=_folders_of(found),
            )
        try:
            files.load(loads, foreign_only(refuse) if refuse is not None else None)
        except WrongFileSize as error:
            error.code = WRONG_SIZE
            raise
        queues = ConsumeQueueStore(layout, config, fs, writable=writable, overlay=overlay, others=others)
        queues.load(loads, refuse, resting)
        checkpoint = StoreCheckpoint.load(layout.checkpoint, fs)
        if writable:
            queues.on_stored = checkpoint.note_stored
        index = _load_index(found, fs, clock, checkpoint, overlay, writable=writable)
        log, abort = ReadableLog(files), AbortMarker(layout.abort, fs)
        return cls(
            layout, config, fs, clock, line, log, queues, index, checkpoint, abort, overlay, assumed,
            gives_delays, finds_light,
        )  # fmt: skip

    @classmethod
    def for_view(
        cls, found: FoundStore, fs: Filesystem, clock: Callable[[], int], overlay: Overlay, note: Callable[[str], None]
    ) -> OpenedStore:
        """Open log, index and checkpoint for readers; each queue is opened at its first use.

        note  is called with a sentence on each file that is left out
        """
        layout, config, line, assumed, others, _, finds_light, *_ = found
        files = _overlaid_log(found, fs, overlay)
        left_out: list[StoreError] = []
        files.load(_loading(line, layout), left_out.append)
        if files.empty_last is not None and not line.drops_empty_last_file:
            note(f"left out: {WrongFileSize.of(0, files.file_size, files.empty_last)}")
        for error in left_out:
            if not files.files and not isinstance(error, ForeignFile):
                # With a wrong mappedFileSizeCommitLog every file would be left out.
                raise error
            note(f"left out: {error}")
        queues = QueueView(layout, config, fs, overlay, others)
        if config.queues_in_database:
            from store.opened.database_view import DatabaseQueueView

            queues = DatabaseQueueView(layout, config, fs, overlay)
        elif line.matches_first_record and any(rooms_with(names_of(layout, fs), "view", "queues_alone")):
            from store.opened.database_view import CombinedQueueView

            queues = CombinedQueueView(layout, config, fs, overlay, others)
        queues.finds_light = finds_light
        index = IndexView(layout, config, fs, clock, note, with_tags=line.indexes_tags)
        index.load()
        checkpoint = StoreCheckpoint.load(layout.checkpoint, fs)
        log, abort = ReadableLog(files), AbortMarker(layout.abort, fs)
        return cls(layout, config, fs, clock, line, log, queues, index, checkpoint, abort, overlay, assumed)

    @property
    def commit_log(self) -> CommitLog:
        """The log as one that takes puts; from its first use on it is `log` too."""
        from store.opened.delays import refuse_mixed_delays
        from store.structures.commitlog.commit_log import CommitLog

        if not isinstance(self.log, CommitLog):
            ask = None if self.gives_delays else partial(refuse_mixed_delays, self.layout, self.fs)
            self.log = CommitLog(self.log.segments, self.config, self.clock, self.line, ask)
            self.log.inner_topics = find_other_queues(self.layout, self.config, self.fs).topics
        return self.log

    def rooms_with(self, kind: str, function: str) -> Iterator[ModuleType]:
        """Yield the module `kind` of each structure in the store that has `function`."""
        config, names = self.config, names_of(self.layout, self.fs)
        expects = kind == "start" or config.has_named_queues_in_database
        in_database = config.starts_database if expects else config.queues_in_database
        return rooms_with(names, kind, function, in_database=in_database, settings=config.changed_settings())

    def scan_rules(self, *, check_crc: bool, cuts_torn: bool = False) -> ScanRules:
        """Return the broker line's rules for the scan of the log.

        cuts_torn  truncate at torn properties; not in a group's log, as the group decides which entries count
        """
        ours = not self.as_broker
        cuts_torn = cuts_torn and ours and self.layout.has_plain_log
        return ScanRules(check_crc, accept_v2=self.line.accepts_v2, by_place=ours, cuts_torn=cuts_torn)

    def runs(self, start: int, stop: int) -> Iterator[Run]:
        """Yield the records that begin in [start, stop) of the log, also after damage, with any body."""
        return runs_between(self.log.segments.files, start, stop, rules=self.scan_rules(check_crc=False))

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return a queue's next queue offset, after a simulated start also of one in a database."""
        if self.next_offset is not None:
            return self.next_offset((topic, queue_id))
        queue = self.queues.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def require_no_empty_file(self) -> None:
        """Raise WrongFileSize if a last file has 0 bytes and the line's broker does not start with it."""
        if self.line.drops_empty_last_file:
            return
        segments = self.log.segments
        if segments.empty_last is not None:
            error = WrongFileSize.of(0, segments.file_size, segments.empty_last)
            error.code = EMPTY_SEGMENT
            raise error
        for queue in self.queues.awake():
            for path in queue.empty_files():
                error = WrongFileSize.of(0, queue.files.file_size, path)
                error.code, error.subject = "queue-file-size", (queue.topic, queue.queue_id)
                raise error

    def close(self) -> None:
        """Close maps and descriptors, and remove the scratch folder."""
        self.log.close()
        self.queues.close()
        self.index.close()
        if self.scratch is not None:
            self.scratch.close()


def _loading(line: BrokerLine, layout: StoreLayout) -> BrokerLine:
    """Return the line with the rule of a plain log, where a last file of 0 bytes is left out."""
    return line._replace(drops_empty_last_file=line.drops_empty_last_file or layout.has_plain_log)


def _folders_of(found: FoundStore) -> SegmentFolders:
    layout = found.layout
    return SegmentFolders(layout.writable_commitlogs, layout.read_only_paths, found.config.mapped_file_size_commit_log)


def _load_index(
    found: FoundStore,
    fs: Filesystem,
    clock: Callable[[], int],
    checkpoint: StoreCheckpoint,
    overlay: Overlay | None,
    *,
    writable: bool,
) -> IndexService:
    index = IndexService(
        found.layout,
        found.config,
        fs,
        writable=writable,
        clock=clock,
        overlay=overlay,
        on_full=checkpoint.note_full_index if writable else checkpoint.set_index_ms,
        with_tags=found.line.indexes_tags,
    )
    index.load()
    return index


def _overlaid_log(found: FoundStore, fs: Filesystem, overlay: Overlay) -> OverlayFileQueue:
    size, staged = found.config.mapped_file_size_commit_log, overlay.folder / "commitlog"
    return OverlayFileQueue(found.layout.commitlog, size, fs, overlay, staged, _folders_of(found))


def foreign_only(refuse: Callable[[StoreError], None]) -> Callable[[StoreError], None]:
    """Return a `refuse` that accepts ForeignFile alone, and raises every other error."""

    def take(error: StoreError) -> None:
        if not isinstance(error, ForeignFile):
            raise error
        refuse(error)

    return take
