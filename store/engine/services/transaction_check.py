"""CheckPass: one pass over the half queue; it asks producers about halves that are still open.

    H, O    queue offsets up to which half queue and op queue were checked; by default the queue's first

    i = H, and the half queue offsets in 32 op records from O on. For the half at i, the first that holds:

    an op record names i                               done
    no half there                                      the second time the pass ends, else next the store's next offset
    checked transactionCheckMax times, or born more
        than fileReservedTime ago                      put into TRANS_CHECK_MAX_TIME_TOPIC
    stored since the pass began                        the pass ends
    younger than its CHECK_IMMUNITY_TIME_IN_SECONDS    put back with its first queue offset, or done if an op has that
    younger than transactionTimeOut                    the pass ends
    no more op records, and too old; or the newest op
        record is younger than the pass; or born later
        than it is                                     put back, one check more, and its producer is asked
    else                                               32 more op records, and the same half again

    H becomes i; O moves over the op records all of whose halves are done

Source: TransactionalMessageServiceImpl.check (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from store.broker_line import LINE_4_9, BrokerLine
from store.config import StoreConfig
from store.engine.services.transaction_messages import (
    CHECK_IMMUNITY,
    CHECK_TIMES,
    OFFSET_SEPARATOR,
    OP_TAG,
    PREPARED_QUEUE_OFFSET,
    discard_message,
    immune_message,
    put_back_message,
)
from store.engine.writable_store import WritableStore
from store.errors import StoreIOError
from store.formats.host import port_fault
from store.formats.java import parse_long
from store.formats.message import Message, StoredMessage
from store.formats.topics import HALF_TOPIC, OP_TOPIC
from store.structures.commitlog.put_result import PutStatus
from store.structures.get_result import GetResult, GetStatus

PASS_LIMIT_MS = 60_000
OPS_OF_A_PULL = 32
MOST_MISSES = 1
_HOUR_MS = 3_600_000
Getter = Callable[[str, int, int, int], GetResult]
"""Gets by topic, queue, offset and count."""


@dataclass(frozen=True, slots=True)
class CheckRules:
    """Settings of the check: transactionTimeOut, transactionCheckMax, fileReservedTime."""

    timeout_ms: int = 6000
    check_max: int = 15
    reserved_hours: int = 72

    @classmethod
    def of(cls, config: StoreConfig) -> Self:
        """Return the rules from a store's settings."""
        return cls(config.transaction_time_out, config.transaction_check_max, config.file_reserved_time)


@dataclass(slots=True)
class CheckReport:
    """One pass.

    half_offset, op_offset   H and O after the pass
    checked                  copies whose producers were asked
    put_back                 log offsets of copies that wait for their own time
    discarded                log offsets of the records of discarded halves
    """

    half_offset: int
    op_offset: int
    checked: list[StoredMessage] = field(default_factory=list)
    put_back: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)


