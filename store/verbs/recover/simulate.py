"""Simulate a broker's next start: the recovery of its line, into a scratch folder.

    1. load: a file of a wrong length or a foreign name keeps the broker from starting
    2. the recovery of the line: store.verbs.recover.recover with `as_broker`
    3. the result: the files of log and queues that change, the losses, and the traps of the line

The files are those after a broker's load, before its start dispatches the records that the queues lack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from store.errors import DamagedFile, StoreError
from store.files.filesystem import Filesystem
from store.files.overlay import Overlay
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.backup_manifest import BACKUP_DAMAGED
from store.formats.message import StoredMessage, decode_record, is_queued
from store.formats.run import Run, Stretch
from store.formats.topics import shares_records
from store.formats.wording import amount
from store.kernels.native import clock_ms
from store.layout import is_topic_folder_name
from store.opened.arguments import checks_arguments
from store.opened.detect import (
    FoundStore,
    find_store,
    lacks_light_files,
    make_layout,
    queue_type_faults,
    require_store,
)
from store.opened.opened_store import OpenedStore
from store.opened.reach import reach_store
from store.structures.commitlog.scan import Blank, End, scan_segment
from store.structures.commitlog.segment_list import describe_blank, size_by_blank
from store.structures.commitlog.start import is_abnormal, starting_segment
from store.structures.consumequeue.dispatch_faults import LIGHT_WITHOUT_FILES, describe_without_files
from store.structures.consumequeue.queue_set import QueueKey
from store.structures.consumequeue.resting import RestingQueue
from store.structures.findings import ODD_SIZE
from store.structures.registry import names_of, present
from store.structures.trap import Trap
from store.verbs.recover.confirm import confirm_offset
from store.verbs.recover.differences import JAVA_MAX_ARRAY_SIZE, claimed_size, has_zero_last_file
from store.verbs.recover.foreign import index_folders
from store.verbs.recover.lost import LossCounter, LossReport
from store.verbs.recover.outcome import FileOutcome, SimulatedStart, files_changed, files_on_disk
from store.verbs.recover.recover import RecoveryReport, finish_start, recover_store
from store.verbs.recover.refused_topics import refused_at_start, refused_later
from store.verbs.recover.rules import RecoveryRules
from store.verbs.recover.unseen import InDatabase, unseen_messages
from store.verbs.recover.walk import Progress

LARGE_ALLOCATION = 512 << 20
"""From this claimed size on, the usual heap of 8 GiB may be too small, as it has other contents too."""


@checks_arguments
def simulate(
    root: str | Path,
    *,
    settings: Mapping[str, object] | None = None,
    clock: Callable[[], int] = clock_ms,
    compat: str | None = None,
    mode: str = "auto",
    scratch: str | Path | None = None,
    progress: Progress | None = None,
    fs: Filesystem | None = None,
) -> SimulatedStart:
    """Foretell a broker's next start with a store, and write nothing.

    root, settings, clock, compat, scratch, progress and fs are as open_store takes them.

    >>> import tempfile
    >>> from store import Message, open_store, simulate
    >>> root = f"{tempfile.mkdtemp()}/store"
    >>> with open_store(root, read_only=False) as store:
    ...     result = store.put(Message.of("Orders", "hello"))
    >>> start = simulate(root, compat="4.9")
    >>> start.starts, start.log_end == result.log_offset + result.size, start.lost.messages
    (True, True, 0)

    mode  "normal" and "abnormal" simulate the start after such an end; "auto" decides by the abort marker

    Raises NotAStore, UnsupportedFormat, StoreIOError. If the broker does not start, the result has the reason.
    """
    folder, fs = reach_store(root, fs, scratch)
    layout = make_layout(folder, settings or {}, fs)
    require_store(layout, fs)
    found = find_store(layout, settings or {}, fs, compat=compat)
    with Scratch(scratch) as built:
        start = simulate_start(found, fs, clock, scratch=built.folder, mode=mode, progress=progress)
    fates = {one.file: one for one in (*files_on_disk(found.layout, fs), *start.files)}
    start.files = [fates[name] for name in sorted(fates)]
    return start


def simulate_start(
    found: FoundStore,
    fs: Filesystem,
    clock: Callable[[], int],
    *,
    scratch: Path,
    mode: str = "auto",
    progress: Progress | None = None,
    resting: dict[QueueKey, RestingQueue] | None = None,
) -> SimulatedStart:
    """Run steps 1 to 3; of the files, list those that change.

    The recovery builds in `scratch`; the store is only read.

    resting  idle queues that an earlier start read; filled with those that this one reads
    """
    try:
        opened = OpenedStore.load(found, fs, clock, overlay=Overlay(scratch), resting=resting)
    except StoreError as error:
        return _refused(found, error)
    if resting is not None:
        resting.update(opened.queues.resting())
    try:
        for trap in _of_rooms(opened, "blockers", opened):
            blocker = trap.code, trap.subject
            return SimulatedStart(found.line.name, starts=False, reason=trap.detail, blocker=blocker)
        refusal = _refused_empty(opened, found)
        start = _foretell(opened, mode, scratch, progress)
        if refusal is not None:
            # The loss of the start that follows when the file is removed.
            return replace(refusal, lost=start.lost, log_end=start.log_end, cut_reason=start.cut_reason)
        start.traps += _of_rooms(opened, "traps", opened, start) if start.starts else ()
        odd = found.odd_size or _odd_by_blank(opened, found, start)
        start.traps += [Trap(ODD_SIZE, odd)] if start.starts and odd else []
        return start
    except DamagedFile as error:
        return _refused(found, error)
    finally:
        opened.close()


def _odd_by_blank(opened: OpenedStore, found: FoundStore, start: SimulatedStart) -> str:
    """Describe a lone segment whose blank, at the log's end, gives it another length; empty for others."""
    files = StoreReader.of(found.layout, opened.fs)
    if found.gives_size or len(files.segments()) != 1:
        return ""
    # As it is on the disk: the recovery zeroed the blank in the overlay.
    segment = StoredSegment(files, files.segments()[0])
    size = size_by_blank(segment, start.log_end)
    return describe_blank(segment, size) if size != segment.size else ""


