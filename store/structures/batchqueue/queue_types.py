"""Find the topics with batch queues: by their attribute in topics.json, and by their folders.

If a topic has a folder without the attribute, or a plain folder with it, a broker does not start.

Source: ConsumeQueueStore.queueTypeShouldBe, QueueTypeUtils (5.3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.batchqueue.queue import BatchConsumeQueue
from store.structures.consumequeue.other_queues import OtherQueues
from store.structures.registry import settings_told
from store.structures.tables.fastjson import Json
from store.structures.tables.topics import attribute_in, topic_attribute

QUEUE_TYPE = "queue.type"
BATCH = "BatchCQ"


def other_queues(layout: StoreLayout, config: StoreConfig, fs: Filesystem) -> OtherQueues:
    """Return the description of the store's batch queues; without topics if queues are in a database."""
    size = config.mapper_file_size_batch_consume_queue
    topics = frozenset() if config.queues_in_database else batch_topics(layout, fs)
    return OtherQueues(topics, layout.batchconsumequeue.name, size, BatchConsumeQueue)


def topics_with_files(layout: StoreLayout, fs: Filesystem) -> frozenset[str]:
    """Return topics with batch queues in files."""
    in_database = StoreConfig().with_settings(settings_told(layout, fs)).queues_in_database
    return frozenset() if in_database else batch_topics(layout, fs)


def batch_topics(layout: StoreLayout, fs: Filesystem) -> frozenset[str]:
    """Return topics with batch queues; a topic's folder decides before its entry in topics.json."""
    plain = _with_queues(layout.consumequeue, fs)
    return _with_queues(layout.batchconsumequeue, fs) | (configured_batch_topics(layout, fs) - plain)


def configured_batch_topics(layout: StoreLayout, fs: Filesystem) -> frozenset[str]:
    """Return topics with the attribute queue.type=BatchCQ in the topics.json that a broker would load."""
    return frozenset(name for name, kind in configured_types(layout, fs).items() if kind == BATCH)


def configured_types(layout: StoreLayout, fs: Filesystem) -> dict[str, str]:
    """Return the attribute queue.type of every topic with one."""
    return topic_attribute(layout.config, fs, QUEUE_TYPE)


def types_in(document: Mapping[str, Json]) -> dict[str, str]:
    """Return the attribute queue.type of every topic with one in a topics.json document."""
    return attribute_in(document, QUEUE_TYPE)


def mismatched_topics(layout: StoreLayout, fs: Filesystem) -> list[str]:
    """Return a sentence for each folder whose queue type differs from topics.json.

    A broker does not start with such folders.
    """
    kinds = configured_types(layout, fs)
    wrong = [(topic, kinds.get(topic, "SimpleCQ"), BATCH) for topic in _with_queues(layout.batchconsumequeue, fs)]
    wrong += [(topic, kinds.get(topic, "SimpleCQ"), "SimpleCQ") for topic in _with_queues(layout.consumequeue, fs)]
    return [
        f"{topic}: its folder holds queues of type {found}, topics.json says {wanted}"
        for topic, wanted, found in sorted(wrong)
        if wanted != found
    ]


def _with_queues(folder: Path, fs: Filesystem) -> frozenset[str]:
    return frozenset(
        entry.path.name for entry in fs.list_folder(folder) if entry.is_folder and fs.list_folder(entry.path)
    )
