"""Find stray units inside of queues: units without a record.

A recovery reads queues at their ends only, as a broker does. A queue's units point to records in the log's order. A
unit that points past the log's end is stray. If a unit does not point past the unit before it, one of the two is
stray: the one without a record in the log. If neither or both have a record, the second unit is stray. Units before
the log's beginning have expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

import numpy as np

from store.errors import DamagedFile
from store.formats.derived import is_pre_blank, units_of
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array, Run
from store.formats.sets import is_in
from store.formats.wording import amount_is
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.scan import scan_segment
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.numbering import QueueTable
from store.structures.consumequeue.queue_set import QueueKey
from store.structures.consumequeue.unit_array import UnitArray, unit_array

_UNITS_BEFORE = 1024
"""The last units of a file that are compared with the next file."""


def find_stray_units(opened: OpenedStore, log_end: int) -> list[DamagedFile]:
    """Find the stray units of every queue; return one error for each queue that has some."""
    queues: list[tuple[QueueKey, Iterable[tuple[int, UnitArray]]]] = [
        (key, [(0, units_of(resting.units))]) for key, resting in opened.queues.resting().items()
    ]
    queues += [
        ((queue.topic, queue.queue_id), _units_of_files(queue))
        for queue in opened.queues.awake()
        if not queue.holds_batches and not queue.ends_before(log_end)
    ]
    found = ((key, _stray(units, log_end, _record_test(opened, key))) for key, units in queues)
    return [_error(opened, key, places) for key, places in found if places]


def _units_of_files(queue: ConsumeQueue) -> Iterator[tuple[int, UnitArray]]:
    for file in queue.files.files:
        yield file.file_start // UNIT_SIZE, unit_array(file)[: file.readable_position // UNIT_SIZE]


def _record_test(opened: OpenedStore, key: QueueKey) -> Callable[[int, int, int], bool]:
    """Make a function that tests whether the log has a record of this queue for a unit."""

    def has_record(queue_offset: int, log_offset: int, size: int) -> bool:
        # Few queues have stray units.
        from store.structures.consumequeue.expect import expected_units, with_light_units

        segment = opened.log.segments.find_by_offset(log_offset)
        at = log_offset - segment.file_start if segment is not None else 0
        stop = segment.readable_end(at, min(at + size, segment.size)) if segment is not None else 0
        steps = scan_segment(segment, at, stop, rules=opened.scan_rules(check_crc=False)) if segment is not None else ()
        for step in steps:
            if isinstance(step, Run):
                table = QueueTable()
                units = expected_units(step, (), table)
                if opened.has_light_units:
                    units, _ = with_light_units(step, units, table, {})
                rows = zip(units.queue.tolist(), units.queue_offset.tolist(), units.size.tolist(), strict=True)
                return any((units.queues[number], *row) == (key, queue_offset, size) for number, *row in rows)
        return False

    return cache(has_record)


def _stray(
    pieces: Iterable[tuple[int, UnitArray]], log_end: int, has_record: Callable[[int, int, int], bool]
) -> list[int]:
    """Find the queue offsets of stray units. Each piece of a queue comes with its first queue offset."""
    found: list[int] = []
    kept = np.empty((3, 0), np.int64)
    for first, units in pieces:
        offsets, sizes = units["log_offset"].astype(np.int64), units["size"].astype(np.int64)
        live = np.flatnonzero(~is_pre_blank(units))
        is_outside = (offsets[live] < 0) | (sizes[live] <= 0) | (offsets[live] > log_end - sizes[live])
        found += (live[is_outside] + first).tolist()
        inside = live[~is_outside]
        named = np.stack([inside + first, offsets[inside], sizes[inside]])
        kept = np.concatenate([kept[:, -_UNITS_BEFORE:], named], axis=1)
        if (kept[1, 1:] < kept[1, :-1] + kept[2, :-1]).any():
            stray = _falling(kept, has_record)
            kept = kept[:, ~is_in(kept[0], np.array(stray, np.int64))]
            found += stray
    return sorted(found)


def _falling(units: Int64Array, has_record: Callable[[int, int, int], bool]) -> list[int]:
    """Find the queue offsets of the stray units where the log offsets do not rise, as few as possible."""
    stray, rising = list[int](), list[tuple[int, int, int]]()
    for number, log_offset, size in units.T.tolist():
        while rising and log_offset < sum(rising[-1][1:]):
            if not has_record(number, log_offset, size) or has_record(*rising[-1]):
                stray.append(number)
                break
            stray.append(rising.pop()[0])
        else:
            rising.append((number, log_offset, size))
    return stray


def _error(opened: OpenedStore, key: QueueKey, places: list[int]) -> DamagedFile:
    topic, queue_id = key
    more = f" and {len(places) - 1:,} more" if len(places) > 1 else ""
    return DamagedFile(
        f"{amount_is(len(places), 'entry')} of no record: the one of queue offset {places[0]}{more}",
        file=opened.queues.queue_folder(topic, queue_id),
        code="stray-unit",
        subject=key,
    )
