"""Find messages that make the dispatch of a 5.3 broker to light queues fail."""

from __future__ import annotations

from collections.abc import Iterator

from store.structures.consumequeue.multi_dispatch import LightParts
from store.structures.findings import Rank, kind

LIGHT_POISON = kind(
    "light-queue-poison", "a message names light queues so that a 5.3 broker does not start", Rank.NO_START
)
LIGHT_UNMATCHED = kind(
    "light-queue-unmatched", "a message names light queues, and a 5.3 broker dispatches it to none", Rank.LOSS
)

PUTS_REFUSED = "puts are refused; start once with enableLmq=false and stop cleanly"
_NO_START = "no broker starts; start once with enableMultiDispatch=false and stop cleanly"


def dispatch_faults(
    light: LightParts, kind_of_poison: str = LIGHT_POISON, consequence: str = _NO_START
) -> Iterator[tuple[str, int, str]]:
    """Yield kind, log offset and description of each faulty record.

    consequence  of a queue offset that is no number, for its description
    """
    for log_offset in light.unmatched:
        detail = "more names than queue offsets, or fewer: it is in none of the light queues it names; put it again"
        yield LIGHT_UNMATCHED, log_offset, detail
    for log_offset in light.faults:
        detail = "a queue offset that is no number: dispatch does not get past it"
        yield kind_of_poison, log_offset, f"{detail}, and {consequence}"
