"""Rules of a recovery's plan, without a log: what differs from a broker, and when it does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.formats.columns import DamageReason
from store.structures.commitlog.scan import Damage, End
from store.verbs.recover.differences import JAVA_MAX_ARRAY_SIZE, Difference, applying, claimed_size, has_zero_last_file
from store.verbs.recover.rules import RecoveryRules

Z, C, H, D = Difference.ZEROED_CUT, Difference.CLOSED, Difference.HUGE_SIZE, Difference.DELIVER_TIME
Q, T, K = Difference.ZERO_QUEUE_FILE, Difference.TORN_PROPERTIES, Difference.KEPT_INDEX


def damage(reason: DamageReason) -> Damage:
    return Damage(0, Path("0"), 4, reason, 0)


BEYOND, TORN, SHORT = (
    damage(getattr(DamageReason, name)) for name in ("SIZE_BEYOND_SEGMENT", "TORN_PROPERTIES", "BAD_CRC")
)
ENDED = End(0, Path("0"), 0)


def queue(*wrote: int, holds_batches: bool = False) -> Any:
    files = [SimpleNamespace(wrote=one) for one in wrote]
    return SimpleNamespace(holds_batches=holds_batches, files=SimpleNamespace(files=files))


def opened(line: BrokerLine = LINE_4_9, claims: int = 0, *, aborted: bool = False, queues: tuple[Any, ...] = ()) -> Any:
    segment = SimpleNamespace(buffer=bytes(4) + claims.to_bytes(4, "big", signed=True))
    return SimpleNamespace(
        line=line, abort=SimpleNamespace(exists=lambda: aborted),
        log=SimpleNamespace(segments=SimpleNamespace(find_by_offset=lambda at: segment if at == 0 else None)),
        queues=SimpleNamespace(awake=lambda: queues),
    )  # fmt: skip


def ended(outcome: Any) -> Any:
    return SimpleNamespace(outcome=outcome, log_end=100)


@pytest.mark.parametrize(
    ("store", "outcome", "queue_end", "delayed", "keep_index", "found"),
    [
        (opened(), ENDED, 0, 0, False, []),
        (opened(aborted=True), ENDED, 0, 0, False, [C]),
        (opened(), SHORT, 0, 0, False, [Z]),
        (opened(), TORN, 0, 0, False, [Z, T]),
        (opened(claims=JAVA_MAX_ARRAY_SIZE), BEYOND, 0, 0, False, [Z]),
        (opened(claims=JAVA_MAX_ARRAY_SIZE + 1), BEYOND, 0, 0, False, [Z, H]),
        (opened(LINE_5_3, JAVA_MAX_ARRAY_SIZE + 1), BEYOND, 0, 0, False, [Z]),
        (opened(), ENDED, 0, 1, False, [D]),
        (opened(LINE_5_3), ENDED, 0, 1, False, []),
        (opened(), ENDED, 0, 0, True, [K]),
        (opened(queues=(queue(20), queue(20, 0))), ENDED, 99, 0, False, []),
        (opened(queues=(queue(20), queue(20, 0))), ENDED, 100, 0, False, [Q]),
        (opened(queues=(queue(0), queue(20, 20))), ENDED, 100, 0, False, []),
    ],
)
def test_each_difference_from_a_broker_is_named_where_it_matters(
    store: Any, outcome: Any, queue_end: int, delayed: int, keep_index: bool, found: list[Difference]
) -> None:
    end = ended(outcome)
    named = applying(store, end, queue_end, RecoveryRules(keep_index=keep_index), delayed=delayed)
    assert named == found
    as_broker = applying(store, end, queue_end, RecoveryRules(as_broker=True, keep_index=keep_index), delayed=delayed)
    assert as_broker == [one for one in found if one in (Z, C)]


@pytest.mark.parametrize(("outcome", "size"), [(BEYOND, -5), (SHORT, 0), (ENDED, 0)])
def test_a_size_is_claimed_by_a_record_beyond_its_segment_alone(outcome: Any, size: int) -> None:
    assert claimed_size(opened(claims=-5), ended(outcome)) == size


@pytest.mark.parametrize(
    ("of", "has"),
    [
        (queue(), False),
        (queue(0), False),
        (queue(20, 0), True),
        (queue(20, 20), False),
        (queue(0, 20, 0), True),
        (queue(20, 0, holds_batches=True), False),
    ],
)
def test_a_last_queue_file_without_units_counts_behind_another(of: Any, has: bool) -> None:
    assert has_zero_last_file(of) == has


def test_every_difference_has_a_reason_of_its_own() -> None:
    assert len({one.reason for one in Difference}) == len(Difference)
