"""Recover a store by its log alone, with queues and index rebuilt by either engine.

    1. the checkpoint's times are set to 0, so the recovery begins at the first segment
    2. `rebuild` walks the whole log, fills the staging folder with queues and index, and returns the log's end
    3. the rebuilt queues and index are opened in place of the store's own
    4. this process walks from the last record that has a unit to the log's end: it finds the last store times and the
       outcome at the log's end, and verifies that both read the same log

The result equals, byte for byte, an abnormal recovery of the same store without consumequeue/ and index/, with a
checkpoint of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from store.config import NAMED_QUEUES
from store.errors import StoreIOError
from store.files.store_reader import StoreReader
from store.formats.run import Run
from store.formats.topics import SCHEDULE_TOPIC
from store.layout import StoreLayout
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.end import END_OF_LOG, find_end
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.index.index_service import IndexService
from store.verbs.rebuild.expired import keep_lost_ends
from store.verbs.rebuild.scope import Rebuild, RebuildScope
from store.verbs.recover.confirm import UpTo, confirm_offset
from store.verbs.recover.differences import applying
from store.verbs.recover.lost import LossCounter
from store.verbs.recover.recover import RecoveryReport, cut_log
from store.verbs.recover.rules import RecoveryRules


def recover_by_rebuild(opened: OpenedStore, rebuild: Rebuild) -> RecoveryReport:
    """Run steps 1 to 4 on a store with an overlay; it then has the rebuilt queues and index."""
    assert opened.overlay is not None
    opened.checkpoint.physic_ms = opened.checkpoint.logics_ms = opened.checkpoint.index_ms = 0
    rules = opened.scan_rules(check_crc=opened.config.check_crc_on_recover)
    confirm = confirm_offset(opened) or None
    with_tags = opened.line.indexes_tags
    scope = RebuildScope(index=opened.config.writes_index_files, confirmed=confirm, with_tags=with_tags)
    config = opened.config.with_settings(NAMED_QUEUES if opened.finds_light else {})
    made = rebuild(opened.overlay.folder, config, scope, rules)
    files = StoreReader.of(opened.layout, opened.fs)
    lost_ends = keep_lost_ends(files, opened.overlay.folder, opened.config, scope, opened.fs)
    queue_end_before = opened.queues.recover()
    open_rebuilt(opened, opened.overlay.folder)
    segments = opened.log.segments.files
    start = segments[0].file_start if segments else 0
    end = find_end(segments, _last_queued_record(opened, start), rules, _dispatch(opened, confirm))
    if end.log_end != made.log_end:
        raise StoreIOError(
            f"the log ends at {made.log_end} for those who rebuilt it, and at {end.log_end} for this process",
            file=opened.layout.commitlog,
            hint="does a broker write to it, or is another folder mounted there on the executors?",
        )
    end.start, end.record_count = start, made.record_count
    delayed = sum(queue.max_offset for queue in opened.queues.of_topic(SCHEDULE_TOPIC))
    found = RecoveryReport("abnormal", "queues and index are rebuilt from the whole log", end, queue_end_before)
    found.is_rebuilt = True
    if segments:
        losses = LossCounter(opened)
        cut_log(opened, found)
        losses.read_behind(found.behind, end)
        losses.read_units(end.log_end, END_OF_LOG)
        found.lost = losses.report()
    found.differences = applying(opened, end, queue_end_before, RecoveryRules(keep_index=True), delayed=delayed)
    found.remarks += lost_ends
    found.findings = list(dict.fromkeys([*made.findings, *opened.queues.describe_findings()]))
    return found


def open_rebuilt(opened: OpenedStore, folder: Path) -> None:
    """Replace the store's queues and index by the rebuilt ones, read-only."""
    opened.queues.close()
    opened.index.close()
    layout = StoreLayout(folder)
    opened.queues = ConsumeQueueStore(layout, opened.config, opened.fs, writable=False)
    opened.queues.load(opened.line)
    opened.queues.recover()
    opened.index = IndexService(layout, opened.config, opened.fs, writable=False, clock=opened.clock)
    opened.index.load()
    for full in opened.index.files[:-1]:
        opened.checkpoint.index_ms = full.header.end_timestamp_ms


def _dispatch(opened: OpenedStore, confirm: int | None) -> Callable[[Run], None]:
    """Return the handler of the last walk; all of its records have their units."""
    return opened.queues.dispatch if confirm is None else UpTo([opened.queues], confirm).dispatch


def _last_queued_record(opened: OpenedStore, start: int) -> int:
    """Return the log offset of the last record with a unit; the log's `start` without one."""
    units = (queue.unit(queue.max_offset - 1) for queue in opened.queues if queue.max_offset)
    return max((unit.log_offset for unit in units if unit is not None), default=start)
