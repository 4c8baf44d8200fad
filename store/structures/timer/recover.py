"""Take messages past the log's end off the timer's wheel and out of its log.

Their log offsets are those of other messages soon, and a timercheck past the queue's end would skip new ones.

Source: TimerMessageStore (5.3.3, 5.5.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.change.actions import Action
from store.formats.topics import TIMER_TOPIC
from store.structures.timer.build import shorten_wheel
from store.structures.timer.files import read_timer_files

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore
    from store.verbs.rebuild.scope import RebuildScope
    from store.verbs.recover.recover import RecoveryReport

DIFFERENCE = "timer"


def follow(opened: OpenedStore, found: RecoveryReport, scope: RebuildScope) -> list[Action]:
    """Return the actions that shorten the timer's files to the recovered log."""
    if opened.as_broker or not opened.layout.has_plain_log:
        return []
    files = read_timer_files(opened.layout, opened.fs, opened.config)
    queue, checkpoint = opened.queues.find(TIMER_TOPIC, 0), files.checkpoint
    is_ahead = queue is not None and checkpoint is not None and checkpoint.queue_offset > queue.max_offset
    is_past = int(files.units["log_offset"].max(initial=-1)) >= found.log_end
    return shorten_wheel(opened) if is_ahead or is_past else []