def _of_rooms(opened: OpenedStore, kind: str, *known: object) -> Iterator[Trap]:
    """Yield the `blockers` or `traps` of each structure that is present and that the line supports."""
    names, in_database = names_of(opened.layout, opened.fs), opened.config.starts_database
    for one in present(names, in_database=in_database, settings=opened.config.changed_settings()):
        room = one.furniture("start") if opened.line.name in one.lines else None
        yield from getattr(room, kind, lambda *known: ())(*known)


def _foretell(opened: OpenedStore, mode: str, scratch: Path, progress: Progress | None) -> SimulatedStart:
    """Run steps 2 and 3, by the kind of the store."""
    for room in opened.rooms_with("start", "foretell"):
        if room.is_log(opened):
            abnormal, queue_end = is_abnormal(opened, mode), opened.queues.recover()
            start, reason = starting_segment(opened, abnormal=abnormal)
            outcome = SimulatedStart(opened.line.name, starts=True, mode="abnormal" if abnormal else "normal")
            outcome.start_segment, outcome.start_reason = start, reason
            room.foretell(opened, outcome, queue_end, lambda: LossCounter(opened), lambda: files_changed(opened))
            return outcome
    if opened.config.queues_in_database and opened.line.starts_at_queue_end:
        from store.verbs.recover.database import foretell_on_database

        opened.as_broker = True
        report = foretell_on_database(opened, mode, scratch, progress)
        outcome = _outcome(opened, report)
        outcome.traps += report.traps
        return outcome
    found = recover_store(opened, RecoveryRules(mode, as_broker=True, dispatch=False), progress)
    for room in opened.rooms_with("start", "reach_beside"):
        reach = room.reach_beside(opened, found, scratch)
        found.shown = InDatabase(reach, found.log_end) if reach is not None else None
    return _outcome(opened, found)


def _refused(found: FoundStore, error: StoreError) -> SimulatedStart:
    """Return the start that an error ends; raise the error if only the backup is damaged, not the store."""
    if error.code == BACKUP_DAMAGED:
        raise error
    blocker = error.code or "", error.subject
    return SimulatedStart(found.line.name, starts=False, reason=str(error), blocker=blocker)


