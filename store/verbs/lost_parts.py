"""Lost files of queues and index whose records the log still has, found by one walk of the log.

queue        no folder at all
queue file   no file of the queue holds the position of a record's queue offset
index file   no file's header covers the log offset of a record with keys
extension    the newest unit points into consumequeue_ext/, where no file holds the address
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from store.files.store_reader import StoredFile, StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.index_page import FIRST_INDEX_COUNT, HEADER_SIZE, decode_header
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array, Run
from store.formats.topics import shares_records
from store.formats.wording import amount, amount_is
from store.layout import is_topic_folder_name, segment_name
from store.structures.commitlog.resync import readable_behind
from store.structures.commitlog.scan import ScanRules
from store.structures.consumequeue.multi_dispatch import find_light_parts
from store.structures.consumequeue.numbering import QueueTable
from store.structures.index.expect import expected_entries
from store.verbs.queue_ends import QueueEnd

Queue = tuple[str, int]


class Problem(NamedTuple):
    """A missing, incomplete or damaged part of a store. `code` and `subject` identify the advice."""

    what: str
    detail: str
    code: str
    subject: tuple[object, ...] = ()


class ExpectedQueues(NamedTuple):
    """The queues that the records should have.

    file_size     of each queue file
    other_topics  topics with queues of another type
    has_light     whether records have units in light queues
    lacks_light   whether a broker may have written no light queue
    """

    file_size: int
    other_topics: frozenset[str] = frozenset()
    has_light: bool = False
    lacks_light: bool = False


def find_lost_parts(
    reader: StoreReader,
    segments: Sequence[StoredFile],
    ends: Sequence[QueueEnd],
    stop: int,
    expected: ExpectedQueues,
) -> Iterator[Problem]:
    """Walk the log up to log offset `stop`, the expected end of queues and index."""
    queues = _QueueFiles(ends, expected)
    index = _IndexCoverage(reader, stop)
    mapped = [StoredSegment(reader, segment) for segment in segments]
    start = segments[0].number if segments else 0
    for step in readable_behind(mapped, start, rules=ScanRules()):
        if isinstance(step, Run):
            if step.start >= stop:
                break
            queues.note(step, stop)
            index.note(step)
    yield from queues.lost()
    yield from index.lost()


class _QueueFiles:
    """A count of the records without their queue file, by queue and start of the file."""

    def __init__(self, ends: Sequence[QueueEnd], expected: ExpectedQueues) -> None:
        self._expected = expected
        self._table = QueueTable()
        self._starts = {(end.topic, end.queue_id): end.starts for end in ends}
        self._counts: dict[Queue, dict[int, int]] = {}

    def note(self, run: Run, stop: int) -> None:
        numbers = self._table.assign(run.buffer, run.array, run.count)
        columns = run.columns
        inside = (numbers >= 0) & (columns.position + run.file_start < stop) & (columns.queue_offset >= 0)
        starts = self._file_starts(columns.queue_offset)
        rows = np.flatnonzero(inside)
        if self._expected.has_light:
            for light, part, _ in find_light_parts(run, rows).parts:
                found, each = np.unique(self._file_starts(part.columns.queue_offset), return_counts=True)
                for start, count in zip(found.tolist(), each.tolist(), strict=True):
                    self._note_file(light, start, count)
        # One sort serves all queues of a run: there may be a hundred thousand.
        rows = rows[np.lexsort((starts[rows], numbers[rows]))]
        is_first = (np.diff(numbers[rows], prepend=-1) != 0) | (np.diff(starts[rows], prepend=-1) != 0)
        firsts = np.flatnonzero(is_first)
        counts = np.diff(firsts, append=len(rows))
        for row, count in zip(rows[firsts].tolist(), counts.tolist(), strict=True):
            self._note_file(self._table.names[numbers[row]], int(starts[row]), count)

    def _file_starts(self, queue_offsets: Int64Array) -> Int64Array:
        size = self._expected.file_size
        starts: Int64Array = queue_offsets * UNIT_SIZE // size * size
        return starts

    def _note_file(self, queue: Queue, start: int, count: int) -> None:
        is_plain = queue[0] not in self._expected.other_topics and is_topic_folder_name(queue[0])
        if is_plain and start not in self._starts.get(queue, ()):
            of_queue = self._counts.setdefault(queue, {})
            of_queue[start] = of_queue.get(start, 0) + count

    def lost(self) -> Iterator[Problem]:
        light = {queue for queue in self._counts if shares_records(queue[0])} if self._expected.lacks_light else set()
        if light:
            from store.structures.consumequeue.dispatch_faults import LIGHT_WITHOUT_FILES, describe_without_files

            yield Problem("no light queue", describe_without_files(len(light)), LIGHT_WITHOUT_FILES)
        for (topic, queue_id), counts in sorted(self._counts.items()):
            if (topic, queue_id) in light:
                continue
            name, subject = f"{topic}, queue {queue_id}", (topic, queue_id)
            messages = sum(counts.values())
            if (topic, queue_id) not in self._starts:
                detail = f"{name}: there is no folder, and the log has {amount(messages, 'message')} of it"
                yield Problem("lost queue", detail, "queue-file-lost", subject)
            else:
                files = ", ".join(segment_name(start) for start in sorted(counts))
                detail = f"{name}: the log has {amount(messages, 'message')} of files that are not there: {files}"
                yield Problem("lost queue file", detail, "queue-file-lost", subject)


class _IndexCoverage:
    """A count of the keys of records between the stretches of log that index files cover."""

    def __init__(self, reader: StoreReader, stop: int) -> None:
        headers = [
            decode_header(bytes(reader.read(file.path, 0, HEADER_SIZE)).ljust(HEADER_SIZE, b"\0"))
            for file in reader.index_files()
        ]
        covered = sorted(
            (one.begin_log_offset, one.end_log_offset) for one in headers if one.index_count > FIRST_INDEX_COUNT
        )
        # `info` reports a store without any index file by another problem.
        lows, highs = [-1, *(end for _, end in covered)], [*(begin for begin, _ in covered), stop]
        self._gaps = list(zip(lows, highs, strict=True)) if covered else []
        self._counts = dict.fromkeys(self._gaps, 0)

    def note(self, run: Run) -> None:
        for low, high in self._gaps:
            if low < run.end and run.start < high:
                offsets = expected_entries(run).log_offset
                self._counts[low, high] += int(((offsets > low) & (offsets < high)).sum())

    def lost(self) -> Iterator[Problem]:
        for (low, high), count in self._counts.items():
            if count:
                detail = f"no index file covers log offsets {low + 1} to {high}: {amount_is(count, 'key')} in none"
                yield Problem("lost index file", detail, "index-file-lost")


def find_lost_extensions(reader: StoreReader, queues: Sequence[QueueEnd]) -> Iterator[Problem]:
    """Yield the queues whose newest unit points to an extension unit in no file."""
    for queue in queues:
        if queue.extension < 0:
            continue
        files = reader.numbered_files(f"consumequeue_ext/{queue.topic}/{queue.queue_id}")
        if not any(file.number <= queue.extension < file.number + file.size for file in files):
            name = f"{queue.topic}, queue {queue.queue_id}"
            detail = f"{name}: its entries point into consumequeue_ext/, where no file has their data"
            yield Problem("lost extension", detail, "extension-file-lost")
