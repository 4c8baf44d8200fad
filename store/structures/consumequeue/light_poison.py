"""Find messages that make the dispatch of a 5.3 broker to light queues fail."""

from __future__ import annotations

from collections.abc import Iterator

from store.structures.consumequeue.light_queues import LightParts
from store.structures.findings import Rank, kind

LIGHT_POISON = kind(
    "light-queue-poison", "a message names light queues so that a 5.3 broker does not start", Rank.NO_START
)
LIGHT_POISON_ROCKSDB = kind(
    "light-queue-poison-rocksdb",
    "a message names light queues so that dispatch to a RocksDB does not get past it",
    Rank.LOSS,
)
LIGHT_UNMATCHED = kind(
    "light-queue-unmatched", "a message names light queues, and a 5.3 broker dispatches it to none", Rank.LOSS
)


def light_poison(light: LightParts, *, in_rocksdb: bool = False) -> Iterator[tuple[str, int, str]]:
    """Kind, log offset and fault of each record.

    in_rocksdb  the queues are in a RocksDB alone: a thread of its own writes them, so that a start gets past the record
    """
    for log_offset in light.unmatched:
        detail = "more names than queue offsets, or fewer: it is in none of the light queues it names; put it again"
        yield LIGHT_UNMATCHED, log_offset, detail
    for log_offset in light.faults:
        detail = "a queue offset that is no number: dispatch does not get past it"
        if in_rocksdb:
            remedy = "start once with enableLmq=false and stop cleanly"
            yield LIGHT_POISON_ROCKSDB, log_offset, f"{detail}, and puts are refused; {remedy}"
        else:
            remedy = "start once with enableMultiDispatch=false and stop cleanly"
            yield LIGHT_POISON, log_offset, f"{detail}, and no broker starts; {remedy}"
