"""Bounds of the log's look-ups: where a record begins, its store time, and what a checkpoint of 5.5 covers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import open_store
from store.broker_line import LINE_4_9, LINE_5_5, BrokerLine
from store.formats.message import RECORD_MIN_SIZE
from store.structures.commitlog import start as start_room
from store.structures.commitlog.commit_log import CommitLog
from store.structures.commitlog.scan import ScanRules
from store.structures.commitlog.start import _trust_rule, reads_whole_log, starting_segment
from store.structures.commitlog.upgrade import notes
from tests.support.golden import copy_store, golden
from tests.support.logs import record
from tests.support.small_log import SmallSegment
from tests.support.stores import make_store, overwrite


def test_each_byte_of_a_record_but_its_first_is_inside_of_it(tmp_path: Path) -> None:
    with open_store(make_store(tmp_path / "store", 3, queues=1)) as store:
        starts, end = [one.log_offset for one in store.messages("T", 0)], store.max_log_offset
        ends = [*starts[1:], end]
        found = [[store.opened.log.start_around(at) for at in (start, start + 1, stop - 1)]
                 for start, stop in zip(starts, ends, strict=True)]  # fmt: skip
        assert found == [[None, start, start] for start in starts]
        assert store.opened.log.start_around(end) is None


def test_no_byte_of_a_blank_is_of_a_record_nor_damaged() -> None:
    with open_store(golden("normal").store) as store:
        log = store.opened.log
        assert (log.lookup(65268), log.start_around(65267)) == (None, 65038)
        assert [log.is_in_blank(at) for at in (0, 65267, 65268, 65300, 65535, 65536, 130867)] == [
            False, False, True, True, True, False, True,
        ]  # fmt: skip
        assert [log.start_around(at) for at in (65268, 65300, 65535)] == [None, None, None]


def test_a_record_after_damage_is_found_by_a_byte_inside_of_it(tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    overwrite(root / "commitlog" / f"{0:020d}", 4, b"x")
    with open_store(root) as store:
        assert (store.opened.log.start_around(65267), store.opened.log.is_in_blank(65300)) == (65038, True)
        assert (store.opened.log.start_around(5), store.opened.log.is_in_blank(5)) == (None, False)


@pytest.mark.parametrize(("size", "time_ms"), [(None, -1), (RECORD_MIN_SIZE - 1, -1), (RECORD_MIN_SIZE, 7)])
def test_what_is_shorter_than_a_record_has_no_store_time(size: int | None, time_ms: int) -> None:
    record = memoryview(bytes(56) + (7).to_bytes(8, "big") + bytes(RECORD_MIN_SIZE - 64))
    log: Any = SimpleNamespace(read=lambda log_offset, most: None if size is None else record[:size])
    assert CommitLog.store_timestamp(log, 0, 200) == time_ms


@pytest.mark.parametrize("uses_index", [False, True])
@pytest.mark.parametrize("is_safe", [False, True])
@pytest.mark.parametrize(
    ("logics_offset", "log_offset", "time_ms", "matches"),
    [(50, 50, 999, (1, 1)), (50, 51, 0, (0, 0)), (0, 999, 20, (1, 1)), (0, 0, 21, (0, 1)), (0, 0, 30, (0, 1)),
     (0, 0, 31, (0, 0))],
)  # fmt: skip
def test_a_checkpoint_of_5_5_covers_by_offset_else_by_the_older_time(
    logics_offset: int, log_offset: int, time_ms: int, matches: tuple[int, int], uses_index: bool, is_safe: bool
) -> None:
    """`matches` with the index's time, which is the older one, and without."""
    opened: Any = SimpleNamespace(
        checkpoint=SimpleNamespace(logics_log_offset=logics_offset, logics_ms=30, index_ms=20),
        config=SimpleNamespace(message_index_enable=uses_index, message_index_safe=is_safe),
    )
    rule = _trust_rule(opened)
    assert rule.matches(log_offset, time_ms) == matches[not (uses_index and is_safe)]
    covered = logics_offset or f"{20 if uses_index and is_safe else 30} ms"
    assert rule.reason.endswith(f"({covered})")


def record_at(log_offset: int, time_ms: int | None) -> bytes:
    return bytes(200) if time_ms is None else record(position=log_offset, store_timestamp_ms=time_ms) + bytes(100)


def opened_with(times: list[int | None], line: BrokerLine = LINE_4_9, queue_end: int = 0) -> Any:
    """A store of segments of 4096 bytes that begin with a record of these times; None for one that does not."""
    files = [
        SmallSegment(memoryview(record_at(4096 * number, time_ms)), file_start=4096 * number)
        for number, time_ms in enumerate(times)
    ]
    return SimpleNamespace(
        log=SimpleNamespace(segments=SimpleNamespace(files=files)),
        line=line,
        as_broker=False,
        config=SimpleNamespace(
            most_recovered_segments=3, check_crc_on_recover=True, message_index_enable=False, message_index_safe=False
        ),
        checkpoint=SimpleNamespace(logics_log_offset=0, logics_ms=30, index_ms=0, min_timestamp_ms=30),
        queues=SimpleNamespace(max_physic_offset=queue_end),
        scan_rules=lambda *, check_crc: ScanRules(check_crc=check_crc),
    )


