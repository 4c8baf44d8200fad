"""The types of documents about tables, settings and state files."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from rmqctl.documents.joined import Joined
from store.engine.services import Half
from store.verbs import TableEntry


class PromisedTime(TypedDict):
    """A time that the checkpoint promises."""

    field: str
    promise: str
    said_ms: int
    reached_ms: int
    verdict: str


class PromisedOffset(TypedDict):
    """An offset that the checkpoint promises."""

    field: str
    promise: str
    said_offset: int
    reached_offset: int
    verdict: str


class CheckpointShow(TypedDict):
    """The checkpoint's promises, compared with the files."""

    file_bytes: int | None
    faults: list[str]
    log_end: int | None
    queues_built_to: int
    trusted_time_ms: int
    start_segment: int | None
    start_reason: str | None
    times: list[PromisedTime]
    offsets: NotRequired[list[PromisedOffset]]


class TableFinding(TypedDict):
    """A finding in a table under config/."""

    kind: str
    file: str | None
    detail: str
    remedy: str


class TableFile(TypedDict):
    """The file of a table."""

    file: str | None
    load: str
    loaded_from: str | None
    main_state: str
    backup_state: str
    temporary_state: str
    reason: str | None
    mtime_ms: int


class ConfigCheck(TypedDict):
    """The findings in tables."""

    finding_count: int
    findings: list[TableFinding]
    files: list[TableFile]


class SettingRow(TypedDict):
    """A setting, its value and its effect."""

    name: str
    value: Any
    source: str
    default: Any
    type: str
    effect: str
    owner: str


class ConfigSettings(TypedDict):
    """The settings of a store."""

    settings: list[SettingRow]


class EntryValue(TypedDict):
    """The value of an entry, as JSON text."""

    value: str


class ConfigShow(TypedDict):
    """The entries of tables."""

    entry_count: int
    entries: list[Joined[TableEntry, EntryValue]]


class DelayedRow(TypedDict):
    """One delayed message."""

    state: str
    level: int
    queue_offset: int | None
    log_offset: int | None
    store_timestamp_ms: int
    deliver_timestamp_ms: int
    delivered_log_offset: int | None
    topic: str | None
    queue_id: int | None
    uniq_key: str | None
    warnings: list[str]


class LevelRow(TypedDict):
    """One delay level, with its messages by state."""

    level: int
    delay_seconds: int | None
    min_offset: int | None
    max_offset: int | None
    saved_offset: int | None
    next_offset: int | None


class DelayShow(TypedDict):
    """Delayed messages and their delivery."""

    at_ms: int
    counts: dict[str, int]
    messages: list[DelayedRow]
    levels: list[Joined[LevelRow, dict[str, int]]]


class TimerRow(TypedDict):
    """One timer message."""

    state: str
    queue_offset: int | None
    log_offset: int | None
    size: int
    topic: str | None
    queue_id: int | None
    uniq_key: str | None
    deliver_timestamp_ms: int
    slot_timestamp_ms: int | None
    roll_times: int
    magic: int | None
    timer_log_position: int | None
    delivered_log_offset: int | None
    is_overdue: bool


class TimerShow(TypedDict):
    """Timer messages and their delivery."""

    at_ms: int
    read_time_ms: int | None
    timer_queue_offset: int
    timer_max_offset: int
    slot_seconds: float
    overdue_count: int
    counts: dict[str, int]
    messages: list[TimerRow]


class TransactionRow(TypedDict):
    """One transaction."""

    state: str
    uniq_key: str | None
    topic: str | None
    queue_id: int | None
    producer_group: str | None
    born_timestamp_ms: int
    halves: list[Half]
    committed_log_offset: int | None
    discarded_log_offset: int | None
    warnings: list[str]
    half_count: int
    check_times: int | None


class TransactionShow(TypedDict):
    """Transactions and their ends."""

    counts: dict[str, int]
    half_backlog: int
    op_backlog: int
    half_and_op_queues: dict[str, int | None]
    warnings: list[str]
    transactions: list[TransactionRow]


class FilterRow(TypedDict):
    """One subscription by SQL."""

    group: str
    topic: str | None
    expression_type: str
    expression: str | None
    compiles: bool
    is_dead: bool
    born_timestamp_ms: int
    dead_timestamp_ms: int | None
    client_version: int
    bit_positions: list[int]


class FilterShow(TypedDict):
    """The SQL subscriptions of consumer groups."""

    is_ignored: bool
    bit_count: int
    filters: list[FilterRow]


class SchemaRow(TypedDict):
    """A command, and the schema of its document."""

    command: str
    schema: str


class Schemas(TypedDict):
    """The documents that have a schema."""

    schemas: list[SchemaRow]
