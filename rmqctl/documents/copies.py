"""The types of documents about copies of a store, and about undo and quarantine."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from rmqctl.documents.joined import Joined
from store.verbs import BroughtFile, Skipped, TornRecord
from store.verbs.recover import LostOfGroup, LostQueue


class BackupRow(TypedDict):
    """One backup."""

    backup_id: str
    store: str
    compat: str
    began_ms: int
    ended_ms: int
    log_start: int
    log_end: int | None
    last_ms: int | None
    file_count: int
    size_bytes: int | None
    note_count: int
    new_bytes: int


class BackupList(TypedDict):
    """The backups of a folder."""

    backups: list[BackupRow]


class BackupFile(TypedDict):
    """One file of a backup."""

    file: str | None
    size_bytes: int | None
    sha256: str
    stored_as: str
    stored_bytes: int


class BackupCreate(BackupRow):
    """A backup that was made."""

    files: list[BackupFile]


class DamagedFile(TypedDict):
    """A damaged file of a backup."""

    backup_id: str
    file: str | None
    reason: str | None


class BackupFinding(TypedDict):
    """One finding in the log of a backup."""

    kind: str
    file: str | None
    offset: int | None
    count: int
    detail: str


class BackupVerify(TypedDict):
    """The faults of backups."""

    checked_backup: str
    backup_count: int
    verified_bytes: int
    fault_count: int
    finding_count: int
    damaged_files: list[DamagedFile]
    findings: list[BackupFinding]


class FileDifference(TypedDict):
    """A file that differs between two backups."""

    file: str | None
    difference: str
    size_before_bytes: int | None
    size_after_bytes: int | None


class BackupDiff(TypedDict):
    """The differences of two backups."""

    before: str
    after: str
    log_end_before: int
    log_end_after: int
    differences: list[FileDifference]


class PrunedBackup(TypedDict):
    """A backup, and whether it is deleted or kept."""

    backup_id: str
    verdict: str


class PrunedFile(TypedDict):
    """A file that no backup needs."""

    stored_as: str
    stored_bytes: int


class BackupPrune(TypedDict):
    """The backups and files of a prune."""

    applied: bool
    freed_bytes: int
    backups: list[PrunedBackup]
    files: list[PrunedFile]


class RestoredTable(TypedDict):
    """A table of the new store."""

    file: str | None
    remark: str


class BackupRestore(TypedDict):
    """The store that was restored."""

    backup_id: str
    target: str | None
    log_start: int
    log_end: int | None
    last_ms: int | None
    record_count: int
    expired_queue_count: int
    bumped_queue_count: int
    finding_count: int
    tables: list[RestoredTable]


class GradeRow(TypedDict):
    """The records of a grade."""

    grade: str
    records: int
    size_bytes: int | None


class GapRow(TypedDict):
    """A gap in the log."""

    file: str | None
    position: int | None
    log_offset: int | None
    size_bytes: int | None
    reason: str | None


class Size(TypedDict):
    """The size of bytes that were skipped."""

    size_bytes: int | None


class Salvage(TypedDict):
    """The records that a salvage found, and its target."""

    target: str | None
    saved_records: int
    source_files: list[str]
    gap_bytes: int
    skipped_bytes: int
    duplicate_records: int
    placeholder_records: NotRequired[int]
    filler_records: NotRequired[int]
    left_out_records: NotRequired[int]
    log_end: NotRequired[int | None]
    lost_op_records: NotRequired[int]
    possible_op_records: NotRequired[int]
    grades: list[GradeRow]
    gaps: list[GapRow]
    lost: list[LostQueue]
    unconsumed: list[LostOfGroup]
    brought: list[BroughtFile]
    torn: list[TornRecord]
    skipped: list[Joined[Skipped, Size]]


class Undo(TypedDict):
    """The change that was undone."""

    change_id: str | None
    file_count: int
    set_aside_count: int


class QuarantinedChange(TypedDict):
    """A change that can be undone."""

    change_id: str | None
    command: str
    state: str
    time_ms: int
    file_count: int
    size_bytes: int | None


class QuarantineList(TypedDict):
    """The changes that can be undone."""

    changes: list[QuarantinedChange]


class QuarantinePurge(TypedDict):
    """The bytes that a purge freed."""

    freed_bytes: int


class ReplayedTopic(TypedDict):
    """The messages of a topic, counted by outcome."""

    topic: str | None
    message_count: int | None
    body_bytes: int
    delayed_count: int
    acknowledged_count: int
    already_count: int
    refused_count: int
    doubt_count: int
    again_count: int
    held_count: int
    repeated_count: int


class RefusedMessages(TypedDict):
    """Messages that the target refused."""

    topic: str | None
    reason: str | None
    message_count: int | None


class UncertainMessage(TypedDict):
    """A message in doubt: it may be in the target, or twice there."""

    topic: str | None
    uniq_key: str | None
    origin_msg_id: str
    certainty: str


class Replay(TypedDict):
    """The messages of a replay."""

    left_out: dict[str, int]
    topics: list[ReplayedTopic]
    refused: list[RefusedMessages]
    ledger: NotRequired[str]
    ledger_id: NotRequired[str]
    run: NotRequired[int]
    stop_reason: NotRequired[str | None]
    verified_counts: NotRequired[dict[str, int]]
    ledger_acknowledged_count: NotRequired[int]
    ledger_refused_count: NotRequired[int]
    ledger_again_count: NotRequired[int]
    ledger_doubt_count: NotRequired[int]
    ledger_twice_count: NotRequired[int]
    uncertain: NotRequired[list[UncertainMessage]]


class ReplicatePull(TypedDict):
    """The copy of a log."""

    master: str
    target: str | None
    log_start: int
    log_end: int | None
    resumed_at: int | None
    received_bytes: int
    compared_bytes: int
    received_records: int
    unfinished_bytes: int
    connections: int
    segment_size_bytes: int
    is_segment_size_assumed: bool
    bytes_per_second: int | None


class ReplicateServe(TypedDict):
    """A log that was served to slaves."""

    address: str
    log_start: int
    log_end: int | None
    acknowledged_offset: int
    connections: int
    segment_size_bytes: int


class OneSided(TypedDict):
    """A range of the log that only one store has."""

    store: str
    start: int
    end: int | None
    size_bytes: int | None


class QueueDifference(TypedDict):
    """A queue that differs."""

    topic: str | None
    queue_id: int | None
    difference: str
    min_offset_a: int | None
    max_offset_a: int | None
    min_offset_b: int | None
    max_offset_b: int | None


class Diff(TypedDict):
    """The differences of two stores."""

    equal: bool
    same_records: int
    differing_records: int
    first_difference: dict[str, Any] | None
    only_in_one: list[OneSided]
    queues: list[QueueDifference]


class Part(TypedDict):
    """One part of a store, with its digest."""

    kind: str
    name: str
    start: int
    end: int | None
    sha256: str
    note: str


class PartDifference(TypedDict):
    """A part that differs from the earlier fingerprint."""

    kind: str
    name: str
    difference: str
    end_before: int | None
    end_after: int | None


class Fingerprint(TypedDict):
    """The digests of a store."""

    sha256: str
    parts: list[Part]
    verified: NotRequired[bool]
    difference_count: NotRequired[int]
    differences: NotRequired[list[PartDifference]]
