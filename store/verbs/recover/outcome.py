"""The result of a simulated start: its losses, its traps, the fate of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from store.change.workspace import relative_name
from store.files.filesystem import Filesystem
from store.layout import StoreLayout, segment_name
from store.opened.opened_store import OpenedStore
from store.structures.consumequeue.queue_set import QueueKey
from store.structures.trap import Trap
from store.verbs.recover.lost import LossReport

NO_START, LOSES_INTACT, LOSES_DAMAGED = "no-start", "loses-intact", "loses-damaged"
"""Codes of a start's outcomes, besides the codes of traps and errors."""


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The fate of a commit-log or queue file: keep, truncate (its end moves back), remove or write."""

    file: str
    action: str
    size: int


@dataclass(slots=True)
class SimulatedStart:
    """A line's next start.

    `reason` is why the broker does not start; `blocker` is the code of the trap, with its subject, or of an error. If a
    last file of 0 bytes is the reason, `log_end`, `cut_reason` and `lost` are those of a start without the file.
    `entered_from` is the log offset from which records are dispatched; earlier records have been dispatched.
    `files` has every file of log and queues after `simulate`, the files that change after `simulate_start`.
    `unseen` counts, by topic and queue id, the messages in the log that no queue shows.
    """

    compat: str
    starts: bool
    reason: str = ""
    blocker: tuple[str, tuple[object, ...]] = ("", ())
    mode: str = ""
    start_segment: int = -1
    start_reason: str = ""
    entered_from: int = -1
    log_end: int = -1
    cut_reason: str = ""
    files: list[FileOutcome] = field(default_factory=list)
    lost: LossReport = field(default_factory=LossReport)
    traps: list[Trap] = field(default_factory=list)
    unseen: dict[QueueKey, int] = field(default_factory=dict)

    @property
    def faults(self) -> list[tuple[str, tuple[object, ...]]]:
        """The code and subject of each fault: the blocker, or the losses and the traps."""
        lost = [(LOSES_INTACT if self.lost.intact else LOSES_DAMAGED, ())] if self.lost.messages else []
        if not self.starts:
            return [self.blocker if self.blocker[0] else (NO_START, ()), *lost]
        return [*lost, *((trap.code, trap.subject) for trap in self.traps)]


def files_on_disk(layout: StoreLayout, fs: Filesystem) -> Iterator[FileOutcome]:
    """List every commit-log and queue file as kept. A file beside the folders of topics is no queue file."""
    queues = layout.queue_parents
    for folder in (*layout.writable_commitlogs, *layout.read_only_paths, *queues):
        # Names are joined as text, which is fast: there may be 100,000 queues.
        parent = relative_name(layout.root, folder.parent)
        before = "" if parent == "." else f"{parent}/"
        for entry in fs.list_below(str(folder.parent), folder.name):
            is_beside_topics = folder in queues and entry.path.count("/") == 1
            if not entry.is_folder and not is_beside_topics:
                yield FileOutcome(before + entry.path, "keep", entry.size)


def files_changed(
    opened: OpenedStore, removed: Sequence[Path] = (), truncated: Sequence[Path] = ()
) -> list[FileOutcome]:
    """List the commit-log and queue files that a start removes, truncates or writes.

    removed, truncated  segments of the log
    """
    root, fs = opened.layout.root, opened.fs
    gone = (*removed, *opened.queues.removed_paths(), *_dropped_empty(opened))
    cut = (*truncated, *_truncated_queues(opened))
    files = dict[str, FileOutcome]()
    for action, paths in (("remove", gone), ("truncate", cut)):
        for path in paths:
            # A file that the recovery created is listed below.
            if (size := fs.bytes_at(path)) is not None:
                name = relative_name(root, path)
                files[name] = FileOutcome(name, action, size)
    for place, staged in opened.queues.staged_files():
        name = relative_name(root, place)
        files[name] = FileOutcome(name, "write", fs.stat(staged).st_size)
    return sorted(files.values(), key=lambda one: one.file)


def _dropped_empty(opened: OpenedStore) -> Iterator[Path]:
    """Yield last files of length zero: 5.3 deletes them while loading, and does not start with others."""
    if opened.line.drops_empty_last_file:
        log = opened.log.segments
        yield from [log.empty_last] if log.empty_last is not None else []
        for queue in opened.queues.awake():
            yield from queue.empty_files()


def _truncated_queues(opened: OpenedStore) -> Iterator[Path]:
    """Yield queue files that keep bytes past their new end."""
    for queue in opened.queues.awake():
        last = queue.files.last
        if last is not None and queue.has_cut_units():
            yield queue.files.folder / segment_name(last.file_start)
