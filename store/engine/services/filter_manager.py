"""ConsumerFilterManager: the SQL subscriptions of a live store.

    register     adds a group's expression; later dispatch sets the group's bits, if bit maps are on
    unregister   marks the filters of a group without consumers as dead
    persist      every 10 s, and at the end: writes config/consumerFilter.json if a filter changed

A broker writes the file even if nothing changed, and so replaces a file that it ignores by an empty one.

Source: ConsumerFilterManager (4.9.8, 5.3.3).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from store.engine.live.timetable import TimedTask
from store.opened.arguments import checks_arguments
from store.opened.opened_store import OpenedStore
from store.reading.filter.sql92 import compile_sql
from store.reading.filter.subscription import BitMaps, SubscriptionFilter, load_filters

PERSIST_MS = 10_000


class ConsumerFilterManager:
    """The filters of `opened`; its dispatch sets the bits of the same filters."""

    def __init__(self, opened: OpenedStore, clock: Callable[[], int]) -> None:
        self._opened, self._clock = opened, clock
        of_dispatch = opened.queues.bit_maps
        self.table = (
            of_dispatch.filters
            if isinstance(of_dispatch, BitMaps)
            else load_filters(opened.layout, opened.config, opened.fs, clock())
        )
        self._is_changed = False
        self._persist_lock = threading.Lock()

    @checks_arguments
    def register(self, group: str, topic: str, expression: str, client_version: int | None = None) -> bool:
        """Register a subscription, and return whether it was accepted; BadRequest if it does not compile.

        `client_version` is by default the present time, as in clients.
        """
        compile_sql(expression)
        with self.table.lock:
            # Read under the lock: records dispatched without this filter are older than its bornTime.
            now_ms = self._clock()
            version = client_version if client_version is not None else now_ms
            is_taken = self.table.register(group, topic, expression, version, now_ms)
        self._is_changed |= is_taken
        return is_taken

    @checks_arguments
    def unregister(self, group: str) -> None:
        """Mark the filters of a group as dead; their bits are set as before."""
        with self.table.lock:
            self.table.unregister(group, self._clock())
        self._is_changed = True

    def of_group(self, topic: str, group: str) -> SubscriptionFilter:
        """Return the filter of a group for get() and wait_for_message()."""
        return SubscriptionFilter(self.table, topic, group, supports_retry=self._opened.config.filter_support_retry)

    def persist(self) -> None:
        """Write the file if a filter changed."""
        # The control socket's threads and the timetable persist concurrently, with the same .tmp file.
        with self._persist_lock:
            if self._is_changed:
                self._is_changed = False
                try:
                    self.table.persist(self._opened.layout.config, self._opened.fs, self._clock())
                except BaseException:
                    self._is_changed = True
                    raise

    def task(self) -> TimedTask:
        """Return the timed task that persists."""
        return TimedTask("writing the consumer filters", self.persist, PERSIST_MS, PERSIST_MS)
