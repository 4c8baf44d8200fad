"""Differences between `recover` and a broker's start, with reasons; `applying` selects from them.

The list is complete: the differential test (tests/runs/differential.py) requires equal bytes everywhere else.
"""

from __future__ import annotations

from enum import StrEnum

from store.formats.columns import DamageReason
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.end import LogEnd
from store.structures.commitlog.scan import Damage
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.verbs.recover.rules import RecoveryRules

JAVA_MAX_ARRAY_SIZE = (1 << 31) - 9
"""Every Java virtual machine refuses a larger array, whatever its heap."""


class Difference(StrEnum):
    """One difference; its value is the name in plans and in JSON."""

    ZEROED_CUT = "zeroed-cut"
    ZEROED_UNITS = "zeroed-units"
    HUGE_SIZE = "huge-size"
    DELIVER_TIME = "deliver-time"
    LOST_QUEUES = "lost-queues"
    LOST_INDEX = "lost-index"
    DAMAGED_UNITS = "damaged-units"
    TORN_UNITS = "torn-units"
    TORN_PROPERTIES = "torn-properties"
    MISPLACED_RECORD = "misplaced-record"
    RECORD_AT_QUEUE_END = "record-at-queue-end"
    ZERO_QUEUE_FILE = "zero-queue-file"
    MISSING_SEGMENT = "missing-segment"
    KEPT_INDEX = "kept-index"
    INDEX_PAST_END = "index-past-end"
    REPEATED_KEYS = "repeated-keys"
    DOUBLE_WRITE = "double-write"
    MESSAGE_DATABASE = "message-database"
    CONSUMED_OFFSETS = "consumed-offsets"
    TIMER = "timer"
    CLOSED = "closed"

    @property
    def reason(self) -> str:
        """The broker's way, rmqctl's way, and the reason."""
        return _REASONS[self]


_REASONS = {
    Difference.ZEROED_CUT: (
        "a broker leaves the bytes at the cut, and reads the old records there again after the next put of the same "
        "size; rmqctl zeroes the 8 bytes at the cut"
    ),
    Difference.ZEROED_UNITS: (
        "a broker leaves the bytes of truncated queue entries, and its next start counts them again once the log has "
        "grown past their records; rmqctl zeroes them"
    ),
    Difference.HUGE_SIZE: (
        "4.9 allocates as many bytes as a damaged record claims, runs out of memory and does not start; rmqctl treats"
        " the record as damage and truncates there"
    ),
    Difference.DELIVER_TIME: (
        "4.9 recovers before it has read its delay levels: rebuilt entries of delayed messages get the hash of their "
        "tags, and are delivered at once; rmqctl writes their deliver time"
    ),
    Difference.LOST_QUEUES: (
        "a broker does not notice that a queue or a queue file is lost beside others, and reuses its queue offsets; "
        "rmqctl rebuilds it from the log"
    ),
    Difference.LOST_INDEX: (
        "a broker does not notice a lost index file, and indexes only from where its dispatch starts; rmqctl rebuilds"
        " the whole index from the log"
    ),
    Difference.DAMAGED_UNITS: (
        "a broker ends a queue at an entry that points past the log's end, loses later entries, and reuses their "
        "queue offsets; rmqctl rebuilds them from the log"
    ),
    Difference.TORN_UNITS: (
        "a broker keeps a queue entry that a power cut wrote in part, and serves no message for it; rmqctl rewrites "
        "entries that contradict their records where it dispatches them again"
    ),
    Difference.TORN_PROPERTIES: (
        "no CRC covers properties, so a broker serves the last record of a crash with the part of them that reached "
        "the disk; rmqctl truncates the log there if they end in zeros and no record follows"
    ),
    Difference.MISPLACED_RECORD: (
        "a broker dispatches a record under the log offset in its damaged bytes, and then skips everything after it "
        "in its queue and in the index; rmqctl dispatches it under its real log offset"
    ),
    Difference.RECORD_AT_QUEUE_END: (
        "5.3 skips the record that begins where the consume queues end, and after a shutdown the records that no "
        "queue has where the queues are truncated; rmqctl dispatches them"
    ),
    Difference.ZERO_QUEUE_FILE: (
        "a broker treats the first zeros of a last queue file without entries as an entry, or does not start; rmqctl "
        "counts no entry there"
    ),
    Difference.MISSING_SEGMENT: "4.9 waits for ever for a missing segment in its dispatch; rmqctl continues after it",
    Difference.KEPT_INDEX: (
        "a broker deletes the index files that were not full at the crash, and indexes only from the starting "
        "segment; rmqctl rebuilds kept ones from their beginning"
    ),
    Difference.INDEX_PAST_END: (
        "a broker keeps index entries of truncated messages, and new messages below the last of them get none; rmqctl "
        "rebuilds these index files"
    ),
    Difference.REPEATED_KEYS: (
        "if the log's last record has no queue entry, 4.9 enters its keys in the index twice after a crash; rmqctl "
        "enters them once"
    ),
    Difference.DOUBLE_WRITE: (
        "a broker leaves the RocksDB beside queue files as it is, with entries past the log's end and without those "
        "lost in a crash; rmqctl rebuilds it from the log"
    ),
    Difference.MESSAGE_DATABASE: (
        "a broker leaves its database of keys, timers and half messages as it is: entries of truncated messages stay,"
        " and new ones below the last offset get none; rmqctl sets it to the log's end"
    ),
    Difference.CONSUMED_OFFSETS: (
        "a broker leaves a consumer group past the end of a queue that lost messages, where the group misses the next "
        "ones; rmqctl moves its offset back to the end"
    ),
    Difference.TIMER: (
        "a broker leaves truncated messages on its timer's wheel, and fires what it finds at their log offsets; rmqctl "
        "takes them off"
    ),
    Difference.CLOSED: (
        "a serving broker leaves the abort marker, and its checkpoint moves as it flushes; rmqctl leaves a store that"
        " was shut down, and a checkpoint that promises no more than the files hold"
    ),
}
assert set(_REASONS) == set(Difference)


