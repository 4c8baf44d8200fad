"""Find messages that make the dispatch of a 5.3 broker to light queues fail."""

from __future__ import annotations

from collections.abc import Iterator

from store.checking.findings import LIGHT_POISON, LIGHT_UNMATCHED
from store.consumequeue.light_queues import LightParts


def light_poison(light: LightParts) -> Iterator[tuple[str, int, str]]:
    """Kind, log offset and fault of each record."""
    for log_offset in light.unmatched:
        detail = "more names than queue offsets, or fewer: it is in none of the light queues it names; put it again"
        yield LIGHT_UNMATCHED, log_offset, detail
    for log_offset in light.faults:
        detail = "a queue offset that is no number: dispatch does not get past it, and no broker starts"
        remedy = "start once with enableMultiDispatch=false (RocksDB: enableLmq) and stop cleanly"
        yield LIGHT_POISON, log_offset, f"{detail}; {remedy}"
