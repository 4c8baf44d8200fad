"""The queues of messages that wait in a topic of the broker's own: delayed, half and timer messages.

A waiting message has no record in its queue yet. The broker writes it there when it is due, and a consumer finds its
topic in topics.json alone.
"""

from __future__ import annotations

from itertools import chain

import numpy as np

from store.files.store_reader import StoreReader
from store.formats.java import decode_utf8, parse_int
from store.formats.properties import REAL_QUEUE_ID, REAL_TOPIC
from store.formats.run import Run
from store.formats.sets import is_in
from store.formats.topics import HALF_TOPICS, SCHEDULE_TOPIC, TIMER_TOPIC
from store.layout import is_topic_folder_name
from store.structures.commitlog.scan import ScanRules
from store.structures.commitlog.slices import readable_runs, whole_segment
from store.structures.consumequeue.numbering import QueueTable

Queue = tuple[str, int]
WAITING_TOPICS = frozenset((SCHEDULE_TOPIC, *HALF_TOPICS, TIMER_TOPIC))
_WAITING = {topic.encode() for topic in WAITING_TOPICS}


def waiting_in_log(reader: StoreReader) -> set[Queue]:
    """Return the queues of the waiting messages in a store's log; the scan goes on after damage."""
    runs = (readable_runs(reader, whole_segment(segment), ScanRules()) for segment in reader.segments())
    return {queue for run in chain.from_iterable(runs) for queue in waiting_queues(run)}


def waiting_queues(run: Run) -> set[Queue]:
    """Return the queue of each waiting message of a run (REAL_TOPIC, REAL_QID).

    A message that was delivered since is among them: its copy in the log has the same queue.
    """
    table = QueueTable()
    numbers = table.assign(run.buffer, run.array, run.count, queued_only=False)
    waiting = [number for number, (topic, _) in enumerate(table.queues) if topic in _WAITING]
    if not waiting:
        return set()
    waits = is_in(numbers, np.array(waiting, np.int64))
    # Most logs have no waiting message, and Arrow takes long to import.
    from store.structures.commitlog.message_batch import MessageRows

    properties = MessageRows(run.buffer, run.file_start, run.columns).select(waits).properties
    topics, queue_ids = (properties.column(name.encode()).to_pylist() for name in (REAL_TOPIC, REAL_QUEUE_ID))
    found = {pair for pair in zip(topics, queue_ids, strict=True) if None not in pair}
    named = ((decode_utf8(topic), parse_int(decode_utf8(queue_id))) for topic, queue_id in found)
    return {(topic, number) for topic, number in named if number is not None and is_topic_folder_name(topic)}
