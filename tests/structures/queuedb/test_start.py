"""What a start enters of the log's records: the queues' ends from a log offset on, and faults behind one."""

from __future__ import annotations

import pytest

from store.structures.queuedb.start import _Entered, _LightFaults
from tests.support.small_log import SmallLog


@pytest.mark.parametrize(
    ("number", "more", "ends"),
    [
        (0, 0, {"T": (0, 6), "U": (0, 6)}),
        (0, 1, {"T": (1, 6), "U": (0, 6)}),
        (11, 0, {"T": (6, 6), "U": (5, 6)}),
        (12, 0, {"T": (6, 6), "U": (6, 6)}),
        (13, 0, {"U": (6, 6)}),
        (13, 1, {}),
    ],
)
def test_records_are_entered_from_a_log_offset_on(number: int, more: int, ends: dict[str, tuple[int, int]]) -> None:
    log = SmallLog()
    for _ in range(7):
        log.put("T")
        log.put("U")
    entered = _Entered(log.units[number].log_offset + more)
    log.dispatch_to(entered)
    assert entered.ends == {(topic, 0): end for topic, end in ends.items()}


@pytest.mark.parametrize(("less", "count"), [(1, 2), (0, 1)])
def test_a_fault_in_light_queues_counts_behind_a_log_offset(less: int, count: int) -> None:
    log = SmallLog()
    places = [log.put("%LMQ%a", INNER_MULTI_DISPATCH="%LMQ%b", INNER_MULTI_QUEUE_OFFSET="x") for _ in range(2)]
    faults: list[int] = []
    log.dispatch_to(_LightFaults(faults, places[0] - less))
    assert faults == places[-count:]
