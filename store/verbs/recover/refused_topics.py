"""Find the messages of topics whose attributes in topics.json a 5.3 broker refuses.

The broker's dispatch ends at such a message: the dispatcher of compacted topics reads cleanup.policy for each message,
as a reader of the topic does. In a recovery the exception ends the load. Later the dispatch retries the same message
for ever.

Source: DefaultMessageStore.getMessage, doReput and the service that compacts (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from store.formats.run import Run
from store.formats.sets import is_in
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.scan import scan_segment
from store.structures.consumequeue.numbering import QueueTable
from store.structures.tables import refused_attributes
from store.structures.trap import Trap
from store.verbs.recover.confirm import confirm_offset
from store.verbs.recover.recover import RecoveryReport

CODE = "topic-attribute"


def refused_at_start(opened: OpenedStore, found: RecoveryReport) -> Trap | None:
    """Find the first message of such a topic that the recovery dispatches: the load fails there."""
    clauses = refused_attributes(opened.layout.config, opened.fs) if opened.line.dispatches_in_recovery else {}
    place = _first_dispatched(opened, found, clauses) if clauses else None
    if place is None:
        return None
    topic, log_offset = place
    return Trap(CODE, f"IllegalArgumentException at log offset {log_offset}: of topic {topic} {clauses[topic]}")


def refused_later(opened: OpenedStore) -> Iterator[Trap]:
    """Yield a trap for each such topic."""
    if not opened.line.dispatches_in_recovery:
        return
    for topic, clause in refused_attributes(opened.layout.config, opened.fs).items():
        detail = f"of topic {topic} {clause}: it is not read, and its next message stops the dispatch of all topics"
        yield Trap(CODE, detail)


def _first_dispatched(opened: OpenedStore, found: RecoveryReport, topics: Mapping[str, str]) -> tuple[str, int] | None:
    is_abnormal = found.mode == "abnormal"
    behind = -1 if is_abnormal else found.queue_end_before
    confirm = confirm_offset(opened) if is_abnormal else None
    stop = found.log_end if confirm is None else min(found.log_end, confirm)
    for segment in opened.log.segments.files:
        if not found.end.start <= segment.file_start < stop:
            continue
        for step in scan_segment(segment, 0, rules=opened.scan_rules(check_crc=False)):
            if isinstance(step, Run) and (place := _first_of(step, topics, behind, stop)) is not None:
                return place
    return None


def _first_of(run: Run, topics: Mapping[str, str], behind: int, stop: int) -> tuple[str, int] | None:
    table = QueueTable()
    numbers = table.assign(run.buffer, run.array, run.count, queued_only=False)
    wanted = [number for number, (topic, _) in enumerate(table.names) if topic in topics]
    starts = run.columns.log_offset
    rows = np.flatnonzero(is_in(numbers, wanted) & (starts > behind) & (starts + run.columns.size <= stop))
    return (table.names[int(numbers[rows[0]])][0], int(starts[rows[0]])) if rows.size else None
