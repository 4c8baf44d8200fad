"""Set the offsets where a consumer group continues in a topic: a plan for consumerOffset.json.

A broker reads the table when it starts. An offset is kept within its queue, and a queue without messages gets 0.

Source: ConsumerOffsetManager (4.9.8), AdminBrokerProcessor.resetOffset (4.9.8).
"""

from __future__ import annotations

from dataclasses import dataclass

from store.change.change import Change, PlanReport
from store.errors import BadRequest, UncleanStore, quoted
from store.formats.wording import amount
from store.opened.opened_store import OpenedStore
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.time_search import first_at_or_after
from store.structures.tables.config_file import read_config_file, require_in_file
from store.structures.tables.consumer_offsets import (
    ConsumerOffsets,
    encode_consumer_offsets,
    offsets_file,
    offsets_of,
)
from store.structures.tables.fastjson import members

FIRST, LAST = "first", "last"


@dataclass(frozen=True, slots=True)
class OffsetTarget:
    """The point to continue from: `place` is FIRST or LAST; else the queue offset, else the store time."""

    place: str = ""
    offset: int | None = None
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """One queue of a group: its offset before, None without one, and its new one."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    consumed_offset: int | None
    next_offset: int


@dataclass
class OffsetResetPlan(PlanReport):
    """The queues of a reset."""

    offsets: list[OffsetReset]


def plan_offset_reset(
    opened: OpenedStore, group: str, topic: str, queue_id: int | None, target: OffsetTarget, now_ms: int
) -> Change[OffsetResetPlan]:
    """Plan a group's offsets in a topic, or in one of its queues. The store has an overlay.

    Raises UncleanStore if the last owner did not shut down, BadRequest for an unknown group or queue.
    """
    overlay = opened.overlay
    assert overlay is not None, "a plan is made on a store with an overlay"
    if opened.abort.exists():
        raise UncleanStore("the last owner did not shut down", file=opened.layout.abort, code="unclean-copy")
    opened.queues.recover()
    opened.queues.correct_min_offsets(opened.log.min_offset)
    file = offsets_file(opened.layout.config, opened.fs)
    require_in_file(file)
    known = offsets_of(file.document)
    _require_group(opened, group, known)
    before = known.get((topic, group), {})
    queues = sorted(opened.queues.of_topic(topic), key=lambda one: one.queue_id)
    rows = [_reset(opened, one, before.get(one.queue_id), target) for one in queues if queue_id in (None, one.queue_id)]
    if not rows:
        which = quoted(topic) if queue_id is None else f"{quoted(topic)}, queue {queue_id}"
        raise BadRequest(f"the store has no queue of {which}", code="unknown-topic")
    changed = {row.queue_id: row.next_offset for row in rows if row.next_offset != row.consumed_offset}
    report = OffsetResetPlan(rows)
    change = Change("config reset-offsets", opened.layout.root, opened.fs, report=report, staging=overlay.folder)
    if changed:
        data = encode_consumer_offsets(file.document, {(topic, group): changed}, opened.line, now_ms)
        outside = sum(row.next_offset != target.offset for row in rows) if target.offset is not None else 0
        reason = f"{amount(len(changed), 'offset')} of {group} in {topic}"
        reason += f"; offset {target.offset} is outside of {amount(outside, 'queue')}" if outside else ""
        change.publish_bytes(opened.layout.config / file.name, data, reason)
    return change


def _require_group(opened: OpenedStore, group: str, known: ConsumerOffsets) -> None:
    table = read_config_file(opened.layout.config, "subscriptionGroup.json", opened.fs)
    groups = {name for _, name in known} | {*members(table.document.get("subscriptionGroupTable"))}
    if group not in groups:
        raise BadRequest(f"no table has a consumer group {quoted(group)}", code="unknown-group")


def _reset(opened: OpenedStore, queue: ConsumeQueue, before: int | None, target: OffsetTarget) -> OffsetReset:
    low, high = queue.min_offset, queue.max_offset
    wanted = low if target.place == FIRST else high
    if target.offset is not None:
        wanted = target.offset
    elif target.time_ms is not None:
        wanted = _first_since(opened, queue, target.time_ms)
    return OffsetReset(queue.topic, queue.queue_id, low, high, before, max(low, min(wanted, high)))


def _first_since(opened: OpenedStore, queue: ConsumeQueue, time_ms: int) -> int:
    """Return the queue offset of the first message stored at or after a time, or unreadable.

    A 4.9 broker searches one file, by the files' modification times: in a copy the group would skip messages.
    """

    def stored_ms(log_offset: int, size: int) -> int:
        found = opened.log.store_timestamp(log_offset, size)
        return found if found >= 0 else time_ms

    return first_at_or_after(queue, time_ms, stored_ms)
