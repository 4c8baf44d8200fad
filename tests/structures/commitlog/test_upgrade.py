"""What another version reads of a log of many segments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, LINE_5_5, BrokerLine
from store.structures.commitlog.upgrade import notes
from store.structures.trap import Trap


@pytest.mark.parametrize(
    ("own", "other", "count", "is_told"),
    [
        (LINE_5_3, LINE_5_5, 11, True),
        (LINE_4_9, LINE_5_5, 11, True),
        (LINE_5_3, LINE_5_5, 10, False),
        (LINE_5_5, LINE_5_5, 11, False),
        (LINE_5_5, LINE_5_3, 11, False),
        (LINE_4_9, LINE_5_3, 11, False),
    ],
)
def test_5_5_reads_its_newest_segments_alone(own: BrokerLine, other: BrokerLine, count: int, is_told: bool) -> None:
    log = SimpleNamespace(segments=SimpleNamespace(files=range(count)))
    found = notes(
        cast(Any, SimpleNamespace(line=own, log=log)),
        cast(Any, SimpleNamespace(line=other, config=SimpleNamespace(most_recovered_segments=10))),
    )
    detail = "a start reads the newest 10 of 11 segments, and builds no lost queue from the others"
    assert list(found) == ([Trap("recovers-some-segments", detail, (11,))] if is_told else [])
