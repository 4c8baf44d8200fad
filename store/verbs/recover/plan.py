"""A recovery as a plan: the Change that turns a store into its opened and repaired state.

    1. the log is truncated: later segments are removed, the 8 bytes at the cut are zeroed
    2. truncated files of queues and index are removed, rebuilt files are published; groups past the ends of cut queues
       go on there
    3. the checkpoint is written, and the abort marker removed

With `rebuild`, queues and index come from store.verbs.recover.from_rebuild, rebuilt from the whole log.
Where a broker deletes files, the plan moves them to quarantine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from store.change.actions import Action, Patch, Publish, Remove
from store.change.change import AnyChange, Change, PlanReport, R
from store.errors import DamagedRecord, StoreIOError, UncleanStore
from store.files.mapped_file import MappedFile
from store.formats.topics import SCHEDULE_TOPIC
from store.formats.wording import amount
from store.layout import StoreLayout
from store.opened.delays import built_levels, describe_assumed_delays
from store.opened.detect import refuse_unchangeable, require_log
from store.opened.opened_store import OpenedStore
from store.opened.staged import takes_path
from store.structures.commitlog.end import NORMAL_SEGMENTS
from store.structures.commitlog.resync import find_record
from store.structures.commitlog.scan import Blank, End
from store.structures.registry import AS_BROKER, RECOVER
from store.verbs.recover.confirm import keep_confirm_offset
from store.verbs.recover.consumed import lowered_offsets
from store.verbs.recover.differences import Difference
from store.verbs.recover.foreign import describe_foreign_names
from store.verbs.recover.lost import Losses, LossReport, LostCounts
from store.verbs.recover.lost_queues import newest_time_ms
from store.verbs.recover.recover import RecoveryReport, recover_store
from store.verbs.recover.rules import RecoveryRules
from store.verbs.recover.stray_units import find_stray_units
from store.verbs.recover.walk import Progress

if TYPE_CHECKING:
    from store.verbs.rebuild.scope import Rebuild

CUT_SIZE = 8
COMPARED_BYTES = 1 << 20
STALE_TAIL = (
    "old records lie past the log's end at {}; a broker that overwrites some may read the rest again: "
    "clear them by truncate-dirty before a broker starts"
)
NOT_FLUSHED = "may lack keys: it was not full and flushed before the crash"
EMPTY = "a file of 0 bytes, with which a broker of 4.9 does not start"
INDEX_PAST_END = "has keys of records past the log's end, or is rebuilt"
BEHIND_LOG_END = "its entries point past the log's end"
LENGTHENED = "was shorter than its settings say; a broker maps it at its full size too"


@dataclass(frozen=True, slots=True)
class DifferenceFromBroker:
    """A named difference, with the broker's way and the plan's."""

    difference: str
    reason: str


@dataclass
class _Walk(PlanReport):
    mode: str
    compat: str
    start_segment: int
    start_reason: str
    record_count: int
    walked_bytes: int
    log_end: int
    stopped_by: str
    queues_built_to: int
    differs_from_broker: list[DifferenceFromBroker]


@dataclass
class RecoveryPlan(Losses, _Walk):
    """Start, end and losses of a recovery, and its differences from a broker's."""


@takes_path(RECOVER, passes_foreign=True)
def plan_recovery(
    opened: OpenedStore,
    *,
    mode: str = "auto",
    keep_index: bool = False,
    as_broker: bool = False,
    force_empty_log: bool = False,
    rebuild: Rebuild | None = None,
    progress: Progress | None = None,
) -> Change[RecoveryPlan]:
    """Plan the recovery of a store, given by its path or opened with an overlay.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from store import Message, open_store, plan_recovery
    >>> root = Path(tempfile.mkdtemp()) / "store"
    >>> with open_store(root, read_only=False) as store:
    ...     result = store.put(Message.of("Orders", "hello"))
    >>> (root / "abort").touch()
    >>> with plan_recovery(root) as change:
    ...     change_id = change.apply()
    >>> change.report.mode, change.report.record_count, change.actions[-1].path.name
    ('abnormal', 1, 'abort')

    as_broker  loses the same messages as a broker
    force_empty_log  accepts an empty log beside queues that are not; else this is refused
    rebuild    walks the whole log and builds queues and index in place of this process; the other options have no
               effect then
    """
    rules = RecoveryRules(mode, as_broker=as_broker, keep_index=keep_index)
    return plan_by_rules(opened, rules, force_empty_log=force_empty_log, rebuild=rebuild, progress=progress)


