"""The log's end: the numbers of a walk, and the walk's way over pages that can't be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from store.formats.columns import DamageReason
from store.formats.message import BLANK_MAGIC
from store.formats.run import Run
from store.structures.commitlog.end import LogEnd, end_of_steps, find_end
from store.structures.commitlog.scan import Blank, Damage, End, ScanRules, Segment
from tests.support.small_log import START_MS, SmallLog, SmallSegment

SIZE = 1000
BLANK = (8).to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big")
RULES = ScanRules(by_place=True)


@dataclass
class PatchySegment(SmallSegment):
    """A segment of which some bytes can't be read: ranges of positions."""

    bad: list[tuple[int, int]] = field(default_factory=list)

    def readable_end(self, start: int, stop: int) -> int:
        return min([stop, *(max(start, first) for first, last in self.bad if first < stop and start < last)])

    def behind_unreadable(self, start: int, stop: int) -> int:
        return next((last for first, last in self.bad if first <= start < last), stop)


class Log:
    """Segments of SIZE bytes, each with records, and then a blank if there is another one behind it."""

    def __init__(self, *counts: int, bad: dict[int, list[tuple[int, int]]] | None = None, first: int = 0) -> None:
        self.starts: list[list[int]] = []
        self.segments: list[Segment] = []
        self.ends: list[int] = []
        for number, count in enumerate(counts):
            log, start = SmallLog(), first + number * SIZE
            self.starts.append([start + log.put(log_offset=start + log.end) for _ in range(count)])
            self.ends.append(start + log.end)
            data = log.data + (BLANK if count and number + 1 < len(counts) else b"")
            holes = (bad or {}).get(number, [])
            self.segments.append(
                PatchySegment(memoryview(data.ljust(SIZE, b"\0")), Path(f"{start:020d}"), start, holes)
            )

    def walk(self, start: int | None = None, stop: int | None = None) -> tuple[LogEnd, list[int]]:
        """The end, and the log offsets of the records on the way."""
        found: list[int] = []
        at = self.segments[0].file_start if start is None else start
        end = find_end(self.segments, at, RULES, lambda run: found.extend(run.columns.log_offset.tolist()), stop=stop)
        return end, found


def test_a_log_without_segments_is_empty() -> None:
    end = find_end([], 4096, RULES)
    assert end == LogEnd(4096, 4096, None, 0, 0, 0, -1, [])
    assert (end.walked_bytes, end.describe()) == (0, "an empty log")


def test_a_segment_of_zeros_ends_where_it_begins() -> None:
    end, found = Log(0, first=SIZE).walk()
    assert (end.log_end, end.record_count, end.last_record, end.last_store_timestamp_ms) == (SIZE, 0, -1, 0)
    assert isinstance(end.outcome, End)
    assert found == []


@pytest.mark.parametrize("first", [0, SIZE])
def test_a_walk_counts_records_over_segments(first: int) -> None:
    log = Log(3, 2, first=first)
    end, found = log.walk()
    assert found == [*log.starts[0], *log.starts[1]]
    assert (end.start, end.log_end, end.record_count) == (first, log.ends[1], 5)
    assert (end.last_record, end.last_store_timestamp_ms) == (log.starts[1][-1], START_MS + 1000)
    assert end.walked_bytes == log.ends[1] - first
    assert (end.misplaced_count, end.unreadable) == (0, [])
    assert end.describe().startswith("the end of what was written")


def test_a_walk_begins_at_the_record_that_it_is_given() -> None:
    log = Log(3, 2)
    end, found = log.walk(log.starts[0][1])
    assert found == [*log.starts[0][1:], *log.starts[1]]
    assert (end.start, end.record_count, end.walked_bytes) == (log.starts[0][1], 4, log.ends[1] - log.starts[0][1])


def test_a_last_segment_may_end_in_a_blank() -> None:
    log = Log(3, 1)
    end = find_end(log.segments[:1], 0, RULES)
    assert isinstance(end.outcome, Blank)
    assert end.log_end == log.ends[0]


@pytest.mark.parametrize("records", [0, 1, 2, 3])
def test_bytes_at_or_behind_the_stop_are_not_there(records: int) -> None:
    log = Log(3, 2)
    stop = [*log.starts[0], log.ends[0]][records]
    end, found = log.walk(stop=stop)
    assert (found, end.log_end) == (log.starts[0][:records], stop)


def test_misplaced_records_are_counted_over_all_runs() -> None:
    log = SmallLog()
    for number in range(600):
        log.put(log_offset=7 if number in (3, 590, 599) else log.end)
    segment = PatchySegment(memoryview(log.data + bytes(100)))
    end = find_end([segment], 0, RULES)
    assert (end.record_count, end.misplaced_count) == (600, 3)
    assert end.last_record == log.units[-1].log_offset
    assert end.last_store_timestamp_ms == START_MS + 599_000


def unreadable_in(log: Log, number: int, first: int, last: int) -> tuple[int, int]:
    """Bytes in the middle of the records first … last of a segment."""
    start = log.segments[number].file_start
    return log.starts[number][first] - start + 20, log.starts[number][last] - start + 30


