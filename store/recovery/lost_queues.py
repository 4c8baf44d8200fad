"""Builds queues and queue files that are lost although the log has their records.

A recovery does so before the log's walk.

A broker does not notice them: it gives their queue offsets a second time.
"""

from __future__ import annotations

from collections.abc import Callable

from store.consumequeue.consume_queue_store import QueueKey
from store.opened.missing import QueueBuilder, Repair, Stretch
from store.opened.opened_store import OpenedStore
from store.opened.verified import verified_until


def build_lost_queues(
    opened: OpenedStore,
    start: int,
    queue_end: int,
    *,
    abnormal: bool,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Builds units lost before log offset `queue_end`, and before `start` if dispatch begins there.

    Gives a sentence for each queue that lacked some. The queues have been recovered, and are in an overlay.
    """
    begin = max(opened.log.min_offset, 0)
    log = Stretch(begin, max(start, queue_end) if abnormal else queue_end)
    if log.stop <= log.start:
        return []
    dropped = _drop_units_without_extension(opened, begin)
    repairs = {(queue.topic, queue.queue_id): Repair.of(queue, log, log.stop) for queue in opened.queues.awake()}
    met: list[Repair] = []

    def meet(key: QueueKey) -> Repair | None:
        if opened.queues.is_resting(key):
            # Its only file begins at 0 and has room behind its units.
            return None
        repair = Repair.of(opened.queues.find_or_create(*key), log, log.stop)
        met.append(repair)
        return repair

    dispatched = start if abnormal else log.stop
    known = max(begin, verified_until(opened))
    segments, rules = opened.log.segments.files, opened.scan_rules(check_crc=False)
    builder = QueueBuilder(opened.queues, segments, log, rules, extends=True)
    builder.repair(repairs, meet, start=known if known < dispatched else None, progress=progress)
    return dropped + [_describe(repair) for repair in (*repairs.values(), *met) if repair.placed]


def _drop_units_without_extension(opened: OpenedStore, min_log_offset: int) -> list[str]:
    """Removes queues that lack extension files, so that units and extension units are built anew.

    Gives a sentence for each such queue. New extension units would else get the addresses that old units name.
    """
    found = []
    for queue in opened.queues.awake():
        if queue.has_lost_extension(min_log_offset):
            queue.destroy()
            name = f"{queue.topic}, queue {queue.queue_id}"
            built = "without the filters' bit maps, which the log does not hold"
            found.append(f"{name}: files in consumequeue_ext/ are lost; they are built from the log, {built}")
    return found


def _describe(repair: Repair) -> str:
    queue = repair.queue
    return f"{queue.topic}, queue {queue.queue_id}: {repair.placed} units were lost, and are built from the log"
