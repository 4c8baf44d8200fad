"""Names in files come in the order of the broker's hash maps, by the buckets that these begin with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store.broker_line import LINE_5_3
from store.files.filesystem import Filesystem
from store.formats.bloom import BloomFilter
from store.structures.tables.consumer_filters import ConsumerFilterTable
from store.structures.tables.consumer_offsets import _topics_by_group, encode_consumer_offsets
from store.structures.tables.fastjson import member, members, parse_fastjson
from tests.support import naive


def in_buckets(names: list[str], count: int) -> list[str]:
    """Names by the bucket of their hash; those of one bucket keep their order."""

    def bucket(name: str) -> int:
        code = naive.java_hash(name)
        return (code ^ code >> 16) & (count - 1)

    return sorted(names, key=bucket)


NAMES = [f"name-{number}" for number in range(12)]


def test_groups_of_a_filter_have_16_buckets(tmp_path: Path) -> None:
    table = ConsumerFilterTable(BloomFilter.sized(20, 32))
    for name in NAMES:
        assert table.register(name, "T", "a > 5", 1, 7)
    table.persist(tmp_path, Filesystem(), 7)
    document = json.loads((tmp_path / "consumerFilter.json").read_text())
    assert list(document["filterDataByTopic"]["T"]["groupFilterData"]) == in_buckets(NAMES, 16)


def test_offsets_have_1024_buckets(tmp_path: Path) -> None:
    topics = [f"name-{number}" for number in range(300)]
    names = [f"{topic}@G" for topic in topics]
    data = encode_consumer_offsets({}, {(topic, "G"): {0: 1} for topic in topics}, LINE_5_3, 7)
    assert list(members(member(parse_fastjson(data.decode()), "offsetTable"))) == in_buckets(names, 1024)


@pytest.mark.parametrize(("count", "buckets"), [(6, 8), (7, 16), (12, 16)])
def test_topics_of_a_group_have_8_buckets_until_three_quarters_are_taken(count: int, buckets: int) -> None:
    found = _topics_by_group(f"{name}@G" for name in NAMES[:count])
    assert found == {"G": in_buckets(NAMES[:count], buckets)}
    groups = _topics_by_group(f"T@{name}" for name in NAMES)
    assert list(groups) == in_buckets(NAMES, 128)
