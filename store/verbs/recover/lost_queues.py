"""Rebuild lost queues and queue files while the log has their records.

A recovery does so before the log's walk.

A broker does not notice the loss: it assigns the queue offsets a second time.
"""

from __future__ import annotations

from store.errors import StoreIOError
from store.files.overlay import OverlayFileQueue
from store.formats.run import Stretch
from store.formats.wording import amount_is
from store.opened.log_end import ViewedEnd, find_closed_end, find_crashed_end
from store.opened.missing import QueueBuilder, Repair
from store.opened.opened_store import OpenedStore
from store.opened.verified import verified_until
from store.structures.commitlog.readable_log import read_store_timestamp
from store.structures.commitlog.resync import has_bytes_behind
from store.structures.commitlog.scan import Segment
from store.structures.commitlog.start import starting_segment
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.queue_set import QueueKey
from store.verbs.recover.lost import LossCounter
from store.verbs.recover.walk import Progress, walk


def build_lost_queues(
    opened: OpenedStore,
    start: int,
    queue_end: int,
    *,
    abnormal: bool,
    finds_absent: bool = True,
    progress: Progress | None = None,
) -> list[str]:
    """Build units lost before log offset `queue_end`, and before `start` if dispatch begins there.

    Return a sentence for each queue that lacked some. The queues have been recovered, and are in an overlay.

    finds_absent  whether the log is read for queues without a folder, except for parts that an earlier writer verified
    """
    begin = opened.log.start
    log = Stretch(begin, max(start, queue_end) if abnormal else queue_end)
    if log.stop <= log.start:
        return []
    dropped = _drop_units_without_extension(opened, begin)
    dispatched = start if abnormal else log.stop
    repairs = repair_queues(opened, log, dispatched, log.stop, finds_absent=finds_absent, progress=progress)
    return dropped + [_describe(repair) for repair in repairs]


def sound_queue_end(opened: OpenedStore, start: int, queue_end: int) -> int:
    """Return the queues' end, but no log offset past the log's end.

    A broker's own truncation leaves units that point past it.

    start  the log offset at which the recovery's walk begins

    The log is only walked if the record of the newest unit is older than the checkpoint, as leftovers are.
    """
    if queue_end <= start or opened.queues.newest_unit() is None:
        return queue_end
    if newest_time_ms(opened) >= opened.checkpoint.page.min_timestamp_ms:
        return queue_end
    return min(queue_end, walk(opened, start).log_end)


def newest_time_ms(opened: OpenedStore) -> int:
    """Return the store time of the newest record with a unit; 0 without one, and where it can't be read."""
    newest = opened.queues.newest_unit()
    try:
        record = opened.log.read(*newest) if newest is not None else None
    except StoreIOError:
        # The walk passes over the page, and names it.
        return 0
    return read_store_timestamp(record) if record is not None else 0


def build_cut_short(opened: OpenedStore, stop: int, losses: LossCounter) -> list[str]:
    """Rebuild units that a truncation removed after damaged ones, up to log offset `stop`.

    Return a sentence for each such queue. All other queues reach `stop`.
    """
    short = [queue for queue in opened.queues.awake() if queue.is_cut_short]
    before = {queue: queue.max_offset for queue in short}
    begin = max(opened.log.start, min((queue.max_physic_offset for queue in short), default=stop))
    for run in opened.runs(begin, stop):
        opened.queues.dispatch(run)
    for queue, at in before.items():
        losses.note_built(queue, at)
    return [
        f"{queue.topic}, queue {queue.queue_id}: the entry of queue offset {at} is of no record; it and later "
        "ones are rebuilt from the log"
        for queue, at in before.items()
        if queue.max_offset > at
    ]


