"""Cuts and cleanings of stores with consume queues in a RocksDB; 5.5.0 started on each, put, and its queues went on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store import check, open_store, plan_cleaning, plan_recovery, plan_truncation
from store.files.filesystem import Filesystem
from store.structures.tables.consumer_offsets import read_consumer_offsets
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


@pytest.mark.turns(3)
@pytest.mark.parametrize("is_recovered", [False, True])
@pytest.mark.parametrize("name", ["rocksdbcq-separate", "combine-separate", "combine"])
def test_groups_past_the_end_of_a_cut_queue_go_on_there(name: str, is_recovered: bool, tmp_path: Path) -> None:
    root = copy_store(fivefive(name) / "store", tmp_path / "store")
    table = root / "config/consumerOffset.json"
    table.parent.mkdir(exist_ok=True)
    groups = {f"{topic}@G": {str(queue): end + 3 for queue, end in queues.items()} for topic, queues in QUEUES.items()}
    table.write_text(json.dumps({"offsetTable": groups}))
    if is_recovered:
        with (root / "commitlog" / f"{0:020d}").open("r+b") as log:
            log.seek(CUT)
            log.write(bytes(200))
        (root / "abort").touch()
        with plan_recovery(root, mode="abnormal") as change:
            change.apply()
    else:
        with plan_truncation(root, CUT) as change:
            change.apply()
    after, cut = ends(root), {(row.topic, row.queue_id) for row in change.report.lost}
    assert {("TopicA", 0), ("TopicB", 1)} <= cut
    expected = {
        (topic, "G"): {
            queue: after[topic][queue] if (topic, queue) in cut else end + 3 for queue, end in queues.items()
        }
        for topic, queues in QUEUES.items()
    }
    assert read_consumer_offsets(root / "config", Filesystem()) == expected


def test_a_cleaning_leaves_the_database_to_the_broker(tmp_path: Path) -> None:
    root = copy_store(five("rocksdb-aborted") / "store", tmp_path / "store")
    (root / "abort").unlink()
    with plan_cleaning(root, now_ms=LATER_MS, force=True, reserved_hours=0) as change:
        assert [(type(one).__name__, one.path.relative_to(root).parts[0]) for one in change.actions] == [
            ("Remove", "commitlog")
        ]
