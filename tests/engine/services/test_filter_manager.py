"""SQL subscriptions of a served store: what dispatch makes of them, what is got by them, and the file they leave."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from store import Message, ServedStore, open_store
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.formats.bloom import BloomFilter
from store.structures.tables.consumer_filters import ConsumerFilterTable
from tests.support.stores import SMALL, Clock
from tests.support.threads import end_threads, eventually

WITH_BIT_MAPS = {**SMALL, "enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true"}
BLOOM = BloomFilter.sized(20, 32)
OWN = BLOOM.bit_map(BLOOM.group_positions("G", "T"))
NONE = bytes(14)


def served(root: Path, clock: Clock, **changes: str) -> ServedStore:
    return open_store(root, read_only=False, services=(), settings={**WITH_BIT_MAPS, **changes}, clock=clock)


def put(store: ServedStore, clock: Clock, *values: str) -> None:
    for value in values:
        clock.now_ms += 1
        store.put(Message.of("T", value, properties={"a": value}))
    store.catch_up()


def bit_maps(store: ServedStore) -> list[bytes | None]:
    queue = store.opened.queues.find("T", 0)
    assert queue is not None
    units = [queue.unit(offset) for offset in range(queue.max_offset)]
    found = [queue.ext_unit(unit.tags_code) for unit in units if unit is not None]
    return [one.bit_map if one is not None else None for one in found]


def got(store: ServedStore) -> list[bytes]:
    return [one.body for one in store.messages("T", 0, message_filter=store.filters.of_group("T", "G"))]


def saved(root: Path) -> ConsumerFilterTable:
    found = ConsumerFilterTable(BLOOM)
    found.load(root / "config", Filesystem(), Clock().now_ms)
    return found


def test_dispatch_sets_the_bits_of_a_group_from_its_registration_on(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "s", clock) as store:
        put(store, clock, "6")
        assert store.filters.register("G", "T", "a > 5")
        put(store, clock, "7", "5")
        # The unit of the first has no bits, but is older than the filter.
        assert bit_maps(store) == [b"", OWN, NONE]
        assert got(store) == [b"6", b"7"]


def test_another_expression_says_nothing_of_the_bits_of_the_one_before_it(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "s", clock) as store:
        store.filters.register("G", "T", "a > 5")
        put(store, clock, "3", "7")
        store.filters.register("G", "T", "a < 5")
        put(store, clock, "4", "8")
        assert got(store) == [b"3", b"4"]


def test_without_bit_maps_a_group_gets_the_same(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "s", clock, enableCalcFilterBitMap="false") as store:
        store.filters.register("G", "T", "a > 5")
        put(store, clock, "7", "5")
        assert got(store) == [b"7"]


def test_a_get_of_a_group_is_held_until_a_message_of_its_own_comes(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "s", clock) as store:
        store.filters.register("G", "T", "a > 5")
        wanted, answers = store.filters.of_group("T", "G"), list[bool]()
        waiter = threading.Thread(target=lambda: answers.append(store.wait_for_message("T", 0, 0, 60_000, wanted)))
        waiter.start()
        assert eventually(lambda: store.held_count == 1)
        put(store, clock, "5")
        waiter.join(0.1)
        assert answers == []
        put(store, clock, "6")
        end_threads(waiter)
        assert answers == [True]
        assert store.describe_findings() == []


def test_the_file_is_written_every_ten_seconds_and_at_the_close_where_a_filter_changed(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "s" / "config" / "consumerFilter.json"
    with served(tmp_path / "s", clock) as store:
        store.filters.register("G", "T", "a > 5")
        assert not path.exists()
        clock.now_ms += 10_000
        assert eventually(path.exists)
        store.filters.register("H", "T", "a > 6")
    assert {one.group: one.expression for one in saved(tmp_path / "s")} == {"G": "a > 5", "H": "a > 6"}
    before = path.stat().st_mtime_ns
    with served(tmp_path / "s", clock) as store:
        assert [one.group for one in store.filters.table] == ["G", "H"]
    assert path.stat().st_mtime_ns == before


def test_the_file_is_written_once_for_a_change_and_again_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s" / "config" / "consumerFilter.json"
    with served(tmp_path / "s", Clock()) as store:
        for change in (lambda: store.filters.register("G", "T", "a > 5"), lambda: store.filters.unregister("G")):
            change()
            with monkeypatch.context() as patch:
                patch.setattr(store.filters.table, "persist", lambda *given: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    store.filters.persist()
            store.filters.persist()
            path.unlink()
            store.filters.persist()
            assert not path.exists()


def test_a_group_that_left_is_dead_in_the_file(tmp_path: Path) -> None:
    with served(tmp_path / "s", Clock()) as store:
        store.filters.register("G", "T", "a > 5")
        store.filters.unregister("G")
    (found,) = saved(tmp_path / "s")
    assert found.is_dead


def test_what_does_not_compile_or_is_not_newer_is_not_taken_in(tmp_path: Path) -> None:
    with served(tmp_path / "s", Clock()) as store:
        with pytest.raises(BadRequest):
            store.filters.register("G", "T", "a >")
        assert store.filters.register("G", "T", "a > 5", 7)
        assert not store.filters.register("G", "T", "a > 6", 7)
        assert store.filters.of_group("T", "G").expression == "a > 5"


def test_two_callers_may_write_the_file_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Filesystem.rename

    def slow_rename(fs: Filesystem, source: Path, target: Path) -> None:
        time.sleep(0.02)
        rename(fs, source, target)

    with served(tmp_path / "s", Clock()) as store:
        monkeypatch.setattr(Filesystem, "rename", slow_rename)

        def register(group: str) -> None:
            store.filters.register(group, "T", "a > 5")
            store.filters.persist()

        with ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(register, group) for group in ("G", "H")]:
                done.result(timeout=120)
        assert {one.group for one in saved(tmp_path / "s")} == {"G", "H"}
