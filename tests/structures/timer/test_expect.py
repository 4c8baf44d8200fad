"""A unit of the timer beside its record: what each may say, and the fault that is named."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from store import Message
from store.formats.java import string_hash
from store.formats.message import encode_record
from store.formats.run import Run
from store.structures.commitlog.scan import scan_segment
from store.structures.timer.expect import UnitFields, compare, confirmed
from store.structures.timer.files import DELETE, ROLL
from tests.support.small_log import SmallSegment

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


def placed(data: bytes, log_offset: int) -> bytes:
    """The record with this log offset in its field."""
    return data[:28] + log_offset.to_bytes(8, "big") + data[36:]


def run_of(log: bytes) -> Run:
    (run,) = (step for step in scan_segment(cast(Any, SmallSegment(memoryview(log)))) if isinstance(step, Run))
    return run


@pytest.mark.parametrize(
    ("changed", "is_confirmed"),
    [
        ({}, True),
        ({"log_offset": 1}, False),
        ({"record_size": 1}, False),
        ({"slot_ms": DUE - 1}, False),
        ({"slot_ms": DUE + 1}, True),
        ({"slot_ms": DUE + 1, "magic": ROLL}, False),
        ({"slot_ms": DUE - 1, "magic": ROLL}, True),
        ({"magic": ROLL}, True),
        ({"magic": DELETE}, False),
        ({"magic": 1}, True),
        ({"topic_hash": 1}, False),
    ],
)
def test_a_unit_is_confirmed_by_a_record_of_its_place_size_time_and_topic(
    changed: dict[str, int], is_confirmed: bool
) -> None:
    log = record(TIMER_OUT_MS=str(DUE))
    size = len(log)
    run = run_of(log + placed(log, size))
    usual = {"log_offset": size, "record_size": size, "slot_ms": DUE, "magic": 0, "topic_hash": string_hash("T")}
    values = {**usual, **changed}
    units = UnitFields(*(np.array([values[name]], np.int64) for name in UnitFields._fields))
    assert confirmed(run, units).tolist() == [is_confirmed]


def test_a_unit_of_a_copied_record_or_of_one_without_a_time_is_not_confirmed() -> None:
    """The log offset in the first record is that of its place before it was copied."""
    copied, untimed = placed(record(TIMER_OUT_MS=str(DUE)), 7), record()
    log = copied + placed(untimed, len(copied))
    columns = [0, len(copied)], [len(copied), len(untimed)], [DUE] * 2, [0] * 2, [string_hash("T")] * 2
    units = UnitFields(*(np.array(column, np.int64) for column in columns))
    assert confirmed(run_of(log), units).tolist() == [False, False]
