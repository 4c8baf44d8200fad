"""Every queue has one number, however many queues there are and however long their topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from store.formats.run import Run
from store.structures.consumequeue.numbering import QueueTable
from tests.support.small_log import SmallLog


def runs_of(log: SmallLog) -> list[Run]:
    found: list[Run] = []
    log.dispatch_to(cast(Any, SimpleNamespace(dispatch=found.append)), start=0)
    return found


def test_queues_are_numbered_in_the_order_of_their_first_record_and_keep_their_numbers() -> None:
    log, wanted = SmallLog(), list[tuple[str, int]]()
    for number in range(150):
        topic, queue_id = f"{number % 50:0100d}", number // 50
        wanted.append((topic, queue_id))
        log.put(topic, queue_id)
    table = QueueTable()
    for _ in range(2):
        given = np.concatenate([table.assign(run.buffer, run.array, run.count) for run in runs_of(log)])
        assert given.tolist() == list(range(150))
        assert (len(table), table.names) == (150, wanted)
    assert table.queues == [(topic.encode(), queue_id) for topic, queue_id in wanted]


def test_a_record_that_no_consumer_may_see_has_no_number_unless_it_is_asked_for() -> None:
    log = SmallLog()
    for topic, sys_flag in (("A", 0), ("B", 4), ("C", 8), ("D", 12), ("A", 0)):
        log.put(topic, sys_flag=sys_flag)
    (run,) = runs_of(log)
    table, all_records = QueueTable(), QueueTable()
    assert table.assign(run.buffer, run.array, run.count).tolist() == [0, -1, 1, -1, 0]
    assert table.names == [("A", 0), ("C", 0)]
    given = all_records.assign(run.buffer, run.array, run.count, queued_only=False)
    assert given.tolist() == [0, 1, 2, 3, 0]
