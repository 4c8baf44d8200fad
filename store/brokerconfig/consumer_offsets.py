"""Consumer offsets: per topic, group and queue id the next queue offset to consume.

Source: ConsumerOffsetManager (4.9.8), LmqConsumerOffsetManager (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from store.brokerconfig.config_file import ConfigCopy, ConfigFile, read_config_file
from store.brokerconfig.fastjson import Json, members
from store.disk.filesystem import Filesystem

ConsumerOffsets = dict[tuple[str, str], dict[int, int]]
"""(topic, group) → queue id → next queue offset to consume."""

OFFSET_FILES = ("consumerOffset.json", "lmqConsumerOffset.json")


def read_consumer_offsets(config_folder: Path, fs: Filesystem) -> ConsumerOffsets:
    """The offsets that a broker would load. ForeignFile where one of the files is no regular file."""
    found: ConsumerOffsets = {}
    for name in OFFSET_FILES:
        copy = read_config_file(config_folder, name, fs).loaded
        if copy is not None:
            found |= offsets_of(copy)
    return found


def offsets_file(config_folder: Path, fs: Filesystem) -> ConfigFile:
    """The file that holds the offsets: lmqConsumerOffset.json where light queues are on."""
    files = [read_config_file(config_folder, name, fs) for name in OFFSET_FILES]
    return next((one for one in reversed(files) if not one.is_absent), files[0])


def offsets_of(copy: ConfigCopy) -> ConsumerOffsets:
    """The offsets of one file. A key without exactly one @, and a value that is no number, is left out."""
    document = copy.document or {}
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
        if str(queue).lstrip("-").isdigit() and isinstance(offset, int):
            yield int(queue), int(offset)
