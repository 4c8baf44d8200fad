"""Consumer filters: the SQL subscriptions in config/consumerFilter.json, handled as in a broker.

    load      one entry has bits of another k or m    the whole file is ignored
              deadTime 0                              becomes max(bornTime, now - 30 s): no consumer is connected yet
    register  clientVersion not above the old         ignored; the same version revives a dead entry
              another expression                      a new bornTime: older bit maps do not cover it
    persist   dead for 24 h or longer                 left out

`dead` is derived: deadTime is bornTime or later.

Source: ConsumerFilterManager, ConsumerFilterData (4.9.8, 5.3.3).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from store.files.filesystem import Filesystem
from store.formats.bloom import BloomFilter
from store.formats.properties import java_map_order
from store.structures.tables.config_file import read_config_file, write_config_file
from store.structures.tables.fastjson import Json, members, write_fastjson

FILE_NAME = "consumerFilter.json"
SQL92 = "SQL92"
CLEAN_AFTER_MS = 24 * 3600 * 1000
LOADED_AS_DEAD_MS = 30_000
TOPICS_CAPACITY = 512
"""Buckets of the broker's map of topics: new ConcurrentHashMap(256)."""
GROUPS_CAPACITY = 16


@dataclass(frozen=True, slots=True)
class ConsumerFilter:
    """The filter of one group for one topic. `bit_count` is 0 without Bloom data."""

    group: str
    topic: str
    expression: str | None
    expression_type: str = SQL92
    client_version: int = 0
    born_time_ms: int = 0
    dead_time_ms: int = 0
    bit_count: int = 0
    positions: tuple[int, ...] = ()

    @property
    def is_dead(self) -> bool:
        return self.dead_time_ms >= self.born_time_ms

    def fits(self, bloom: BloomFilter) -> bool:
        """Return whether its bits belong to this Bloom filter (BloomFilter.isValid)."""
        return self.bit_count == bloom.bit_count and len(self.positions) == bloom.hash_count

    def to_json(self) -> Json:
        """Return the entry for the file."""
        bits: dict[str, Json] = {"bitNum": self.bit_count, "bitPos": list[Json](self.positions)}
        entry: dict[str, Json] = {
            "bloomFilterData": bits if self.bit_count else None,
            "bornTime": self.born_time_ms,
            "clientVersion": self.client_version,
            "consumerGroup": self.group,
            "dead": self.is_dead,
            "deadTime": self.dead_time_ms,
            "expression": self.expression,
            "expressionType": self.expression_type,
            "topic": self.topic,
        }
        present: dict[str, Json] = {name: value for name, value in entry.items() if value is not None}
        return present


class ConsumerFilterTable:
    """The filters of a broker, by topic and group; `bloom` computes their bits."""

    def __init__(self, bloom: BloomFilter) -> None:
        self.bloom = bloom
        self.is_ignored = False
        """Whether the loaded file has bits of another Bloom filter."""
        self._table: dict[tuple[str, str], ConsumerFilter] = {}
        self.lock = threading.Lock()
        """Held while a topic's filters are listed; hold it to change a filter that dispatch may be reading."""

    def __iter__(self) -> Iterator[ConsumerFilter]:
        return iter(list(self._table.values()))

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        """Return the filter of a group; None without an SQL subscription."""
        return self._table.get((topic, group))

    def of_topic(self, topic: str) -> list[ConsumerFilter]:
        """Return the filters of a topic, including those of dead groups."""
        with self.lock:
            return [one for one in self if one.topic == topic]

    def register(
        self, group: str, topic: str, expression: str, client_version: int, now_ms: int, expression_type: str = SQL92
    ) -> bool:
        """Register a subscription; return whether the table accepted it."""
        old = self.get(topic, group)
        if old is not None and client_version <= old.client_version:
            if client_version == old.client_version and old.is_dead and expression == old.expression:
                self._table[topic, group] = replace(old, dead_time_ms=0)
                return True
            return False
        positions = tuple(self.bloom.group_positions(group, topic))
        is_same = old is not None and (old.expression, old.expression_type) == (expression, expression_type)
        born_ms = old.born_time_ms if old is not None and is_same else now_ms
        self._table[topic, group] = ConsumerFilter(
            group, topic, expression, expression_type, client_version, born_ms, 0, self.bloom.bit_count, positions
        )
        return True

    def unregister(self, group: str, now_ms: int) -> None:
        """Mark the filters of a group as dead."""
        for key, one in self._table.items():
            if one.group == group and not one.is_dead:
                self._table[key] = replace(one, dead_time_ms=now_ms)

    def load(self, config_folder: Path, fs: Filesystem, now_ms: int) -> None:
        """Replace the whole table by the file's."""
        found = read_consumer_filters(config_folder, fs)
        self.is_ignored = any(not one.fits(self.bloom) for one in found)
        if self.is_ignored:
            return
        self._table = {(one.topic, one.group): _loaded(one, now_ms) for one in found}

    def encode(self, now_ms: int) -> bytes:
        """Return the file's bytes, without filters that have been dead for 24 hours."""
        kept = [one for one in self if not (one.is_dead and now_ms - one.dead_time_ms >= CLEAN_AFTER_MS)]
        topics: dict[str, Json] = {}
        for topic in java_map_order({one.topic for one in kept}, TOPICS_CAPACITY):
            groups = {one.group: one.to_json() for one in kept if one.topic == topic}
            ordered: dict[str, Json] = {group: groups[group] for group in java_map_order(groups, GROUPS_CAPACITY)}
            of_topic: dict[str, Json] = {"groupFilterData": ordered, "topic": topic}
            topics[topic] = of_topic
        document: dict[str, Json] = {"filterDataByTopic": topics}
        return write_fastjson(document).encode()

    def persist(self, config_folder: Path, fs: Filesystem, now_ms: int) -> None:
        """Write the file; the previous one becomes .bak."""
        write_config_file(config_folder, FILE_NAME, self.encode(now_ms), fs)


def read_consumer_filters(config_folder: Path, fs: Filesystem) -> list[ConsumerFilter]:
    """Return the filters in the file, unchanged."""
    return list(_entries(read_config_file(config_folder, FILE_NAME, fs).document))


def _loaded(one: ConsumerFilter, now_ms: int) -> ConsumerFilter:
    if one.dead_time_ms:
        return one
    return replace(one, dead_time_ms=max(one.born_time_ms, now_ms - LOADED_AS_DEAD_MS))


def _entries(document: Mapping[str, Json]) -> Iterator[ConsumerFilter]:
    for topic, of_topic in members(document.get("filterDataByTopic")).items():
        for group, entry in members(members(of_topic).get("groupFilterData")).items():
            yield _entry(topic, group, members(entry))


def _entry(topic: str, group: str, entry: Mapping[str, Json]) -> ConsumerFilter:
    bits = members(entry.get("bloomFilterData"))
    positions, expression = bits.get("bitPos"), entry.get("expression")
    return ConsumerFilter(
        group,
        topic,
        expression if isinstance(expression, str) else None,
        str(entry.get("expressionType", SQL92)),
        _number(entry.get("clientVersion")),
        _number(entry.get("bornTime")),
        _number(entry.get("deadTime")),
        _number(bits.get("bitNum")),
        tuple(map(_number, positions)) if isinstance(positions, list) else (),
    )


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
