"""Predict a broker's next start on a DLedger log, and find the files that end its process.

    after a crash     5.3.3 sums the sizes of the records in the newest trusted data file without their headers of 48
                      bytes, treats the sum as the log's end, and truncates every queue there. Nothing is dispatched
                      again, and the next message gets a queue offset that is in use.
    after a shutdown  records without a unit get none: dispatch begins at the log's end. Units after the last entry
                      that DLedger accepts are deleted
    4.9               dispatch resumes at the end of the queues
    log's end         after the committed entry in the member's checkpoint, until the group commits more
    queue files       a file without a unit before the new end leaves the queue and stays on disk (observed with 5.3.3)

The entries are unchanged. Source: DLedgerCommitLog.recoverNormally, recoverAbnormally (5.3.3, 4.9.8);
DLedgerMmapFileStore.load, MmapFileList.load (DLedger 0.3.1.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from store.files.mapped_file import MappedFile
from store.files.store_reader import StoredFile, StoreReader
from store.formats.dledger import DLEDGER_HEADER
from store.formats.run import Run
from store.structures.commitlog.end import END_OF_LOG, LogEnd, find_end
from store.structures.commitlog.resync import find_record
from store.structures.dledger.files import HEADER_SIZE, EntryIndex, read_member_state, start_faults
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore
    from store.verbs.recover.lost import LossCounter
    from store.verbs.recover.outcome import FileOutcome, SimulatedStart

_MESSAGE = 1
"""Magic of an entry with a message, the only magic in 0.3.1.2."""


def blockers(opened: OpenedStore) -> Iterator[Trap]:
    """Yield a trap for an index file of wrong length, and for a file missing between others."""
    folder = opened.layout.dledger
    if folder is None:
        return
    index = _index_of(opened)
    own = set(opened.layout.writable_commitlogs)
    segments = [segment for segment in opened.log.segments.files if segment.path.parent in own]
    data_files = [StoredFile(str(one.path), one.file_start, one.size, 0) for one in segments]
    for path, fault in start_faults(index.index_files, data_files):
        code = "dledger-index-files" if path.startswith(f"{folder.name}/index/") else "dledger-data-files"
        yield Trap(code, f"DLedger ends the process: {path}: {fault}")


def is_log(opened: OpenedStore) -> bool:
    """Return whether the layout's log is a DLedger log; a broker's settings may ignore existing entries."""
    return opened.layout.dledger is not None


def foretell(
    opened: OpenedStore,
    outcome: SimulatedStart,
    queue_end: int,
    losses: Callable[[], LossCounter],
    files: Callable[[], list[FileOutcome]],
) -> None:
    """Fill in the outcome of a start on queues that end at `queue_end`; only 5.3 loses units.

    losses, files  return a counter of losses, and the files that the start changes
    """
    segments = opened.log.segments.files
    sizes: dict[int, int] = {}

    def add_sizes(run: Run) -> None:
        sizes[run.file_start] = sizes.get(run.file_start, 0) + int(run.columns.size.sum())

    newer = _newer_entry(opened)
    end = find_end(segments, outcome.start_segment, opened.scan_rules(check_crc=False), add_sizes, stop=newer)
    log_end = outcome.log_end = newer if newer is not None else _accepted_end(segments, end.log_end)
    outcome.cut_reason = "an entry of a newer DLedger, which 0.3.1.2 takes for the end" if newer else end.describe()
    if opened.line.accepts_v2 and segments:
        if outcome.mode == "abnormal" and sizes:
            wrong_end = max(sizes) + sizes[max(sizes)]
            if queue_end >= wrong_end:
                _cut_queues(opened, outcome, wrong_end, losses())
        elif queue_end < log_end:
            detail = f"the entries from log offset {max(queue_end, 0)} to {log_end} have no queue entries and get none"
            outcome.traps.append(Trap("dledger-no-dispatch", detail))
        elif queue_end > log_end or newer is not None:
            _cut_behind(opened, outcome, replace(end, log_end=log_end), losses())
    outcome.files = [replace(one, action="truncate") if one.action == "remove" else one for one in files()]
    _end_at_commit(opened, outcome)


def _index_of(opened: OpenedStore) -> EntryIndex:
    folder = opened.layout.dledger
    assert folder is not None
    return EntryIndex(StoreReader(str(folder.parent), opened.fs), folder.name)


def _newer_entry(opened: OpenedStore) -> int | None:
    """Return the log offset of the first entry unknown to DLedger 0.3.1.2, as its log ends there."""
    unit = _index_of(opened).first_newer()
    return int(unit["pos"][0]) if len(unit) else None


def _end_at_commit(opened: OpenedStore, outcome: SimulatedStart) -> None:
    """Move the log's end back to the end of the committed entries."""
    folder = opened.layout.dledger
    assert folder is not None
    files = StoreReader(str(folder.parent), opened.fs)
    committed = read_member_state(files, folder.name).committed_index
    if committed is None:
        outcome.log_end = opened.log.min_offset
        outcome.cut_reason = "no checkpoint of the member says what is committed; readers wait for the next put"
        outcome.traps.append(
            Trap("dledger-uncommitted", "the member's checkpoint is lost: nothing counts as committed")
        )
        return
    for unit in EntryIndex(files, folder.name).units(committed, 1):
        end = int(unit["pos"]) + int(unit["size"])
        if int(unit["index"]) == committed and end < outcome.log_end:
            outcome.log_end = end
            outcome.cut_reason = f"entry {committed}, the last that is known to be committed; later entries wait"


