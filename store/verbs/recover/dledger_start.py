"""Foretell a broker's next start on a DLedger log.

    after a crash     5.3.3 adds up the sizes of the records in the newest trusted data file without their headers of 48
                      bytes, takes that for the log's end, and cuts every queue there. Nothing is dispatched anew, and
                      the next message gets a queue offset that is in use.
    after a shutdown  records without a unit get none: dispatch begins at the log's end. Units behind the last entry
                      that DLedger accepts are cut
    4.9               dispatch goes on where the queues end
    log's end         behind the entry that the member's checkpoint says is committed, until the group commits more
    queue files       one without a unit before the cut leaves the queue and stays on disk, as 5.3.3 was seen to do

The entries stay as they are. Source: DLedgerCommitLog.recoverNormally, recoverAbnormally (5.3.3, 4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from store.files.mapped_file import MappedFile
from store.files.store_reader import StoreReader
from store.formats.dledger import DLEDGER_HEADER
from store.formats.run import Run
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.end import LogEnd, find_end
from store.structures.commitlog.resync import find_record
from store.structures.dledger.files import HEADER_SIZE, EntryIndex, read_member_state
from store.structures.trap import Trap
from store.verbs.recover.lost import LossCounter
from store.verbs.recover.outcome import FileOutcome, SimulatedStart, files_afterwards
from store.verbs.recover.recover import END_OF_LOG
from store.verbs.recover.start import is_abnormal, starting_segment

_MESSAGE = 1
"""Magic of an entry with a message, the only one that 0.3.1.2 knows."""


def foretell_dledger_start(opened: OpenedStore, mode: str) -> SimulatedStart:
    """The start of a broker in DLedger mode; only 5.3 loses units."""
    abnormal = is_abnormal(opened, mode)
    queue_end = opened.queues.recover()
    start, reason = starting_segment(opened, abnormal=abnormal)
    segments = opened.log.segments.files
    sizes: dict[int, int] = {}

    def add_sizes(run: Run) -> None:
        sizes[run.file_start] = sizes.get(run.file_start, 0) + int(run.columns.size.sum())

    newer = _newer_entry(opened)
    end = find_end(segments, start, opened.scan_rules(check_crc=False), add_sizes, stop=newer)
    log_end = newer if newer is not None else _accepted_end(segments, end.log_end)
    outcome = SimulatedStart(
        opened.line.name,
        starts=True,
        mode="abnormal" if abnormal else "normal",
        start_segment=start,
        start_reason=reason,
        log_end=log_end,
        cut_reason="an entry of a newer DLedger, which 0.3.1.2 takes for the end" if newer else end.describe(),
    )
    if opened.line.accepts_v2 and segments:
        if abnormal and sizes:
            last = max(sizes)
            _cut_queues(opened, outcome, last + sizes[last], queue_end)
        elif queue_end < log_end:
            outcome.traps += _undispatched(log_end, queue_end)
        elif queue_end > log_end or newer is not None:
            _cut_behind(opened, outcome, replace(end, log_end=log_end))
    outcome.files = [_kept(file) for file in files_afterwards(opened)]
    _end_at_commit(opened, outcome)
    return outcome


def _newer_entry(opened: OpenedStore) -> int | None:
    """Finds the log offset of the first entry that DLedger 0.3.1.2 does not know; its log ends there."""
    folder = opened.layout.dledger
    assert folder is not None
    unit = EntryIndex(StoreReader(str(folder.parent), opened.fs), folder.name).first_newer()
    return int(unit["pos"][0]) if len(unit) else None


def _kept(file: FileOutcome) -> FileOutcome:
    return replace(file, action="truncate") if file.action == "remove" else file


def _end_at_commit(opened: OpenedStore, outcome: SimulatedStart) -> None:
    """Moves the log's end back to that of the committed entries."""
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
    for unit in EntryIndex(files, folder.name).units(committed, 1) if committed >= 0 else ():
        end = int(unit["pos"]) + int(unit["size"])
        if int(unit["index"]) == committed and end < outcome.log_end:
            outcome.log_end = end
            outcome.cut_reason = f"entry {committed}, the last that is known to be committed; later entries wait"


def _cut_queues(opened: OpenedStore, outcome: SimulatedStart, wrong_end: int, queue_end: int) -> None:
    """Counts and cuts the units behind the end that the broker takes for the log's."""
    if queue_end < wrong_end:
        return
    losses = LossCounter(opened)
    segment = opened.log.segments.files[-1]
    for file in opened.log.segments.files:
        segment = file if file.file_start <= wrong_end < file.file_start + file.size else segment
    first = find_record(segment, wrong_end - segment.file_start)
    if first >= 0:
        losses.read_between(opened.log.segments.files, segment.file_start + first, outcome.log_end)
    losses.read_units(wrong_end, END_OF_LOG)
    outcome.lost = losses.report()
    opened.queues.truncate_dirty(wrong_end)
    detail = f"the queues are cut at log offset {wrong_end}, the entries go on to {outcome.log_end}"
    outcome.traps.append(Trap("dledger-queue-tails", detail))


def _cut_behind(opened: OpenedStore, outcome: SimulatedStart, end: LogEnd) -> None:
    """Counts and cuts the records and units behind the end of the entries."""
    losses = LossCounter(opened)
    losses.read_behind([one for one in opened.log.segments.files if one.file_start + one.size > end.log_end], end)
    losses.read_units(end.log_end, END_OF_LOG)
    outcome.lost = losses.report()
    opened.queues.truncate_dirty(end.log_end)


def _accepted_end(segments: Sequence[MappedFile], log_end: int) -> int:
    """The end of the entries behind damaged records: DLedger looks at headers alone."""
    segment = next((one for one in segments if one.file_start <= log_end < one.file_start + one.size), None)
    # The end is that of a record before, or the place of a damaged one behind its header.
    at = log_end - HEADER_SIZE if segment is not None and _entry_size(segment, log_end - HEADER_SIZE) else log_end
    while segment is not None and (size := _entry_size(segment, at)):
        log_end = at = at + size
    return log_end


def _entry_size(segment: MappedFile, log_offset: int) -> int:
    """The size of the entry that begins here by its header, 0 without one."""
    at = log_offset - segment.file_start
    if at < 0 or at + HEADER_SIZE > segment.size:
        return 0
    magic, size, _, _, pos, *_, body_size = DLEDGER_HEADER.unpack_from(segment.buffer, at)
    is_entry = magic == _MESSAGE and pos == log_offset and size == HEADER_SIZE + body_size and body_size > 0
    return size if is_entry and at + size <= segment.size else 0


def _undispatched(log_end: int, queue_end: int) -> Iterator[Trap]:
    detail = f"the entries from log offset {max(queue_end, 0)} to {log_end} have no units and get none"
    yield Trap("dledger-no-dispatch", detail)
