"""Finds units inside of queues that can be no record's.

A recovery reads queues at their ends only, as a broker does.
A queue's units name records in the log's order. A unit is stray that names bytes behind the log's end, or bytes of the
record that the unit before it names. Units before the log's beginning have expired.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from store.consumequeue.consume_queue import ConsumeQueue
from store.consumequeue.queue_set import QueueKey
from store.consumequeue.unit_array import UnitArray, unit_array
from store.errors import DamagedFile
from store.formats.derived import is_pre_blank, units_of
from store.formats.queue_unit import UNIT_SIZE
from store.formats.wording import amount_is
from store.opened.opened_store import OpenedStore


def find_stray_units(opened: OpenedStore, log_end: int) -> list[DamagedFile]:
    """Finds the stray units of every queue that was not built anew, one error for each queue."""
    found = []
    for key, resting in opened.queues.resting().items():
        places = _stray(units_of(resting.units), log_end, 0)
        found += [_error(opened, key, places.tolist())] if len(places) else []
    for queue in opened.queues.awake():
        if not queue.holds_batches and not queue.ends_before(log_end):
            places = np.concatenate([np.empty(0, np.int64), *_stray_of(queue, log_end)])
            found += [_error(opened, (queue.topic, queue.queue_id), places.tolist())] if len(places) else []
    return found


def _stray_of(queue: ConsumeQueue, log_end: int) -> Iterator[np.ndarray]:
    """Yields the queue offsets of the stray units of each file."""
    end = 0
    for file in queue.files.files:
        units = unit_array(file)[: file.readable_position // UNIT_SIZE]
        places = _stray(units, log_end, end)
        yield places + file.file_start // UNIT_SIZE
        end = int(np.delete(units["log_offset"], places).max(initial=end))


def _stray(units: UnitArray, log_end: int, end: int) -> np.ndarray:
    """Finds the places of stray units; none may point before log offset `end`."""
    offsets, sizes = units["log_offset"].astype(np.int64), units["size"].astype(np.int64)
    live = np.flatnonzero(~is_pre_blank(units))
    is_outside = (offsets[live] < 0) | (sizes[live] <= 0) | (offsets[live] > log_end - sizes[live])
    inside = live[~is_outside]
    ends = np.concatenate([[end], (offsets + sizes)[inside]])[:-1]
    return np.sort(np.concatenate([live[is_outside], inside[offsets[inside] < ends]]))


def _error(opened: OpenedStore, key: QueueKey, places: list[int]) -> DamagedFile:
    topic, queue_id = key
    more = f" and {len(places) - 1:,} more" if len(places) > 1 else ""
    return DamagedFile(
        f"{amount_is(len(places), 'unit')} of no record: the one of queue offset {places[0]}{more}",
        file=opened.queues.queue_folder(topic, queue_id),
        code="stray-unit",
        subject=key,
    )
