"""Flush the queues that have unflushed units, from several threads when they are many."""

from __future__ import annotations

from collections.abc import Iterable

from store.files.durable import do_for_each
from store.structures.consumequeue.consume_queue import ConsumeQueue


def flush_queues(queues: Iterable[ConsumeQueue], least_pages: int = 0, tries: int | None = None) -> None:
    """Make the units of queues durable where at least `least_pages` pages wait (0: any byte).

    tries  flushes of a queue at most, each of one file; without it all files are durable afterwards
    """

    def flush(queue: ConsumeQueue) -> None:
        tried = 1
        while not queue.flush(least_pages) and tried != tries:
            tried += 1

    do_for_each(flush, [queue for queue in queues if queue.waits_for_flush(least_pages)])
