"""One queue by the broker's rules: repeats, gaps, pre-blank units, recovery, truncation, minimum, search by time."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.config import StoreConfig
from store.formats.queue_unit import PRE_BLANK, UNIT_SIZE, QueueUnit
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.out_of_order import OutOfOrder
from tests.support.small_log import (
    START_MS,
    UNITS_PER_FILE,
    SmallLog,
    log_offsets_of,
    open_queues,
    reopened_queues,
    units_of,
)


def queue_of(root: Path, log: SmallLog) -> ConsumeQueue:
    queues = open_queues(root)
    log.dispatch_to(queues)
    return queues.find_or_create("T", 0)


def filled(root: Path, count: int) -> tuple[SmallLog, ConsumeQueue]:
    log = SmallLog()
    log.put_many(count)
    return log, queue_of(root, log)


def test_a_unit_follows_each_message_over_several_files(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 25)
    assert (queue.min_offset, queue.max_offset, queue.max_physic_offset) == (0, 25, log.end)
    assert [file.file_start for file in queue.files.files] == [0, 200, 400]
    assert queue.unit(17) == log.units[17]


def test_a_record_that_has_its_unit_is_passed_over(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 8)
    unit = log.units[3]
    assert queue.put(unit.log_offset, unit.size, 0, 3) is None
    assert queue.max_offset == 8


def test_a_record_whose_end_is_no_long_is_passed_over_as_a_broker_does_whose_sum_turns_negative(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 8)
    assert queue.put((1 << 63) - 10, 100, 0, 8) is None
    queue.put(log.end, 100, 0, 8)
    assert (queue.max_offset, queue.max_physic_offset) == (9, log.end + 100)


def test_a_queue_offset_that_was_taken_is_passed_over_even_for_a_newer_record(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 8)
    queue.put(log.end, 100, 0, 5)
    assert (queue.max_offset, queue.max_physic_offset) == (8, log.end)


def test_a_gap_is_reported_and_the_unit_is_appended_all_the_same(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 3)
    finding = queue.put(log.end, 100, 0, 7)
    assert finding is not None
    assert (finding.queue_offset, finding.place) == (7, 3)
    assert queue.max_offset == 4


def test_queue_offset_zero_is_appended_wherever_the_queue_ends(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 3)
    assert queue.put(log.end, 100, 0, 0) is None
    assert queue.max_offset == 4


def test_a_queue_that_begins_in_the_middle_is_filled_with_pre_blank_units(tmp_path: Path) -> None:
    log = SmallLog()
    log.put(queue_offset=13)
    queues = open_queues(tmp_path)
    log.dispatch_to(queues)
    queue = queues.find_or_create("T", 0)
    assert units_of(queues) == [PRE_BLANK] * 3 + log.units
    assert (queue.min_offset, queue.max_offset) == (13, 14)
    assert queue.files.min_offset == UNITS_PER_FILE * UNIT_SIZE


def test_the_end_is_found_again_by_reading(tmp_path: Path) -> None:
    _, before = filled(tmp_path, 47)
    queue = reopened_queues(tmp_path).find_or_create("T", 0)
    assert (queue.max_offset, queue.max_physic_offset) == (47, before.max_physic_offset)


def test_recovery_reads_only_the_last_three_files(tmp_path: Path) -> None:
    filled(tmp_path, 45)
    second = tmp_path / "consumequeue/T/0" / f"{UNITS_PER_FILE * UNIT_SIZE:020d}"
    second.write_bytes(bytes(UNITS_PER_FILE * UNIT_SIZE))
    assert reopened_queues(tmp_path).find_or_create("T", 0).max_offset == 45


def test_recovery_stops_at_the_first_unit_that_is_none_and_deletes_later_files(tmp_path: Path) -> None:
    filled(tmp_path, 25)
    folder = tmp_path / "consumequeue/T/0"
    middle = folder / f"{UNITS_PER_FILE * UNIT_SIZE:020d}"
    data = bytearray(middle.read_bytes())
    data[4 * UNIT_SIZE : 5 * UNIT_SIZE] = bytes(UNIT_SIZE)
    middle.write_bytes(data)
    assert reopened_queues(tmp_path).find_or_create("T", 0).max_offset == 14
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(("min_log_offset", "min_offset"), [(1, 13), (0, 10)])
def test_pre_blank_units_are_skipped_unless_the_log_begins_at_zero(
    tmp_path: Path, min_log_offset: int, min_offset: int
) -> None:
    log = SmallLog()
    log.put("Other")
    log.put(queue_offset=13)
    queue_of(tmp_path, log)
    queue = reopened_queues(tmp_path).find_or_create("T", 0)
    queue.correct_min_offset(min_log_offset)
    assert (queue.min_offset, queue.max_offset) == (min_offset, 14)


def test_truncation_moves_the_end_and_leaves_the_stale_units_on_disk(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 25)
    before = queue.files.files[1].buffer[:].tobytes()
    queue.truncate_dirty_logic_files(log.units[14].log_offset)
    assert (queue.max_offset, queue.max_physic_offset) == (14, log.units[14].log_offset)
    assert len(queue.files.files) == 2
    assert queue.files.files[1].buffer[:].tobytes() == before


@pytest.mark.parametrize(("others", "kept"), [(0, 1), (1, 1), (2, 1), (1, 10), (0, 10)])
def test_after_a_truncation_a_queue_is_built_up_to_its_last_record_not_to_the_logs_end(
    others: int, kept: int, tmp_path: Path
) -> None:
    log = SmallLog()
    log.put_many(kept)
    end = log.end
    for _ in range(others):
        log.put("Other")
    cut = log.put()
    queue = queue_of(tmp_path, log)
    queue.truncate_dirty_logic_files(cut)
    assert (queue.max_offset, queue.max_physic_offset) == (kept, end)


# Of a file of damaged units: the first one's log offset, where the log ends, and the units that stay.
@pytest.mark.parametrize(("first", "end", "kept", "kept_by_broker"), [(5, 6, 0, 3), (5, 5, 0, 0), (5, 4, 0, 0)])
def test_a_broker_takes_the_first_unit_of_a_file_for_written(
    first: int, end: int, kept: int, kept_by_broker: int, tmp_path: Path
) -> None:
    for as_broker, count in ((False, kept), (True, kept_by_broker)):
        _, queue = filled(tmp_path / str(as_broker), 5)
        units = [QueueUnit(first, 0, 0), *(QueueUnit(at, 1, 0) for at in (1, 2, 90, 91))]
        queue.files.files[0].buffer[: 5 * UNIT_SIZE] = b"".join(unit.encode() for unit in units)
        queue.truncate_dirty_logic_files(end, as_broker=as_broker)
        assert queue.max_offset == count


def test_truncation_at_a_file_boundary_deletes_the_file_behind_it(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 25)
    queue.truncate_dirty_logic_files(log.units[20].log_offset)
    assert (queue.max_offset, len(queue.files.files)) == (20, 2)


def test_truncation_before_everything_empties_the_queue(tmp_path: Path) -> None:
    _, queue = filled(tmp_path, 25)
    queue.truncate_dirty_logic_files(0)
    assert (queue.max_offset, queue.files.files, queue.max_physic_offset) == (0, [], 0)


def test_a_queue_file_of_one_unit_does_not_hold_a_truncation_for_ever(tmp_path: Path) -> None:
    log = SmallLog()
    log.put_many(3)
    queues = open_queues(tmp_path, StoreConfig(mapped_file_size_consume_queue=UNIT_SIZE))
    log.dispatch_to(queues)
    queue = queues.find_or_create("T", 0)
    queue.truncate_dirty_logic_files(log.units[2].log_offset)
    assert queue.max_offset == 2


def test_after_a_truncation_the_next_messages_take_the_places_of_those_cut_off(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 8)
    queue.truncate_dirty_logic_files(log.units[5].log_offset)
    queue.put(log.units[5].log_offset, 77, 9, 5)
    assert queue.max_offset == 6
    assert queue.unit(5) == (log.units[5].log_offset, 77, 9)


def test_the_minimum_is_the_first_unit_that_is_still_in_the_log(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 25)
    queue.correct_min_offset(log.units[4].log_offset + 1)
    assert queue.min_offset == 5
    assert queue.read_range(4) is None


def test_the_minimum_stays_where_no_unit_of_the_first_file_is_left(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 25)
    queue.correct_min_offset(log.units[12].log_offset)
    assert queue.min_offset == 0


@pytest.mark.parametrize("line", [LINE_4_9, LINE_5_3])
def test_stale_units_behind_the_end_are_no_start(line: BrokerLine, tmp_path: Path) -> None:
    log, _ = filled(tmp_path, 8)
    queue = reopened_queues(tmp_path, line=line).find_or_create("T", 0)
    queue.truncate_dirty_logic_files(log.units[4].log_offset)
    queue.correct_min_offset(log.units[6].log_offset)
    assert (queue.min_offset, queue.max_offset) == (0 if line is LINE_4_9 else 4, 4)


@pytest.mark.parametrize(
    ("line", "first_live", "min_offset"),
    [(LINE_4_9, 24, 0), (LINE_4_9, 25, 0), (LINE_5_3, 9, 9), (LINE_5_3, 24, 0), (LINE_5_3, 25, 25)],
)
def test_a_queue_whose_messages_have_all_expired_begins_at_its_end_from_5_3_on(
    tmp_path: Path, line: BrokerLine, first_live: int, min_offset: int
) -> None:
    log, _ = filled(tmp_path, 25)
    queue = reopened_queues(tmp_path, line=line).find_or_create("T", 0)
    end = log.units[-1].log_offset + log.units[-1].size
    queue.correct_min_offset([*(unit.log_offset for unit in log.units), end][first_live])
    assert (queue.min_offset, queue.max_offset) == (min_offset, 25)


def test_a_range_ends_with_its_file(tmp_path: Path) -> None:
    _, queue = filled(tmp_path, 25)
    assert len(queue.read_range(3) or b"") == 7 * UNIT_SIZE
    assert len(queue.read_range(20) or b"") == 5 * UNIT_SIZE
    assert queue.read_range(25) is None
    assert queue.roll_next_file(13) == 20


@pytest.mark.parametrize(
    ("seconds", "offset"),
    [(-5, 0), (0, 0), (3, 3), (3.4, 3), (3.5, 3), (3.6, 4), (9, 9), (12, 9)],
)
def test_4_9_finds_the_nearest_message_of_one_file(tmp_path: Path, seconds: float, offset: int) -> None:
    log, queue = filled(tmp_path, 10)
    assert queue.offset_by_time(START_MS + int(seconds * 1000), log.store_time, 0) == offset


def test_4_9_looks_only_into_the_first_file_that_was_modified_late_enough(tmp_path: Path) -> None:
    log, queue = filled(tmp_path, 25)
    for number, file in enumerate(queue.files.files):
        os.utime(file.path, (0, START_MS / 1000 + 10 * number + 2))
    assert queue.offset_by_time(START_MS + 1_000, log.store_time, 0) == 1
    assert queue.offset_by_time(START_MS + 9_000, log.store_time, 0) == 10
    assert queue.offset_by_time(START_MS + 99_000, log.store_time, 0) == 24


@pytest.mark.parametrize(("seconds", "offset"), [(-5, 0), (3, 3), (3.2, 4), (24, 24), (24.5, 25), (99, 25)])
def test_5_3_finds_the_first_message_at_or_after_a_time(tmp_path: Path, seconds: float, offset: int) -> None:
    log, queue = filled(tmp_path, 25)
    assert queue.offset_by_time(START_MS + int(seconds * 1000), log.store_time, 0, LINE_5_3) == offset


def test_an_empty_queue_answers_every_question(tmp_path: Path) -> None:
    queue = open_queues(tmp_path).find_or_create("T", 0)
    assert (queue.min_offset, queue.max_offset, queue.recover()) == (0, 0, -1)
    assert queue.offset_by_time(START_MS, lambda log_offset, size: -1, 0) == 0
    assert queue.unit(0) is None
    assert log_offsets_of(open_queues(tmp_path)) == []


# A recovery begins at the third last file: a hole in an earlier one is not seen.
@pytest.mark.parametrize(("messages", "found"), [(10, 4), (20, 4), (30, 4), (40, 40), (45, 45)])
def test_a_recovery_reads_on_from_the_third_last_file(messages: int, found: int, tmp_path: Path) -> None:
    log, _ = filled(tmp_path, messages)
    path = next(iter(sorted((tmp_path / "consumequeue/T/0").iterdir())))
    path.write_bytes(path.read_bytes()[: 4 * UNIT_SIZE] + bytes(6 * UNIT_SIZE))
    queue = reopened_queues(tmp_path).find_or_create("T", 0)
    assert (queue.recover(), queue.max_offset) == (log.units[found - 1].log_offset + log.units[found - 1].size, found)


BOTH = OutOfOrder("T", 1, 7, 5)


@pytest.mark.parametrize(
    ("other", "count"),
    [
        (OutOfOrder("T", 1, 8, 6), 2),
        (OutOfOrder("U", 1, 8, 6), None),
        (OutOfOrder("T", 2, 8, 6), None),
        (OutOfOrder("T", 1, 9, 6), None),
        (OutOfOrder("T", 1, 7, 6), None),
        (OutOfOrder("T", 1, 8, 5), None),
        (OutOfOrder("T", 1, 8, 7), None),
        (OutOfOrder("T", 1, 8, 6, has_unit=False), None),
    ],
)
def test_messages_out_of_order_are_one_finding_where_they_go_on(other: OutOfOrder, count: int | None) -> None:
    assert BOTH.joined(other) == (replace(BOTH, count=count) if count is not None else None)


def test_messages_without_entries_stand_before_the_same_place() -> None:
    first, second = (OutOfOrder("T", 1, offset, 9, has_unit=False) for offset in (7, 8))
    assert first.joined(second) == replace(first, count=2)


PLACED = "as in a broker: consumers' offsets point 2 messages too"
TAKEN = "without an entry: others have these queue offsets; put them again"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (BOTH, f"message with queue offset 7 came where 5 is next, with the entry at 5 {PLACED} far"),
        (
            OutOfOrder("T", 1, 5, 7, 3),
            f"messages with queue offsets 5 to 7 came where 7 is next, with the entry at 7 to 9 {PLACED} low",
        ),
        (
            OutOfOrder("T", 1, 5, 7, 2, has_unit=False),
            f"messages with queue offsets 5 to 6 came where 7 is next, {TAKEN}",
        ),
    ],
)
def test_messages_out_of_order_are_told_with_their_places(found: OutOfOrder, text: str) -> None:
    assert found.describe() == f"T, queue 1: the {text}"
