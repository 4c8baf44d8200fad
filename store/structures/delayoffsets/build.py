"""Rewriting config/delayOffset.json, so that a broker continues after the delivered messages.

A broker saves its offsets every ten seconds. A killed broker repeats the deliveries since then: state `duplicate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.change.change import Change, PlanReport
from store.errors import UncleanStore
from store.structures.delayoffsets.files import FILE_NAME, encode_delay_offsets
from store.structures.delayoffsets.review import DelayedMessage, DelayLevel, DelayState, review_delays
from store.structures.tables.data_version import DataVersion, read_data_version

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore

_DONE = (DelayState.DELIVERED, DelayState.ASSUMED, DelayState.DUPLICATE, DelayState.LOST)


@dataclass(frozen=True, slots=True)
class LevelOffset:
    """The next queue offset of a delay level; `saved_offset` is None without one."""

    level: int
    saved_offset: int | None
    next_offset: int


@dataclass
class DelayOffsetsPlan(PlanReport):
    """The offsets of each delay level."""

    levels: list[LevelOffset]


def plan_delay_offsets(opened: OpenedStore, time_ms: int) -> Change[DelayOffsetsPlan]:
    """Plan the offsets after each level's delivered messages. The store must have an overlay."""
    overlay = opened.overlay
    assert overlay is not None, "a plan is made on a store with an overlay"
    if opened.abort.exists():
        raise UncleanStore("the last owner did not shut down", file=opened.layout.abort, code="unclean-copy")
    levels, messages = review_delays(opened, time_ms)
    found = {level.level: _next_offset(level, messages) for level in levels}
    saved = {level.level for level in levels if level.saved_offset is not None}
    offsets = {level: offset for level, offset in found.items() if offset or level in saved}
    version = None
    if opened.line.skips_delay_poison:
        version = read_data_version(opened.layout.config, FILE_NAME, opened.fs) or DataVersion(timestamp_ms=time_ms)
    report = DelayOffsetsPlan([LevelOffset(one.level, one.saved_offset, found[one.level]) for one in levels])
    change = Change("delay rewrite-offsets", opened.layout.root, opened.fs, report=report, staging=overlay.folder)
    if any(found[level.level] != (level.saved_offset or 0) for level in levels):
        data = encode_delay_offsets(offsets, version)
        change.publish_bytes(opened.layout.config / FILE_NAME, data, "continues after the delivered messages")
    return change


def _next_offset(level: DelayLevel, messages: list[DelayedMessage]) -> int:
    """Return the first queue offset, from the saved one on, of a message that is not delivered yet."""
    ahead = [one for one in messages if one.level == level.level and one.queue_offset >= level.next_offset]
    waiting = [one.queue_offset for one in ahead if one.state not in _DONE]
    if waiting:
        return min(waiting)
    # Before a recovery the queue's end is unknown.
    return max((one.queue_offset + 1 for one in ahead), default=level.next_offset)