def plan_by_rules(
    opened: OpenedStore,
    rules: RecoveryRules,
    *,
    force_empty_log: bool,
    rebuild: Rebuild | None = None,
    progress: Progress | None = None,
) -> Change[RecoveryPlan]:
    """Plan the recovery of a store that was opened with an overlay; options as in plan_recovery."""
    if rules.as_broker:
        opened.require_no_empty_file()
    if not force_empty_log:
        require_log(opened.layout, opened.fs)
    if rules.as_broker or rebuild is not None or not _can_build_database(opened):
        refuse_unchangeable(opened.layout, opened.fs, AS_BROKER)
    if opened.config.queues_in_database:
        from store.verbs.recover.database import recover_database

        found = recover_database(opened, rules.mode, progress)
    elif rebuild is not None:
        from store.verbs.recover.from_rebuild import recover_by_rebuild

        found = recover_by_rebuild(opened, rebuild)
    else:
        found = recover_store(opened, rules, progress)
    # Before a database beside the queues is staged too.
    rebuilt = _rebuilt_actions(opened) if found.is_rebuilt else []
    database = follow_log_end(opened, found)
    # The engine that built plain queues in place of this process has their ends.
    is_known = opened.config.queues_in_database == found.is_rebuilt
    lowered = lowered_offsets(opened, found.lost) if is_known and not rules.as_broker else None
    found.differences += [Difference.CONSUMED_OFFSETS] if lowered is not None else []
    change = new_change(opened, "recover", _report(opened, found))
    add_lost(change, found.lost)
    change.notes, change.foreign = found.findings, describe_foreign_names(opened)
    change.remarks = [*found.remarks, *keep_confirm_offset(opened, found.log_end, only_confirmed=rules.only_confirmed)]
    _cut_log(opened, change, found)
    if rules.every_unit and not (found.is_rebuilt or opened.config.queues_in_database):
        change.damaged = find_stray_units(opened, found.log_end)
    if found.is_rebuilt:
        change.actions += rebuilt
    else:
        is_index_cut = Difference.INDEX_PAST_END in found.differences
        add_derived(opened, change, why_index=INDEX_PAST_END if is_index_cut else NOT_FLUSHED)
    change.actions += database
    if lowered is not None:
        lowered.add_to(change)
    _require_delays(opened, change, as_broker=rules.as_broker)
    _set_times(opened, found, as_broker=rules.as_broker)
    return _close(opened, change)


def _require_delays(opened: OpenedStore, change: AnyChange, *, as_broker: bool) -> None:
    """Refuse changes of delayed queues if delays are ambiguous; add remarks on assumed delays."""
    changed = opened.layout.consumequeue / SCHEDULE_TOPIC
    if opened.config.queues_in_database:
        changed = next(opened.rooms_with("recover", "folder")).folder(opened)
    if not (as_broker or opened.gives_delays) and change.publishes_below(changed):
        levels = built_levels(change.published, opened.layout, opened.fs)
        change.remarks += describe_assumed_delays(opened.layout, opened.config, opened.fs, levels)


def _rebuilt_actions(opened: OpenedStore) -> list[Action]:
    """Return the actions that publish the queues and index of a rebuild."""
    from store.verbs.rebuild.publish import publish_actions
    from store.verbs.rebuild.scope import RebuildScope

    assert opened.overlay is not None
    return publish_actions(opened.layout.root, opened.overlay.folder, RebuildScope(), opened.fs)


def _close(opened: OpenedStore, change: Change[R]) -> Change[R]:
    """Run step 3."""
    change.sync_paths = [file.path for file in opened.log.segments.files[-NORMAL_SEGMENTS:]]
    is_torn = not opened.checkpoint.is_whole and (opened.checkpoint.file_size or opened.log.segments.files)
    if change.actions or opened.abort.exists() or is_torn:
        add_checkpoint(opened, change)
    if opened.abort.exists():
        change.actions.append(Remove(opened.layout.abort, "the store is in order again"))
    return change


def _can_build_database(opened: OpenedStore) -> bool:
    """Return whether the store's databases of queues, if any, can be built: only from a plain log."""
    rooms = opened.rooms_with("recover", "can_build")
    return opened.layout.has_plain_log and all(room.can_build(opened) for room in rooms)


