"""TimerMessage: one record of rmq_sys_wheel_timer with its state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from store.formats.java import parse_long


class TimerState(StrEnum):
    """Name the state of a timer message."""

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
    """One record of the timer topic. Positions and times are -1 where nothing names them.

    deliver_timestamp_ms  when it is due, a multiple of the precision below the wanted time
    slot_timestamp_ms     when its slot fires, which is earlier while it rolls
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
        """Deliver time and slot: a delete is effective only on a message that has the same ones."""
        return self.deliver_timestamp_ms, self.slot_timestamp_ms


def number_in(text: str | None, default: int) -> int:
    """Return the number of a property, `default` where it is none."""
    number = parse_long(text) if text is not None else None
    return number if number is not None else default
