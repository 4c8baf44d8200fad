"""A store of 64 segments: Spark, the local engine and the store's own dispatch write the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store import open_store
from store.config import StoreConfig
from store.files.store_reader import StoreReader
from store.query.spark.audit import audit_store
from store.query.spark.pieces import Gatherer
from store.query.spark.query import run_query
from store.query.spark.rebuild_plan import valid_parts
from store.structures.commitlog.slices import split_into
from store.verbs.rebuild.scope import RebuildScope
from tests.support.golden import copy_store, golden
from tests.support.spark_stores import by_spark, digests, locally, records
from tests.support.stores import SMALL, Clock, overwrite, text_message

SEGMENT_COUNT = 64
SETTINGS = {**SMALL, "mappedFileSizeCommitLog": 8192, "mappedFileSizeConsumeQueue": 2000}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 segments, three topics of three queues, bodies from nothing to a third of a segment."""
    root = tmp_path_factory.mktemp("large") / "store"
    clock, number = Clock(), 0
    with open_store(root, settings=SETTINGS, read_only=False, clock=clock) as store:
        while len(list((root / "commitlog").iterdir())) <= SEGMENT_COUNT:  # one of them is made ahead
            clock.now_ms += 700
            message = text_message(number, f"Topic{number % 3}", number // 3 % 3, number * 37 % 2800)
            assert store.put(message).is_ok
            number += 1
    return root


def test_the_local_engine_writes_what_the_store_itself_dispatched(large: Path, tmp_path: Path) -> None:
    assert len(list((large / "commitlog").iterdir())) >= SEGMENT_COUNT
    locally(large, tmp_path)
    assert digests(tmp_path) == digests(large)


def gathered(root: Path, parts: int) -> tuple[int, int, str]:
    """Records, end and reason, put together from so many parts per segment."""
    nothing = RebuildScope(queues=False, index=False)
    gather = Gatherer(str(root), Path("/nowhere"), nothing, StoreConfig().delay_levels_ms)
    found = [gather(part) for part in split_into(StoreReader(str(root)).segments(), parts)]
    live, end = valid_parts(found, gather)
    assert sum(part.record_count for part in live) == end.record_count
    return end.record_count, end.log_end, end.describe()


@pytest.mark.turns(5)
@pytest.mark.parametrize("parts", [2, 3, 5, 7, 40])
def test_the_number_of_parts_does_not_change_where_the_log_ends(large: Path, parts: int) -> None:
    assert gathered(large, parts) == gathered(large, 1)
    for name in ("torn", "corrupt-mid", "aborted", "preblank"):
        assert gathered(golden(name).store, parts) == gathered(golden(name).store, 1)


def test_a_record_at_a_cut_counts_though_it_is_wrong_about_its_place(tmp_path: Path) -> None:
    """A broker does not look at it either."""
    root = copy_store(golden("normal").store, tmp_path / "store")
    wanted = gathered(root, 1)
    for place, _ in records("normal")[::5]:
        path, position, _, _ = place(root)
        overwrite(path, position + 28, bytes(8))
    for parts in (1, 3, 10, 100):
        assert gathered(root, parts) == wanted


@pytest.mark.turns(4)
@pytest.mark.spark
def test_spark_writes_what_the_store_itself_dispatched(spark: Any, large: Path, tmp_path: Path) -> None:
    by_spark(spark, large, tmp_path, 2)
    assert digests(tmp_path) == digests(large)


@pytest.mark.turns(4)
@pytest.mark.spark
def test_spark_counts_and_audits_all_of_it(spark: Any, large: Path) -> None:
    text = "select topic, count(*) n, sum(size) s, max(log_offset) o from messages group by topic order by 1"
    _, rows = run_query(spark, [str(large)], text, limit=10)
    with open_store(large) as store:
        units = sum(queue.max_offset - queue.min_offset for queue in store.queues())
    assert [row["topic"] for row in rows] == ["Topic0", "Topic1", "Topic2"]
    assert sum(row["n"] for row in rows) == units
    assert audit_store(spark, str(large)) == []
