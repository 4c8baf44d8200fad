"""Open a store for writing.

    1. take the lock
    2. refuse after an unclean exit, unless `recover` is given
    3. plan the recovery; refuse if it loses messages, unless `recover` is given; apply it
    4. load the files, and set each part to the end that the recovery found
    5. a slave truncates the log at a record that a power cut tore, and fetches it again from its master
    6. start the services, and leave the abort marker

WritableStore.close undoes that in the broker's order.

Source: DefaultMessageStore.load, start (4.9.8).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from store.change.actions import Patch, Remove
from store.change.change import AnyChange, Change
from store.config import StoreConfig
from store.engine.ha.link import Address
from store.engine.ha.slave_log import find_torn_record
from store.engine.live.services import StoreServices
from store.engine.writable_store import WritableStore
from store.errors import DamagedFile, ForeignFile, UncleanStore
from store.files.allocate import AllocateMappedFileService
from store.files.filesystem import MOVE_IT_OUT
from store.files.lock import StoreLock
from store.files.numbered import segments_of
from store.files.overlay import Overlay
from store.files.transient_pool import TransientStorePool
from store.formats.wording import amount_is
from store.layout import StoreLayout
from store.opened.detect import (
    FoundStore,
    OpenRequest,
    is_absent_or_empty,
    refuse_links,
    refuse_unchangeable,
    refuse_wrong_queue_types,
    require_store,
)
from store.opened.opened_store import OpenedStore
from store.opened.staged import staging
from store.opened.verified import remember_verified
from store.reading.filter.subscription import use_bit_maps
from store.structures.commitlog.resync import has_bytes_behind
from store.structures.consumequeue.queue_set import QueueKey
from store.structures.consumequeue.resting import RestingQueue
from store.structures.registry import PUT, STRUCTURES
from store.structures.tables.review import review_loading
from store.verbs.recover.plan import RecoveryPlan, plan_by_rules, require_no_losses
from store.verbs.recover.rules import OWNER
from store.verbs.recover.truncate import plan_truncation

if TYPE_CHECKING:
    from store.engine.services.served_store import ServedStore


SERVICE_TABLES = ("consumerOffset.json", "delayOffset.json", "consumerFilter.json")
"""The tables under config/ that services load and write."""


@dataclass(frozen=True, slots=True)
class WritingOpener:
    """An opener of one store for writing; the fields are options of open_store."""

    request: OpenRequest
    recover: bool
    force_empty_log: bool
    listen: Address | None
    master: Address | None

    def open(self, services: Collection[str] | None) -> WritableStore:
        """Return the store, with a broker's services if some are given."""
        layout, fs = self.request.layout, self.request.fs
        if services is not None:
            from store.engine.services.served_store import named_services

            named_services(services)
        _refuse_other_kinds(self.request.settings)
        if is_absent_or_empty(layout, fs):
            made = fs.make_folder(layout.root)
            for folder in layout.writable_commitlogs:
                made += fs.make_folder(folder)
            for folder in made:
                fs.fsync_folder(folder.parent)
        else:
            require_store(layout, fs)
            refuse_unchangeable(layout, fs, PUT)
            refuse_links(layout, fs)
            if fs.is_link(layout.checkpoint):
                # The checkpoint is written when the store is closed, after the messages.
                raise ForeignFile("a link, where a file is expected", file=layout.checkpoint, hint=MOVE_IT_OUT)
            refuse_wrong_queue_types(layout, fs)
        lock = StoreLock(layout.lock, fs)
        lock.acquire()
        try:
            return self._with_lock(lock, services)
        except BaseException:
            lock.release()
            raise

    def _with_lock(self, lock: StoreLock, services: Collection[str] | None) -> WritableStore:
        layout, fs = self.request.layout, self.request.fs
        if fs.exists(layout.abort) and not self.recover:
            raise UncleanStore(
                "the last owner did not shut down",
                file=layout.abort,
                code="unclean",
            )
        # Before the recovery, as it may remove the files that show the sizes.
        found = self.request.find()
        unloaded = [] if services is None else _unloaded_tables(found, self.request)
        with (
            staging(layout, fs, "open", dry_run=False) as folder,
            contextlib.closing(self._load(found, overlay=Overlay(folder))) as staged,
        ):
            change = plan_by_rules(staged, OWNER, force_empty_log=self.force_empty_log, progress=self.request.progress)
            if not self.recover:
                self._refuse_losses(change)
            log_end, confirmed = change.report.log_end, staged.checkpoint.confirm_log_offset
            resting = _unchanged(staged.queues.resting(), change, layout)
            change_id = change.apply()
        pool = _transient_pool(found.config)
        allocate = AllocateMappedFileService(fs, warm=found.config.warm_maped_file_enable, transient_pool=pool)
        parts = {"writable": True, "allocate": allocate}
        opened, torn = self._load_up_to(log_end, found, resting=resting, **parts), []
        torn_at = find_torn_record(opened.log, self.master) if self.master is not None else None
        if torn_at is not None:
            opened.close()
            torn = [self._cut_torn(found, torn_at)]
            opened = self._load_up_to(torn_at, found, **parts)
        if found.config.enable_calc_filter_bit_map:
            use_bit_maps(opened)
        opened.checkpoint.confirm_log_offset = confirmed
        base = StoreServices(opened, lock, allocate, listen=self.listen, master=self.master)
        store = _store_with(opened, base, services)
        remember_verified(opened)
        base.start()
        if services is not None:
            try:
                cast("ServedStore", store).start_services()
            except BaseException:
                # The caller gets no store to close.
                store.close()
                raise
        store.notes += [*torn, *unloaded, *change.remarks, *change.foreign]
        cut = _what_opening_cut(change, change_id, layout)
        (store.notes if self.recover else store.opening_findings).extend(cut)
        store.opening_findings += change.notes
        return store

    def _refuse_losses(self, change: Change[RecoveryPlan]) -> None:
        """Raise UncleanStore for a change that gives up messages, unless it is of a log that is empty."""
        layout = self.request.layout
        is_empty = self.force_empty_log and not segments_of(layout, self.request.fs)
        if _cuts(change, layout) and not is_empty:
            require_no_losses(layout, change.report, change.report.log_end, change.report.stopped_by)

    def _cut_torn(self, found: FoundStore, torn: int) -> str:
        """Truncate log, queues and index at a torn record, and return the sentence about it."""
        layout, fs = self.request.layout, self.request.fs
        with (
            staging(layout, fs, "open", dry_run=False) as folder,
            contextlib.closing(self._load(found, overlay=Overlay(folder))) as staged,
        ):
            change_id = plan_truncation(staged, torn, progress=self.request.progress).apply()
        return (
            f"a power cut tore the log at {torn}: it was cut there, is kept in the quarantine as {change_id}, and is "
            f"fetched again from {self.master}"
        )

    def _load_up_to(self, log_end: int, found: FoundStore, **options: Any) -> OpenedStore:
        opened = self._load(found, **options)
        _set_positions(opened, log_end)
        return opened

    def _load(self, found: FoundStore, **options: Any) -> OpenedStore:
        return OpenedStore.load(found, self.request.fs, self.request.clock, **options)


