"""Repair the leftovers of an interrupted compaction run.

<n>.delete, and n is in both trees   the run had replaced it: the file is deleted
<n>.delete, and n is not             the run had not replaced it: the file gets its name back
records without units                the units are rebuilt from the records
units without records                the file in compacting/ replaces the records; without one the units are deleted
files in compacting/, replicating/   deleted: the next run begins again
units that differ from their records  the units are rebuilt from the records, if all records are valid
a file of another length             it gets the length of the others; a torn record at its end is deleted
position-checkpoint lost             its copy replaces it; without one everything is compacted again
messages without a copy              copied from the commit log, after a clean stop

A queue's files have the length of its other files, else that of the other queues' files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from math import gcd
from pathlib import Path

from store.change.actions import Publish, Remove
from store.change.change import AnyChange, Change
from store.files.filesystem import Filesystem
from store.files.numbered import usual_size
from store.files.store_reader import StoredFile, StoreReader
from store.formats.queue_unit import BATCH_UNIT_SIZE
from store.formats.run import Run
from store.layout import StoreLayout, parse_segment_name, segment_name
from store.structures.commitlog.scan import Damage, Outcome
from store.structures.compaction.feed import LastPair, feed
from store.structures.compaction.files import (
    DELETED,
    LOG,
    POSITIONS,
    Queue,
    QueueFiles,
    compacted_topics,
    queue_files,
    queues_of,
    read_positions,
    read_units,
    records_in,
    records_of,
    units_of_log,
    written_units,
)
from store.structures.compaction.originals import Originals

UNIT_FILE_SIZE = 10_485_746
"""The length of a file of units without settings."""
LEAST_RATIO, DEFAULT_RATIO = 5, 10
"""How many times as long a log file is: at least, and without settings."""


def plan_compaction_mend(layout: StoreLayout, fs: Filesystem, staging: Path) -> AnyChange:
    """Return the Change that gives both trees equal names, and removes leftovers."""
    return _Mend(layout, fs, staging).plan()


class _Mend:
    def __init__(self, layout: StoreLayout, fs: Filesystem, staging: Path) -> None:
        self.root, self.fs = layout.root, fs
        self.files = StoreReader(str(self.root), fs)
        self.change: AnyChange = Change("compaction mend", self.root, fs, staging=staging)
        self.topics = compacted_topics(layout.config, fs)
        self._log_size = self._unit_size = 0
        self._numbers = count()
        self._staged: dict[str, Path] = {}
        """The staged file of each path that the plan writes."""

    def plan(self) -> AnyChange:
        queues = queues_of(self.files)
        self._find_sizes(queues)
        for queue in queues:
            self._mend(queue)
            self._feed(self._mended(queue))
        self._feed_lost({queue.queue for queue in queues})
        if queues or self.files.file_at(POSITIONS) is not None:
            self._mend_positions()
        return self.change

    def _find_sizes(self, queues: list[QueueFiles]) -> None:
        """Find the usual lengths of all queues' files, and derive that of a lost tree from the other one."""
        logs = [file for queue in queues for file in queue.logs.values()]
        units = [file for queue in queues for file in queue.units.values()]
        self._log_size, self._unit_size = usual_size(logs), usual_size(units)
        if logs and not units:
            most = max(sum(run.count for run in records_of(self.files, file)[0]) for file in logs)
            self._unit_size = _unit_size_of(self._log_size, most)
            self._assume("entries", self._unit_size)
        elif units and not logs:
            # The names are positions in the log.
            self._log_size = gcd(*(file.number for file in units)) or self._unit_size * DEFAULT_RATIO
            self._assume("records", self._log_size)

    def _assume(self, what: str, size: int) -> None:
        self.change.remarks.append(f"no file of {what} is left that says how long they are: {size} bytes are assumed")

    def _mend_positions(self) -> None:
        """Replace a lost or invalid table by its copy; without a copy delete an invalid table."""
        file, copy = self.files.file_at(POSITIONS), self.files.file_at(f"{POSITIONS}.bak")
        if file is not None and read_positions(self.files, POSITIONS) is not None:
            return
        if copy is not None and read_positions(self.files, copy.path) is not None:
            data = bytes(self.files.read(copy.path))
            self._publish_bytes(POSITIONS, data, "the table was lost, and this is its copy")
        elif file is not None:
            self._remove(file, "no table of positions: everything is compacted again")

    def _mend(self, queue: QueueFiles) -> None:
        logs, units = dict(queue.logs), dict(queue.units)
        restored = {number for number in map(_number_of, queue.deleted) if self._is_wanted(queue, number)}
        for file in queue.deleted:
            number, tree = _number_of(file), 0 if file.path.startswith(queue.folders[0]) else 1
            if number in restored and file.size:
                self._publish(f"{queue.folders[tree]}/{segment_name(number)}", file, "nothing had taken its place")
                (logs, units)[tree][number] = file._replace(number=number)
            self._remove(file, "a run that was cut short had set it aside")
        for pair in queue.pairs:
            self._agree(queue, *pair)
        taken = self._complete(queue, logs, units)
        for file in queue.unfinished:
            if file.path not in taken:
                self._remove(file, "a run that was cut short left it")

    def _mended(self, queue: QueueFiles) -> QueueFiles:
        """Return the queue with the files that it has after its mend."""
        gone = {str(one.path.relative_to(self.root)) for one in self.change.actions if isinstance(one, Remove)}
        trees = []
        for folder, tree in zip(queue.folders, (queue.logs, queue.units), strict=True):
            files = {number: file for number, file in tree.items() if file.path not in gone}
            for path, staged in self._staged.items():
                parent, _, name = path.rpartition("/")
                number = parse_segment_name(name)
                if parent == folder and number is not None:
                    files[number] = StoredFile(path, number, self.fs.stat(staged).st_size, 0)
            trees.append(files)
        return replace(queue, logs=trees[0], units=trees[1], deleted=(), unfinished=())

    def _sizes_in(self, queue: QueueFiles) -> tuple[int, int]:
        """Return the lengths of a queue's files; 0 for an unknown one."""
        log_size, unit_size = usual_size(queue.logs.values()), usual_size(queue.units.values())
        return log_size or self._log_size, unit_size or self._unit_size

    def _read(self, file: StoredFile, size: int | None = None) -> bytes:
        """Return the bytes of a file as the plan leaves it."""
        staged = self._staged.get(file.path)
        data = self.files.read(file.path) if staged is None else self.fs.read_file(staged)
        return bytes(data[:size])

    def _records(self, file: StoredFile) -> tuple[list[Run], Outcome | None]:
        """Return the records of a log file as the plan leaves it, and the outcome of their scan."""
        in_place = file.path not in self._staged
        return records_of(self.files, file) if in_place else records_in(file.number, self._read(file))

    def _agree(self, queue: QueueFiles, log: StoredFile, units: StoredFile) -> None:
        """Correct the length of a log file, and write the units of its records."""
        log_size, unit_size = self._sizes_in(queue)
        runs, outcome = records_of(self.files, log)
        if log.size != log_size:
            end = outcome.position if isinstance(outcome, Damage) else log.size
            data = bytes(self.files.read(log.path))[: min(end, log_size)].ljust(log_size, b"\0")
            reason = f"it had {log.size} bytes, and the others have {log_size}"
            self._publish_bytes(log.path, data, reason)
        elif isinstance(outcome, Damage):
            # Only the units still lead to the records after the damage.
            return
        wanted = units_of_log(runs, outcome, unit_size)
        if bytes(self.files.read(units.path)) != wanted:
            self._publish_bytes(units.path, wanted, "made from the records of the same name")

    def _feed_lost(self, known: set[Queue]) -> None:
        """Copy the messages of compacted topics' queues that have no files in the compaction store."""
        for topic, queue_id in self.files.queues():
            if topic not in self.topics or (topic, queue_id) in known:
                continue
            if self._log_size and self._unit_size:
                self._feed(queue_files(self.files, (topic, queue_id)))
            else:
                # No broker starts with files whose length contradicts its settings.
                lost = f"{topic}, queue {queue_id} has no compaction log"
                self.change.remarks.append(f"{lost}, and none is left whose files say how long they are")

    def _feed(self, queue: QueueFiles) -> None:
        """Copy the messages after the last copy; a broker's start copies no message that has a queue entry."""
        if queue.queue[0] not in self.topics or self.files.exists("abort"):
            return
        last, last_offset = LastPair(0, b"", 0, 0), -1
        for log, units in queue.pairs:
            runs, outcome = self._records(log)
            if isinstance(outcome, Damage):
                return
            end = int(runs[-1].columns.position[-1] + runs[-1].columns.size[-1]) if runs else 0
            last = LastPair(log.number, self._read(log, end), end, sum(run.count for run in runs))
            offsets = written_units(self._read(units))["queue_offset"]
            last_offset = int(offsets[-1]) if len(offsets) else last_offset
        originals = Originals(self.files, queue.queue)
        for pair in feed(last, originals.records_behind(last_offset), *self._sizes_in(queue)):
            for folder, data in zip(queue.folders, (pair.log, pair.units), strict=True):
                self._publish_bytes(f"{folder}/{segment_name(pair.name)}", data, "with the messages that had no copy")

    def _is_wanted(self, queue: QueueFiles, number: int) -> bool:
        """Return whether .delete files of this number get their name back.

        They do if the run had not moved all its files up, or if no earlier file holds their messages.
        """
        if number < 0:
            return False
        if queue.unfinished:
            return True
        if number in queue.logs and number in queue.units:
            return False
        log = next((file for file in queue.deleted if _number_of(file) == number and file.path.startswith(LOG)), None)
        runs = records_of(self.files, log)[0] if log is not None else []
        first = int(runs[0].columns.queue_offset[0]) if runs else -1
        return first >= 0 and all(one < first for one in self._offsets_before(queue, number))

    def _offsets_before(self, queue: QueueFiles, number: int) -> Iterator[int]:
        """Yield the queue offsets of each earlier name, of its records where its units are lost."""
        for name, file in {**queue.logs, **queue.units}.items():
            if name < number and name in queue.units:
                yield from read_units(self.files, file)["queue_offset"].tolist()
            elif name < number:
                for run in records_of(self.files, file)[0]:
                    yield from run.columns.queue_offset.tolist()

    def _complete(self, queue: QueueFiles, logs: dict[int, StoredFile], units: dict[int, StoredFile]) -> set[str]:
        """Complete the pair of files of every name; return the paths of files to move up."""
        log_folder, unit_folder = queue.folders
        unfinished = {file.path: file for file in queue.unfinished}
        taken: set[str] = set()
        size = usual_size(units.values()) or self._unit_size
        for name in sorted(logs.keys() ^ units.keys()):
            file_name = segment_name(name)
            if name in logs:
                runs, outcome = records_of(self.files, logs[name])
                data = units_of_log(runs, outcome, size)
                self._publish_bytes(f"{unit_folder}/{file_name}", data, "made from the records of the same name")
                continue
            source = f"{log_folder}/compacting/{file_name}"
            if source in unfinished:
                taken.add(source)
                self._publish(f"{log_folder}/{file_name}", unfinished[source], "the run had not moved it up")
                self._remove(unfinished[source], "moved up")
            elif name in queue.units:
                self._remove(queue.units[name], "there are no records of this name")
        return taken

    def _publish(self, path: str, file: StoredFile, reason: str) -> None:
        self._publish_bytes(path, bytes(self.files.read(file.path)), reason)

    def _publish_bytes(self, path: str, data: bytes, reason: str) -> None:
        assert self.change.staging is not None
        # Names repeat among queues, so each file is staged in its own folder.
        staging, place = self.change.staging, self.root / path
        self.change.actions = [one for one in self.change.actions if one.path != place]
        self.change.staging = staging / str(next(self._numbers))
        self.change.publish_bytes(place, data, reason)
        self.change.staging = staging
        written = self.change.actions[-1]
        assert isinstance(written, Publish)
        self._staged[path] = written.staged

    def _remove(self, file: StoredFile, reason: str) -> None:
        self.change.actions.append(Remove(self.root / file.path, reason))


def _unit_size_of(log_size: int, most_units: int) -> int:
    """Return the least length of files of units that fits the log files and holds the units.

    A log file's length is a multiple of it (CompactionStore, 5.3.3); the last unit is the end's mark.
    """
    least = (most_units + 1) * BATCH_UNIT_SIZE
    if log_size == DEFAULT_RATIO * UNIT_FILE_SIZE:
        return UNIT_FILE_SIZE
    ratios = range(log_size // least, LEAST_RATIO - 1, -1)
    return next((log_size // one for one in ratios if log_size % (one * BATCH_UNIT_SIZE) == 0), UNIT_FILE_SIZE)


def _number_of(file: StoredFile) -> int:
    """Return the number in the name of a .delete file, -1 without one."""
    number = parse_segment_name(file.path.rpartition("/")[2].removesuffix(DELETED))
    return -1 if number is None else number