class CheckPass:
    """A pass from H = `half_offset` and O = `op_offset` on; `ask` is called with the copy of each half.

    `get` is the store's, for the check's own group. `is_stopped` may end the pass between two halves; H and O are
    consistent there.
    """

    def __init__(
        self,
        store: WritableStore,
        clock: Callable[[], int],
        rules: CheckRules,
        half_offset: int,
        op_offset: int,
        ask: Callable[[StoredMessage], None],
        *,
        get: Getter,
        is_stopped: Callable[[], bool],
    ) -> None:
        self._store, self._clock, self._rules, self._ask = store, clock, rules, ask
        self._get, self._is_stopped = get, is_stopped
        self._line = store.opened.line
        self._began = clock()
        self._half_from, self._op_from = half_offset, op_offset
        self._ops = _OpRecords(get, self._line, half_offset, op_offset)
        self._half_offset = half_offset
        self._misses = 0
        self.report = CheckReport(half_offset, op_offset)

    def run(self) -> CheckReport:
        """Check halves until the pass ends."""
        self._ops.pull()
        while not self._is_stopped() and self._clock() - self._began <= PASS_LIMIT_MS and self._look():
            pass
        self.report.half_offset = self._half_offset
        self.report.op_offset = self._ops.done_to()
        return self.report

    def _look(self) -> bool:
        """Check the half at the present offset, and return whether the pass continues."""
        if self._ops.take(self._half_offset):
            return self._go_on()
        found = self._get(HALF_TOPIC, 0, self._half_offset, 1)
        # A broker cannot decode a half with such a port, and passes it.
        if not found.messages or port_fault(found.messages[0].born_host, found.messages[0].store_host):
            return self._pass_missing(found.status, found.next_offset)
        half = found.messages[0]
        properties = self._counted(half.properties)
        if properties is None or self._age(half) > self._rules.reserved_hours * _HOUR_MS:
            return self._discard(half, properties or half.properties)
        if half.store_timestamp_ms >= self._began:
            return False
        immunity_ms = self._immunity_ms(properties)
        if CHECK_IMMUNITY in properties:
            if self._age(half) < immunity_ms and (is_over := self._wait_for_immunity(half, properties)) is not None:
                return is_over
        elif 0 <= self._age(half) < immunity_ms:
            return False
        if self._is_check_needed(self._age(half), immunity_ms):
            return self._check(half, properties)
        was_empty = self._ops.is_empty
        self._ops.pull()
        # Only a half exactly as old as its immunity, to the millisecond, is left for the next pass.
        return not (was_empty and self._ops.is_empty)

    def _go_on(self) -> bool:
        self._half_offset += 1
        return True

    def _pass_missing(self, status: GetStatus, next_offset: int) -> bool:
        self._misses += 1
        if self._misses > MOST_MISSES or status in (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MESSAGE_IN_QUEUE):
            return False
        self._half_offset = next_offset
        return True

    def _age(self, half: StoredMessage) -> int:
        return self._clock() - half.born_timestamp_ms

    def _counted(self, properties: dict[str, str]) -> dict[str, str] | None:
        """Return the properties with one check more; None after the last allowed check (needDiscard)."""
        times = 0
        if CHECK_TIMES in properties:
            times = _number(properties[CHECK_TIMES])
            if times >= self._rules.check_max:
                return None
        return {**properties, CHECK_TIMES: str(times + 1)}

    def _immunity_ms(self, properties: dict[str, str]) -> int:
        seconds = _number(properties.get(CHECK_IMMUNITY, "-1"))
        return self._rules.timeout_ms if seconds == -1 else seconds * 1000

    def _wait_for_immunity(self, half: StoredMessage, properties: dict[str, str]) -> bool | None:
        """Return whether the pass continues.

        None if the half is treated like others (checkPrepareQueueOffset).
        """
        if PREPARED_QUEUE_OFFSET in properties:
            first = _number(properties[PREPARED_QUEUE_OFFSET])
            if first == -1:
                return None
            if self._ops.take(first):
                return self._go_on()
        copy = self._put(immune_message(half, properties, self._line))
        if copy is None:
            return False
        self.report.put_back.append(copy)
        return self._go_on()

    def _is_check_needed(self, age_ms: int, immunity_ms: int) -> bool:
        if self._ops.is_empty and age_ms > immunity_ms:
            return True
        return self._ops.newest_ms - self._began > self._rules.timeout_ms or age_ms <= -1

    def _check(self, half: StoredMessage, properties: dict[str, str]) -> bool:
        copy = self._put(put_back_message(half, properties, self._line))
        if copy is None:
            return False
        stored = self._store.lookup(copy)
        if stored is None:
            raise StoreIOError("a half that was put back cannot be read", offset=copy)
        self.report.checked.append(stored)
        self._ask(stored)
        return self._go_on()

    def _discard(self, half: StoredMessage, properties: dict[str, str]) -> bool:
        place = self._put(discard_message(half, properties, self._line))
        if place is None:
            return False
        self.report.discarded.append(place)
        return self._go_on()

    def _put(self, message: Message) -> int | None:
        """Put a record, and return its log offset; None if the store refuses it, and the pass must end."""
        result = self._store.put_replayed(message, as_stored=False, waits=False)
        return result.log_offset if result.status is PutStatus.PUT_OK else None


class _OpRecords:
    """The pulled op records from O on (fillOpRemoveMap)."""

    def __init__(self, get: Getter, line: BrokerLine, half_from: int, op_from: int) -> None:
        self._get = get
        self._is_list = line is not LINE_4_9
        self._half_from, self._op_from = half_from, op_from
        self._next = op_from
        self._named: dict[int, int] = {}
        """Half queue offset → the op record that lists it."""
        self._open: dict[int, set[int]] = {}
        """Op record → its halves that the pass has not reached."""
        self._done: set[int] = set()
        self._moved_to = op_from
        self.is_empty = True
        """Whether the last pull found nothing."""
        self.newest_ms = 0
        """Birth of the last op record of the last pull."""

    def pull(self) -> None:
        """Read the next 32 op records."""
        found = self._get(OP_TOPIC, 0, self._next, OPS_OF_A_PULL)
        self.is_empty = not found.messages
        is_in_queue = found.status not in (GetStatus.NO_MESSAGE_IN_QUEUE, GetStatus.OFFSET_OVERFLOW_ONE)
        if self.is_empty and is_in_queue:
            self._moved_to = self._next = found.next_offset
        self.newest_ms = 0
        for op in found.messages:
            self._read(op)
            self.newest_ms = op.born_timestamp_ms
        if found.messages:
            self._next = found.next_offset

    def take(self, half_offset: int) -> bool:
        """Remove a half from the op records, and return whether one of them lists it."""
        op = self._named.pop(half_offset, None)
        if op is None:
            return False
        self._open[op].discard(half_offset)
        if not self._open[op]:
            self._done.add(op)
        return True

    def done_to(self) -> int:
        """Return O, moved past the op records that are done (calculateOpOffset)."""
        reached = self._op_from
        while reached in self._done:
            reached += 1
        return reached if reached != self._op_from else self._moved_to

    def _read(self, op: StoredMessage) -> None:
        if op.tags != OP_TAG:
            if self._is_list:
                self._done.add(op.queue_offset)
            return
        text = op.body.decode("utf-8", "replace")
        names = text.removesuffix(OFFSET_SEPARATOR).split(OFFSET_SEPARATOR) if self._is_list else [text]
        halves = {half for half in map(_number, names) if half >= self._half_from}
        for half in halves:
            self._named[half] = op.queue_offset
        self._open[op.queue_offset] = halves
        if not halves:
            self._done.add(op.queue_offset)


def _number(text: str) -> int:
    """Parse a number like Long.parseLong; -1 if that throws (getLong)."""
    number = parse_long(text)
    return number if number is not None else -1
