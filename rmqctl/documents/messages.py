"""The types of documents about messages and their places."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from rmqctl.documents.joined import Joined
from rmqctl.put_rows import PutRow
from store.verbs import Consumption, Jump, Place, Searched


class Shown(TypedDict):
    """One message, without its body."""

    topic: str | None
    queue_id: int | None
    queue_offset: int | None
    log_offset: int | None
    size: int
    msg_id: str
    uniq_key: str | None
    keys: list[str]
    tags: str | None
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: str
    store_timestamp_ms: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    body_crc: int
    crc_ok: bool
    compression: str | None
    body_state: str
    properties: dict[str, str]
    property_bytes: NotRequired[str]
    outer_queue_offset: NotRequired[int]


class Message(Shown):
    """One message."""

    body: NotRequired[str]
    body_encoding: NotRequired[str]


class FoundMessage(Shown):
    """One message that was found, with its body."""

    body: str
    body_encoding: str


class Get(TypedDict):
    """Messages, and the offset to read on from."""

    messages: list[Message]
    status: str
    next_offset: NotRequired[int | None]
    min_offset: NotRequired[int | None]
    max_offset: NotRequired[int | None]
    unsound_count: NotRequired[int]
    damaged_count: NotRequired[int]
    is_limited: NotRequired[bool]


class Stage(TypedDict):
    """One stage in the life of a message."""

    uniq_key: str | None
    role: str
    topic: str | None
    queue_id: int | None
    queue_offset: int | None
    log_offset: int | None
    store_timestamp_ms: int
    reconsume_times: int


class SearchedBytes(TypedDict):
    """A stretch of the log that was searched."""

    size_bytes: int | None


class Position(TypedDict):
    """The position in a file; null if no file has it."""

    position: int | None


class Find(TypedDict):
    """Messages that were found."""

    searched_as: str
    message_count: int | None
    wrong_place_count: int
    indexed_bytes: int
    scanned_bytes: int
    messages: list[FoundMessage]
    places: list[Joined[Place, Position]]
    groups: list[Consumption]
    life: list[Stage]
    searched: list[Joined[Searched, SearchedBytes]]


class IndexFile(TypedDict):
    """An index file that was searched."""

    file: str | None


class IndexQuery(TypedDict):
    """Messages found by key."""

    message_count: int | None
    is_limited: bool
    messages: list[Message]
    index_files: list[IndexFile]


class Entry(TypedDict):
    """One entry of a file."""

    kind: str
    file: str | None
    position: int | None
    topic: NotRequired[str | None]
    queue_id: NotRequired[int | None]
    queue_offset: NotRequired[int | None]
    log_offset: NotRequired[int | None]
    size: NotRequired[int]
    msg_id: NotRequired[str]
    uniq_key: NotRequired[str | None]
    keys: NotRequired[list[str]]
    tags: NotRequired[str | None]
    flag: NotRequired[int]
    sys_flag: NotRequired[int]
    born_timestamp_ms: NotRequired[int]
    born_host: NotRequired[str]
    store_timestamp_ms: NotRequired[int]
    store_host: NotRequired[str]
    reconsume_times: NotRequired[int]
    prepared_transaction_offset: NotRequired[int]
    body_crc: NotRequired[int]
    crc_ok: NotRequired[bool]
    compression: NotRequired[str | None]
    body_state: NotRequired[str]
    body: NotRequired[str]
    body_encoding: NotRequired[str]
    properties: NotRequired[dict[str, str]]
    property_bytes: NotRequired[str]
    magic: NotRequired[int | None]
    detail: NotRequired[str]
    tags_code: NotRequired[int]
    ext_address: NotRequired[int | None]
    begin_timestamp_ms: NotRequired[int]
    end_timestamp_ms: NotRequired[int]
    begin_log_offset: NotRequired[int]
    end_log_offset: NotRequired[int]
    used_slot_count: NotRequired[int]
    index_count: NotRequired[int]
    key_hash: NotRequired[int]
    time_diff_seconds: NotRequired[int]
    previous_entry: NotRequired[int]
    entry_index: NotRequired[int]
    slot: NotRequired[int]
    physic_ms: NotRequired[int]
    logics_ms: NotRequired[int]
    index_ms: NotRequired[int]
    master_flushed_offset: NotRequired[int]
    confirm_log_offset: NotRequired[int]
    slot_time: NotRequired[int]
    first_position: NotRequired[int]
    last_position: NotRequired[int]
    count: NotRequired[int]
    last_read_ms: NotRequired[int]
    flushed_position: NotRequired[int]
    timer_queue_offset: NotRequired[int]
    master_timer_queue_offset: NotRequired[int]
    state_version: NotRequired[int]
    version_timestamp_ms: NotRequired[int]
    version_counter: NotRequired[int]
    unit_size: NotRequired[int]
    previous_position: NotRequired[int]
    write_time_ms: NotRequired[int]
    delay_ms: NotRequired[int | None]
    topic_hash: NotRequired[int]
    reserved: NotRequired[int]
    deliver_timestamp_ms: NotRequired[int]
    level: NotRequired[int]
    saved_offset: NotRequired[int | None]
    term: NotRequired[int]
    entry_offset: NotRequired[int]
    channel: NotRequired[int]
    chain_crc: NotRequired[int]
    body_size: NotRequired[int]
    batch_size: NotRequired[int]
    compacted_offset: NotRequired[int]
    bit_map_size: NotRequired[int]
    bit_map: NotRequired[str]
    rest: NotRequired[str]
    field: NotRequired[str]
    value: NotRequired[Any]
    logics_log_offset: NotRequired[int]
    index_type: NotRequired[str]
    text: NotRequired[str]
    check_count: NotRequired[int]
    family: NotRequired[str]
    name: NotRequired[str]


class Field(TypedDict):
    """One field of an entry, with its bytes."""

    position: int | None
    size: int
    field: str
    value: Any
    hex: str
    file: str | None


class Dump(TypedDict):
    """The entries of files."""

    entries: NotRequired[list[Entry]]
    entry_count: int
    fault_count: int
    fields: NotRequired[list[Field]]


class Put(TypedDict):
    """The results of puts."""

    results: list[PutRow]
    counts: NotRequired[dict[str, int]]
    left_out: NotRequired[dict[str, int]]


class StaleRow(TypedDict):
    """One stale record."""

    state: str
    log_offset: int | None
    size: int
    topic: str | None
    queue_id: int | None
    queue_offset: int | None
    store_timestamp_ms: int
    uniq_key: str | None
    live_log_offset: int | None
    file: str | None
    position: int | None


class Stale(TypedDict):
    """Stale records."""

    stale_messages: int
    duplicate_messages: int
    overwritten_messages: int
    lost_messages: int
    written_to: str | None
    stale_records: list[StaleRow]


class UsageRow(TypedDict):
    """The messages of a topic, and their bytes."""

    store: NotRequired[str]
    topic: NotRequired[str | None]
    message_count: int | None
    size_bytes: int | None
    share_percent: float
    first_ms: int | None
    last_ms: int | None
    queue_id: NotRequired[int | None]
    tag: NotRequired[str | None]
    day: NotRequired[str]


class Usage(TypedDict):
    """The messages of topics, and their bytes."""

    message_count: int | None
    size_bytes: int | None
    usage: list[UsageRow]


class Bucket(TypedDict):
    """The messages of one span of time."""

    start_ms: int
    message_count: int | None
    size_bytes: int | None
    share: str


class Second(TypedDict):
    """The messages of a second."""

    start_ms: int
    message_count: int | None


class JumpRow(TypedDict):
    """The step in store time between two adjacent records."""

    jump_seconds: float


class Timeline(TypedDict):
    """Messages by time."""

    message_count: int | None
    size_bytes: int | None
    first_ms: int | None
    last_ms: int | None
    jump_count: int
    buckets: list[Bucket]
    last_seconds: list[Second]
    jumps: list[Joined[Jump, JumpRow]]


class Sql(TypedDict):
    """The rows of a query."""

    row_count: int
    rows: list[dict[str, Any]]


class Export(TypedDict):
    """Written files."""

    folder: str
    file_count: int
    size_bytes: int | None