def _refused_empty(opened: OpenedStore, found: FoundStore) -> SimulatedStart | None:
    """Return the start that a last file of 0 bytes ends, None without one."""
    try:
        opened.require_no_empty_file()
    except DamagedFile as error:
        return _refused(found, error)
    return None


def _outcome(opened: OpenedStore, found: RecoveryReport) -> SimulatedStart:
    if found.shown is not None:
        opened.next_offset = found.shown.next_offset
    blocker = _blocker(opened, found)
    files = [] if blocker else _files_changed(opened, found)
    traps = [blocker] if blocker else list(_traps(opened, found))
    # Last, because it dispatches the records that the queues lack.
    unseen = {} if blocker else _unseen_after(opened, found)
    return SimulatedStart(
        compat=opened.line.name,
        starts=blocker is None,
        reason=blocker.detail if blocker else "",
        blocker=(blocker.code, blocker.subject) if blocker else ("", ()),
        mode=found.mode,
        start_segment=found.end.start,
        start_reason=found.start_reason,
        entered_from=found.entered_from,
        log_end=found.log_end,
        cut_reason=found.end.describe(),
        files=files,
        lost=LossReport() if blocker else found.lost,
        traps=[*traps, *_lost_queues(opened, unseen)],
        unseen=unseen,
    )


def _unseen_after(opened: OpenedStore, found: RecoveryReport) -> dict[QueueKey, int]:
    """Complete the start, and count the confirmed messages that no queue shows afterwards."""
    first = opened.log.start
    if opened.config.queues_in_database or found.shown is not None:
        # Records that the start dispatches are not missing.
        last = max(first, min(found.entered_from, found.log_end))
        return unseen_messages(opened, Stretch(first, last), found.shown) if found.shown is not None else {}
    finish_start(opened, found)
    confirm = confirm_offset(opened)
    end = found.log_end if confirm is None else min(confirm, found.log_end)
    unseen = unseen_messages(opened, Stretch(first, end))
    for room in opened.rooms_with("start", "unseen_light"):
        unseen |= room.unseen_light(opened, Stretch(first, min(found.entered_from, end)))
    return unseen


# Faults that prevent a broker's start.


def _blocker(opened: OpenedStore, found: RecoveryReport) -> Trap | None:
    """Return the first thing in the recovery that ends the broker's process or its load."""
    size = claimed_size(opened, found.end)
    if not opened.line.accepts_v2 and size > JAVA_MAX_ARRAY_SIZE:
        detail = f"OutOfMemoryError: the record at log offset {found.log_end} claims {size} bytes"
        return Trap(code="out-of-memory", detail=detail)
    for error in index_folders(opened, opened.line):
        return Trap(code="foreign-file", detail=str(error))
    for fault in queue_type_faults(opened.layout, opened.fs) if opened.line.starts_at_queue_end else ():
        return Trap(code="queue-type", detail=f"RuntimeException: {fault}")
    if (refused := refused_at_start(opened, found)) is not None:
        return refused
    if opened.queues.light_faults:
        detail = f"NumberFormatException: INNER_MULTI_QUEUE_OFFSET of the record at {opened.queues.light_faults[0]}"
        return Trap(code="light-queue-poison", detail=detail)
    if (at := _waits_at(opened, found.log_end)) >= 0:
        detail = f"the start waits for ever for the segment of log offset {at}, which is missing"
        return Trap(code="waits-for-segment", detail=detail)
    trips = opened.line.starts_at_queue_end and not opened.line.guards_unwritten_file
    for queue in opened.queues.awake() if trips and found.queue_end_before < found.log_end else ():
        if has_zero_last_file(queue):
            detail = f"IllegalArgumentException: the last file of {queue.topic}, queue {queue.queue_id} has no entry"
            return Trap(code="zero-queue-file", detail=detail, subject=(queue.topic, queue.queue_id))
    return None


