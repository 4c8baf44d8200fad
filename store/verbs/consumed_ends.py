"""Continue lost queues of expired messages at their consumers' offsets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.opened.detect import find_other_queues
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore, may_continue_at

Queue = tuple[str, int]


def keep_consumed_ends(
    queues: ConsumeQueueStore,
    config: Path,
    log_start: int,
    fs: Filesystem,
    wants: Callable[[Queue], bool] = lambda queue: True,
) -> list[str]:
    """Let the wanted queues without files go on at their consumers' offsets.

    config     the folder of the broker's tables
    log_start  above 0: a log from 0 has all messages

    Return a sentence for each.
    """
    return [
        describe_consumed_end(queue, offset)
        for queue, offset in known_ends(config, fs).items()
        if wants(queue) and queues.continue_at(queue, offset, log_start)
    ]


def lost_ends(layout: StoreLayout, config: StoreConfig, log_start: int, fs: Filesystem) -> dict[Queue, int]:
    """Return where each queue of a store goes on if its files are lost."""
    others = find_other_queues(layout, config, fs)
    known = known_ends(layout.config, fs)
    return {queue: known[queue] for queue in known if may_continue_at(queue, known[queue], log_start, others)}


def known_ends(config: Path, fs: Filesystem) -> dict[Queue, int]:
    """Return the largest offset of a consumer in each queue.

    The offsets of a deleted topic stay in the table: its queues are not lost.
    """
    # The tables take long to import.
    from store.structures.tables.consumer_offsets import consumed_ends
    from store.structures.tables.topics import deleted_topics

    ends = consumed_ends(config, fs)
    deleted = deleted_topics(config, fs, {topic for topic, _ in ends})
    return {queue: offset for queue, offset in sorted(ends.items()) if queue[0] not in deleted}


def describe_consumed_end(queue: Queue, offset: int) -> str:
    """Describe a queue that goes on at a consumer's offset, for people."""
    return (
        f"{queue[0]}, queue {queue[1]}: its files are lost, and its messages have expired; it goes on at {offset}, the "
        "largest offset of a consumer"
    )
