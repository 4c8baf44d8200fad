"""backup create: one more backup of a store, beside its live broker.

    1. the tables, and the ends of queues; the log is read later, so it is ahead of them
    2. the end of the log
    3. the segments up to it, each once: a segment of a former backup with the same size and time is not read again
    4. the manifest

A kill before step 4 leaves no backup; the next one reuses the finished files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from store.errors import StoreError, StoreIOError
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.files.store_reader import StoredFile, StoreReader
from store.formats.backup_manifest import BackedFile, Manifest, backup_id, time_of_id
from store.formats.timer import TIMELINE_ON
from store.opened.delays import DELAY_LEVELS, describe_mixed_delays, read_delays
from store.opened.detect import FoundStore, find_store, make_layout, require_store
from store.opened.sizes import known_sizes
from store.structures.registry import BACK_UP, names_of, refusing
from store.verbs.backup.log import FoundEnd, find_log_end, segment_bytes
from store.verbs.backup.side_by_side import SideBySide
from store.verbs.backup.tables import back_up_tables
from store.verbs.backup.target import BackupTarget
from store.verbs.salvage.databases import fires_timeline


@dataclass(slots=True)
class CreateOptions:
    """The options of a new backup.

    name      of the store in the manifest; empty for its folder
    version   of the program, in the manifest
    progress  is called with the bytes done and in all
    remark    is called with a sentence for each setting that is assumed
    """

    name: str = ""
    version: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    scratch: Path | None = None
    progress: Callable[[int, int], None] = lambda done_bytes, bytes_in_all: None
    remark: Callable[[str], None] = lambda text: None


def create_backup(
    root: Path, target: BackupTarget, options: CreateOptions, fs: Filesystem, clock: Callable[[], int]
) -> Manifest:
    """Back up the store at `root`; the manifest notes each fault.

    Raises NotAStore, UnsupportedFormat for a log of another form, StoreLocked, StoreIOError.
    """
    found = find_backed_store(root, options, fs)
    delays = read_delays(found.layout, fs) if not found.gives_delays else {}
    mixed = describe_mixed_delays(delays)
    for text in (*found.assumed, *mixed):
        options.remark(text)
    with target.writing(makes=True), Scratch(options.scratch) as scratch:
        creation = _Creation(found, target, options, fs, scratch.folder)
        # No backup has the entries that show the delays.
        creation.kept_settings = (*options.settings, *([DELAY_LEVELS] if delays and not mixed else []))
        return creation.run(clock)


def find_backed_store(root: Path, options: CreateOptions, fs: Filesystem) -> FoundStore:
    """Find the store; UnsupportedFormat for a log of another form."""
    layout = make_layout(root, options.settings, fs)
    require_store(layout, fs)
    for one in refusing(names_of(layout, fs), BACK_UP):
        if guard := one.furniture("guard"):
            guard.refuse_backup(layout)
    return find_store(layout, options.settings, fs)


class _Creation:
    """One run."""

    def __init__(
        self, found: FoundStore, target: BackupTarget, options: CreateOptions, fs: Filesystem, scratch: Path
    ) -> None:
        self._found, self._target, self._options = found, target, options
        self._fs, self._scratch = fs, scratch
        self._reader = StoreReader.of(found.layout, fs)
        self._name = options.name or str(found.layout.root)
        self._notes: list[str] = []
        self.kept_settings: tuple[str, ...] = tuple(options.settings)
        """The settings that the manifest has even with a default's value."""

    def run(self, clock: Callable[[], int]) -> Manifest:
        before = self._target.newest()
        began_ms = clock()
        if before is not None:
            # The clock of a former run may have been ahead.
            began_ms = max(began_ms, time_of_id(before.id) + 1)
        known = {(one.path, one.mtime_ms, one.size): one for one in self._known(before)}
        tables = back_up_tables(self._found, self._reader, self._target, self._scratch, self._fs)
        self._notes += tables.notes
        end = find_log_end(self._reader, self._found.line)
        if end.damage:
            self._notes.append(f"the log is damaged: {end.damage}")
        elif tables.needed > end.log_end:
            self._notes.append(f"the queues hold messages up to {tables.needed}, and the log ends at {end.log_end}")
        if before is not None and before.store != self._name:
            self._notes.append(f"the backup {before.id} is of another store: {before.store}")
        elif before is not None and before.log_end > end.log_end:
            self._notes.append(f"the log ends at {end.log_end}, the backup {before.id} at {before.log_end}")
        segments = self._add_log(end, known)
        config, given = self._found.config, self._options.settings
        manifest = Manifest(
            id=backup_id(began_ms),
            store=self._name,
            version=self._options.version,
            line=self._found.line.name,
            began_ms=began_ms,
            ended_ms=clock(),
            log_start=segments[0].file_start if segments else end.log_end,
            log_end=end.log_end,
            last_store_timestamp_ms=end.last_store_timestamp_ms,
            segment_size=config.mapped_file_size_commit_log,
            settings=known_sizes(self._found.layout, given, self._fs)
            | config.changed_settings(self.kept_settings)
            | self._told(),
            files=(*segments, *tables.files),
            notes=tuple(self._notes),
        )
        self._target.finish(manifest)
        return manifest

    def _told(self) -> dict[str, object]:
        """Return the setting that the store's database shows, as no backup has that database."""
        try:
            return {TIMELINE_ON: True} if fires_timeline(self._found.layout, self._found.config, self._fs) else {}
        except StoreError as error:
            self._notes.append(f"{error}: unless {TIMELINE_ON}=true is given, a restore puts timers on the wheel")
            return {}

    def _known(self, before: Manifest | None) -> Iterator[BackedFile]:
        """Return the files that need not be read again: sealed, and whole in the folder."""
        files = [*(before.files if before is not None else ()), *self._target.noted()]
        stored = self._target.stored_files()
        return (one for one in files if one.is_sealed and stored.get(one.stored) == one.stored_size)

    def _add_log(self, end: FoundEnd, known: Mapping[tuple[str, int, int], BackedFile]) -> list[BackedFile]:
        """Run step 3. Segments that a broker deletes meanwhile are left out, with all earlier ones."""
        segments = [one for one in self._reader.segments() if one.number < end.log_end]
        in_all, added = sum(min(one.size, end.log_end - one.number) for one in segments), list[BackedFile]()
        work = SideBySide(in_all * self._target.reads, self._options.progress)
        add = _Adding(self._reader, self._target, work, end.log_end, known)
        for one in work.map(add, segments, max((one.size for one in segments), default=0)):
            if one.file is None:
                added = []
                continue
            added.append(one.file)
            self._notes += one.notes
            if one.is_new and one.file.is_sealed:
                self._target.note(one.file)
        if segments and not added:
            raise StoreIOError("another process has deleted the newest segment", file=Path(segments[-1].path))
        for former, following in pairwise(added):
            gap = former.file_start + former.size, following.file_start
            if gap[0] != gap[1]:
                self._notes.append(f"no segment holds the log from {gap[0]} to {gap[1]}")
        return added


