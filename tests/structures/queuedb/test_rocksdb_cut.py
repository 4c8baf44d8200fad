"""Cuts and cleanings of stores with consume queues in a RocksDB; 5.5.0 started on each, put, and its queues went on."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import check, open_store, plan_cleaning, plan_truncation
from tests.cli.running import rmqctl
from tests.support.five_stores import five, fivefive
from tests.support.golden import copy_store
from tests.support.snapshots import contents

pytest.importorskip("rocksdict")
LATER_MS = 1_900_000_000_000
CUT = 4741
"""The log offset of the last but two records of the plain messages."""
QUEUES = {"TopicA": {0: 6, 1: 5, 2: 3, 3: 5}, "TopicB": {0: 2, 1: 2, 2: 3, 3: 1}}
"""Of rocksdbcq-separate: TopicB has lost a message."""


def ends(root: Path) -> dict[str, dict[int, int]]:
    with open_store(root) as store:
        found: dict[str, dict[int, int]] = {}
        for one in store.queues():
            if one.max_offset:
                found.setdefault(one.topic, {})[one.queue_id] = one.max_offset
        return found


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ["rocksdbcq-separate", "combine-separate", "combine"])
def test_a_cut_takes_the_units_behind_it_out_of_the_database(name: str, tmp_path: Path) -> None:
    root = copy_store(fivefive(name) / "store", tmp_path / "store")
    before = contents(root)
    with plan_truncation(root, CUT) as change:
        change_id = change.apply()
    wanted = {topic: dict(queues) for topic, queues in QUEUES.items()}
    wanted["TopicA"][0] -= 1
    assert (ends(root), list(check(root))) == (wanted, [])
    with plan_truncation(root, CUT) as again:
        assert again.is_empty
    assert rmqctl("undo", change_id, store=root).code == 0
    assert contents(root) == before


def test_a_cleaning_leaves_the_database_to_the_broker(tmp_path: Path) -> None:
    root = copy_store(five("rocksdb-aborted") / "store", tmp_path / "store")
    (root / "abort").unlink()
    with plan_cleaning(root, now_ms=LATER_MS, force=True, reserved_hours=0) as change:
        assert [(type(one).__name__, one.path.relative_to(root).parts[0]) for one in change.actions] == [
            ("Remove", "commitlog")
        ]
