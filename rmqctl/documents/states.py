"""The types of documents about the state of a store."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from rmqctl.advice import Step
from rmqctl.documents.joined import Joined
from store import Finding
from store.verbs import GroupLag, QueueLag
from store.verbs.check import finding_kinds
from store.verbs.recover import FileOutcome, LostCounts, LostOfGroup, LostQueue


class Problem(TypedDict):
    """A problem, and the command to run."""

    what: str
    detail: str
    command: str


class Structure(TypedDict):
    """A structure that the store has."""

    name: str
    file: str | None
    detail: str


class Given(TypedDict):
    """A setting, and the source of its value."""

    name: str
    value: Any
    source: str


class Info(TypedDict):
    """A store at a glance."""

    compat: str
    compat_sign: str
    is_closed: bool
    abort_ms: int | None
    lock_holder: str | None
    owner_process: int | None
    segment_count: int
    log_bytes: int
    min_log_offset: int
    log_end: int | None
    first_ms: int | None
    last_ms: int | None
    topic_count: int | None
    queue_count: int | None
    message_count: int | None
    queues_built_to: int
    index_file_count: int
    index_built_to: int
    trusted_time_ms: int
    config_files: list[str]
    free_bytes: int | None
    disk_used_percent: float | None
    next_command: str
    problems: list[Problem]
    structures: list[Structure]
    settings: list[Given]


class Kinds(TypedDict):
    """The kind of a finding."""

    kind: Annotated[str, finding_kinds]


class Mend(TypedDict):
    """The command that mends a finding."""

    mended_by: str | None


class Check(TypedDict):
    """The findings of a store."""

    findings: list[Joined[Finding, Kinds, Mend]]
    finding_count: int
    checked_bytes: int
    stopped_at: int | None


class KindCount(TypedDict):
    """The findings of a kind."""

    kind: str
    count: int


class Fleet(TypedDict):
    """The findings of many stores."""

    finding_count: int
    findings: list[Joined[Finding, Kinds]]
    kinds: list[KindCount]


class DiagnosisRow(TypedDict):
    """A diagnosis, and the command that mends it."""

    number: int
    rank: int
    area: str
    what: str
    count: int
    detail: str
    command: str
    cost: str | None
    can_be_undone: bool | None


class Doctor(TypedDict):
    """The diagnoses of a store, the worst first."""

    worst_rank: int
    finding_count: int
    compat: str
    message_count: int | None
    checked_bytes: int
    lost_messages: int
    diagnoses: list[DiagnosisRow]
    commands: NotRequired[list[Step]]


class OfLine(TypedDict):
    """The version of a broker."""

    compat: str


class Note(TypedDict):
    """A trap or a consequence, and its remedy."""

    name: str
    detail: str
    remedy: str


class Outcome(TypedDict):
    """The next start of a broker."""

    compat: str
    starts: bool
    reason: NotRequired[str | None]
    mode: str | None
    start_segment: int | None
    start_reason: str | None
    log_end: int | None
    cut_reason: str
    files: list[FileOutcome]
    lost: dict[str, Any]
    traps: list[Note]


class ChangedFile(TypedDict):
    """A file that a start changes."""

    compat: str
    file: str | None
    action: str
    size_bytes: int | None


class Simulate(TypedDict):
    """The next starts of brokers."""

    outcomes: list[Outcome]
    traps: list[Joined[OfLine, Note]]
    losses: list[Joined[OfLine, LostCounts]]
    lost: list[Joined[OfLine, LostQueue]]
    unconsumed: list[Joined[OfLine, LostOfGroup]]
    changed_files: list[ChangedFile]


Upgrade = TypedDict("Upgrade", {"from": str, "to": str, "starts": bool, "log_end": int | None, "notes": list[Note]})
"""The consequences of an upgrade."""


class Report(TypedDict):
    """A written report."""

    file: str | None
    size_bytes: int | None
    worst_rank: int


class RetryTopic(TypedDict):
    """A retry or dead-letter topic."""

    topic: str | None
    kind: str
    message_count: int | None


class Lag(TypedDict):
    """The lag of consumer groups."""

    offsets_file: str | None
    group_count: int
    lag_messages: int
    deleted_unconsumed: int
    wrong_offset_count: int
    never_consumed: list[str]
    groups: list[GroupLag]
    queues: list[QueueLag]
    retry_topics: list[RetryTopic]
