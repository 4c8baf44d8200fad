"""A unit of the timer beside its record: what each may say, and the fault that is named."""

from __future__ import annotations

import pytest

from store import Message
from store.formats.java import string_hash
from store.formats.message import encode_record
from store.structures.timer.expect import compare
from store.structures.timer.files import DELETE, ROLL

DUE = 1_700_000_000_000
LATE = "it is in the slot of {} ms, its message is due at {} ms"
NO_DELETE = "its magic and its record's properties disagree whether it is a delete"


def record(**properties: str) -> bytes:
    message = Message.of("rmq_sys_wheel_timer", b"x", properties={"REAL_TOPIC": "T", **properties})
    return encode_record(message, topic=b"rmq_sys_wheel_timer", sys_flag=0, queue_offset=0, log_offset=0,
                         store_timestamp_ms=1)  # fmt: skip


@pytest.mark.parametrize(
    ("time_ms", "due", "magic", "fault"),
    [
        (DUE - 1, DUE, 0, LATE.format(DUE - 1, DUE)),
        (DUE, DUE, 0, ""),
        (DUE + 1, DUE, 0, ""),
        (DUE, DUE + 999, 0, ""),
        (DUE - 1, DUE + 999, 0, LATE.format(DUE - 1, DUE + 999)),
        (DUE, DUE + 1000, 0, LATE.format(DUE, DUE + 1000)),
        (DUE - 1, DUE, ROLL, ""),
        (DUE, DUE, ROLL, ""),
        (DUE + 1, DUE, ROLL, LATE.format(DUE + 1, DUE)),
        (DUE, DUE, DELETE, NO_DELETE),
        (DUE, DUE, DELETE | ROLL, NO_DELETE),
    ],
)
def test_a_unit_is_in_the_slot_of_its_message_or_a_later_one_and_one_that_rolls_in_an_earlier(
    time_ms: int, due: int, magic: int, fault: str
) -> None:
    assert compare(record(TIMER_OUT_MS=str(due)), time_ms, magic, string_hash("T"), 1000) == fault


def test_a_delete_says_so_in_both_and_the_topic_is_that_of_the_message() -> None:
    delete = record(TIMER_OUT_MS=str(DUE), TIMER_DEL_UNIQKEY="U")
    assert compare(delete, DUE, DELETE, string_hash("T"), 1) == ""
    assert compare(delete, DUE, 0, string_hash("T"), 1) == NO_DELETE
    assert compare(record(TIMER_OUT_MS=str(DUE)), DUE, 0, 5, 1) == "its topic hash is not that of T"
    assert compare(record(), 0, 0, string_hash("T"), 1) == compare(b"no record", 0, 0, 5, 1) == ""
