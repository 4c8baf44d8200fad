"""Find faults of the timer's files that affect a broker's start.

    wrong length   wheel or a log file: the broker stops
    lost part      the broker starts, and messages are delivered twice or never

Source: TimerWheel, TimerMessageStore.load (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.formats.topics import TIMER_TOPIC
from store.structures.timer.files import read_timer_files
from store.structures.timer.review import describe_unfired, find_repeated
from store.structures.timer.timeline import describe_sleeping, fires_timeline
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore
    from store.verbs.recover.outcome import SimulatedStart

TIMER_QUEUE = TIMER_TOPIC, 0


def blockers(opened: OpenedStore) -> Iterator[Trap]:
    """Yield a trap for each file of wrong length."""
    for name, fault in read_timer_files(opened.layout, opened.fs, opened.config).start_faults():
        yield Trap("timer-length", f"{name}: {fault}")


def traps(opened: OpenedStore, start: SimulatedStart) -> Iterator[Trap]:
    """Yield a trap for each lost part of the timer's files, with the consequence of a start without it.

    If no part is lost, yield a trap for messages that a start delivers or rolls again.
    """
    end = opened.max_offset(*TIMER_QUEUE)
    if not end and not opened.fs.exists(opened.layout.root / "timerlog"):
        return
    if fault := describe_sleeping(opened):
        yield Trap("timers-asleep", fault)
    count, fault = describe_unfired(opened)
    if count:
        yield Trap("timeline-unfired", fault)
    files = read_timer_files(opened.layout, opened.fs, opened.config)
    reads_queue = not fires_timeline(opened.config, opened.layout, opened.fs)
    lost = list(files.lost_parts(end if reads_queue else 0))
    if lost:
        yield from (Trap(code, fault) for code, fault in lost)
        return
    if repeated := find_repeated(opened):
        yield Trap(repeated.kind, repeated.detail)
