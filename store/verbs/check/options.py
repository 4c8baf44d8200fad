"""The options of a check, and its progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from store.config import StoreConfig
from store.formats.given import check_kind, check_number, check_real


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options of a check.

    sample_percent  of the segments, the same ones every time
    from_offset     start at the segment that holds it; findings between it and the segment before are included
    threads         default: one for each processor, at most 8; the findings do not depend on it
    settings        of the store, by RocketMQ's names: delay levels, file sizes, index geometry
    """

    sample_percent: float = 100.0
    max_seconds: float | None = None
    from_offset: int = 0
    threads: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_real("sample_percent", self.sample_percent, most=100)
        if self.max_seconds is not None:
            check_real("max_seconds", self.max_seconds)
        check_number("from_offset", self.from_offset, 64, 0)
        if self.threads is not None:
            check_number("threads", self.threads, least=1)
        check_kind("settings", self.settings, Mapping)
        StoreConfig().with_settings(self.settings)

    @property
    def config(self) -> StoreConfig:
        return StoreConfig().with_settings(self.settings)


WHOLE = CheckOptions()


@dataclass(slots=True)
class Progress:
    """The progress of a check.

    bytes_done  of the segments that are checked
    walked      of all segments so far, of the bytes `to_walk`: not the hole at the end of the last one
    stopped_at  the log offset to resume at, if the time limit stopped the check
    horizon     the log offset up to which the log is checked while a writer holds the store; None without a writer
    remarks     on delays that the store's entries show, as sentences for people
    """

    bytes_done: int = 0
    bytes_in_all: int = 0
    walked: int = 0
    to_walk: int = 0
    stopped_at: int | None = None
    horizon: int | None = None
    remarks: tuple[str, ...] = ()