def follow_log_end(opened: OpenedStore, found: RecoveryReport) -> list[Action]:
    """Return the actions that set every database beside queue files to the log's end."""
    actions: list[Action] = []
    for room in opened.rooms_with("recover", "follow"):
        from store.verbs.rebuild.scope import RebuildScope

        followed = room.follow(opened, found, RebuildScope(index=False))
        found.differences += [Difference(room.DIFFERENCE)] if followed and not opened.as_broker else []
        actions += followed
    return actions


def _report(opened: OpenedStore, found: RecoveryReport) -> RecoveryPlan:
    return RecoveryPlan(
        found.mode,
        opened.line.name,
        found.end.start,
        found.start_reason,
        found.end.record_count,
        found.end.walked_bytes,
        found.log_end,
        found.end.describe(),
        found.queue_end_before,
        [DifferenceFromBroker(one.value, one.reason) for one in found.differences],
    )


def new_change(opened: OpenedStore, command: str, report: R) -> Change[R]:
    """Return an empty plan that stages files in the overlay's folder."""
    staging = opened.overlay.folder if opened.overlay is not None else None
    return Change(command, opened.layout.root, opened.fs, report=report, staging=staging)


def add_lost(change: Change[Losses], lost: LossReport) -> None:
    """Add the losses to the change and its report."""
    change.lost = lost.by_topic()
    change.report.take(lost)


def require_no_losses(layout: StoreLayout, lost: LostCounts, log_end: int, why: str) -> None:
    """Raise UncleanStore for messages behind the log's end, whose place the next put would take.

    A torn last message counts too: it may have had PUT_OK, and its bytes are nowhere else, though no salvage reads it.
    """
    if not lost.lost_messages:
        return
    can_salvage = lost.lost_intact + lost.lost_damaged
    raise UncleanStore(
        f"the log ends here because of {why}; {amount(lost.lost_messages, 'message')} behind it would be given up"
        + ("" if can_salvage else ", and none can be salvaged"),
        file=layout.commitlog,
        offset=log_end,
        code="damaged-log" if can_salvage else "damaged-end",
    )


def add_cut(opened: OpenedStore, change: AnyChange, found: RecoveryReport) -> None:
    """Run step 1."""
    empty = opened.log.segments.empty_last
    change.actions += [Remove(empty, EMPTY)] if empty is not None else []
    for segment in reversed(found.behind):
        if segment.file_start > found.log_end:
            change.actions.append(Remove(segment.path, "past the log's end"))
        elif not isinstance(found.end.outcome, Blank | End):
            position = found.log_end - segment.file_start
            stale = bytes(segment.raw(position, min(position + CUT_SIZE, segment.size)))
            if any(stale):
                reason = "the record at the cut must not be read again"
                change.actions.append(Patch(segment.path, position, bytes(len(stale)), reason))


def _cut_log(opened: OpenedStore, change: AnyChange, found: RecoveryReport) -> None:
    """Run step 1; UnsupportedFormat for a cut that a structure refuses."""
    add_cut(opened, change, found)
    for room in opened.rooms_with("cut", "refuse"):
        room.refuse(opened.layout, [action.path for action in change.actions], found.end)
    if opened.layout.has_plain_log and find_stale_tail(opened, found.log_end) is not None:
        change.remarks.append(STALE_TAIL.format(found.log_end))


def find_stale_tail(opened: OpenedStore, log_end: int) -> MappedFile | None:
    """Return the log's last segment if whole records follow the log's end in it."""
    segment = opened.log.segments.last
    if segment is None or not segment.file_start <= log_end < segment.file_start + segment.size:
        return None
    return segment if find_record(segment, log_end - segment.file_start + 1) >= 0 else None


