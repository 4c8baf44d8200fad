"""Plan a new message database with the waiting timers.

The queue of timers may be in files or in a database, or lost: then the log has its messages.
"""

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


def plan_message_database(opened: OpenedStore, *, without_halves: bool = False) -> Change[DatabasePlan]:
    """Return the Change that replaces the database by a new one, built from the log's records.

    without_halves  leaves half messages out, for a log whose records name each other by other log offsets

    BadRequest without the package rocksdict.
    """
    return plan_database(opened, _waiting_timers, without_halves=without_halves)


def _waiting_timers(opened: OpenedStore) -> tuple[int, list[TimerEntry]] | None:
    """Return the end of the queue of timers and the waiting timers; None without a message in it.

    A waiting timer is not delivered, deleted or rolled. It has no unit in the timer log, as the wheel fires those.
    """
    queue = opened.queues.find(TIMER_TOPIC, 0)
    found = messages_found(opened, queue)
    if queue is None and not found:
        return None
    end = queue.max_offset if queue is not None else found[-1][0].queue_offset + 1
    in_wheel = set(read_timer_files(opened.layout, opened.fs, opened.config).units["log_offset"].tolist())
    nothing_fired = Timeline({}, end, None)
    return end, [
        TimerEntry(one.deliver_timestamp_ms, one.uniq_key, one.size, one.log_offset)
        for one in timeline_states(nothing_fired, opened, found, 0)
        if one.state is TimerState.LOST and one.uniq_key and one.deliver_timestamp_ms >= 0
        if one.log_offset not in in_wheel
    ]
