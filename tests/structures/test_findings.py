"""Findings of one cause are one finding with their number; all come by file and place."""

from __future__ import annotations

import pytest

from store.structures.findings import (
    BAD_CRC,
    KINDS,
    MISSING_UNIT,
    QUEUE_GAP,
    Finding,
    Rank,
    by_place,
    effect_on_start,
    group_findings,
)


def test_findings_of_a_grouped_kind_are_one_with_the_first_place_and_their_number() -> None:
    given = [
        Finding(MISSING_UNIT, "b", 9, "T", 0, detail="later"),
        Finding(MISSING_UNIT, "b", 5, "T", 0, count=3, detail="z"),
        Finding(MISSING_UNIT, "b", 5, "T", 0, detail="a"),
        Finding(MISSING_UNIT, "b", 7, "T", 1, detail="other queue"),
        Finding(MISSING_UNIT, "b", 6, "U", 0, detail="other topic"),
        Finding(QUEUE_GAP, "b", 5, "T", 0, detail="other kind"),
        Finding(MISSING_UNIT, "a", 99, "T", 0, detail="other file"),
        Finding(BAD_CRC, "b", 2, detail="second"),
        Finding(BAD_CRC, "b", 2, detail="first"),
        Finding("of no kind", "b", 1, detail="x"),
        Finding("of no kind", "b", 0, detail="y"),
    ]
    assert group_findings(given) == [
        Finding(MISSING_UNIT, "a", 99, "T", 0, 1, "other file"),
        Finding("of no kind", "b", 0, None, None, 2, "y"),
        Finding(BAD_CRC, "b", 2, None, None, 1, "first"),
        Finding(BAD_CRC, "b", 2, None, None, 1, "second"),
        Finding(MISSING_UNIT, "b", 5, "T", 0, 5, "a"),
        Finding(QUEUE_GAP, "b", 5, "T", 0, 1, "other kind"),
        Finding(MISSING_UNIT, "b", 6, "U", 0, 1, "other topic"),
        Finding(MISSING_UNIT, "b", 7, "T", 1, 1, "other queue"),
    ]


def test_a_place_has_the_fields_that_are_shown() -> None:
    assert Finding(QUEUE_GAP, "f", 5).place == ("f", QUEUE_GAP, "", -1)
    assert by_place(Finding(QUEUE_GAP, "f", 5, "T", 0, 2, "d")) == ("f", 5, "f", QUEUE_GAP, "T", 0, "d")


@pytest.mark.parametrize(
    ("size", "is_last", "effect"),
    [
        (0, True, "a 4.9 broker does not start with it, a 5.3 one deletes it"),
        (1, True, "no broker starts with it"),
        (0, False, "no broker starts with it"),
    ],
)
def test_5_3_deletes_an_empty_last_file(size: int, is_last: bool, effect: str) -> None:
    assert effect_on_start(size, is_last=is_last) == effect


def test_ranks_are_ordered_and_each_kind_has_one() -> None:
    assert [rank.name for rank in sorted(Rank)] == ["NO_START", "LOSS", "WRONG", "NOTE"]
    by_rank = {rank: {name for name, one in KINDS.items() if one.rank is rank} for rank in Rank}
    assert "wrong-size" in by_rank[Rank.NO_START]
    assert {"bad-crc", "bad-length", "missing-segment", "topic-attribute"} <= by_rank[Rank.LOSS]
    assert {"queue-gap", "missing-unit", "broken-chain", "checkpoint-ahead"} <= by_rank[Rank.WRONG]
    assert {"stale-tail", "time-backwards", "foreign-file", "link", "newer"} <= by_rank[Rank.NOTE]
    singles = {name for name, one in KINDS.items() if one.is_single}
    assert {"bad-crc", "bad-properties-crc", "bad-length", "wrong-size", "link", "unknown"} <= singles
    assert not singles & {"queue-gap", "missing-unit", "copied-crc", "newer", "stale-tail"}
