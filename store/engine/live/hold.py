"""PullRequestHoldService: holds gets that found nothing, until a message comes or time is over.

    a message arrives    for each held get of its queue: no newer message than requested → keep
                         the filter rejects its tags code or properties → keep; else wake
    every 5 s            the same for the queue's end, without a filter, for arrivals between get and hold
    its time is over     wake

A woken reader gets again; nothing may match.

Source: PullRequestHoldService, NotifyMessageArrivingListener (4.9.8).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from store.engine.live.arrivals import Arrival
from store.engine.live.service import ServiceThread

SWEEP_MS = 5000
QueueKey = tuple[str, int]


class ArrivalFilter(Protocol):
    """A filter of arriving messages, before they are read."""

    def matches_tags_code(self, tags_code: int) -> bool: ...

    def matches_properties(self, properties: Mapping[str, str]) -> bool: ...


@dataclass(slots=True, eq=False)
class HeldGet:
    """One get that waits for a queue to grow beyond `offset`."""

    offset: int
    message_filter: ArrivalFilter | None
    woken: threading.Event = field(default_factory=threading.Event)

    def wants(self, arrival: Arrival) -> bool:
        """Return whether the filter matches the message."""
        wanted = self.message_filter
        return wanted is None or (
            wanted.matches_tags_code(arrival.tags_code) and wanted.matches_properties(arrival.properties)
        )


class PullRequestHoldService(ServiceThread):
    """Holds gets; `max_offset` returns the end of a queue."""

    def __init__(self, max_offset: Callable[[str, int], int], sweep_ms: int = SWEEP_MS) -> None:
        super().__init__(sweep_ms)
        self._max_offset = max_offset
        self._held: defaultdict[QueueKey, list[HeldGet]] = defaultdict(list)
        self._lock = threading.Lock()
        self._is_over_now = False

    def hold(
        self, topic: str, queue_id: int, offset: int, timeout_ms: int, message_filter: ArrivalFilter | None = None
    ) -> bool:
        """Wait until the queue has grown beyond `offset`; False if time is over or the service stops."""
        held = HeldGet(offset, message_filter)
        with self._lock:
            if self._is_over_now:
                return False
            self._held[topic, queue_id].append(held)
        try:
            if self._max_offset(topic, queue_id) > offset:
                return True
            return held.woken.wait(timeout_ms / 1000) and not self._is_over_now
        finally:
            self._drop((topic, queue_id), held)

    @property
    def held_count(self) -> int:
        """The number of gets that wait."""
        with self._lock:
            return sum(map(len, self._held.values()))

    def arriving(self, arrival: Arrival) -> None:
        """Wake the held gets that the message matches."""
        key = arrival.topic, arrival.queue_id
        if key not in self._held:
            return
        for held in self._of(key):
            newest = arrival.next_offset
            if newest <= held.offset:
                newest = self._max_offset(*key)
            if newest > held.offset and held.wants(arrival):
                held.woken.set()

    def work(self) -> None:
        for key in list(self._held):
            end = self._max_offset(*key)
            for held in self._of(key):
                if end > held.offset:
                    held.woken.set()

    def last_work(self) -> None:
        self.release()

    def release(self) -> None:
        """Wake all held gets, and hold no later ones."""
        with self._lock:
            self._is_over_now = True
            everybody = [held for group in self._held.values() for held in group]
        for held in everybody:
            held.woken.set()

    def _of(self, key: QueueKey) -> list[HeldGet]:
        with self._lock:
            return list(self._held.get(key, ()))

    def _drop(self, key: QueueKey, held: HeldGet) -> None:
        with self._lock:
            self._held[key].remove(held)
            if not self._held[key]:
                del self._held[key]
