"""Define the kinds of findings, and one Finding, for `check` and `audit` alike.

A finding about a single record is kept as it is; kinds of which one cause makes thousands (a lost queue, a lost
index) are gathered into one Finding per file, topic and queue, with a count and the first place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

BAD_CRC = "bad-crc"
BAD_PROPERTIES_CRC = "bad-properties-crc"
COPIED_CRC = "copied-crc"
BAD_LENGTH = "bad-length"
BAD_SELF_OFFSET = "bad-self-offset"
TIME_BACKWARDS = "time-backwards"
MISSING_SEGMENT = "missing-segment"
STALE_TAIL = "stale-tail"
QUEUE_GAP = "queue-gap"
QUEUE_DUPLICATE = "queue-duplicate"
QUEUE_SHIFT = "queue-shift"
MISSING_UNIT = "missing-unit"
UNIT_DIFFERS = "unit-differs"
UNIT_NOWHERE = "unit-nowhere"
UNIT_WRONG_RECORD = "unit-wrong-record"
MISSING_INDEX_ENTRY = "missing-index-entry"
INDEX_ENTRY_NOWHERE = "index-entry-nowhere"
BROKEN_CHAIN = "broken-chain"
INDEX_HEADER = "index-header"
INDEX_TIME = "index-time"
LOST_INDEX = "lost-index"
LOST_EXTENSION = "lost-extension"
CHECKPOINT_AHEAD = "checkpoint-ahead"
CHECKPOINT_INVALID = "checkpoint-invalid"
WRONG_SIZE = "wrong-size"
QUEUE_TYPE = "queue-type"
TOPIC_ATTRIBUTE = "topic-attribute"
INNER_BATCH = "inner-batch"
LIGHT_POISON = "light-queue-poison"
LIGHT_POISON_ROCKSDB = "light-queue-poison-rocksdb"
LIGHT_UNMATCHED = "light-queue-unmatched"
FOREIGN_FILE = "foreign-file"
LINK = "link"
COMPACTION_FILES = "compaction-files"
COMPACTION_RECORD = "compaction-record"
COMPACTION_UNIT = "compaction-unit"
COMPACTION_LEFTOVER = "compaction-leftover"
COMPACTION_UNCOPIED = "compaction-uncopied"
COMPACTION_POSITION = "compaction-position"
TIMER_FILES = "timer-files"
TIMER_WHEEL = "timer-wheel"
TIMER_LOG = "timer-log"
TIMER_STALE = "timer-stale"
TIMER_STATE = "timer-state"
TIMER_AGAIN = "timer-again"
STATE_FILE = "state-file"
NEWER = "newer"
DLEDGER_ENTRY = "dledger-entry"
DLEDGER_INDEX = "dledger-index"
DLEDGER_STATE = "dledger-state"
ROCKSDB_STATE = "rocksdb-state"
UNREADABLE_UNITS = "unreadable-units"
UNREADABLE_INDEX = "unreadable-index"

KINDS = {
    BAD_CRC: "a body does not match its CRC",
    BAD_PROPERTIES_CRC: "a record does not match its property __CRC32#",
    COPIED_CRC: "a copied message kept the property __CRC32# of its first record",
    BAD_LENGTH: "bytes that are no record where one should be",
    BAD_SELF_OFFSET: "a record says that it lies somewhere else",
    TIME_BACKWARDS: "a record is older than the one before it",
    MISSING_SEGMENT: "a commit-log file is missing between two others",
    STALE_TAIL: "records lie behind the log's end and may come back",
    QUEUE_GAP: "queue offsets leave some out",
    QUEUE_DUPLICATE: "a queue offset or a record comes twice",
    QUEUE_SHIFT: "a unit lies at another place than its record's queue offset",
    MISSING_UNIT: "a record has no unit in its queue",
    UNIT_DIFFERS: "a unit gives another size or tags code than its record",
    UNIT_NOWHERE: "a unit points where no record begins",
    UNIT_WRONG_RECORD: "a unit points into another queue's record",
    MISSING_INDEX_ENTRY: "a key has no entry in the index",
    INDEX_ENTRY_NOWHERE: "an index entry points where no record with its key begins",
    BROKEN_CHAIN: "a chain of the index does not lead through its entries",
    INDEX_HEADER: "an index header disagrees with its entries",
    INDEX_TIME: "an index file's times are not those of its records",
    LOST_INDEX: "records have keys and there is no index file",
    LOST_EXTENSION: "units name places in consumequeue_ext/ that no file holds",
    CHECKPOINT_AHEAD: "the checkpoint promises more than the files hold",
    CHECKPOINT_INVALID: "the checkpoint is missing or cannot be what a broker wrote",
    FOREIGN_FILE: "something in the store's folders that no broker made",
    LINK: "a folder or file of the store is a link, which commands that change the store refuse",
    UNREADABLE_UNITS: "a queue file has pages that can't be read",
    UNREADABLE_INDEX: "an index file has pages that can't be read",
    COMPACTION_FILES: "files of a compacted topic differ in names or lengths, or are set aside",
    COMPACTION_RECORD: "a record of a compacted topic is damaged, misplaced, or not that of the commit log",
    COMPACTION_UNIT: "a unit of a compacted topic is missing, or does not say what its record says",
    COMPACTION_UNCOPIED: "messages of a compacted topic have no copy in its compaction log, which consumers read",
    COMPACTION_LEFTOVER: "a compaction that was cut short left a file",
    COMPACTION_POSITION: "the table of compacted positions is missing or cannot be right",
    TIMER_FILES: "a file of the timer is missing, or has a wrong length",
    TIMER_WHEEL: "a slot of the timer wheel does not lead to its messages",
    TIMER_LOG: "a unit of the timer log disagrees with the one before it, its slot, or its record",
    TIMER_STALE: "the timer is ahead of the log: a truncation of the log leaves it so",
    TIMER_AGAIN: "the next start delivers or rolls timer messages once more",
    TIMER_STATE: "timercheck or timermetrics cannot be what a broker wrote",
    STATE_FILE: "a small file of a 5.x broker, or a message of its pop consumers, cannot be right",
    NEWER: "a broker newer than 5.3 wrote something that is not known here: the store is read, and not changed",
    DLEDGER_ENTRY: "the header of a DLedger entry disagrees with its record, or with the entry before",
    DLEDGER_INDEX: "the index of a DLedger log disagrees with its entries",
    DLEDGER_STATE: "a DLedger member remembers something else than its entries hold",
    ROCKSDB_STATE: "the RocksDB with the queues can't be read, or remembers something else than it holds",
    QUEUE_TYPE: "a topic's queues are of another type than topics.json says",
    TOPIC_ATTRIBUTE: "topics.json gives a topic an attribute that a 5.3 broker refuses at each of its messages",
    INNER_BATCH: "a record of several messages does not hold what it says",
    LIGHT_POISON: "a message names light queues so that a 5.3 broker does not start",
    LIGHT_POISON_ROCKSDB: "a message names light queues so that dispatch to a RocksDB does not get past it",
    LIGHT_UNMATCHED: "a message names light queues, and a 5.3 broker dispatches it to none",
    WRONG_SIZE: "a file whose length is not that of the store's other files",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    offset  where: a log offset in the commit log, a queue offset in a queue, an entry number in an index file
    count   how many of the kind this finding counts; offset and detail describe the first
    """

    kind: str
    file: str
    offset: int
    topic: str | None = None
    queue_id: int | None = None
    count: int = 1
    detail: str = ""

    @property
    def place(self) -> tuple[str, str, str, int]:
        """The key for grouping and sorting findings."""
        return (self.file, self.kind, self.topic or "", -1 if self.queue_id is None else self.queue_id)


