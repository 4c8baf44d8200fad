"""Move the offsets of consumers back to the ends of the queues that a truncation of the log cuts.

A group past its queue's end misses the next messages up to its offset. Source: PullMessageProcessor (4.9.8).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from store.change.change import AnyChange
from store.files.store_reader import StoreReader
from store.formats.wording import amount
from store.opened.opened_store import OpenedStore
from store.structures.consumequeue.queue_set import QueueKey
from store.verbs.queue_ends import queue_ends
from store.verbs.recover.lost import LossReport


class LoweredOffsets(NamedTuple):
    """A new table of consumers' offsets, and the reason for it."""

    path: Path
    data: bytes
    reason: str

    def add_to(self, change: AnyChange) -> None:
        """Write the table with the change."""
        change.publish_bytes(self.path, self.data, self.reason)


def lowered_offsets(opened: OpenedStore, lost: LossReport) -> LoweredOffsets | None:
    """Return a table without groups past queues that lost messages; None if it would not change.

    A table that is damaged, or in a database, stays. Queues in a database are those that the plan has staged.
    """
    cut = {(row.topic, row.queue_id) for row in lost.queues if row.topic}
    ends = _ends_of(opened, cut) if cut else {}
    if not ends:
        return None
    # The tables take long to import.
    from store.structures.tables.config_file import State, read_config_file
    from store.structures.tables.consumer_offsets import OFFSET_FILES, encode_consumer_offsets, offsets_of

    file = read_config_file(opened.layout.config, OFFSET_FILES[0], opened.fs)
    if file.is_in_database or file.main.state is not State.PARSES:
        return None
    lowered: dict[tuple[str, str], dict[int, int]] = {}
    moved = []
    for (topic, group), offsets in sorted(offsets_of(file.document).items()):
        for queue_id, offset in sorted(offsets.items()):
            end = ends.get((topic, queue_id), offset)
            if offset > end:
                lowered.setdefault((topic, group), {})[queue_id] = end
                moved.append(f"{group} from {offset} to {end} of {topic}/{queue_id}")
    if not moved:
        return None
    data = encode_consumer_offsets(file.document, lowered, opened.line, opened.clock())
    reason = f"{amount(len(moved), 'offset')} moved back to the ends of the queues: {', '.join(moved)}"
    return LoweredOffsets(file.main.path, data, reason)


def _ends_of(opened: OpenedStore, queues: Collection[QueueKey]) -> dict[QueueKey, int]:
    """Return the next queue offsets of these queues, as far as the plan has them."""
    if not opened.config.queues_in_database:
        found = ((queue, opened.queues.find(*queue)) for queue in queues)
        return {queue: one.max_offset for queue, one in found if one is not None}
    assert opened.overlay is not None
    # A database that the plan leaves as it is has no staged one.
    readers = StoreReader(str(opened.overlay.folder), opened.fs), StoreReader.of(opened.layout, opened.fs)
    ends = next(filter(None, ([*queue_ends(reader)] for reader in readers)), [])
    known = {(one.topic, one.queue_id): one.max_offset for one in ends}
    return {queue: known.get(queue, 0) for queue in queues} if known else {}
