"""Queues and queue files that are lost although the log has their records: built before a recovery walks the log.

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
    """Builds units that were lost before log offset `queue_end`, and before `start` where the walk dispatches from it.

    Gives a sentence for each queue that lacked some. The queues have been recovered, and are in an overlay.
    """
    begin = max(opened.log.min_offset, 0)
    log = Stretch(begin, max(start, queue_end) if abnormal else queue_end)
    if log.stop <= log.start:
        return []
    repairs = {(queue.topic, queue.queue_id): Repair.of(queue, log, log.stop) for queue in opened.queues}
    met: list[Repair] = []

    def meet(key: QueueKey) -> Repair:
        repair = Repair.of(opened.queues.find_or_create(*key), log, log.stop)
        met.append(repair)
        return repair

    dispatched = start if abnormal else log.stop
    known = max(begin, verified_until(opened))
    builder = QueueBuilder(opened.queues, opened.log.segments.files, log, opened.scan_rules(check_crc=False))
    builder.repair(repairs, meet, start=known if known < dispatched else None, progress=progress)
    return [_describe(repair) for repair in (*repairs.values(), *met) if repair.placed]


def _describe(repair: Repair) -> str:
    queue = repair.queue
    return f"{queue.topic}, queue {queue.queue_id}: {repair.placed} units were lost, and are built from the log"