def _waits_at(opened: OpenedStore, log_end: int) -> int:
    """Find the log offset of a missing segment in the dispatch, -1 without one.

    DefaultMessageStore.start of 4.9.8 waits until the dispatch has reached the log's end.
    """
    at = log_end if opened.line.dispatches_in_recovery else max(opened.log.start, opened.queues.built_to)
    for segment in opened.log.segments.files:
        if segment.file_start <= at:
            at = max(at, segment.file_start + segment.size)
    return at if at < log_end else -1


# Faults after a start.


def _traps(opened: OpenedStore, found: RecoveryReport) -> Iterator[Trap]:
    size = claimed_size(opened, found.end)
    if not opened.line.accepts_v2 and size >= LARGE_ALLOCATION:
        detail = f"the record at log offset {found.log_end} makes the broker allocate {size} bytes"
        yield Trap(code="large-allocation", detail=detail)
    if found.queue_end_before >= found.log_end:
        for queue in opened.queues.awake():
            if queue.begins_last_file_unwritten():
                detail = (
                    f"the zeros that begin the last file of {queue.topic}, queue {queue.queue_id} count as a unit: "
                    f"the next message gets queue offset {queue.max_offset}"
                )
                yield Trap(code="phantom-unit", detail=detail, subject=(queue.topic, queue.queue_id))
    if opened.line.dispatches_in_recovery and found.mode == "normal" and (left_out := _left_out(opened, found)):
        detail = f"the record at log offset {found.queue_end_before} gets no entry"
        if _has_moved(opened, left_out):
            detail += ", and later ones move forward by one"
        yield Trap(code="record-at-queue-end", detail=detail)
    if found.lost_index:
        detail = f"{found.lost_index} was lost: a broker does not notice it, and finds no message by the keys in there"
        yield Trap(code="lost-index", detail=detail)
    yield from refused_later(opened)


def _lost_queues(opened: OpenedStore, unseen: dict[QueueKey, int]) -> Iterator[Trap]:
    """Yield queues without entries for messages of the log; no broker notices them."""
    light = {key for key in unseen if shares_records(key[0])}
    if light and opened.finds_light and lacks_light_files(opened.layout, opened.line, opened.fs):
        yield Trap(LIGHT_WITHOUT_FILES, describe_without_files(len(light)))
        unseen = {key: count for key, count in unseen.items() if key not in light}
    for (topic, queue_id), count in unseen.items():
        detail = (
            f"{topic}, queue {queue_id} lacks {amount(count, 'entry')} and stays without: "
            "consumers do not see these messages, and their queue offsets are given a second time where they are the "
            "last"
        )
        code = "lost-queue" if is_topic_folder_name(topic) else "nameless-queue"
        yield Trap(code=code, detail=detail, subject=(topic, queue_id))


def _left_out(opened: OpenedStore, found: RecoveryReport) -> StoredMessage | None:
    """Return the record for consumers that begins at the queues' end, if it is not dispatched."""
    if found.has_unit_at_end or found.entered_from <= found.queue_end_before:
        return None
    at = found.queue_end_before
    segment = opened.log.segments.find_by_offset(at) if 0 <= at < found.log_end else None
    if segment is None:
        return None
    for step in scan_segment(segment, at - segment.file_start, rules=opened.scan_rules(check_crc=False), capacity=1):
        if isinstance(step, Run) and is_queued(int(step.columns.sys_flag[0])):
            return decode_record(step.record(0))
        break
    return None


def _has_moved(opened: OpenedStore, left_out: StoredMessage) -> bool:
    """Return whether a later entry has the place of a record's entry.

    It has not if the queue begins after the record (ConsumeQueue.fillPreBlank, 5.3.3), or its keys are queue offsets.
    """
    queue = opened.queues.find(left_out.topic, left_out.queue_id)
    unit = queue.unit(left_out.queue_offset) if queue is not None else None
    return unit is not None and unit.log_offset > left_out.log_offset


def _files_changed(opened: OpenedStore, found: RecoveryReport) -> list[FileOutcome]:
    removed = [segment.path for segment in found.behind if segment.file_start > found.log_end]
    is_cut = found.behind and not isinstance(found.end.outcome, Blank | End)
    cut = [found.behind[0].path] if is_cut and found.behind[0].file_start <= found.log_end else []
    return files_changed(opened, removed, cut)
