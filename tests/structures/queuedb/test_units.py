"""The units of a run: one part for each queue, those of light queues after them, and the end of the last record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from store.formats.run import Run
from store.structures.queuedb.units import NO_LIGHT_PARTS, UnitMaker
from tests.support.small_log import SmallLog


def run_of(log: SmallLog) -> Run:
    found: list[Run] = []
    log.dispatch_to(cast(Any, SimpleNamespace(dispatch=found.append)), start=0)
    (run,) = found
    return run


def test_each_queue_has_its_units_in_log_order_and_light_queues_theirs() -> None:
    log = SmallLog()
    places = [
        log.put("T"),
        log.put("U", 2),
        log.put("P", INNER_MULTI_DISPATCH="%LMQ%a", INNER_MULTI_QUEUE_OFFSET="7"),
        log.put("T"),
    ]
    last = log.put("H", sys_flag=4)
    found = UnitMaker(()).units_of(run_of(log))
    rows = [(key, units["queue_offset"].tolist(), units["log_offset"].tolist()) for key, units in found.parts]
    assert rows == [
        (("T", 0), [0, 1], [places[0], places[3]]),
        (("U", 2), [0], [places[1]]),
        (("P", 0), [0], [places[2]]),
        (("%LMQ%a", 0), [7], [places[2]]),
    ]
    assert (found.end, len(found.light.parts)) == (last, 1)


def test_records_that_no_consumer_may_see_have_none() -> None:
    log = SmallLog()
    log.put("H", sys_flag=4)
    assert UnitMaker(()).units_of(run_of(log)) == ([], -1, NO_LIGHT_PARTS)
