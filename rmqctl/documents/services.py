"""The types of documents about a served store."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from rmqctl.documents.joined import Joined
from store.engine.ha import ListenerState, SlaveState
from store.engine.services import LevelBacklog


class Serve(TypedDict):
    """A store that was served."""

    root: str
    socket: str
    services: list[str]
    ha_address: str | None
    metrics_address: str | None
    put_messages: int
    put_bytes: int
    failed_puts: int
    gets: int
    halves_given_up: int | None
    log_start: int
    log_end: int | None
    ended_by: str


class RuntimeValue(TypedDict):
    """A value of a broker's runtime report."""

    runtime_name: str
    runtime_value: str


class Counter(TypedDict):
    """A counter of BrokerStatsManager."""

    set: str
    key: str
    total: int
    sum: int
    per_second: float
    average: float


class GroupBehind(TypedDict):
    """The lag of a group at its last read."""

    set: str
    key: str
    behind: int


class Ended(TypedDict):
    """The connections that a listener ended, for any reason."""

    ended: int


class Stats(TypedDict):
    """The statistics of a served store."""

    process_id: int
    over: str
    push_to_slave_max_offset: int | None
    halves_in_doubt: int | None
    halves_given_up: int | None
    flags: list[str]
    warnings: list[str]
    runtime: list[RuntimeValue]
    counters: list[Counter]
    lags: list[GroupBehind]
    slaves: list[SlaveState]
    delay_levels: list[LevelBacklog]
    listeners: list[Joined[ListenerState, Ended]]


class Flush(TypedDict):
    """The log end that a flush made durable."""

    process_id: int
    log_end: int | None


class Stop(TypedDict):
    """The process that was stopped."""

    process_id: int
    is_closed: bool


class ModeRow(TypedDict):
    """The speed of a flush mode."""

    mode: str | None
    messages_per_s: int
    bytes_per_s: int
    p50_us: float
    p90_us: float
    p99_us: float
    p99_9_us: float
    max_us: float
    flush_count: int
    messages_per_flush: float | None
    ratio: float


LatencyRow = TypedDict(
    "LatencyRow", {"up_to_us": int, "async": NotRequired[int], "sync": NotRequired[int], "transient": NotRequired[int]}
)
"""The number of puts of each mode in a latency class."""


class FlushBench(TypedDict):
    """The speed of flush modes."""

    message_count: int | None
    body_size_bytes: int
    thread_count: int
    segment_size_bytes: int
    device_fdatasync_per_s: int
    device_write_bytes_per_s: int
    memory_copy_bytes_per_s: int
    modes: list[ModeRow]
    latency: list[LatencyRow]


class FilterRegister(TypedDict):
    """A subscription that was registered."""

    process_id: int
    group: str
    topic: str | None
    expression: str | None
    is_registered: bool


class FilterUnregister(TypedDict):
    """A group whose subscriptions are dead."""

    process_id: int
    group: str