@dataclass(slots=True)
class _Added:
    """A segment in the backup; no file if the broker has deleted it."""

    file: BackedFile | None
    notes: list[str] = field(default_factory=list)
    is_new: bool = True


@dataclass(slots=True)
class _Adding:
    """The copy of one segment, in any thread.

    known  files that need not be read again
    """

    reader: StoreReader
    target: BackupTarget
    work: SideBySide
    log_end: int
    known: Mapping[tuple[str, int, int], BackedFile]

    def __call__(self, segment: StoredFile) -> _Added:
        try:
            return self._add(segment)
        except StoreError:
            if self.reader.exists(segment.path):
                raise
            return _Added(None)

    def _add(self, segment: StoredFile) -> _Added:
        size = min(segment.size, self.log_end - segment.number)
        left, notes = size * self.target.reads, list[str]()

        def tell(count: int) -> None:
            nonlocal left
            count = min(count, left)
            left -= count
            if count:
                self.work.tell(count)

        kept = self.known.get((segment.path, segment.mtime_ms, size)) if size == segment.size else None
        if kept is not None:
            tell(left)
            return _Added(kept, is_new=False)
        file = self.target.add(
            segment.path, lambda: segment_bytes(self.reader, segment, range(size), notes, tell), segment.mtime_ms
        )
        if file.size < size:
            raise StoreIOError(f"another process has shortened the file to {file.size} bytes", file=segment.path)
        tell(left)
        is_sealed = self.log_end > segment.number + segment.size and not notes
        return _Added(replace(file, is_sealed=is_sealed), list(dict.fromkeys(notes)))
