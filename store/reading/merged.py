"""Messages of several queues as one stream, in order of store time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING

from store.errors import DamagedRecord
from store.formats.message import StoredMessage
from store.reading.messages import ONE_CALL_MAX, MessageIterator
from store.structures.get_result import GetStatus

if TYPE_CHECKING:
    from store.reading.record_runs import Piece


class MergedMessages:
    """Iterates over the messages of one or several readers.

    Messages of one store time are in log order.

    max_count   the most messages, None for all
    last        only so many last messages
    since_ms    only messages stored from then on, as a search by time may begin earlier, as in a broker
    until_ms    only messages stored up to then
    only_sound  the same as in the readers

    Its other fields are sums of the readers' fields; offsets are None, as it has several queues.
    """

    next_offset = min_offset = max_offset = None

    def __init__(
        self,
        readers: Sequence[MessageIterator],
        *,
        max_count: int | None = None,
        last: int | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        only_sound: bool = False,
    ) -> None:
        self.readers, self.only_sound, self.found_count = readers, only_sound, 0
        self._max_count, self._last = max_count, last
        self._since_ms, self._until_ms = since_ms, until_ms
        self._unsound_shown = 0

    def __iter__(self) -> Iterator[StoredMessage]:
        """Read on where the last iteration ended."""
        merged = heapq.merge(*map(self._of_one, self.readers), key=lambda one: (one.store_timestamp_ms, one.log_offset))
        chosen = islice(merged, self._max_count)
        for message in chosen if self._last is None else deque(chosen, self._last):
            self.found_count += 1
            self._unsound_shown += not message.is_crc_right
            yield message

    def runs(self, most: int) -> Iterator[Piece]:
        """Read like an iteration, but give sound records as runs; of all readers up to `most` are kept."""
        from store.reading.record_runs import count_of, leading, merge_runs, trailing

        each = max(ONE_CALL_MAX, most // len(self.readers))
        runs = merge_runs((one.runs(each) for one in self.readers), self._since_ms, self._until_ms)
        for piece in leading(runs, self._max_count) if self._last is None else trailing(runs, self._last):
            self.found_count += count_of(piece)
            self._unsound_shown += isinstance(piece, StoredMessage) and not piece.is_crc_right
            yield piece

    def _of_one(self, reader: MessageIterator) -> Iterator[StoredMessage]:
        since, until = self._since_ms, self._until_ms
        rest = iter(reader) if since is None else dropwhile(lambda one: one.store_timestamp_ms < since, reader)
        return rest if until is None else takewhile(lambda one: one.store_timestamp_ms <= until, rest)

    @property
    def status(self) -> GetStatus:
        """FOUND if any message was found, else the first queue's status, with NO_MATCHED_MESSAGE for FOUND."""
        if self.found_count:
            return GetStatus.FOUND
        first = self.readers[0].status
        return GetStatus.NO_MATCHED_MESSAGE if first is GetStatus.FOUND else first

    @property
    def unsound_count(self) -> int:
        """The number of messages, shown or left out, with a wrong body CRC."""
        return sum(one.unsound_count for one in self.readers) if self.only_sound else self._unsound_shown

    @property
    def damaged(self) -> list[DamagedRecord]:
        """Unreadable records that the queues point to."""
        return [damage for one in self.readers for damage in one.damaged]

    @property
    def damaged_count(self) -> int:
        return sum(one.damaged_count for one in self.readers)
