"""The topics whose queues are of another type than plain (5.x)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from store.files.mapped_file_queue import MappedFileQueue
    from store.structures.consumequeue.consume_queue import ConsumeQueue


class OtherQueues(NamedTuple):
    """The topics, and their queues' files.

    make       makes a queue from its files; None without topics
    folder     the folder of their files, below the store's root
    file_size  the length of their files
    """

    topics: frozenset[str] = frozenset()
    folder: str = ""
    file_size: int = 0
    make: Callable[[str, int, MappedFileQueue], ConsumeQueue] | None = None


NO_OTHERS = OtherQueues()
