"""Rules of a salvage over small tables: records that two files have, and offsets by topic, group and level."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store.formats.topics import SCHEDULE_TOPIC
from store.verbs.salvage.config_tables import _fitted
from store.verbs.salvage.salvage import _without


@pytest.mark.parametrize(
    ("seen", "kept", "duplicates"),
    [
        ([], ["all"], 0),
        ([5], ["all"], 0),
        ([10], [(1, 3)], 1),
        ([20], [(0, 1), (2, 3)], 1),
        ([10, 20], [(2, 3)], 2),
        ([5, 10, 20, 30, 40], [], 3),
    ],
)
def test_a_record_that_was_seen_is_counted_and_left_out(seen: list[int], kept: list[Any], duplicates: int) -> None:
    run: Any = SimpleNamespace(log_offsets=np.array([10, 20, 30], np.int64), rows=lambda first, stop: (first, stop))
    report: Any = SimpleNamespace(duplicate_count=0)
    taken: list[Any] = list(_without(run, np.array(seen, np.int64), report))
    assert (["all" if one is run else one for one in taken], report.duplicate_count) == (kept, duplicates)


def test_offsets_are_fitted_by_their_topic_group_queue_and_level() -> None:
    asked: list[tuple[str, str, int, Any]] = []
    table: Any = {"T@g": {"0": 5, 3: 7, "x": 8}, "1": 9, "18": 10, "%LMQ%a@g": 11}
    fitted = _fitted(table, lambda *one: asked.append(one) or -1)
    assert asked == [
        ("g", "T", 0, 5), ("g", "T", 3, 7), ("g", "T", 0, 8), ("level 1", SCHEDULE_TOPIC, 0, 9),
        ("level 18", SCHEDULE_TOPIC, 17, 10), ("g", "%LMQ%a", 0, 11),
    ]  # fmt: skip
    assert fitted == {"T@g": {"0": -1, 3: -1, "x": -1}, "1": -1, "18": -1, "%LMQ%a@g": -1}
