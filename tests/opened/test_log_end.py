"""Where the log of a closed store ends: the short walk of its newest records against the walk of three segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.commitlog.scan import ScanRules
from store.config import LINE_4_9, LINE_5_3, BrokerLine
from store.formats.message import BLANK_MAGIC
from store.opened import log_end
from store.opened.log_end import ViewedEnd, find_closed_end
from tests.support.small_log import SmallLog, SmallSegment

COUNT = 100
BLANK = (8).to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big")


def records(count: int = COUNT) -> SmallLog:
    log = SmallLog()
    log.put_many(count)
    return log


def segments_of(*pieces: bytes) -> list[SmallSegment]:
    """Segments one behind the other, each with its own bytes."""
    found: list[SmallSegment] = []
    for data in pieces:
        start = found[-1].file_start + found[-1].size if found else 0
        found.append(SmallSegment(memoryview(data), Path(f"{start:020d}"), start))
    return found


def end_of(segments: list[SmallSegment], line: BrokerLine = LINE_4_9, *, check_crc: bool = True) -> ViewedEnd:
    return find_closed_end(segments, line, ScanRules(check_crc=check_crc))  # type: ignore[arg-type]


@pytest.fixture
def short_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes every log for a long one."""
    monkeypatch.setattr(log_end, "WALKED_ANYWAY_BYTES", 0)


def with_bad_body(log: SmallLog, number: int) -> bytes:
    """The log's bytes with a body that does not match its CRC."""
    data = bytearray(log.data)
    data[data.index(b"body", log.units[number].log_offset)] ^= 0xFF
    return bytes(data)


def test_an_empty_log_ends_at_0() -> None:
    assert end_of([]).end.log_end == 0


@pytest.mark.parametrize("damaged", [0, COUNT - 65, COUNT - 64, COUNT - 1])
def test_a_short_log_is_walked_with_crc(damaged: int) -> None:
    log = records()
    assert end_of(segments_of(with_bad_body(log, damaged))).end.log_end == log.units[damaged].log_offset


@pytest.mark.usefixtures("short_walks")
@pytest.mark.parametrize(
    ("damaged", "is_found"), [(0, False), (COUNT - 65, False), (COUNT - 64, True), (COUNT - 1, True)]
)
def test_of_a_long_log_the_newest_64_records_are_read_with_crc(damaged: int, is_found: bool) -> None:
    log = records()
    expected = log.units[damaged].log_offset if is_found else log.end
    assert end_of(segments_of(with_bad_body(log, damaged))).end.log_end == expected


@pytest.mark.usefixtures("short_walks")
def test_of_a_long_log_no_crc_is_read_where_the_settings_say_so() -> None:
    log = records()
    found = end_of(segments_of(with_bad_body(log, COUNT - 1)), check_crc=False)
    assert found.end.log_end == log.end


@pytest.mark.usefixtures("short_walks")
def test_a_long_log_ends_in_the_newest_segment_that_was_written() -> None:
    first, second = records(3).data + BLANK, records(5)
    segments = segments_of(first, second.data + bytes(100), bytes(100))
    assert end_of(segments).end.log_end == len(first) + second.end


@pytest.mark.parametrize(("line", "reads_the_older"), [(LINE_4_9, True), (LINE_5_3, False)])
def test_4_9_walks_three_segments_and_5_3_the_newest_written(line: BrokerLine, reads_the_older: bool) -> None:
    older, newest = records(3), records(5)
    segments = segments_of(with_bad_body(older, 1) + BLANK, newest.data)
    expected = older.units[1].log_offset if reads_the_older else segments[1].file_start + newest.end
    assert end_of(segments, line).end.log_end == expected


def test_a_fourth_last_segment_is_not_read() -> None:
    pieces = [with_bad_body(records(3), 1) + BLANK, *[records(2).data + BLANK] * 2, records(2).data]
    segments = segments_of(*pieces)
    assert end_of(segments).end.log_end == segments[3].file_start + segments[3].size


def test_the_newest_queued_record_is_named_and_prepared_ones_are_passed_over() -> None:
    log = SmallLog()
    log.put("Orders", 3)
    end = log.end
    log.put("Prepared", 1, sys_flag=0x4)
    newest = end_of(segments_of(log.data)).newest
    assert newest is not None
    assert (newest.topic, newest.queue_id, newest.end) == ("Orders", 3, end)
    assert end_of(segments_of(bytes(100))).newest is None
