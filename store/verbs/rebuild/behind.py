"""Counts the messages behind the place where a rebuild ends the log: no queue shows them afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.run import Run
from store.structures.commitlog.resync import readable_behind
from store.structures.commitlog.scan import VERIFYING, Damage, scan_segment
from store.structures.consumequeue.numbering import QueueTable
from store.verbs.rebuild.scope import RebuildScope


def ends_in_damage(files: StoreReader, log_end: int) -> bool:
    """Whether damage ends the log, and not its last record."""
    segments = (StoredSegment(files, file) for file in files.segments())
    ended_in = next((one for one in segments if one.file_start <= log_end < one.file_start + one.size), None)
    if ended_in is None:
        return False
    return isinstance(next(scan_segment(ended_in, log_end - ended_in.file_start, rules=VERIFYING)), Damage)


def messages_behind(files: StoreReader, scope: RebuildScope, log_end: int) -> dict[str, int]:
    """Counts the scope's readable messages behind the log's end, by topic.

    Behind a sound end those of later segments count: a broker that cuts its log leaves old records in the segment of
    the cut, and removes later ones.
    """
    segments = [StoredSegment(files, file) for file in files.segments()]
    begin = log_end if ends_in_damage(files, log_end) else _begin_of_later(segments, log_end)
    if not scope.queues or begin is None:
        return {}
    table, counts = QueueTable(), Counter[str]()
    for step in readable_behind(segments, begin, rules=VERIFYING, with_bad_bodies=True):
        if isinstance(step, Run):
            for number in table.assign(step.buffer, step.array, step.count).tolist():
                if number >= 0 and scope.wants(table.names[number]):
                    counts[table.names[number][0]] += 1
    return dict(sorted(counts.items()))


def _begin_of_later(segments: Sequence[StoredSegment], log_end: int) -> int | None:
    """Where the first segment behind the log's end starts that begins with a record."""
    later = (one for one in segments if one.file_start > log_end)
    return next((one.file_start for one in later if isinstance(next(scan_segment(one, 0, rules=VERIFYING)), Run)), None)
