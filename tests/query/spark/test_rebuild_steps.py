"""The steps of a rebuild on Spark, run in this process: for any cut and any oddity the local engine's bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from store import open_store
from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.layout import StoreLayout
from store.opened.detect import infer_config, make_layout
from store.query.spark import pieces, rebuild, writers
from store.query.spark.pieces import Gatherer
from store.query.spark.rebuild_plan import plan_shares, plan_tasks
from store.structures.commitlog.slices import split, split_into
from store.verbs.rebuild.scope import RebuildScope
from tests.support.golden import copy_store, golden
from tests.support.quickly import one_of
from tests.support.spark_stores import NOW_MS, by_spark, digests, locally, segment
from tests.support.stores import LATER_MS, SMALL, Clock, make_store, overwrite, text_message

QUEUE_OFFSET_AT, LOG_OFFSET_AT = 20, 28
BLANK_MAGIC_BYTES = b"\xcb\xd4\x31\x94"


def in_this_process(_: Any, work: Callable[[Any], Any], shares: Iterable[Any]) -> Iterator[Any]:
    for share in shares:
        yield pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))(pickle.loads(pickle.dumps(share)))))


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "map_tasks", in_this_process)


def assert_same_as_local(store: Path, tmp_path: Path, parts: int, scope: RebuildScope | None = None) -> None:
    by_spark(None, store, tmp_path / "spark", parts, scope)
    locally(store, tmp_path / "local", scope)
    assert digests(tmp_path / "spark") == digests(tmp_path / "local")


def overwrite_field(root: Path, record: int, at: int, value: int) -> None:
    """Sets a long in a record of the first segment."""
    step = record_positions(root)[record]
    overwrite(segment(root), step + at, value.to_bytes(8, "big", signed=True))


def record_positions(root: Path) -> list[int]:
    data, at, found = segment(root).read_bytes(), 0, []
    while (size := int.from_bytes(data[at : at + 4], "big")) and data[at + 4 : at + 8] != BLANK_MAGIC_BYTES:
        found.append(at)
        at += size
    return found


@pytest.mark.parametrize(
    ("name", "parts"),
    one_of(7, ["normal", "many", "batch", "ipv6", "normal5", "preblank", "torn", "corrupt-mid"], [1, 2, 7, 40]),
)
def test_any_number_of_parts_gives_the_same_bytes(name: str, parts: int, tmp_path: Path) -> None:
    assert_same_as_local(golden(name).store, tmp_path, parts)


@pytest.mark.parametrize("scope", [RebuildScope(queues=False), RebuildScope(index=False)])
def test_queues_or_index_alone_are_built(scope: RebuildScope, tmp_path: Path) -> None:
    assert_same_as_local(golden("normal").store, tmp_path, 3, scope)
    assert len([path for path in (tmp_path / "spark").iterdir() if path.is_dir()]) == 1


def test_a_part_may_have_more_units_than_a_task_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "SPILL_BYTES", 1)
    monkeypatch.setattr(writers, "_CHUNK_UNITS", 7)
    assert_same_as_local(golden("many").store, tmp_path / "many", 2)
    store = make_store(tmp_path / "store", 150)
    overwrite_field(store, 40, QUEUE_OFFSET_AT, 3)
    assert_same_as_local(store, tmp_path / "gap", 2)


def test_queue_files_and_index_files_follow_one_another(tmp_path: Path) -> None:
    """Messages come a second apart, which the first entry of an index file tells of the file before it."""
    store = make_store(tmp_path / "store", 300)
    assert_same_as_local(store, tmp_path, 2)
    assert digests(tmp_path / "spark") == digests(store)
    assert len(digests(store)[1]) > 3


@pytest.mark.parametrize("count", [33, 34, 66])
def test_an_index_file_that_is_just_full_has_one_behind_it_when_a_record_comes(count: int, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", count)  # three keys each, 99 in a file
    assert_same_as_local(store, tmp_path, 3)
    with open_store(store, settings=SMALL, read_only=False, clock=Clock(LATER_MS)) as opened:
        message = text_message(count)
        message.properties = b""
        assert opened.put(message).is_ok
    assert_same_as_local(store, tmp_path / "more", 3)
    assert len(digests(tmp_path / "more" / "spark")[1]) == count // 33 + 1


def test_records_without_keys_have_an_empty_index_file(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, clock=Clock()) as store:
        message = text_message(0)
        message.properties = b""
        assert store.put(message).is_ok
    assert_same_as_local(tmp_path / "store", tmp_path, 2)
    assert len(digests(tmp_path / "spark")[1]) == 1


@pytest.mark.parametrize(("record", "log_offset", "parts"), one_of(7, [0, 40, 50], [-1, 0, 77, 1 << 40], [1, 5]))
def test_a_record_that_is_wrong_about_its_place_is_treated_as_by_the_local_engine(
    record: int, log_offset: int, parts: int, tmp_path: Path
) -> None:
    store = make_store(tmp_path / "store", 150)
    overwrite_field(store, record, LOG_OFFSET_AT, log_offset)
    assert_same_as_local(store, tmp_path, parts)


@pytest.mark.parametrize(("record", "queue_offset", "parts"), one_of(7, [0, 40, 50], [-1, 0, 3, 1000, 1 << 62], [1, 5]))
def test_a_queue_with_a_repeat_or_a_gap_is_treated_as_by_the_local_engine(
    record: int, queue_offset: int, parts: int, tmp_path: Path
) -> None:
    store = make_store(tmp_path / "store", 150)
    overwrite_field(store, record, QUEUE_OFFSET_AT, queue_offset)
    assert_same_as_local(store, tmp_path, parts)


@pytest.mark.parametrize("parts", [1, 5])
def test_a_segment_that_a_record_fills_to_the_last_byte_ends_the_log(parts: int, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", 150)
    data, start = segment(store).read_bytes(), record_positions(store)[-1]
    end = start + int.from_bytes(data[start : start + 4], "big")
    rest = len(data) - end
    size_at = next(at for at in range(start + 90, end) if int.from_bytes(data[at : at + 2], "big") == end - at - 2)
    overwrite(segment(store), start, (end - start + rest).to_bytes(4, "big"))
    overwrite(segment(store), size_at, (end - size_at - 2 + rest).to_bytes(2, "big"))
    overwrite(segment(store), end, b"x" * rest)
    assert len(record_positions(store)) > 1
    made = [by_spark(None, store, tmp_path / "spark", parts), locally(store, tmp_path / "local")]
    assert digests(tmp_path / "spark") == digests(tmp_path / "local")
    assert {one.log_end for one in made} == {len(data)}
    (store / "abort").touch()
    (store / "checkpoint").write_bytes(bytes(4096))
    with open_store(store) as recovered:
        assert recovered.max_log_offset == len(data)


def test_a_topic_that_no_folder_can_have_gets_no_queue(tmp_path: Path) -> None:
    store = copy_store(golden("normal").store, tmp_path / "store")
    overwrite(segment(store), segment(store).read_bytes().index(b"TopicA"), b"../A/B")
    assert_same_as_local(store, tmp_path, 2)


def test_tasks_that_are_tried_twice_write_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(spark: Any, work: Callable[[Any], Any], shares: Iterable[Any]) -> Iterator[Any]:
        shares = list(shares)
        list(in_this_process(spark, work, shares))
        yield from in_this_process(spark, work, shares)

    monkeypatch.setattr(rebuild, "map_tasks", twice)
    assert_same_as_local(make_store(tmp_path / "store", 150), tmp_path, 2)


def test_nothing_but_queues_and_index_is_left_in_the_staging_folder(tmp_path: Path) -> None:
    by_spark(None, golden("normal").store, tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["consumequeue", "index"]


def test_a_staging_folder_that_a_task_does_not_see_is_named(tmp_path: Path) -> None:
    store = golden("normal").store
    gather = Gatherer(str(store), tmp_path / "nowhere", RebuildScope(), ())
    with pytest.raises(StoreIOError, match="nowhere"):
        gather(split_into(StoreReader(str(store)).segments(), 1)[0])


def test_a_part_says_where_its_records_begin_and_end_and_one_without_a_record_that_it_has_none(tmp_path: Path) -> None:
    """Two messages, which begin in the first two parts."""
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as store:
        for number in range(2):
            assert store.put(text_message(number, body_size=1500)).is_ok
    first, second = record_positions(root)
    end = second + (second - first)
    gather = Gatherer(str(root), tmp_path, RebuildScope(), ())
    parts = split(StoreReader(str(root)).segments(), 1000)
    assert [
        (one.first, one.end, one.outcome is not None, one.record_count, one.is_true_to_place, one.ends_with_keys,
         len(one.queues), len(one.keys))
        for one in map(gather, parts)
    ] == [
        (0, second, False, 1, True, True, 1, 1),
        (second, end, False, 1, True, True, 1, 1),
        *[(None, 0, False, 0, True, False, 0, 0)] * (len(parts) - 2),
    ]  # fmt: skip


def test_index_files_come_first_and_small_files_share_a_task(tmp_path: Path) -> None:
    store = golden("many").store
    config = infer_config(make_layout(store, {}), {}, Filesystem())
    gather = Gatherer(str(store), tmp_path, RebuildScope(), ())
    live = [gather(part) for part in split_into(StoreReader(str(store)).segments(), 1)]
    shares = plan_shares(live, StoreLayout(tmp_path), config, RebuildScope(), NOW_MS)
    tasks = list(plan_tasks(shares))
    assert sum(len(task) for task in tasks) == len(shares)
    assert len(tasks) < len(shares)
    weights = [share.weight_bytes for task in tasks for share in task]
    assert weights == sorted(weights, reverse=True)
