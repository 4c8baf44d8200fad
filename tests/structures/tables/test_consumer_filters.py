"""config/consumerFilter.json: written byte for byte, loaded and registered as a broker does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.formats.bloom import BloomFilter
from store.structures.tables.consumer_filters import CLEAN_AFTER_MS, ConsumerFilterTable
from tests.engine.services.stores import NAMES, unpack

BLOOM = BloomFilter.sized(20, 32)
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def table() -> ConsumerFilterTable:
    made = ConsumerFilterTable(BLOOM)
    assert made.register("G", "T", "a > 5", 1, NOW_MS)
    return made


def reloaded(made: ConsumerFilterTable, folder: Path, now_ms: int, bloom: BloomFilter = BLOOM) -> ConsumerFilterTable:
    made.persist(folder, Filesystem(), now_ms)
    found = ConsumerFilterTable(bloom)
    found.load(folder, Filesystem(), now_ms)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_brokers_file_is_written_byte_for_byte(name: str, tmp_path: Path) -> None:
    root, _ = unpack(name, tmp_path)
    path = root / "config" / "consumerFilter.json"
    filters = ConsumerFilterTable(BLOOM)
    for topic in json.loads(path.read_text())["filterDataByTopic"].values():
        for one in topic["groupFilterData"].values():
            filters.register(
                one["consumerGroup"], one["topic"], one["expression"], one["clientVersion"], one["bornTime"]
            )
    assert filters.encode(NOW_MS) == path.read_bytes()


def test_a_loaded_filter_counts_as_dead_for_thirty_seconds_but_not_before_its_birth(tmp_path: Path) -> None:
    old = reloaded(table(), tmp_path, NOW_MS + HOUR_MS).get("T", "G")
    young = reloaded(table(), tmp_path, NOW_MS + 10).get("T", "G")
    assert old is not None
    assert young is not None
    assert (old.dead_time_ms, young.dead_time_ms) == (NOW_MS + HOUR_MS - 30_000, NOW_MS)
    assert old.is_dead
    assert young.is_dead


def test_a_file_with_other_bits_is_ignored_as_a_whole(tmp_path: Path) -> None:
    found = reloaded(table(), tmp_path, NOW_MS, BloomFilter.sized(20, 64))
    assert (list(found), found.is_ignored) == ([], True)


@pytest.mark.parametrize(
    ("version", "expression", "taken", "born_ms"),
    [
        (1, "a > 5", False, NOW_MS),
        (0, "a > 6", False, NOW_MS),
        (1, "a > 6", False, NOW_MS),
        (2, "a > 5", True, NOW_MS),
        (2, "a > 6", True, NOW_MS + 1),
    ],
)
def test_a_subscription_is_taken_by_its_version(version: int, expression: str, taken: bool, born_ms: int) -> None:
    made = table()
    assert made.register("G", "T", expression, version, NOW_MS + 1) is taken
    found = made.get("T", "G")
    assert found is not None
    assert (found.expression, found.born_time_ms) == (expression if taken else "a > 5", born_ms)


def test_the_same_version_revives_a_dead_filter() -> None:
    made = table()
    made.unregister("G", NOW_MS + 1)
    assert made.register("G", "T", "a > 5", 1, NOW_MS + 2)
    found = made.get("T", "G")
    assert found is not None
    assert (found.is_dead, found.born_time_ms, found.dead_time_ms) == (False, NOW_MS, 0)


def test_the_filters_of_a_topic_are_those_of_all_its_groups() -> None:
    made = table()
    for group, topic in (("H", "T"), ("G", "U")):
        assert made.register(group, topic, "b > 5", 1, NOW_MS)
    made.unregister("H", NOW_MS + 1)
    made.unregister("H", NOW_MS + 2)
    assert [(one.group, one.topic, one.dead_time_ms) for one in made.of_topic("T")] == [
        ("G", "T", 0), ("H", "T", NOW_MS + 1),
    ]  # fmt: skip


def test_a_filter_dead_for_a_day_is_not_written(tmp_path: Path) -> None:
    assert CLEAN_AFTER_MS == 86_400_000
    made = table()
    made.unregister("G", NOW_MS)
    assert len(list(reloaded(made, tmp_path, NOW_MS + CLEAN_AFTER_MS - 1))) == 1
    assert list(reloaded(made, tmp_path, NOW_MS + CLEAN_AFTER_MS)) == []
