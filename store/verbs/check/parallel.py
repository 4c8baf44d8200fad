"""Work on many files in a few threads, with the results in the files' order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from store.files.portable import processors

Item = TypeVar("Item")
Result = TypeVar("Result")

# Each thread holds the columns of a stretch of log, some tens of megabytes.
MOST_THREADS = 8


class MapTasks(Protocol):
    """A map of `work` over items, in threads or as Spark tasks, with the results in the items' order."""

    def __call__(self, work: Callable[[Item], Result], items: Iterable[Item], /) -> Iterator[Result]: ...


def ordered_map(work: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> Iterator[Result]:
    """Map `work` over the items in threads, and yield the results in the items' order.

    threads  default: one for each processor, at most 8

    Items are taken as threads become free, so their source can stop at any time.
    """
    threads = threads or min(processors(), MOST_THREADS)
    if threads == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
