"""Read the compaction store: for each queue a log of the kept messages, and its sparse queue.

    compaction/position-checkpoint                  the last compacted queue offset of each queue, JSON
    compaction/compactionLog/<topic>/<queue>/<n>    records; the log offset of each is its position in this log
    compaction/compactionCq/<topic>/<queue>/<n>     units of 46 bytes, of the log file with the same name
    .../compacting/, .../replicating/               files of an unfinished run
    .../<n>.delete                                  a file that a run has replaced

If the log continued in the next file before the file of units was full, the units end with a mark: a unit with log
offset -1. Queue offsets have gaps, as compaction removes records.

Source: CompactionStore, CompactionLog, SparseConsumeQueue, CompactionPositionMgr (5.3.3).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from store import kernels
from store.files.filesystem import Filesystem
from store.files.numbered import usual_size
from store.files.store_reader import StoredFile, StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.queue_unit import BATCH_UNIT_SIZE
from store.formats.run import Run
from store.layout import parse_queue_id
from store.structures.commitlog.scan import Blank, Outcome, ScanRules, Segment, scan_segment
from store.structures.consumequeue.batch_units import (
    BATCH_UNIT_DTYPE,
    NO_COMPACTED_OFFSET,
    BatchUnitArray,
    batch_units_of,
    units_of_records,
    written_count,
)
from store.structures.tables.topics import topic_attribute

FOLDER = "compaction"
LOG, QUEUE = f"{FOLDER}/compactionLog", f"{FOLDER}/compactionCq"
POSITIONS = f"{FOLDER}/position-checkpoint"
UNFINISHED = ("compacting", "replicating")
DELETED = ".delete"

Queue = tuple[str, int]


def compacted_topics(folder: Path, fs: Filesystem) -> frozenset[str]:
    """Return topics with cleanup.policy=COMPACTION (5.x) in the topics.json of a config folder."""
    policies = topic_attribute(folder, fs, "cleanup.policy")
    return frozenset(topic for topic, policy in policies.items() if policy == "COMPACTION")


@dataclass(frozen=True, slots=True)
class QueueFiles:
    """The files of one queue in both folders, and the leftovers of runs."""

    queue: Queue
    logs: dict[int, StoredFile]
    units: dict[int, StoredFile]
    deleted: tuple[StoredFile, ...]
    unfinished: tuple[StoredFile, ...]

    @property
    def folders(self) -> tuple[str, str]:
        """The queue's folders: for the log, and for the units."""
        topic, queue_id = self.queue
        return f"{LOG}/{topic}/{queue_id}", f"{QUEUE}/{topic}/{queue_id}"

    @property
    def pairs(self) -> list[tuple[StoredFile, StoredFile]]:
        """Log and units of each name that has both, in order of name."""
        return [(self.logs[name], self.units[name]) for name in sorted(self.logs.keys() & self.units.keys())]


def queues_of(files: StoreReader) -> list[QueueFiles]:
    """Return every queue with a folder in either tree."""
    found: set[Queue] = set()
    for tree in (LOG, QUEUE):
        for entry in files.below(tree):
            topic, _, queue = entry.path.removeprefix(f"{tree}/").partition("/")
            queue_id = parse_queue_id(queue)
            if entry.is_folder and queue_id is not None:
                found.add((topic, queue_id))
    return [queue_files(files, queue) for queue in sorted(found)]


def queue_files(files: StoreReader, queue: Queue) -> QueueFiles:
    """Return the files of one queue."""
    topic, queue_id = queue
    folders = [f"{tree}/{topic}/{queue_id}" for tree in (LOG, QUEUE)]
    logs, units = ({file.number: file for file in files.numbered_files(folder)} for folder in folders)
    deleted = [
        StoredFile(entry.path, -1, entry.size, entry.mtime_ms)
        for folder in folders
        for entry in files.below(folder)
        if entry.path.endswith(DELETED) and not entry.is_folder and entry.path.count("/") == folder.count("/") + 1
    ]
    unfinished = [
        file for folder in folders for name in UNFINISHED for file in files.numbered_files(f"{folder}/{name}")
    ]
    return QueueFiles(queue, logs, units, tuple(deleted), tuple(unfinished))


