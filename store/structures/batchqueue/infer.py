"""The setting for the size of batch queue files, and the topics' queue type, from the files."""

from __future__ import annotations

from collections.abc import Collection

from store.files.filesystem import Filesystem
from store.files.numbered import some_queue_files, usual_size
from store.layout import StoreLayout
from store.structures.batchqueue.queue_types import BATCH, QUEUE_TYPE, topics_with_files


def infer_settings(layout: StoreLayout, fs: Filesystem, given: Collection[str] = ()) -> dict[str, object]:
    """Return the size setting that matches most files."""
    size = usual_size(some_queue_files(layout.batchconsumequeue, fs))
    return {"mapperFileSizeBatchConsumeQueue": size} if size else {}


def infer_attributes(layout: StoreLayout, fs: Filesystem) -> dict[str, dict[str, str]]:
    """Return the attributes of each topic with batch queues; a broker without them does not start."""
    return {topic: {QUEUE_TYPE: BATCH} for topic in topics_with_files(layout, fs)}
