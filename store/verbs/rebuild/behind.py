"""The count of messages past the end of the log in a rebuild: no queue shows them afterwards."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.run import Run
from store.structures.commitlog.end import LogEnd, find_end
from store.structures.commitlog.leftovers import Leftovers
from store.structures.commitlog.resync import readable_behind
from store.structures.commitlog.scan import VERIFYING, Damage, ScanRules, Step, scan_segment
from store.structures.consumequeue.numbering import QueueTable
from store.verbs.rebuild.scope import RebuildScope


def ends_in_damage(files: StoreReader, log_end: int) -> bool:
    """Return whether damage ends the log, and not its last record."""
    ended_in = next(iter(_reaching(files, log_end)), None)
    return ended_in is not None and isinstance(_step_at(ended_in, log_end), Damage)


def messages_behind(files: StoreReader, scope: RebuildScope, log_end: int) -> dict[str, int]:
    """Count the scope's readable messages past the log's end, by topic, without leftovers."""
    segments = _reaching(files, log_end)
    if not scope.queues or not segments:
        return {}
    step = _step_at(segments[0], log_end)
    if isinstance(step, Run):
        # A sound record that no master has confirmed.
        return {}
    steps = readable_behind(segments, log_end, rules=VERIFYING, with_bad_bodies=True)
    runs = (one for one in steps if isinstance(one, Run))
    first = next(runs, None)
    if first is None:
        return {}
    # Walk the segment of the end again only if records follow it.
    last_ms = find_end(segments[:1], segments[0].file_start, ScanRules(), stop=log_end).last_store_timestamp_ms
    leftovers = Leftovers(segments, LogEnd(log_end, log_end, step, last_store_timestamp_ms=last_ms), first)
    table, counts = QueueTable(), Counter[str]()
    for run in chain([first], runs):
        numbers = table.assign(run.buffer, run.array, run.count)[~leftovers.among(run)]
        for number in numbers[numbers >= 0].tolist():
            if scope.wants(table.names[number]):
                counts[table.names[number][0]] += 1
    return dict(sorted(counts.items()))


def _step_at(segment: StoredSegment, log_end: int) -> Step | None:
    """Return the step of a walk at the log's end; None if the segment begins after it."""
    position = log_end - segment.file_start
    return next(scan_segment(segment, position, rules=VERIFYING)) if position >= 0 else None


def _reaching(files: StoreReader, log_offset: int) -> list[StoredSegment]:
    """Return the segment that holds the byte at a log offset, and the later ones."""
    segments = (StoredSegment(files, file) for file in files.segments())
    return [one for one in segments if one.file_start + one.size > log_offset]