def applying(
    opened: OpenedStore, end: LogEnd, queue_end: int, rules: RecoveryRules, *, delayed: int = 0
) -> list[Difference]:
    """Return the differences that apply to this store. Call it before the queues are truncated.

    delayed  number of units of delayed messages that were built
    """
    found = [Difference.ZEROED_CUT] if isinstance(end.outcome, Damage) else []
    found += [Difference.CLOSED] if opened.abort.exists() else []
    if rules.as_broker:
        return found
    if not opened.line.accepts_v2 and claimed_size(opened, end) > JAVA_MAX_ARRAY_SIZE:
        found.append(Difference.HUGE_SIZE)
    if not opened.line.recovers_with_delay_levels and delayed:
        found.append(Difference.DELIVER_TIME)
    if queue_end >= end.log_end and any(has_zero_last_file(queue) for queue in opened.queues.awake()):
        found.append(Difference.ZERO_QUEUE_FILE)
    if isinstance(end.outcome, Damage) and end.outcome.reason == DamageReason.TORN_PROPERTIES:
        found.append(Difference.TORN_PROPERTIES)
    if rules.keep_index:
        found.append(Difference.KEPT_INDEX)
    return found


def claimed_size(opened: OpenedStore, end: LogEnd) -> int:
    """Return the size in the head of the damaged record at the log's end; 0 for other damage."""
    outcome = end.outcome
    if not isinstance(outcome, Damage) or outcome.reason != DamageReason.SIZE_BEYOND_SEGMENT:
        return 0
    segment = opened.log.segments.find_by_offset(outcome.file_start)
    if segment is None:
        return 0
    return int.from_bytes(segment.buffer[outcome.position : outcome.position + 4], "big", signed=True)


def has_zero_last_file(queue: ConsumeQueue) -> bool:
    """Return whether the queue's last file holds no unit, after another file."""
    files = queue.files.files
    return not queue.holds_batches and len(files) > 1 and not files[-1].wrote
