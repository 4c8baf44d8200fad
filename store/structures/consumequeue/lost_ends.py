"""The ends of lost queues whose messages have all expired, from the offsets of their consumers.

One rule for queues in files and in a database: the largest offset of a consumer, unless the topic is deleted, or the
expired part of the log has no room for so many messages.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from store.files.filesystem import Filesystem
from store.formats.message import RECORD_MIN_SIZE
from store.layout import is_topic_folder_name
from store.structures.consumequeue.other_queues import NO_OTHERS, OtherQueues

if TYPE_CHECKING:
    from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore

QueueKey = tuple[str, int]
CONSUMERS_END = "goes on at {}, the largest offset of a consumer"


def continue_lost(
    queues: ConsumeQueueStore,
    config: Path,
    log_start: int,
    fs: Filesystem,
    wants: Callable[[QueueKey], bool] = lambda queue: True,
) -> list[str]:
    """Let the wanted queues without files go on at their consumers' offsets; return a sentence for each."""
    return [
        describe_lost_end(queue, offset)
        for queue, offset in known_ends(config, fs).items()
        if wants(queue) and queues.continue_at(queue, offset, log_start)
    ]


def lost_ends(config: Path, log_start: int, fs: Filesystem, others: OtherQueues = NO_OTHERS) -> dict[QueueKey, int]:
    """Return where each queue goes on if it is lost.

    config     the folder of the broker's tables
    log_start  above 0: a log from 0 has all messages
    """
    known = known_ends(config, fs) if log_start > 0 else {}
    return {queue: known[queue] for queue in known if may_continue_at(queue, known[queue], log_start, others)}


def known_ends(config: Path, fs: Filesystem) -> dict[QueueKey, int]:
    """Return the largest offset of a consumer in each queue.

    The offsets of a deleted topic stay in the table: its queues are not lost.
    """
    # The tables take long to import.
    from store.structures.tables.consumer_offsets import consumed_ends
    from store.structures.tables.topics import deleted_topics

    ends = consumed_ends(config, fs)
    deleted = deleted_topics(config, fs, {topic for topic, _ in ends})
    return {queue: offset for queue, offset in sorted(ends.items()) if queue[0] not in deleted}


def may_continue_at(key: QueueKey, queue_offset: int, log_start: int, others: OtherQueues) -> bool:
    """Return whether a lost queue is plain, and may have had so many messages before the log's start."""
    is_plain = is_topic_folder_name(key[0]) and key[1] >= 0 and key[0] not in others.topics
    # Every expired message was a record before the log's start.
    return is_plain and 0 < queue_offset <= log_start // RECORD_MIN_SIZE


def describe_lost_end(queue: QueueKey, offset: int, lost: str = "files") -> str:
    """Describe a queue that goes on at a consumer's offset, for people."""
    gone = f"{queue[0]}, queue {queue[1]}: its {lost} are lost, and its messages have expired"
    return f"{gone}; it {CONSUMERS_END.format(offset)}"