@pytest.mark.parametrize(
    ("times", "number"),
    [([10, 20, 30, 31], 2), ([10, 20, 31, 31], 1), ([10, 0, 0, 0], 0), ([31, 31], 0), ([10, None, 20, None], 2),
     ([None, 31], 0), ([1], 0)],
)  # fmt: skip
def test_a_crash_is_recovered_from_the_newest_segment_that_the_checkpoint_covers(
    times: list[int | None], number: int
) -> None:
    assert starting_segment(opened_with(times), abnormal=True).log_offset == 4096 * number
    assert reads_whole_log(opened_with(times), "abnormal") is (number == 0)
    assert not reads_whole_log(opened_with(times), "normal")
    assert starting_segment(opened_with(times), abnormal=False).log_offset == 4096 * max(0, len(times) - 3)


@pytest.mark.parametrize(
    ("times", "number", "by_queues"),
    [([10, 20, 30, 31], 2, 2), ([10, 20, 31, 31], 1, 2), ([10, 10, 0, 31], 1, 1), ([10, 31, 31, 31], 1, 2),
     ([10, 20, None, 0], 1, 1), ([10], 0, 0)],
)  # fmt: skip
def test_5_5_starts_at_the_newest_of_some_segments_that_begins_with_a_record_of_its_rule(
    times: list[int | None], number: int, by_queues: int
) -> None:
    opened = opened_with(times, LINE_5_5, 2 * 4096)
    assert starting_segment(opened, abnormal=True).log_offset == 4096 * number
    assert starting_segment(opened, abnormal=False).log_offset == 4096 * by_queues


def test_an_empty_log_is_walked_from_0() -> None:
    for abnormal in (False, True):
        assert starting_segment(opened_with([]), abnormal=abnormal) == (0, "the commit log is empty")
    assert not reads_whole_log(opened_with([]), "abnormal")


@pytest.mark.parametrize(
    ("matches", "own_matches", "count", "is_noted"),
    [(True, False, 3, True), (True, False, 2, False), (True, True, 3, False), (False, False, 3, False)],
)
def test_a_line_that_recovers_some_segments_is_noted_where_there_are_more(
    matches: bool, own_matches: bool, count: int, is_noted: bool
) -> None:
    def store(is_5_5: bool) -> Any:
        return SimpleNamespace(
            line=SimpleNamespace(matches_first_record=is_5_5),
            config=SimpleNamespace(most_recovered_segments=2),
            log=SimpleNamespace(segments=SimpleNamespace(files=[None] * count)),
        )

    found = [(trap.code, trap.subject) for trap in notes(store(own_matches), store(matches))]
    assert found == [("recovers-some-segments", (3,))] * is_noted


@pytest.mark.parametrize(
    ("start", "queue_end", "ends", "abnormal", "entered"),
    [
        (10, 50, [], False, 51),
        (10, 50, [40, 60], False, 41),
        (10, 50, [0, -1, 60], False, 51),
        (45, 50, [40], False, 45),
        (41, 50, [40], False, 41),
        (10, 50, [40], True, 10),
    ],
)
def test_records_are_dispatched_from_the_lowest_end_but_not_before_the_scan(
    start: int, queue_end: int, ends: list[int], abnormal: bool, entered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_room, "_rooms_beside", lambda opened, function: ())
    monkeypatch.setattr(start_room, "_entered", lambda opened: ends)
    opened: Any = SimpleNamespace()
    assert start_room.entered_from(opened, start, queue_end, abnormal=abnormal) == entered


@pytest.mark.parametrize(("ends", "begin"), [([], 50), ([40, 60], 40), ([0, 60], 50), ([120], 50), ([50], 50)])
def test_an_accelerated_recovery_begins_at_the_lowest_end(
    ends: list[int], begin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_room, "_rooms_beside", lambda opened, function: ())
    monkeypatch.setattr(start_room, "_entered", lambda opened: ends)
    segments = SimpleNamespace(find_by_offset=lambda at: SimpleNamespace(file_start=0, size=100))
    opened: Any = SimpleNamespace(
        as_broker=True,
        config=SimpleNamespace(enable_accelerated_recovery=True),
        checkpoint=SimpleNamespace(logics_log_offset=1, physic_ms=1),
        log=SimpleNamespace(segments=segments),
    )
    assert start_room.accelerated(opened, start_room.Start(0, "first"), 50).log_offset == begin