def repair_queues(
    opened: OpenedStore,
    log: Stretch,
    dispatched: int,
    trusted: int,
    *,
    finds_absent: bool,
    progress: Progress | None = None,
) -> list[Repair]:
    """Build the units of a stretch that queues lack; return the queues that lacked some.

    dispatched    log offset up to which queues without a folder are searched
    trusted       log offset up to which no queue lacks its last units
    finds_absent  whether the log is read for such queues
    """
    repairs = {
        (queue.topic, queue.queue_id): Repair.of(queue, log, -1 if _ends_at_hole(opened, queue) else trusted)
        for queue in opened.queues.awake()
    }
    met: list[Repair] = []
    known = max(log.start, verified_until(opened))
    looks = finds_absent and known < dispatched

    def meet(key: QueueKey) -> Repair | None:
        if not looks or opened.queues.is_resting(key):
            # The walk dispatches a queue without a folder from its beginning, which may be before this stretch.
            # The only file of an idle queue begins at 0 and has room after its units.
            return None
        repair = Repair.of(opened.queues.find_or_create(*key), log, log.stop)
        met.append(repair)
        return repair

    segments, rules = opened.log.segments.files, opened.scan_rules(check_crc=False)
    builder = QueueBuilder(opened.queues, segments, log, rules, extends=True)
    builder.repair(repairs, meet, start=known if looks else None, progress=progress)
    return [repair for repair in (*repairs.values(), *met) if repair.placed]


def build_all_lost(
    opened: OpenedStore, *, finds_absent: bool = True, progress: Progress | None = None
) -> tuple[list[str], ViewedEnd]:
    """Build the units that queues lack up to the log's end, for a plan that reads the queues.

    Return a sentence for each queue that lacked some, and the log's end. The queues are in an overlay.
    """
    if opened.config.enable_calc_filter_bit_map:
        # Few stores have bit maps, and filters take long to import.
        from store.reading.filter.subscription import use_bit_maps

        use_bit_maps(opened)
    queue_end = opened.queues.recover()
    found = _find_end(opened, progress)
    log_end = found.end.log_end
    newest = found.newest
    is_absent = newest is not None and (newest.topic, newest.queue_id) not in opened.queues
    built = build_lost_queues(
        opened,
        log_end,
        min(queue_end, log_end),
        abnormal=True,
        # Queues in a database have no files.
        finds_absent=(finds_absent or is_absent) and not opened.config.queues_in_database,
        progress=progress,
    )
    return built, found


def _find_end(opened: OpenedStore, progress: Progress | None) -> ViewedEnd:
    segments: list[Segment] = [*opened.log.segments.files]
    rules = opened.scan_rules(check_crc=False)
    if not opened.abort.exists():
        return find_closed_end(segments, opened.line, rules)
    return find_crashed_end(segments, starting_segment(opened, abnormal=True).log_offset, rules, progress)


def _drop_units_without_extension(opened: OpenedStore, min_log_offset: int) -> list[str]:
    """Remove queues that lack extension files, so that units and extension units are rebuilt.

    Return a sentence for each such queue. Otherwise new extension units would get addresses that old units point to.
    """
    found = []
    for queue in opened.queues.awake():
        if queue.has_lost_extension(min_log_offset):
            queue.destroy()
            name = f"{queue.topic}, queue {queue.queue_id}"
            built = _bit_maps_built(opened)
            found.append(f"{name}: files in consumequeue_ext/ are lost; they are built from the log, {built}")
    return found


def _bit_maps_built(opened: OpenedStore) -> str:
    """Describe the bit maps of new extension units, as a clause for people."""
    from store.structures.tables.consumer_filters import FILE_NAME

    if opened.queues.bit_maps is not None:
        return f"with the bit maps of the filters that config/{FILE_NAME} holds"
    without = "without the filters' bit maps, which the log does not hold"
    if opened.config.enable_calc_filter_bit_map or not opened.fs.exists(opened.layout.config / FILE_NAME):
        return without
    return f"{without} (enableCalcFilterBitMap=true calculates them from config/{FILE_NAME})"


def _ends_at_hole(opened: OpenedStore, queue: ConsumeQueue) -> bool:
    """Return whether written units follow the queue's end."""
    last = queue.files.last
    if queue.holds_batches or last is None:
        return False
    assert isinstance(queue.files, OverlayFileQueue)
    return bool(queue.files.removed_paths()) or has_bytes_behind(last, last.wrote, opened.fs)


def _describe(repair: Repair) -> str:
    queue = repair.queue
    return f"{queue.topic}, queue {queue.queue_id}: {amount_is(repair.placed, 'entry')} lost, and rebuilt from the log"