@pytest.mark.parametrize(
    ("bad", "lost"),
    [
        ([(1, 1)], {1}),
        ([(0, 0)], {0}),
        ([(1, 2)], {1, 2}),
        ([(1, 1), (3, 3)], {1, 3}),
        ([(0, 0), (2, 3)], {0, 2, 3}),
    ],
)
def test_a_walk_goes_on_behind_unreadable_pages(bad: list[tuple[int, int]], lost: set[int]) -> None:
    plain = Log(5, 2)
    holes = [unreadable_in(plain, 0, first, last) for first, last in bad]
    end, found = Log(5, 2, bad={0: holes}).walk()
    assert found == [at for number, at in enumerate(plain.starts[0]) if number not in lost] + plain.starts[1]
    assert [damage.unreadable for damage in end.unreadable] == holes
    assert [damage.position for damage in end.unreadable] == [plain.starts[0][first] for first, _ in bad]
    assert isinstance(end.outcome, End)
    assert (end.log_end, end.record_count) == (plain.ends[1], len(found))


@pytest.mark.parametrize("first", [0, 3 * SIZE])
def test_a_walk_goes_on_behind_unreadable_pages_of_any_segment(first: int) -> None:
    plain = Log(2, 4, 1, first=first)
    hole = unreadable_in(plain, 1, 1, 2)
    end, found = Log(2, 4, 1, first=first, bad={1: [hole]}).walk()
    assert found == [*plain.starts[0], plain.starts[1][0], plain.starts[1][3], *plain.starts[2]]
    assert [(damage.file_start, damage.unreadable) for damage in end.unreadable] == [(first + SIZE, hole)]


def test_a_record_that_a_power_cut_tore_ends_the_log() -> None:
    log = SmallLog()
    for number in range(3):
        log.put(keys=f"k{number}")
    data = log.data[:-1] + bytes(101)
    end = find_end([PatchySegment(memoryview(data))], 0, ScanRules(by_place=True, cuts_torn=True))
    assert isinstance(end.outcome, Damage)
    assert (end.outcome.reason, end.log_end) == (DamageReason.TORN_PROPERTIES, log.units[2].log_offset)
    assert (end.record_count, end.unreadable) == (2, [])


def test_behind_a_bad_last_page_the_log_goes_on_in_the_next_segment() -> None:
    plain = Log(4, 2)
    hole = (plain.starts[0][2] + 10, SIZE)
    end, found = Log(4, 2, bad={0: [hole]}).walk()
    assert found == plain.starts[0][:2] + plain.starts[1]
    assert [damage.unreadable for damage in end.unreadable] == [hole]
    assert (end.log_end, end.last_record) == (plain.ends[1], plain.starts[1][-1])


@pytest.mark.parametrize("behind", [(), (0,), (0, 0)])
def test_with_no_record_behind_unreadable_pages_the_log_ends_before_them(behind: tuple[int, ...]) -> None:
    plain = Log(4, *behind)
    hole = (plain.starts[0][2] + 10, SIZE)
    end, found = Log(4, *behind, bad={0: [hole]}).walk()
    assert found == plain.starts[0][:2]
    assert isinstance(end.outcome, Damage)
    assert (end.outcome.reason, end.log_end, end.unreadable) == (DamageReason.UNREADABLE, plain.starts[0][2], [])


def test_a_segment_without_a_record_at_its_beginning_is_passed_over() -> None:
    plain = Log(4, 0, 2)
    hole = (plain.starts[0][2] + 10, SIZE)
    end, found = Log(4, 0, 2, bad={0: [hole]}).walk()
    assert found == plain.starts[0][:2] + plain.starts[2]
    assert end.log_end == plain.ends[2]


@pytest.mark.parametrize(("stop_at", "goes_on"), [(2, False), (3, True)])
def test_records_behind_the_stop_do_not_lead_over_unreadable_pages(stop_at: int, goes_on: bool) -> None:
    plain = Log(5, 2)
    end, found = Log(5, 2, bad={0: [unreadable_in(plain, 0, 1, 1)]}).walk(stop=plain.starts[0][stop_at])
    assert found == ([*plain.starts[0][:1], plain.starts[0][2]] if goes_on else plain.starts[0][:1])
    assert end.log_end == plain.starts[0][3 if goes_on else 1]


def test_a_stop_before_the_next_record_ends_the_log_at_unreadable_pages() -> None:
    plain = Log(5, 2)
    hole = unreadable_in(plain, 0, 1, 2)
    end, found = Log(5, 2, bad={0: [hole]}).walk(stop=plain.starts[0][2])
    assert (found, end.log_end) == (plain.starts[0][:1], plain.starts[0][1])


def test_damage_that_can_be_read_ends_the_log() -> None:
    log = Log(3, 2)
    data = bytearray(log.segments[0].buffer)
    data[log.starts[0][1] + 4] ^= 1
    log.segments[0] = PatchySegment(memoryview(data))
    end, found = log.walk()
    assert found == log.starts[0][:1]
    assert isinstance(end.outcome, Damage)
    assert (end.outcome.reason, end.log_end, end.unreadable) == (DamageReason.BAD_MAGIC, log.starts[0][1], [])
    assert "unknown magic" in end.describe()


def test_the_end_of_steps_is_that_of_the_last_one() -> None:
    first, second = (Damage(SIZE, Path("x"), at, DamageReason.UNREADABLE, -1, (at, at + 4)) for at in (10, 20))
    end = end_of_steps([first, second], 7)
    assert end == LogEnd(7, SIZE + 20, second, 0, 0, 0, -1, [first])
    runs: list[Run] = []
    log = Log(2)
    find_end(log.segments, 0, RULES, runs.append)
    end = end_of_steps([first, *runs], 7, runs.append)
    assert (end.unreadable, end.outcome, end.log_end, len(runs)) == ([first], None, log.ends[0], 2)
