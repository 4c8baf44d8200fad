"""Notes on the differences of another broker version for timer messages.

Source: TimerMessageStore (5.3.3, 5.5.0), Timeline (5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.formats.wording import amount, amount_is
from store.structures.registry import is_of_others
from store.structures.timer.files import WHEEL, read_timer_files
from store.structures.timer.message import TimerMessage, TimerState
from store.structures.timer.review import review_timers
from store.structures.timer.timeline import read_timeline
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


def notes(own: OpenedStore, other: OpenedStore) -> Iterator[Trap]:
    """Yield notes on messages that only the other version delivers, or delivers again."""
    if is_of_others(WHEEL, other.line.name):
        waiting = [one for one in _messages(own) if one.state in (TimerState.PENDING, TimerState.ROLLED)]
        if waiting:
            detail = f"{amount(len(waiting), 'timer message')} never delivered: a {other.line} broker has no timer"
            yield Trap("timers-unread", detail, (len(waiting),))
        return
    yield from _of_deletes(own, other)
    if own.line.deletes_by_unique_key and not other.line.deletes_by_unique_key:
        files = read_timer_files(own.layout, own.fs, own.config)
        if files.wheel_name != WHEEL:
            yield Trap("wheel-in-snapshot", f"the wheel is in {files.wheel_name}, and {WHEEL} is older or empty")
        if read_timeline(own) is not None:
            at = files.checkpoint.queue_offset if files.checkpoint is not None else 0
            again = [one for one in _messages(own) if one.queue_offset >= at and one.state is TimerState.DELIVERED]
            detail = f"the wheel takes up the queue of timers at {at}: {amount(len(again), 'delivered message')} again"
            yield Trap("timers-in-database", detail, (len(again),))


def _of_deletes(own: OpenedStore, other: OpenedStore) -> Iterator[Trap]:
    if own.line.deletes_by_unique_key == other.line.deletes_by_unique_key or read_timeline(own) is not None:
        return
    deleted = {one.queue_offset for one in _messages(own) if one.state is TimerState.DELETED}
    deleted -= {one.queue_offset for one in _messages(other) if one.state is TimerState.DELETED}
    if deleted:
        is_newer = other.line.deletes_by_unique_key
        names = "the key alone" if is_newer else "topic and key"
        detail = f"{amount_is(len(deleted), 'deleted timer message')} delivered: a delete names {names}"
        yield Trap("timer-deletes" if is_newer else "timer-deletes-by-key", detail, (len(deleted),))


def _messages(opened: OpenedStore) -> list[TimerMessage]:
    return review_timers(opened, 0).messages
