"""Finds delayed messages that no broker can deliver: the record has no usable REAL_TOPIC or REAL_QID.

    4.9         stops the level at the first one, for ever
    5.3, 5.5    skips them

A level is read from its next offset on: the broker is done with the units before it.

Source: ScheduleMessageService.DeliverDelayedMessageTimerTask (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.formats.properties import real_queue
from store.formats.wording import amount
from store.structures.commitlog.rewritten import queue_records
from store.structures.delayoffsets.review import DelayLevel, delay_levels

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore
    from store.structures.consumequeue.consume_queue import ConsumeQueue


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """The undeliverable messages of a level: their number, and queue and log offset of the first."""

    level: int
    count: int
    queue_offset: int
    log_offset: int
    detail: str


def undeliverable(opened: OpenedStore) -> Iterator[Undeliverable]:
    """Yield the undeliverable messages of each level that has some."""
    levels, queues = delay_levels(opened)
    for level in levels:
        found = list(_places(opened, level, queues[level.level])) if level.level in queues else []
        if found:
            yield Undeliverable(level.level, len(found), *found[0], _describe(opened, level, found[0][0]))


def _describe(opened: OpenedStore, level: DelayLevel, queue_offset: int) -> str:
    place = f"the message at queue offset {queue_offset} of level {level.level} has no usable REAL_TOPIC or REAL_QID"
    if opened.line.skips_delay_poison:
        return f"{place}: a broker skips it"
    behind = amount(level.max_offset - queue_offset - 1, "message")
    return f"{place}: a 4.9 broker stops the level there, and delivers none of the {behind} after it"


def _places(opened: OpenedStore, level: DelayLevel, queue: ConsumeQueue) -> Iterator[tuple[int, int]]:
    """Yield queue offset and log offset of the undeliverable messages, from the next offset on."""
    for queue_offset, unit, record in queue_records(opened.log, queue, level.next_offset):
        if record is not None and None in real_queue(record.properties):
            yield queue_offset, unit.log_offset
