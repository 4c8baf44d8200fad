"""Plan a new message database, with the timers that its timeline is to fire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.change.change import Change
from store.formats.topics import TIMER_TOPIC
from store.structures.messagedb.build import DatabasePlan, plan_database
from store.structures.messagedb.keys import TimerEntry
from store.structures.timer.files import read_timer_files
from store.structures.timer.message import TimerState
from store.structures.timer.review import messages_found
from store.structures.timer.timeline import Timeline, timeline_states

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


def plan_message_database(opened: OpenedStore) -> Change[DatabasePlan]:
    """Give the Change that puts a database made of the log's records in the old one's place.

    BadRequest without the package rocksdict.
    """
    return plan_database(opened, _waiting_timers)


def _waiting_timers(opened: OpenedStore) -> tuple[int, list[TimerEntry]] | None:
    """Return the end of the queue of timers, and those that are still to fire; None without that queue.

    Those are neither delivered, deleted nor rolled, and have no unit in the timer log, which the wheel fires.
    """
    queue = opened.queues.find(TIMER_TOPIC, 0)
    if queue is None:
        return None
    in_wheel = set(read_timer_files(opened.layout, opened.fs, opened.config).units["log_offset"].tolist())
    nothing_fired = Timeline({}, queue.max_offset, None)
    return queue.max_offset, [
        TimerEntry(one.deliver_timestamp_ms, one.uniq_key, one.size, one.log_offset)
        for one in timeline_states(nothing_fired, opened, messages_found(opened, queue))
        if one.state is TimerState.LOST and one.uniq_key and one.deliver_timestamp_ms >= 0
        if one.log_offset not in in_wheel
    ]