def add_derived(opened: OpenedStore, change: AnyChange, *, why_index: str = NOT_FLUSHED) -> None:
    """Run step 2. StoreIOError if the old files can't be read: unread bytes are not replaced.

    why_index  the reason for removed index files
    """
    for failure in (*opened.queues.failures, *opened.index.failures):
        raise failure
    lengthened = opened.index.lengthen_short()
    staged = [*opened.queues.staged_files(), *opened.index.staged_files()]
    places = {place for place, _ in staged}
    for path in (*opened.queues.removed_paths(), *opened.index.removed_paths()):
        if path not in places:
            reason = why_index if path.is_relative_to(opened.layout.index) else BEHIND_LOG_END
            change.actions.append(Remove(path, reason))
    empty = [path for queue in opened.queues.awake() for path in queue.empty_files() if path not in places]
    change.actions += [Remove(path, EMPTY) for path in empty]
    for place, path in staged:
        if not _is_same_file(opened, place, path):
            reason = LENGTHENED if place in lengthened else "built from the log"
            change.actions.append(Publish(place, path, reason))


def _set_times(opened: OpenedStore, found: RecoveryReport, *, as_broker: bool) -> None:
    """Set the checkpoint's promises to the end of the records and queues."""
    if opened.log.segments.files:
        opened.checkpoint.physic_ms = max(opened.checkpoint.physic_ms, found.end.last_store_timestamp_ms)
        note_confirmed(opened, found.end.last_record)
    # The promises of a torn page were never true.
    log = opened.log.segments
    is_lower = found.lost.messages or not opened.checkpoint.is_whole or not log.files or log.empty_last is not None
    if is_lower and not as_broker:
        lower_checkpoint(opened, found.end.last_store_timestamp_ms, found.log_end)
    if opened.queues.last_store_timestamp_ms:
        opened.checkpoint.logics_ms = opened.queues.last_store_timestamp_ms
    if not as_broker:
        bound_offsets(opened, found.log_end)
        # Rebuilt files are fuller or emptier than lost ones.
        opened.checkpoint.index_ms = min(opened.checkpoint.index_ms, opened.index.flushed_until_ms)


def note_confirmed(opened: OpenedStore, last_record: int) -> None:
    """Note the last record of a recovery in the checkpoint, as 5.3 does without a controller."""
    if opened.line.marks_process and last_record >= 0 and not opened.fs.exists(opened.layout.controller_state):
        opened.checkpoint.confirm_log_offset = last_record


def lower_checkpoint(opened: OpenedStore, last_store_timestamp_ms: int, log_end: int) -> None:
    """Lower the checkpoint's promises to the last record, the log's end and the full index files."""
    page, last = opened.checkpoint, last_store_timestamp_ms
    page.confirm_log_offset = min(page.confirm_log_offset, log_end)
    # The last record may be in no queue, such as a rolled-back one.
    queued_ms = last if opened.config.queues_in_database else newest_time_ms(opened)
    page.physic_ms, page.logics_ms = min(page.physic_ms, last), min(page.logics_ms, queued_ms, last)
    page.index_ms = min(page.index_ms, opened.index.flushed_until_ms)
    bound_offsets(opened, log_end)


def bound_offsets(opened: OpenedStore, log_end: int) -> None:
    """Lower the checkpoint's log offsets that the log does not have."""
    page = opened.checkpoint
    page.master_flushed_offset = min(page.master_flushed_offset, log_end)
    if not (page.logics_log_offset < log_end and begins_record(opened, page.logics_log_offset)):
        # If it is 0, 5.5 uses the time of the units.
        page.logics_log_offset = 0


def begins_record(opened: OpenedStore, log_offset: int) -> bool:
    """Return whether a record begins at a log offset above 0."""
    try:
        return log_offset > 0 and opened.log.lookup(log_offset) is not None
    except (DamagedRecord, StoreIOError):
        return False


def add_checkpoint(opened: OpenedStore, change: AnyChange) -> None:
    """Run step 3, without the abort marker."""
    page = opened.checkpoint.page.encode_mended()
    if opened.checkpoint.is_whole and opened.fs.read_file(opened.layout.checkpoint) == page:
        return
    change.publish_bytes(opened.layout.checkpoint, page, "says how far the store is safe")


def _is_same_file(opened: OpenedStore, place: Path, staged: Path) -> bool:
    """Return whether a staged file has the same bytes as the file in the store."""
    fs = opened.fs
    if not fs.exists(place) or fs.stat(place).st_size != fs.stat(staged).st_size:
        return False
    old, new = fs.open_read(place), fs.open_read(staged)
    pieces = range(0, fs.stat(place).st_size, COMPARED_BYTES)
    return all(fs.read(old, at, COMPARED_BYTES) == fs.read(new, at, COMPARED_BYTES) for at in pieces)
