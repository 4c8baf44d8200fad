"""Repair the leftovers of an interrupted compaction run.

<n>.delete, and n is in both trees   the run had replaced it: the file is deleted
<n>.delete, and n is not             the run had not replaced it: the file gets its name back
records without units                the units are rebuilt from the records
units without records                the file in compacting/ replaces the records; without one the units are deleted
files in compacting/, replicating/   deleted: the next run begins again
units that differ from their records  the units are rebuilt from the records, if all records are valid
a file of another length             it gets the length of the others; a torn record at its end is deleted
position-checkpoint lost             its copy replaces it; without one everything is compacted again
messages without a copy              copied from the commit log, after a clean stop and if their queue needs no other
                                     repair
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.change.actions import Remove
from store.change.change import AnyChange, Change
from store.files.filesystem import Filesystem
from store.files.numbered import usual_size
from store.files.store_reader import StoredFile, StoreReader
from store.layout import StoreLayout, parse_segment_name, segment_name
from store.structures.commitlog.scan import Damage
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
    records_of,
    units_of_log,
)
from store.structures.compaction.originals import Originals


def plan_compaction_mend(layout: StoreLayout, fs: Filesystem, staging: Path) -> AnyChange:
    """Return the Change that gives both trees equal names, and removes leftovers."""
    return _Mend(layout, fs, staging).plan()


class _Mend:
    def __init__(self, layout: StoreLayout, fs: Filesystem, staging: Path) -> None:
        self.root, self.fs = layout.root, fs
        self.files = StoreReader(str(self.root), fs)
        self.change: AnyChange = Change("compaction mend", self.root, fs, staging=staging)
        self.topics = compacted_topics(layout.config, fs)

    def plan(self) -> AnyChange:
        queues = queues_of(self.files)
        for queue in queues:
            mended = len(self.change.actions)
            self._mend(queue)
            if len(self.change.actions) == mended:
                self._feed(queue, usual_size(queue.logs.values()), usual_size(queue.units.values()))
        self._feed_lost({queue.queue for queue in queues}, queues)
        if queues or self.files.file_at(POSITIONS) is not None:
            self._mend_positions()
        return self.change

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

    def _agree(self, queue: QueueFiles, log: StoredFile, units: StoredFile) -> None:
        """Correct the length of a log file, and write the units of its records."""
        log_size, unit_size = usual_size(queue.logs.values()), usual_size(queue.units.values())
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

    def _feed_lost(self, known: set[Queue], queues: list[QueueFiles]) -> None:
        """Copy the messages of compacted topics' queues that have no files in the compaction store."""
        sizes = {(usual_size(queue.logs.values()), usual_size(queue.units.values())) for queue in queues if queue.pairs}
        for topic, queue_id in self.files.queues():
            if topic not in self.topics or (topic, queue_id) in known:
                continue
            if sizes:
                self._feed(queue_files(self.files, (topic, queue_id)), *max(sizes))
            else:
                # No broker starts with files whose length contradicts its settings.
                lost = f"{topic}, queue {queue_id} has no compaction log"
                self.change.remarks.append(f"{lost}, and none is left whose files say how long they are")

    def _feed(self, queue: QueueFiles, log_size: int, unit_size: int) -> None:
        """Copy the messages after the last copy; a broker's start copies no message that has a queue entry."""
        if queue.queue[0] not in self.topics or self.files.exists("abort"):
            return
        last, last_offset = LastPair(0, b"", 0, 0), -1
        for log, units in queue.pairs:
            runs, outcome = records_of(self.files, log)
            if isinstance(outcome, Damage):
                return
            end = int(runs[-1].columns.position[-1] + runs[-1].columns.size[-1]) if runs else 0
            last = LastPair(log.number, bytes(self.files.read(log.path, 0, end)), end, sum(run.count for run in runs))
            offsets = read_units(self.files, units)["queue_offset"]
            last_offset = int(offsets[-1]) if len(offsets) else last_offset
        originals = Originals(self.files, queue.queue)
        for pair in feed(last, originals.records_behind(last_offset), log_size, unit_size):
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
        size = usual_size(units.values())
        for name in sorted(logs.keys() ^ units.keys()):
            file_name = segment_name(name)
            if name in logs:
                runs, outcome = records_of(self.files, logs[name])
                data = units_of_log(runs, outcome, size or sum(run.count for run in runs) * 46)
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
        staging = self.change.staging
        self.change.staging = staging / str(len(self.change.actions))
        self.change.publish_bytes(self.root / path, data, reason)
        self.change.staging = staging

    def _remove(self, file: StoredFile, reason: str) -> None:
        self.change.actions.append(Remove(self.root / file.path, reason))


def _number_of(file: StoredFile) -> int:
    """Return the number in the name of a .delete file, -1 without one."""
    number = parse_segment_name(file.path.rpartition("/")[2].removesuffix(DELETED))
    return -1 if number is None else number
