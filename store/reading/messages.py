"""Reading on: the messages of one queue, over as many broker calls as it takes.

    1. one call (get.py), from the offset where the last one ended
    2. its messages are given; damaged records and bodies with a wrong CRC are counted
    3. again, until enough was found, the queue ends, or a call gets no further

The status is that of the first call that decided: once messages were found or looked at, the queue's end is no news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from store.errors import DamagedRecord
from store.formats.message import INNER_BATCH, StoredMessage
from store.structures.get_result import GetResult, GetStatus

GO_ON = frozenset(
    (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING, GetStatus.OFFSET_FOUND_NULL)
)
"""After these answers the next offset lies further on, and reading goes on there."""
_ENDS = frozenset((GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.OFFSET_OVERFLOW_BADLY))
ONE_CALL_MAX = 32
"""Messages that one broker call is asked for, where no limit is given."""

GetCall = Callable[[int, int], GetResult]
"""One broker call: from a queue offset, so many messages at most."""


@dataclass(slots=True)
class MessageIterator:
    """Iterates over messages of one queue; the other fields say where it is, and hold after the last one.

    max_count    messages at most, None for all of them
    one_call     stop after one broker call, with its limits
    only_sound   leave out messages whose body does not have the CRC of the record
    outer        give records that hold several messages as they are, instead of the messages in them
    """

    call: GetCall
    next_offset: int
    max_count: int | None = None
    one_call: bool = False
    only_sound: bool = False
    outer: bool = False
    status: GetStatus = GetStatus.NO_MESSAGE_IN_QUEUE
    min_offset: int = 0
    max_offset: int = 0
    found_count: int = 0
    unsound_count: int = 0
    """Messages met whose body does not have the CRC of the record."""
    damaged: list[DamagedRecord] = field(default_factory=list)
    """Records that the queue points to but that cannot be read."""
    _call_count: int = 0

    @property
    def damaged_count(self) -> int:
        return sum(damage.record_count for damage in self.damaged)

    def __iter__(self) -> Iterator[StoredMessage]:
        """Read on from `next_offset`; a second iteration goes on where the first one ended."""
        while self.max_count is None or self.found_count < self.max_count:
            wanted = ONE_CALL_MAX if self.max_count is None else self.max_count - self.found_count
            before = self.next_offset
            answer = self.call(before, wanted)
            self._take_over(answer)
            for message in self._messages_of(answer, before):
                if self.found_count == self.max_count and not self.one_call:
                    # A record of several messages is read whole.
                    self.next_offset = message.queue_offset
                    return
                if self._is_wanted(message):
                    self.found_count += 1
                    yield message
            if self.one_call or self.next_offset <= before or not self._goes_on(answer.status):
                return

    def _goes_on(self, status: GetStatus) -> bool:
        """Return whether reading goes on behind an answer; also where messages expired between two calls."""
        return status in GO_ON or (status is GetStatus.OFFSET_TOO_SMALL and self._call_count > 1)

    def _messages_of(self, answer: GetResult, start: int) -> Iterator[StoredMessage]:
        """Yield the answer's messages from queue offset `start` on, those inside of records one by one."""
        for record in answer.messages:
            if self.outer or not record.sys_flag & INNER_BATCH:
                yield record
                continue
            from store.formats.inner_batch import unwrap

            try:
                yield from (one for one in unwrap(record) if one.queue_offset >= start or self.one_call)
            except DamagedRecord as damage:
                self.damaged.append(damage)

    def _take_over(self, answer: GetResult) -> None:
        is_news = self._call_count == 0 or answer.status is GetStatus.FOUND
        if is_news or (self.status is not GetStatus.FOUND and answer.status not in _ENDS):
            self.status = answer.status
        self._call_count += 1
        self.next_offset = answer.next_offset
        self.min_offset, self.max_offset = answer.min_offset, answer.max_offset
        self.damaged += answer.damaged

    def _is_wanted(self, message: StoredMessage) -> bool:
        if message.is_crc_right:
            return True
        self.unsound_count += 1
        return not self.only_sound
