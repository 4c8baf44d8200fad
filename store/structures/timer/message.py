"""TimerMessage: one record of rmq_sys_wheel_timer with its state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from store.formats.java import parse_long


class TimerState(StrEnum):
    """The state of a timer message."""

    PENDING = "pending"
    ROLLED = "rolled"
    DELIVERED = "delivered"
    DUPLICATE = "duplicate"
    DELETED = "deleted"
    DELETE = "delete"
    DELETE_ROLLING = "deleteRolling"
    ASSUMED = "assumed"
    LOST = "lost"


@dataclass(slots=True)
class TimerMessage:
    """One record of the timer topic. Unknown positions and times are -1.

    deliver_timestamp_ms  when it is due: the requested time, rounded down to the precision
    slot_timestamp_ms     when its slot fires; earlier than the due time while it rolls
    """

    state: TimerState
    queue_offset: int
    log_offset: int
    size: int
    topic: str | None = None
    queue_id: int = -1
    uniq_key: str | None = None
    deliver_timestamp_ms: int = -1
    slot_timestamp_ms: int = -1
    roll_times: int = 0
    magic: int = -1
    timer_log_position: int = -1
    delivered_log_offset: int = -1
    is_overdue: bool = False
    store_timestamp_ms: int = -1
    deletes: str | None = None
    """Real topic and unique key of the message that this one deletes."""

    @property
    def times_ms(self) -> tuple[int, int]:
        """Due time and slot time: a delete affects only a message with the same two times."""
        return self.deliver_timestamp_ms, self.slot_timestamp_ms


def number_in(text: str | None, default: int) -> int:
    """Return the number in a property's text, else `default`."""
    number = parse_long(text) if text is not None else None
    return number if number is not None else default