def _cut_queues(opened: OpenedStore, outcome: SimulatedStart, wrong_end: int, losses: LossCounter) -> None:
    """Count and truncate the units past `wrong_end`, the end that the broker computes."""
    segment = [one for one in opened.log.segments.files if one.file_start <= wrong_end][-1]
    first = find_record(segment, wrong_end - segment.file_start)
    if first != -1:
        losses.read_between(opened.log.segments.files, segment.file_start + first, outcome.log_end)
    losses.read_units(wrong_end, END_OF_LOG)
    outcome.lost = losses.report()
    opened.queues.truncate_dirty(wrong_end)
    detail = f"the queues are cut at log offset {wrong_end}, the entries go on to {outcome.log_end}"
    outcome.traps.append(Trap("dledger-queue-tails", detail))


def _cut_behind(opened: OpenedStore, outcome: SimulatedStart, end: LogEnd, losses: LossCounter) -> None:
    """Count the records and units past the end of the entries, and truncate the units."""
    losses.read_behind([one for one in opened.log.segments.files if one.file_start + one.size > end.log_end], end)
    losses.read_units(end.log_end, END_OF_LOG)
    outcome.lost = losses.report()
    opened.queues.truncate_dirty(end.log_end)


def _accepted_end(segments: Sequence[MappedFile], log_end: int) -> int:
    """Return the end of the entries, past damaged records: DLedger checks only headers."""
    segment = next((one for one in segments if one.file_start <= log_end < one.file_start + one.size), None)
    # log_end is the end of a record, or the position of a damaged record after its header.
    at = log_end - HEADER_SIZE if segment is not None and _entry_size(segment, log_end - HEADER_SIZE) else log_end
    while segment is not None and (size := _entry_size(segment, at)):
        log_end = at = at + size
    return log_end


def _entry_size(segment: MappedFile, log_offset: int) -> int:
    """Return the size in the entry's header at `log_offset`, 0 without an entry."""
    at = log_offset - segment.file_start
    if at < 0 or at + HEADER_SIZE > segment.size:
        return 0
    magic, size, _, _, pos, *_, body_size = DLEDGER_HEADER.unpack_from(segment.buffer, at)
    is_entry = magic == _MESSAGE and pos == log_offset and size == HEADER_SIZE + body_size and body_size > 0
    return size if is_entry and at + size <= segment.size else 0
