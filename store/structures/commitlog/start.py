"""The start of a recovery: normal or abnormal, and the first segment of the log's scan.

    normal, 4.9    the third last segment
    normal, 5.3    the newest segment that the consume queues reach into
    abnormal       the newest segment whose first message is not newer than the checkpoint's times, else the first
    5.5            of the last commitLogRecoverMaxNum (usually 10) segments the newest with a whole first record
                   that is covered by the queues (normal), or by the checkpoint's logics offset (abnormal; without
                   that offset by its logics time); else the oldest of these segments

Source: CommitLog.recoverNormally, isMappedFileMatchedRecover (4.9.8, 5.3.3, 5.5.0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from store.broker_line import BrokerLine
from store.errors import BadRequest, DamagedFile
from store.formats.message import MAGIC_AT, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, RECORD_MIN_SIZE
from store.formats.run import Run
from store.formats.segment_head import SEGMENT_HEAD_SIZE, first_record_at
from store.formats.wording import amount
from store.structures.commitlog.end import NORMAL_SEGMENTS
from store.structures.commitlog.readable_log import read_store_timestamp
from store.structures.commitlog.scan import Segment, scan_segment

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore

MODES = ("auto", "normal", "abnormal")


class Start(NamedTuple):
    """The log offset where a scan begins, and why it begins there."""

    log_offset: int
    reason: str


def is_abnormal(opened: OpenedStore, mode: str) -> bool:
    """Return whether a recovery in this mode is abnormal (after a crash); BadRequest for an unknown mode."""
    if mode not in MODES:
        raise BadRequest(f"recovery is {' or '.join(MODES)}, not {mode}")
    return opened.abort.exists() if mode == "auto" else mode == "abnormal"


def starting_segment(opened: OpenedStore, *, abnormal: bool) -> Start:
    """Return the segment where the scan begins. The queues must be recovered already."""
    segments = opened.log.segments.files
    if not segments:
        return Start(0, "the commit log is empty")
    if opened.line.matches_first_record:
        if not abnormal:
            end = opened.queues.max_physic_offset
            why = "the newest that the consume queues reach into"
            return newest_matching_segment(opened, Rule(lambda log_offset, time_ms: log_offset <= end, why))
        return accelerated(opened, newest_matching_segment(opened, _trust_rule(opened)))
    if abnormal:
        return _newest_trusted_segment(opened)
    if opened.line.starts_at_queue_end:
        return _newest_queued_segment(opened)
    return Start(segments[-NORMAL_SEGMENTS:][0].file_start, "a normal recovery reads the last three segments")


def entered_from(opened: OpenedStore, start: int, queue_end: int, *, abnormal: bool) -> int:
    """Return the log offset of the first record to dispatch to queues and other structures.

    After a clean shutdown, a start dispatches only records that at least one of them lacks.

    start      start of the scan
    queue_end  log offset up to which the queues have entries
    """
    for room in _rooms_beside(opened, "end_beside"):
        queue_end = room.end_beside(opened, queue_end)
    return start if abnormal else max(start, min([queue_end, *(end for end in _entered(opened) if end > 0)]) + 1)


def _entered(opened: OpenedStore) -> list[int]:
    """Return each other structure's end, as a log offset."""
    return [end for room in _rooms_beside(opened, "entered") for end in room.entered(opened)]


def _rooms_beside(opened: OpenedStore, function: str) -> Iterable[ModuleType]:
    """Return the rooms with this function on a 5.5 start, none on others."""
    asks = opened.as_broker and opened.line.matches_first_record
    return opened.rooms_with("start", function) if asks else ()


def reads_whole_log(opened: OpenedStore, mode: str) -> bool:
    """Return whether a recovery in this mode scans and dispatches the log from its first segment."""
    segments = opened.log.segments.files
    if not segments or not is_abnormal(opened, mode):
        return False
    return starting_segment(opened, abnormal=True).log_offset == segments[0].file_start


def trusted_time_ms(opened: OpenedStore) -> int:
    """Return the checkpoint's time for an abnormal recovery: older messages count as on disk."""
    config = opened.config
    if config.message_index_enable and config.message_index_safe:
        return opened.checkpoint.min_timestamp_index_ms
    return opened.checkpoint.min_timestamp_ms


