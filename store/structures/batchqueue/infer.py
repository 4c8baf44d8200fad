"""The size setting of batch queue files, and the topics' queue type, from files and log."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from store.files.filesystem import Filesystem
from store.files.numbered import some_queue_files, usual_size
from store.formats.inner_batch import inner_batch_of
from store.formats.java import decode_utf8
from store.formats.message import INNER_BATCH
from store.formats.run import Run
from store.layout import StoreLayout
from store.structures.batchqueue.queue_types import BATCH, QUEUE_TYPE, topics_with_files


def infer_settings(layout: StoreLayout, fs: Filesystem, given: Collection[str] = ()) -> dict[str, object]:
    """Return the size setting that matches most files."""
    size = usual_size(some_queue_files(layout.batchconsumequeue, fs))
    return {"mapperFileSizeBatchConsumeQueue": size} if size else {}


def infer_attributes(layout: StoreLayout, fs: Filesystem) -> dict[str, dict[str, str]]:
    """Return the attributes of each topic with batch queues; a broker without them does not start."""
    return {topic: {QUEUE_TYPE: BATCH} for topic in topics_with_files(layout, fs)}


def attributes_of_records(run: Run) -> dict[str, dict[str, str]]:
    """Return the attributes of each topic with records of several messages.

    A broker takes them for such topics alone (DefaultMessageStore.asyncPutMessage, 5.3.3).
    """
    found: dict[str, dict[str, str]] = {}
    for row in np.flatnonzero(run.columns.sys_flag & INNER_BATCH).tolist():
        topic = decode_utf8(run.topic(row))
        if topic not in found and inner_batch_of(run.properties(row), 0) is not None:
            found[topic] = {QUEUE_TYPE: BATCH}
    return found
