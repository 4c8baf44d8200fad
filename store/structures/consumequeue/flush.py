"""Flush the queues that have unflushed units, in several threads if there are many."""

from __future__ import annotations

from collections.abc import Iterable

from store.files.durable import do_for_each
from store.structures.consumequeue.consume_queue import ConsumeQueue


def flush_queues(queues: Iterable[ConsumeQueue], least_pages: int = 0, tries: int | None = None) -> None:
    """Flush the queues with at least `least_pages` unflushed pages (0: any byte).

    tries  the most flushes of one queue, each of one file; without it all files are durable afterwards
    """

    def flush(queue: ConsumeQueue) -> None:
        tried = 1
        while not queue.flush(least_pages) and tried != tries:
            tried += 1

    do_for_each(flush, [queue for queue in queues if queue.waits_for_flush(least_pages)])