def first_store_timestamp(segment: Segment, line: BrokerLine) -> int:
    """Return the store time of a segment's first message, 0 if the segment begins with no message."""
    magics = (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2) if line.accepts_v2 else (MESSAGE_MAGIC_V1,)
    head = segment.buffer[: segment.readable_end(0, min(segment.size, SEGMENT_HEAD_SIZE))]
    head = head[first_record_at(head) or 0 :]
    if len(head) < RECORD_MIN_SIZE or int.from_bytes(head[MAGIC_AT : MAGIC_AT + 4], "big") not in magics:
        return 0
    return read_store_timestamp(head)


class Rule(NamedTuple):
    """The test whether a 5.5 recovery may start at a log offset and store time, and its reason."""

    matches: Callable[[int, int], bool]
    reason: str


def _trust_rule(opened: OpenedStore) -> Rule:
    page, config = opened.checkpoint, opened.config
    if at := page.logics_log_offset:
        reason = f"the newest whose first message the checkpoint's logics offset covers ({at})"
        return Rule(lambda log_offset, time_ms: log_offset <= at, reason)
    limits = [page.logics_ms, *([page.index_ms] if config.message_index_enable and config.message_index_safe else [])]
    reason = f"the newest whose first message the checkpoint covers ({min(limits)} ms)"
    return Rule(lambda log_offset, time_ms: time_ms <= min(limits), reason)


def newest_matching_segment(opened: OpenedStore, rule: Rule) -> Start:
    """Return the newest of commitLogRecoverMaxNum segments with a first record that all structures have."""
    entered = _entered(opened)
    for room in _rooms_beside(opened, "rule_beside"):
        rule = room.rule_beside(opened, rule)
    segments = opened.log.segments.files[-opened.config.most_recovered_segments :]
    rules = opened.scan_rules(check_crc=opened.config.check_crc_on_recover)
    for segment in reversed(segments):
        first = next(scan_segment(segment, 0, rules=rules, capacity=1), None)
        if isinstance(first, Run):
            log_offset, time_ms = int(first.columns.log_offset[0]), int(first.columns.store_timestamp_ms[0])
            if time_ms and rule.matches(log_offset, time_ms) and all(log_offset <= end for end in entered):
                return Start(segment.file_start, rule.reason)
    return Start(segments[0].file_start, f"the oldest of {amount(len(segments), 'segment')}: nothing tells a newer one")


def accelerated(opened: OpenedStore, start: Start, queue_end: int | None = None) -> Start:
    """Return the start of an accelerated recovery if it is set.

    It may be inside a segment, or even inside a record.

    queue_end  the log offset up to which the queues have entries, by default the one that the checkpoint has

    DamagedFile if the broker would not load.
    """
    if not (opened.as_broker and opened.config.enable_accelerated_recovery):
        return start
    page, segment, told = opened.checkpoint, opened.log.segments.find_by_offset(start.log_offset), ""
    assert segment is not None
    if queue_end is None:
        queue_end = page.logics_log_offset
        for room in _rooms_beside(opened, "end_beside"):
            queue_end = room.end_beside(opened, queue_end)
        if page.logics_log_offset <= 0 and page.physic_ms > 0:
            told = "RuntimeException: Accelerated recovery is enabled but checkpoint's logicsPhysicalOffset is invalid"
    at = min([queue_end, *(end for end in _entered(opened) if end > 0)])
    if at > segment.file_start + segment.size:
        told = told or f"IllegalArgumentException: the accelerated recovery begins at {at}, past its segment"
    if told:
        raise DamagedFile(told, file=opened.layout.checkpoint, code="accelerated-recovery")
    reason = f"the log offset up to which all is dispatched ({at}): enableAcceleratedRecovery"
    return Start(at, reason) if at > start.log_offset else start


def _newest_trusted_segment(opened: OpenedStore) -> Start:
    limit_ms = trusted_time_ms(opened)
    segments = opened.log.segments.files
    for segment in reversed(segments):
        time_ms = first_store_timestamp(segment, opened.line)
        if time_ms and time_ms <= limit_ms:
            reason = f"the newest whose first message ({time_ms} ms) the checkpoint covers ({limit_ms} ms)"
            return Start(segment.file_start, reason)
    return Start(segments[0].file_start, f"no segment begins before the checkpoint's trusted time ({limit_ms} ms)")


def _newest_queued_segment(opened: OpenedStore) -> Start:
    queue_end = opened.queues.max_physic_offset
    segments = opened.log.segments.files
    for segment in reversed(segments):
        if segment.file_start <= queue_end:
            return Start(segment.file_start, "the newest that the consume queues reach into")
    return Start(segments[0].file_start, "no consume queue reaches into a segment")