def read_units(files: StoreReader, file: StoredFile) -> BatchUnitArray:
    """Return the written units of a file, up to its end or its unit of log offset -1."""
    return written_units(files.read(file.path))


def written_units(data: bytes | memoryview) -> BatchUnitArray:
    """Return the units in the bytes of a file, up to their end or the unit of log offset -1."""
    units = batch_units_of(data)
    return units[: written_count(units)]


def records_of(files: StoreReader, file: StoredFile) -> tuple[list[Run], Outcome | None]:
    """Read a log file's records, check their CRCs, and return them with the outcome of the scan."""
    return _scanned(StoredSegment(files, file))


def records_in(number: int, data: bytes) -> tuple[list[Run], Outcome | None]:
    """Return the records in the bytes of a log file as `records_of` does."""
    return _scanned(SegmentInMemory(number, memoryview(data)))


def _scanned(segment: Segment) -> tuple[list[Run], Outcome | None]:
    runs: list[Run] = []
    for step in scan_segment(segment, rules=ScanRules(check_crc=True)):
        if not isinstance(step, Run):
            return runs, step
        runs.append(step)
    return runs, None


def units_of_log(runs: list[Run], outcome: Outcome | None, size: int, levels: tuple[int, ...] = ()) -> bytes:
    """Return the bytes of the file of units for a log file with these records."""
    units = [np.zeros(0, BATCH_UNIT_DTYPE), *(expected_units(run, levels) for run in runs)]
    data = np.concatenate(units).astype(BATCH_UNIT_DTYPE).tobytes()
    return data + behind_units(outcome, size - len(data))


def behind_units(outcome: Outcome | None, size: int) -> bytes:
    """Return the bytes after the last unit of a file: the end's mark of a full log file, and zeros."""
    end = np.zeros(1, BATCH_UNIT_DTYPE)
    end["log_offset"] = end["compacted_offset"] = NO_COMPACTED_OFFSET
    mark = end.tobytes() if isinstance(outcome, Blank) and size >= BATCH_UNIT_SIZE else b""
    return mark.ljust(size, b"\0")


def expected_units(run: Run, levels: tuple[int, ...] = ()) -> BatchUnitArray:
    """Return the units that a run's records should have."""
    codes = np.empty(run.count, np.int64)
    kernels.tags_codes(run.buffer, np.ascontiguousarray(run.array), run.count, np.array(levels, np.int64), codes)
    return units_of_records(run, np.arange(run.count), codes)


def start_faults(queue: QueueFiles) -> Iterator[tuple[StoredFile, str]]:
    """Yield each file of a queue that prevents a broker's start, with its fault."""
    for name, has_log, has_units in iterate_names(queue):
        if not (has_log and has_units):
            file = queue.logs[name] if has_log else queue.units[name]
            yield file, f"the file of {'entries' if has_log else 'records'} of this name is missing"
    for file in queue.deleted:
        if file.size:
            yield file, "replaced by a run that was cut short"
    for tree in (queue.logs, queue.units):
        size = usual_size(tree.values())
        for file in tree.values():
            if file.size != size:
                yield file, f"{file.size} bytes instead of {size}"


def iterate_names(queue: QueueFiles) -> Iterator[tuple[int, bool, bool]]:
    """Yield each name in either tree, whether the log has it, and whether the units have it."""
    for name in sorted(queue.logs.keys() | queue.units.keys()):
        yield name, name in queue.logs, name in queue.units


def read_positions(files: StoreReader, path: str) -> dict[str, int] | None:
    """Return the position of each queue, by <topic>_<queue>; None if the file is no such table."""
    try:
        document = json.loads(bytes(files.read(path)).decode())
        table = document["queueOffsetMap"]
        return {str(name): int(position) for name, position in table.items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


class SegmentInMemory:
    """A segment in memory."""

    def __init__(self, file_start: int, buffer: memoryview) -> None:
        self.path, self.file_start, self.buffer = Path(f"{file_start:020d}"), file_start, buffer
        self.size = self.readable_position = len(buffer)

    def readable_end(self, start: int, stop: int) -> int:
        return stop

    def behind_unreadable(self, start: int, stop: int) -> int:
        return stop

    def next_written(self, position: int) -> int:
        return position

    def written_end(self) -> int:
        return self.size
