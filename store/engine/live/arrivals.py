"""Arrivals: calls listeners for every message that is in queues and index.

    1. dispatch    keeps dispatched runs, if there is a listener
    2. tell        calls the listeners for the messages once every handler is done; drops runs that will come again

A listener is called in the thread that dispatches, so it must be quick. A message for light queues is reported once
more for each of these queues. Slaves of 4.x call no listener.

Source: MessageArrivingListener; doReput and notifyMessageArrive4MultiQueue of ReputMessageService (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from store.broker_line import LINE_4_9
from store.formats.run import Run
from store.opened.opened_store import OpenedStore
from store.structures.consumequeue.expect import Units, expected_units
from store.structures.consumequeue.multi_dispatch import find_light_parts


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message that can be got; `next_offset` is the queue offset after it."""

    topic: str
    queue_id: int
    next_offset: int
    tags_code: int
    """Of the tags; of a delayed message its deliver time."""
    run: Run
    row: int

    @property
    def store_timestamp_ms(self) -> int:
        return int(self.run.columns.store_timestamp_ms[self.row])

    @property
    def properties(self) -> dict[str, str]:
        """The message's properties, decoded when asked for."""
        return self.run.properties(self.row)


class MessageArrivingListener(Protocol):
    """A listener that is called for messages that can be got."""

    def arriving(self, arrival: Arrival) -> None: ...


class Arrivals:
    """The listeners of one store, and the runs that are not reported to them yet."""

    def __init__(self, opened: OpenedStore) -> None:
        self.findings: list[str] = []
        """Failures of listeners, each once."""
        self._delay_levels_ms = opened.config.delay_levels_ms
        self._config = opened.config
        self._is_silent = opened.line is LINE_4_9 and opened.config.broker_role == "SLAVE"
        self._listeners: list[MessageArrivingListener] = []
        self._runs: list[Run] = []

    def add(self, listener: MessageArrivingListener) -> None:
        """Call this listener too, for later messages."""
        self._listeners = [*self._listeners, listener]

    def dispatch(self, run: Run) -> None:
        """Keep a run until `tell`."""
        if self._listeners and not self._is_silent:
            self._runs.append(run)

    def tell(self, done_to: int) -> None:
        """Call the listeners for the messages before log offset `done_to`.

        Later runs are dropped: a handler refused one, so that all of them are dispatched again.
        """
        runs, self._runs = self._runs, []
        for run in runs:
            if run.start >= done_to:
                return
            for arrival in self._arrivals(run):
                for listener in self._listeners:
                    self._call(listener, arrival)

    def _call(self, listener: MessageArrivingListener, arrival: Arrival) -> None:
        try:
            listener.arriving(arrival)
        except Exception as error:
            # A listener's failure must not end the dispatch.
            finding = f"{type(listener).__name__} failed: {error!r}"
            if finding not in self.findings:
                self.findings = [*self.findings[-99:], finding]

    def _arrivals(self, run: Run) -> Iterator[Arrival]:
        units = expected_units(run, self._delay_levels_ms)
        for place, row in enumerate(_rows_of(run, units)):
            topic, queue_id = units.queues[int(units.queue[place])]
            tags_code, next_offset = int(units.tags_code[place]), int(units.queue_offset[place]) + 1
            arrival = Arrival(topic, queue_id, next_offset, tags_code, run, row)
            yield arrival
            if not self._config.enable_multi_dispatch:
                continue
            for part in find_light_parts(run, np.array([row], np.int64), self._config).parts:
                (topic, queue_id), queue_offset = part.key, part.run.columns.queue_offset.item()
                yield Arrival(topic, queue_id, queue_offset + 1, tags_code, run, row)


def _rows_of(run: Run, units: Units) -> Iterator[int]:
    """Return the row of each unit; units are in log order, as the records are."""
    offsets = {int(position) + run.file_start: row for row, position in enumerate(run.columns.position[: run.count])}
    return (offsets[int(log_offset)] for log_offset in units.log_offset)
