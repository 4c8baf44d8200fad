"""Where the log of a closed store ends: the short walk of its newest records against the walk of three segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.formats.message import BLANK_MAGIC
from store.opened import log_end
from store.opened.log_end import ViewedEnd, find_closed_end, find_crashed_end
from store.structures.commitlog.end import LogEnd
from store.structures.commitlog.scan import ScanRules
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


def test_an_empty_log_has_no_newest_record() -> None:
    found = end_of([])
    assert (found.end, found.newest) == (LogEnd(0, 0), None)


@pytest.mark.parametrize(("damaged", "is_read"), [(0, False), (1, True), (2, True), (3, True)])
def test_4_9_reads_the_last_three_segments_and_none_before(damaged: int, is_read: bool) -> None:
    pieces = [(with_bad_body(records(3), 1) if number == damaged else records(3).data) + BLANK for number in range(4)]
    segments = segments_of(*pieces)
    at = segments[damaged].file_start + records(3).units[1].log_offset
    assert (end_of(segments).end.log_end == at) is is_read


@pytest.mark.parametrize(("size", "is_read"), [(64 << 20, True), ((64 << 20) + 1, False)])
def test_up_to_64_mib_are_walked_as_a_broker_does(size: int, is_read: bool) -> None:
    log = records()
    segments = segments_of(with_bad_body(log, 0).ljust(size, b"\0"))
    assert end_of(segments).end.log_end == (0 if is_read else log.end)


@pytest.mark.usefixtures("short_walks")
@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_of_few_records_all_are_read_with_crc(damaged: int) -> None:
    older, newest = records(5), records(3)
    segments = segments_of(older.data + BLANK, with_bad_body(newest, damaged))
    assert end_of(segments).end.log_end == segments[1].file_start + newest.units[damaged].log_offset


@pytest.mark.usefixtures("short_walks")
@pytest.mark.parametrize(("damaged", "is_found"), [(COUNT - 65, False), (COUNT - 64, True)])
def test_the_newest_64_are_those_of_the_newest_segment(damaged: int, is_found: bool) -> None:
    newest = records()
    segments = segments_of(records(3).data + BLANK, with_bad_body(newest, damaged))
    expected = newest.units[damaged].log_offset if is_found else newest.end
    assert end_of(segments).end.log_end == segments[1].file_start + expected


@pytest.mark.parametrize("prepared", [0, 1, 7])
def test_the_newest_queued_record_may_be_anywhere_in_a_run(prepared: int) -> None:
    log, before = SmallLog(), records(3)
    log.put_many(6, "Older")
    log.put("Orders", 3)
    end = log.end
    log.put_many(prepared, "Prepared", sys_flag=0x4)
    segments = segments_of(before.data + BLANK, log.data)
    newest = end_of(segments).newest
    assert newest is not None
    assert (newest.topic, newest.queue_id, newest.end) == ("Orders", 3, segments[1].file_start + end)


def test_a_first_record_is_found_and_prepared_ones_alone_are_none() -> None:
    for sys_flag, topic in ((0, "T"), (0x4, None)):
        log = SmallLog()
        log.put(sys_flag=sys_flag)
        newest = end_of(segments_of(log.data)).newest
        assert (newest.topic if newest else None) == topic


@pytest.mark.usefixtures("short_walks")
@pytest.mark.parametrize("line", [LINE_4_9, LINE_5_3])
def test_a_log_that_was_never_written_ends_where_it_begins(line: BrokerLine) -> None:
    assert end_of(segments_of(bytes(500), bytes(500)), line).end.log_end == 0


@pytest.mark.usefixtures("short_walks")
@pytest.mark.parametrize(("readable", "is_written"), [(500, True), (0, False)])
def test_a_segment_whose_head_cannot_be_read_counts_as_not_written(readable: int, is_written: bool) -> None:
    class Unreadable(SmallSegment):
        def readable_end(self, start: int, stop: int) -> int:
            return min(stop, readable) if start == 0 else stop

    older, newest = records(3), records(2)
    segments = segments_of(older.data + BLANK, newest.data)
    last = Unreadable(segments[1].buffer, segments[1].path, segments[1].file_start)
    found = end_of([segments[0], last], LINE_5_3).end
    assert found.start == (last.file_start if is_written else 0)


def crashed(segments: list[SmallSegment], start: int) -> tuple[ViewedEnd, list[tuple[int, int]]]:
    shown: list[tuple[int, int]] = []
    rules = ScanRules(check_crc=True)
    found = find_crashed_end(segments, start, rules, lambda done, total: shown.append((done, total)))  # type: ignore[arg-type]
    assert find_crashed_end(segments, start, rules, None) == found  # type: ignore[arg-type]
    return found, shown


@pytest.mark.parametrize("damaged", [None, 0, 2])
def test_a_crashed_log_is_walked_with_crc_from_where_recovery_starts(damaged: int | None) -> None:
    older, newest = records(3), records(5)
    data = newest.data if damaged is None else with_bad_body(newest, damaged)
    segments = segments_of(older.data + BLANK, data + bytes(300))
    start = segments[1].file_start
    for walk_from in (0, start):
        found, shown = crashed(segments, walk_from)
        end = start + (newest.end if damaged is None else newest.units[damaged].log_offset)
        assert (found.end.start, found.end.log_end) == (walk_from, end)
        assert {total for _, total in shown} <= {start + segments[1].size - walk_from}
        assert [done for done, _ in shown[-1:]] == ([end - walk_from] if damaged != 0 else [older.end][walk_from:][:1])


def test_a_crashed_store_without_a_log_ends_at_0() -> None:
    found, shown = crashed([], 0)
    assert (found.end.log_end, found.newest, shown) == (0, None, [])


@pytest.mark.parametrize("second", [50, 300])
def test_a_segment_is_written_where_its_head_is_a_record(second: int) -> None:
    """Only the head of a segment is looked at: pages behind it may be unreadable."""
    looked: list[tuple[int, int]] = []

    class Looked(SmallSegment):
        def readable_end(self, start: int, stop: int) -> int:
            looked.append((start, stop))
            return super().readable_end(start, stop)

    data = records(3).data
    segments = [Looked(memoryview(data), Path("0"), 0), Looked(memoryview(bytes(second)), Path("1"), len(data))]
    assert log_end._newest_written(segments) is segments[0]  # type: ignore[arg-type]
    head = log_end.SEGMENT_HEAD_SIZE
    assert looked == [(0, min(second, head)), (0, min(len(data), head))]
