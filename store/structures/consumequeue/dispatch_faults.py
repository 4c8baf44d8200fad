"""Find messages that a 5.3 broker does not dispatch to light queues, and light queues without files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from store.formats.topics import shares_records
from store.formats.wording import amount
from store.structures.consumequeue.multi_dispatch import LightParts
from store.structures.findings import MISSING_UNIT, Finding, Rank, kind

LIGHT_POISON = kind(
    "light-queue-poison", "a message names light queues so that a 5.3 broker does not start", Rank.NO_START
)
LIGHT_UNMATCHED = kind(
    "light-queue-unmatched", "a message names light queues, and a 5.3 broker dispatches it to none", Rank.LOSS
)
LIGHT_WITHOUT_FILES = kind("light-queues-without-files", "records list light queues, and no light queue has a file")

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


def describe_without_files(count: int) -> str:
    """Return the two causes of so many light queues without files, as a clause for people."""
    return f"{amount(count, 'light queue')}: lost, or never written by a broker without enableMultiDispatch"


def gather_without_files(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings, with one finding in place of those on light queues.

    For a 5.x store in which no light queue has a file. With enableLmq alone, 5.3 gives a message queue offsets in light
    queues, and no units. The counters begin at 0 after each start, so they repeat and leave gaps.
    """
    of_light: list[Finding] = []
    for finding in findings:
        if finding.topic is not None and shares_records(finding.topic):
            of_light.append(finding)
        else:
            yield finding
    missing = [finding for finding in of_light if finding.kind == MISSING_UNIT]
    if missing:
        detail = describe_without_files(len({(finding.topic, finding.queue_id) for finding in missing}))
        units = sum(finding.count for finding in missing)
        yield replace(missing[0], kind=LIGHT_WITHOUT_FILES, topic=None, queue_id=None, count=units, detail=detail)
    else:
        yield from of_light
