"""Continuous reading: the messages of one queue over several broker calls.

    1. make one call (get.py) from the next offset of the last call
    2. yield its messages; count damaged records and bodies with a wrong CRC
    3. repeat until enough messages are found, the queue ends, or a call makes no progress

The status is FOUND once a message was found. The queue's end does not replace an earlier status.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from store.errors import DamagedRecord
from store.formats.message import INNER_BATCH, StoredMessage
from store.structures.get_result import GetResult, GetStatus

if TYPE_CHECKING:
    from store.formats.run import Run

GO_ON = frozenset(
    (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING, GetStatus.OFFSET_FOUND_NULL)
)
"""After these statuses reading continues at the next offset."""
_ENDS = frozenset((GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.OFFSET_OVERFLOW_BADLY))
ONE_CALL_MAX = 32
"""The number of messages requested per broker call without a limit."""

GetCall = Callable[[int, int], GetResult]
"""One broker call: queue offset and most messages → result."""
RunCall = Callable[[int, int], "tuple[Run, GetResult] | None"]
"""The same for sound records as columns, as in record_runs.py; None where a broker call has to answer."""


@dataclass(slots=True)
class MessageIterator:
    """Iterates over messages of one queue; the other fields have its state, also after the last message.

    max_count    the most messages, None for all
    end          the queue offset to end before, None for the queue's end
    read_run     the source of runs, if there is one
    one_call     stop after one broker call, with its limits
    only_sound   leave out messages with a wrong body CRC
    outer        yield a record of several messages itself, instead of its inner messages
    """

    call: GetCall
    next_offset: int
    max_count: int | None = None
    end: int | None = None
    one_call: bool = False
    only_sound: bool = False
    outer: bool = False
    read_run: RunCall | None = None
    status: GetStatus = GetStatus.NO_MESSAGE_IN_QUEUE
    min_offset: int = 0
    max_offset: int = 0
    found_count: int = 0
    unsound_count: int = 0
    """The number of read messages with a wrong body CRC."""
    damaged: list[DamagedRecord] = field(default_factory=list)
    """Unreadable records that the queue points to."""
    _call_count: int = 0

    @property
    def damaged_count(self) -> int:
        return sum(damage.record_count for damage in self.damaged)

    def __iter__(self) -> Iterator[StoredMessage]:
        """Read from `next_offset` on; a second iteration continues after the first."""
        while self._count_left(ONE_CALL_MAX) > 0 and (yield from self._read_call()):
            pass

    def runs(self, most: int) -> Iterator[Run | StoredMessage]:
        """Read like an iteration, but give sound records behind the first call as runs of up to `most`."""
        while (count := min(most, self._count_left(most))) > 0:
            found = self.read_run(self.next_offset, count) if self.read_run is not None and self._call_count else None
            if found is not None:
                run, answer = found
                self._take_over(answer)
                self.found_count += run.count
                yield run
            elif not (yield from self._read_call()):
                return

    def _count_left(self, without_limit: int) -> int:
        count = without_limit if self.max_count is None else self.max_count - self.found_count
        return count if self.end is None else min(count, self.end - self.next_offset)

    def _read_call(self) -> Generator[StoredMessage, None, bool]:
        """Yield the messages of one call; return whether reading continues."""
        before = self.next_offset
        answer = self.call(before, self._count_left(ONE_CALL_MAX))
        self._take_over(answer)
        for message in self._messages_of(answer, before):
            is_behind = self.end is not None and message.queue_offset >= self.end
            if is_behind or (self.found_count == self.max_count and not self.one_call):
                # A call returns a record of several messages whole, and with a filter it looks further.
                self.next_offset = message.queue_offset
                return False
            if self._is_wanted(message):
                self.found_count += 1
                yield message
        return not self.one_call and self.next_offset > before and self._goes_on(answer.status)

    def _goes_on(self, status: GetStatus) -> bool:
        """Return whether reading continues after a status, even if messages expired between two calls."""
        return status in GO_ON or (status is GetStatus.OFFSET_TOO_SMALL and self._call_count > 1)

    def _messages_of(self, answer: GetResult, start: int) -> Iterator[StoredMessage]:
        """Yield the result's messages from queue offset `start` on, inner messages one by one."""
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
        self.next_offset = answer.next_offset if self.end is None else min(answer.next_offset, self.end)
        self.min_offset, self.max_offset = answer.min_offset, answer.max_offset
        self.damaged += answer.damaged

    def _is_wanted(self, message: StoredMessage) -> bool:
        if message.is_crc_right:
            return True
        self.unsound_count += 1
        return not self.only_sound