def effect_on_start(size: int, *, is_last: bool) -> str:
    """Describes the effect of a file of a wrong length on a start; 5.3 deletes a last one of zero bytes."""
    if is_last and not size:
        return "a 4.9 broker does not start with it, a 5.3 one deletes it"
    return "no broker starts with it"


# Each of these is a place to look at; the others come in masses.
SINGLE_KINDS = {
    BAD_CRC,
    BAD_PROPERTIES_CRC,
    BAD_LENGTH,
    BAD_SELF_OFFSET,
    TIME_BACKWARDS,
    MISSING_SEGMENT,
    CHECKPOINT_AHEAD,
    CHECKPOINT_INVALID,
    FOREIGN_FILE,
    LINK,
    WRONG_SIZE,
    UNREADABLE_UNITS,
    UNREADABLE_INDEX,
}


def by_place(finding: Finding) -> tuple[object, ...]:
    """Sorts findings by file and offset, and then by everything that people see."""
    return (finding.file, finding.offset, *finding.place, finding.detail)


def group_findings(findings: Iterable[Finding]) -> list[Finding]:
    """One finding per place for the kinds that come in masses, in the order of file and offset."""
    kept: list[Finding] = []
    masses: dict[tuple[str, str, str, int], Finding] = {}
    for finding in findings:
        if finding.kind in SINGLE_KINDS:
            kept.append(finding)
            continue
        known = masses.get(finding.place)
        if known is None:
            masses[finding.place] = finding
        else:
            first = min(known, finding, key=lambda f: (f.offset, f.detail))
            masses[finding.place] = replace(first, count=known.count + finding.count)
    return sorted([*kept, *masses.values()], key=lambda f: (f.file, f.offset, *f.place, f.detail))