def _unloaded_tables(found: FoundStore, request: OpenRequest) -> list[str]:
    """Describe the services' tables that are not loaded. DamagedFile if a broker would not start."""
    folder = request.layout.config
    findings = review_loading(folder, SERVICE_TABLES, found.line, request.fs)
    for finding in findings:
        if finding.kind == "refused":
            raise DamagedFile(finding.detail, file=folder / finding.file, code=finding.code, subject=finding.subject)
    return [finding.detail for finding in findings]


def _refuse_other_kinds(settings: Mapping[str, object]) -> None:
    """Raise BadRequest for settings of a store with files that puts do not write.

    A broker with such settings would not see messages in a plain log and queue files.
    """
    for one in STRUCTURES:
        if PUT in one.refuses and not settings.keys().isdisjoint(one.settings):
            refuse = getattr(one.furniture("guard"), "refuse_settings", None)
            if refuse is not None:
                refuse(settings)


def _store_with(opened: OpenedStore, base: StoreServices, services: Collection[str] | None) -> WritableStore:
    if services is None:
        return WritableStore(opened, base)
    from store.engine.services.served_store import ServedStore

    return ServedStore(opened, base, services)


def _cuts(change: AnyChange, layout: StoreLayout) -> bool:
    """Return whether the change truncates the log or a queue."""
    paths = [action.path for action in change.actions]
    return any(path.parent in layout.commitlogs or path.is_relative_to(layout.consumequeue) for path in paths)


def _what_opening_cut(change: Change[RecoveryPlan], change_id: str | None, layout: StoreLayout) -> list[str]:
    """Describe the truncation of a damaged log or of its queues, for people."""
    if not change.lost:
        return []
    messages, end, why = sum(change.lost.values()), change.report.log_end, change.report.stopped_by
    changed = [action.path for action in change.actions]
    of_log = {type(action) for action in change.actions if action.path.parent in layout.commitlogs}
    if of_log:
        cut = f"the log was cut at {end} because of {why}; {amount_is(messages, 'message')} behind it"
        if Remove in of_log:
            cut += f"; removed segments are in the quarantine as {change_id}"
        if Patch in of_log:
            cut += "; new messages overwrite the rest of the segment"
        return [cut]
    ends = f"the log ends at {end} because of {why}"
    if not any(path.is_relative_to(layout.consumequeue) for path in changed):
        return [f"{ends}; {amount_is(messages, 'message')} past it, in no queue, and new ones may overwrite them"]
    cut = f"{ends}, and queues continued past it"
    return [f"{cut}; {amount_is(messages, 'message')} lost; their entries are kept in the quarantine as {change_id}"]


def _unchanged(
    resting: Mapping[QueueKey, RestingQueue], change: AnyChange, layout: StoreLayout
) -> Mapping[QueueKey, RestingQueue]:
    """Leave out the queues of topics that the change touches."""
    in_queues = [action.path for action in change.actions if action.path.is_relative_to(layout.consumequeue)]
    if layout.consumequeue in in_queues:
        return {}
    topics = {path.relative_to(layout.consumequeue).parts[0] for path in in_queues}
    return {key: queue for key, queue in resting.items() if key[0] not in topics} if topics else resting


def _set_positions(opened: OpenedStore, log_end: int) -> None:
    """Set every part to the end that the recovery found (DefaultMessageStore.recoverTopicQueueTable)."""
    files = opened.log.segments
    files.truncate_dirty_files(log_end)
    files.flushed_where = files.committed_where = log_end
    last = files.last
    if last is not None and has_bytes_behind(last, log_end - last.file_start, opened.fs):
        opened.commit_log.stale_segment = last.file_start
    opened.queues.recover()
    if files.files:
        opened.queues.truncate_dirty(log_end)
    opened.queues.correct_min_offsets(opened.log.min_offset)
    for (topic, queue_id), next_offset in opened.queues.next_offsets():
        opened.commit_log.set_queue_offset(topic, queue_id, next_offset)


def _transient_pool(config: StoreConfig) -> TransientStorePool | None:
    if not config.uses_transient_pool:
        return None
    return TransientStorePool(config.transient_store_pool_size, config.mapped_file_size_commit_log)
