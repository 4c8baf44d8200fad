"""Consumer offsets: per topic, group and queue id the next queue offset to consume.

Source: ConsumerOffsetManager (4.9.8), LmqConsumerOffsetManager (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from store.broker_line import LINE_4_9, BrokerLine
from store.files.filesystem import Filesystem
from store.formats.java import parse_long
from store.formats.properties import java_map_order
from store.structures.tables.config_file import ConfigFile, read_config_file, write_config_file
from store.structures.tables.fastjson import Json, members, write_fastjson

ConsumerOffsets = dict[tuple[str, str], dict[int, int]]
"""(topic, group) → queue id → next queue offset to consume."""

OFFSET_TABLE_CAPACITY = 1024
"""Buckets of the broker's map of offsets: new ConcurrentHashMap(512)."""
OFFSET_FILES = ("consumerOffset.json", "lmqConsumerOffset.json")
OFFSET_TABLES = ("offsetTable", "lmqOffsetTable")


def read_consumer_offsets(config_folder: Path, fs: Filesystem) -> ConsumerOffsets:
    """Return the offsets that a broker would load. ForeignFile if a file is no regular file."""
    found: ConsumerOffsets = {}
    for name in OFFSET_FILES:
        found |= offsets_of(read_config_file(config_folder, name, fs).document)
    return found


def consumed_ends(config_folder: Path, fs: Filesystem) -> dict[tuple[str, int], int]:
    """Return the largest offset of a consumer in each queue, without offsets of 0."""
    found: dict[tuple[str, int], int] = {}
    for (topic, _), offsets in read_consumer_offsets(config_folder, fs).items():
        for queue_id, offset in offsets.items():
            if offset > found.get((topic, queue_id), 0):
                found[topic, queue_id] = offset
    return found


def offsets_file(config_folder: Path, fs: Filesystem) -> ConfigFile:
    """Return the file that holds the offsets: lmqConsumerOffset.json if it exists."""
    files = [read_config_file(config_folder, name, fs) for name in OFFSET_FILES]
    return next((one for one in reversed(files) if not one.is_absent), files[0])


def offsets_of(document: Mapping[str, Json]) -> ConsumerOffsets:
    """Return the offsets of one table.

    Keys without exactly one @, and values that are no numbers, are left out.
    """
    found: ConsumerOffsets = {}
    for key, queues in members(document.get("offsetTable")).items():
        if key.count("@") == 1 and isinstance(queues, dict):
            topic, group = key.split("@")
            found[topic, group] = dict(_numbers(queues))
    for key, offset in members(document.get("lmqOffsetTable")).items():
        if key.count("@") == 1 and isinstance(offset, int):
            topic, group = key.split("@")
            found[topic, group] = {0: offset}
    return found


def _numbers(queues: Mapping[str, Json] | Mapping[int, Json]) -> Iterator[tuple[int, int]]:
    for queue, offset in queues.items():
        queue_id = parse_long(str(queue))
        if queue_id is not None and isinstance(offset, int):
            yield queue_id, int(offset)


def write_consumer_offsets(
    config_folder: Path, fs: Filesystem, changes: ConsumerOffsets, line: BrokerLine, now_ms: int
) -> None:
    """Set `changes` in the file and keep everything else; a crash leaves the old file or the new one."""
    file = offsets_file(config_folder, fs)
    write_config_file(config_folder, file.name, encode_consumer_offsets(file.document, changes, line, now_ms), fs)


def encode_consumer_offsets(
    document: Mapping[str, Json], changes: ConsumerOffsets, line: BrokerLine, now_ms: int
) -> bytes:
    """Return the file's bytes, as Fastjson writes them, for the table of `document` with `changes`."""
    table = {key: dict(_numbers(members(queues))) for key, queues in members(document.get("offsetTable")).items()}
    for (topic, group), offsets in changes.items():
        table.setdefault(f"{topic}@{group}", {}).update(offsets)
    names = java_map_order(table, OFFSET_TABLE_CAPACITY)
    written: dict[str, Json] = dict(document)
    if line is not LINE_4_9:
        version: dict[str, Json] = {"counter": 0, "stateVersion": 0, "timestamp": now_ms}
        written.setdefault("dataVersion", version)
        written["groupTopicMap"] = _topics_by_group(names)
    written["offsetTable"] = {name: _sorted(table[name]) for name in names}
    return write_fastjson({name: written[name] for name in sorted(written)}).encode()


def _sorted(offsets: Mapping[int, int]) -> Json:
    entries: dict[int, Json] = {queue: offsets[queue] for queue in sorted(offsets)}
    return entries


def _topics_by_group(names: Iterable[str]) -> dict[str, Json]:
    """Return groupTopicMap, the topics by group; 5.3.3 writes it beside the offsets and never reads it."""
    found: dict[str, list[str]] = {}
    for name in names:
        if name.count("@") == 1:
            topic, group = name.split("@")
            found.setdefault(group, []).append(topic)
    groups = java_map_order(found, 128)
    return {group: list[Json](java_map_order(found[group], 8)) for group in groups}
