"""Continue lost queues of expired messages at their consumers' offsets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from store.files.filesystem import Filesystem
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore

Queue = tuple[str, int]


def keep_consumed_ends(
    queues: ConsumeQueueStore,
    config: Path,
    log_start: int,
    fs: Filesystem,
    wants: Callable[[Queue], bool] = lambda queue: True,
) -> list[str]:
    """Let the wanted queues without files go on at their consumers' offsets.

    The offsets of a deleted topic stay in the table: its queues are not lost.

    config     the folder of the broker's tables
    log_start  above 0: a log from 0 has all messages

    Return a sentence for each.
    """
    # The tables take long to import.
    from store.structures.tables.consumer_offsets import consumed_ends
    from store.structures.tables.topics import deleted_topics

    ends = consumed_ends(config, fs)
    deleted = deleted_topics(config, fs, {topic for topic, _ in ends})
    return [
        f"{queue[0]}, queue {queue[1]}: its files are lost, and its messages have expired; it goes on at {offset}, the "
        "largest offset of a consumer"
        for queue, offset in sorted(ends.items())
        if queue[0] not in deleted and wants(queue) and queues.continue_at(queue, offset, log_start)
    ]
