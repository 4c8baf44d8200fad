"""The kinds of findings with their words and ranks, and Finding.

A room defines the kinds of its structure.
Each finding about a single record is kept. If one cause makes thousands (a lost queue, a lost index), one Finding per
file, topic and queue has their count and the first position.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple


class Rank(IntEnum):
    """Severity, the worst first."""

    NO_START = 1
    LOSS = 2
    WRONG = 3
    NOTE = 4


class Kind(NamedTuple):
    """A kind of findings.

    is_single  each finding is kept; findings of other kinds are grouped, as one cause may make thousands
    """

    words: str
    rank: Rank
    is_single: bool


KINDS: dict[str, Kind] = {}
"""Kinds by name: those below, and those of each imported room."""


def kind(name: str, words: str, rank: Rank = Rank.WRONG, *, is_single: bool = False) -> str:
    """Define a kind of findings, and return its name."""
    KINDS[name] = Kind(words, rank, is_single)
    return name


BAD_CRC = kind("bad-crc", "a body does not match its CRC", Rank.LOSS, is_single=True)
BAD_PROPERTIES_CRC = kind("bad-properties-crc", "a record does not match its property __CRC32#", is_single=True)
COPIED_CRC = kind("copied-crc", "a copied message kept the property __CRC32# of its first record", Rank.NOTE)
BAD_LENGTH = kind("bad-length", "bytes that are no record where one should be", Rank.LOSS, is_single=True)
BAD_SELF_OFFSET = kind("bad-self-offset", "a record says that it lies somewhere else", Rank.LOSS, is_single=True)
TIME_BACKWARDS = kind("time-backwards", "a record is older than the one before it", Rank.NOTE, is_single=True)
MISSING_SEGMENT = kind("missing-segment", "a commit-log file is missing between two others", Rank.LOSS, is_single=True)
STALE_TAIL = kind("stale-tail", "records are past the log's end and may come back", Rank.NOTE)
QUEUE_GAP = kind("queue-gap", "queue offsets leave some out")
MISSING_RECORD = kind("missing-record", "the log has no record of a queue offset")
QUEUE_LEAP = kind("queue-leap", "a record leaves out queue offsets, and no record of them is lost")
QUEUE_DUPLICATE = kind("queue-duplicate", "a queue offset or a record comes twice")
QUEUE_SHIFT = kind("queue-shift", "an entry is not at its record's queue offset")
MISSING_UNIT = kind("missing-unit", "a record has no entry in its queue")
UNIT_DIFFERS = kind("unit-differs", "an entry has another size or tags code than its record")
UNIT_NOWHERE = kind("unit-nowhere", "an entry points where no record begins")
UNIT_WRONG_RECORD = kind("unit-wrong-record", "an entry points to another queue's record")
MISSING_INDEX_ENTRY = kind("missing-index-entry", "a key has no entry in the index")
INDEX_ENTRY_NOWHERE = kind("index-entry-nowhere", "an index entry points where no record with its key begins")
BROKEN_CHAIN = kind("broken-chain", "a chain of the index does not lead through its entries")
INDEX_HEADER = kind("index-header", "an index header disagrees with its entries")
INDEX_TIME = kind("index-time", "an index file's times are not those of its records", Rank.NOTE)
LOST_INDEX = kind("lost-index", "records have keys and there is no index file")
TIMER_STATE = kind("timer-state", "the state of the timer cannot be what a broker wrote")
LOST_EXTENSION = kind("lost-extension", "entries point into consumequeue_ext/, where no file has their data")
CHECKPOINT_AHEAD = kind("checkpoint-ahead", "the checkpoint promises more than the files hold", is_single=True)
CHECKPOINT_INVALID = kind(
    "checkpoint-invalid", "the checkpoint is missing or cannot be what a broker wrote", Rank.NOTE, is_single=True
)
WRONG_SIZE = kind(
    "wrong-size", "a file whose length is not that of the store's other files", Rank.NO_START, is_single=True
)
TOPIC_ATTRIBUTE = kind(
    "topic-attribute",
    "topics.json gives a topic an attribute that a 5.3 broker refuses at each of its messages",
    Rank.LOSS,
)
ODD_SIZE = kind("odd-size", "the only file of the log may be cut or lengthened", is_single=True)
EMPTY_SEGMENT = kind("empty-segment", "the last file of the log has 0 bytes", Rank.NO_START, is_single=True)
FOREIGN_FILE = kind("foreign-file", "something in the store's folders that no broker made", Rank.NOTE, is_single=True)
UNKNOWN_NAME = kind("unknown", "something in the store's root that is not known here", Rank.NOTE, is_single=True)
LINK = kind(
    "link",
    "a folder or file of the store is a link, which commands that change the store refuse",
    Rank.NOTE,
    is_single=True,
)
NEWER = kind(
    "newer",
    "a broker newer than 5.5 wrote something that is not known here: the store is read, and not changed",
    Rank.NOTE,
)
UNREADABLE_UNITS = kind("unreadable-units", "a queue file has pages that can't be read", is_single=True)
UNREADABLE_INDEX = kind("unreadable-index", "an index file has pages that can't be read", is_single=True)


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a store, or several of one kind.

    offset  a log offset in the commit log, a queue offset in a queue, an entry number in an index file
    count   number of faults in this finding; offset and detail describe the first
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
    """Describe the effect of a file of wrong length on a start; 5.3 deletes an empty last file."""
    if is_last and not size:
        return "a 4.9 broker does not start with it, a 5.3 one deletes it"
    return "no broker starts with it"


def by_place(finding: Finding) -> tuple[object, ...]:
    """Return the sort key: file and offset, then all other shown fields."""
    return (finding.file, finding.offset, *finding.place, finding.detail)


def group_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Combine findings of grouped kinds by file, kind, topic and queue; sort all by file and offset."""
    kept: list[Finding] = []
    masses: dict[tuple[str, str, str, int], Finding] = {}
    for finding in findings:
        known_kind = KINDS.get(finding.kind)
        if known_kind is not None and known_kind.is_single:
            kept.append(finding)
            continue
        known = masses.get(finding.place)
        if known is None:
            masses[finding.place] = finding
        else:
            first = min(known, finding, key=lambda f: (f.offset, f.detail))
            masses[finding.place] = replace(first, count=known.count + finding.count)
    return sorted([*kept, *masses.values()], key=lambda f: (f.file, f.offset, *f.place, f.detail))
