"""The plan of a recovery that cuts the log, and the counts of its losses, by whole rows."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import store.verbs.recover.plan as recover_plan
from store import open_store
from store.errors import NotAStore
from store.formats.columns import DamageReason
from store.formats.message import RECORD_MIN_SIZE, StoredMessage
from store.structures.commitlog.end import LogEnd
from store.structures.commitlog.leftovers import is_zeroed_cut
from store.verbs.recover.lost import (
    LossReport,
    LossTally,
    LostCounts,
    LostForGroup,
    LostOfGroup,
    LostQueue,
    _claimed_bytes,
)
from store.verbs.recover.outcome import SimulatedStart
from store.verbs.recover.plan import (
    _set_times,
    lower_checkpoint,
    note_confirmed,
    plan_recovery,
)
from store.verbs.recover.recover import RecoveryReport
from tests.support.golden import copy_store
from tests.support.stores import SMALL, make_store, planning

SIZE, COUNT = SMALL["mappedFileSizeCommitLog"], 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_store(tmp_path_factory.mktemp("whole") / "store", COUNT)
    (root / "checkpoint").write_bytes(bytes(4096))
    (root / "abort").touch()
    return root


def records(root: Path) -> list[StoredMessage]:
    with open_store(root, as_is=True) as store:
        found = [message for queue_id in range(3) for message in store.messages("T", queue_id)]
    return sorted(found, key=lambda one: one.log_offset)


@pytest.mark.parametrize("number", [100, 170, 298, 299])
def test_a_recovery_cuts_at_the_damage_and_counts_what_is_behind(number: int, whole: Path, tmp_path: Path) -> None:
    root = copy_store(whole, tmp_path / "store")
    stored = records(root)
    bad = stored[number]
    first = bad.log_offset // SIZE * SIZE
    with (root / "commitlog" / f"{first:020d}").open("r+b") as segment:
        segment.seek(bad.log_offset - first + 90)
        segment.write(b"\xff")
    with planning(root) as opened:
        change = plan_recovery(opened)
        facts, lost = asdict(change.report), change.lost
        rows = [(row["action"], row["file"]) for row in change.rows() if str(row["file"]).startswith("commitlog")]
        change.apply()
    later = [start for start in range(first + SIZE, 5 * SIZE, SIZE) if (whole / "commitlog" / f"{start:020d}").exists()]
    assert [file for _, file in rows] == [f"commitlog/{start:020d}" for start in [*reversed(later), first]]
    behind = stored[number:]
    queues = [[one for one in behind if one.queue_id == queue_id] for queue_id in range(3)]
    assert lost == {"T": len(behind)}
    expected = {
        "log_end": bad.log_offset, "lost_messages": len(behind), "lost_bytes": sum(one.size for one in behind),
        "lost_intact": len(behind) - 1, "lost_damaged": 1, "lost_unreadable": 0, "lost_units_cut": len(behind),
        "lost_delayed": 0, "unconsumed": [],
        "lost": [
            {"topic": "T", "queue_id": queue_id, "message_count": len(own), "size_bytes": sum(one.size for one in own),
             "intact_count": sum(one is not bad for one in own), "damaged_count": sum(one is bad for one in own),
             "unreadable_count": 0, "unconsumed_by_group": {}}
            for queue_id, own in sorted(enumerate(queues), key=lambda one: -len(one[1])) if own
        ],
    }  # fmt: skip
    assert facts == facts | expected
    assert [one.log_offset for one in records(root)] == [one.log_offset for one in stored[:number]]
    data = (root / "commitlog" / f"{first:020d}").read_bytes()
    assert data[bad.log_offset - first :][:8] == bytes(8)


def damage(position: int, reason: DamageReason = DamageReason.BAD_CRC, unreadable: tuple[int, int] = (0, 0)) -> Any:
    return SimpleNamespace(position=position, reason=reason, unreadable=unreadable)


@pytest.mark.parametrize(
    ("claimed", "size"),
    [(RECORD_MIN_SIZE - 1, 0), (RECORD_MIN_SIZE, RECORD_MIN_SIZE), (600, 600), (601, 0), (-1, 0), (0, 0)],
)
def test_a_damaged_record_has_the_bytes_that_it_claims_where_there_are_so_many(claimed: int, size: int) -> None:
    buffer = memoryview(bytes(400) + claimed.to_bytes(4, "big", signed=True) + bytes(596))
    segment: Any = SimpleNamespace(buffer=buffer, size=1000)
    assert _claimed_bytes(segment, damage(400)) == size
    assert _claimed_bytes(segment, damage(400, DamageReason.UNREADABLE, (400, 912))) == 512


@pytest.mark.parametrize(
    ("position", "head", "is_cut"),
    [
        (100, bytes(8) + b"\1" * 100, True),
        (100, bytes(7) + b"\1" * 101, False),
        (100, bytes(108), False),
        (100, bytes(9) + b"\1" * 100, False),
        (504, bytes(8) + b"\1" * 100, False),
        (503, bytes(8) + b"\1" * 100, True),
        (504, bytes(28) + (5504).to_bytes(8, "big") + bytes(64), True),
        (504, bytes(28) + (5503).to_bytes(8, "big") + bytes(64), False),
        (1000 - RECORD_MIN_SIZE, bytes(8) + b"\1" * (RECORD_MIN_SIZE - 8), True),
        (1000 - RECORD_MIN_SIZE + 1, bytes(8) + b"\1" * (RECORD_MIN_SIZE - 9), False),
    ],
)
def test_a_zeroed_cut_leaves_the_rest_of_a_record(position: int, head: bytes, is_cut: bool) -> None:
    buffer = memoryview((bytes(position) + head).ljust(1000, b"\0"))
    segment: Any = SimpleNamespace(buffer=buffer, size=1000, file_start=5000, readable_end=lambda start, stop: stop)
    assert is_zeroed_cut(segment, position) == is_cut
    unreadable: Any = SimpleNamespace(buffer=buffer, size=1000, file_start=5000, readable_end=lambda start, stop: start)
    assert not is_zeroed_cut(unreadable, position)


def offsets(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def test_losses_are_added_up_by_queue_and_held_against_what_groups_consumed() -> None:
    tally = LossTally()
    assert (tally.rows(), tally.has_offsets, tally.unconsumed({("T", "g"): {0: 0}})) == ([], False, [])
    tally.count(("T", 1), 2, 20, "intact")
    tally.count(("T", 0), 3, 30, "intact")
    tally.count(("A", 0), 1, 5, "unreadable")
    tally.count(("T", 0), 1, 10, "damaged")
    tally.note_offsets(("T", 0), offsets(4, 5, 6))
    tally.note_offsets(("T", 0), offsets(7))
    tally.note_offsets(("T", 1), offsets(0, 1))
    assert tally.rows() == [
        LostQueue("A", 0, 1, 5, unreadable_count=1),
        LostQueue("T", 0, 4, 40, intact_count=3, damaged_count=1),
        LostQueue("T", 1, 2, 20, intact_count=2),
    ]
    consumed = {("T", "g"): {0: 5, 1: 2}, ("T", "b"): {0: 8}, ("A", "g"): {0: 0}}
    assert tally.unconsumed(consumed) == [LostForGroup("b", "T", 1, 2), LostForGroup("g", "T", 0, 3)]


def test_a_loss_report_is_summed_by_topic_group_and_state() -> None:
    rows = [LostQueue("T", 0, 4, 40, 1, 2, 1), LostQueue("T", 1, 2, 20, 2), LostQueue("A", 0, 1, 5, 0, 0, 1)]
    groups = [LostForGroup("g", "T", 0, 3), LostForGroup("g", "T", 1, 2), LostForGroup("b", "A", 0, 1)]
    report = LossReport(rows, groups, units_cut=9, index_keys=8, delayed=7)
    assert report.counts() == LostCounts(7, 65, 3, 2, 2, 9, 8, 7)
    assert [*report.by_topic().items()] == [("A", 1), ("T", 6)]
    assert [*report.by_group().items()] == [("b", 1), ("g", 5)]
    assert report.group_rows() == [LostOfGroup("b", "A", 1), LostOfGroup("g", "T", 5)]
    assert [(row.queue_id, row.unconsumed_by_group) for row in report.queue_rows()] == [
        (0, {"g": 3}), (1, {"g": 2}), (0, {"b": 1}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("report", "is_empty"),
    [
        (LossReport(), True),
        (LossReport(units_cut=1), True),
        (LossReport(index_keys=1), False),
        (LossReport(delayed=1), False),
        (LossReport([LostQueue("T", 0, 1)]), False),
        (LossReport([LostQueue("T", 0, 0)]), True),
    ],
)
def test_units_alone_are_no_loss(report: LossReport, is_empty: bool) -> None:
    assert report.is_empty == is_empty


@pytest.mark.parametrize(
    ("confirm", "times", "units", "expected"),
    [
        (99, (1, 1, 1), 99, (99, (1, 1, 1), 99)),
        (99, (1, 1, 1), 98, (99, (1, 1, 1), 0)),
        (100, (500, 400, 300), 100, (100, (500, 400, 300), 0)),
        (101, (501, 401, 301), 101, (100, (500, 400, 300), 0)),
        (0, (0, 0, 0), 0, (0, (0, 0, 0), 0)),
    ],
)
def test_a_checkpoint_is_lowered_to_last_record_newest_entry_log_end_and_full_index_files(
    confirm: int, times: tuple[int, int, int], units: int, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("confirm_log_offset", "physic_ms", "logics_ms", "index_ms", "logics_log_offset")
    page = SimpleNamespace(**dict(zip(names, (confirm, *times, units), strict=True)), master_flushed_offset=confirm)
    opened = _with_newest_entry(monkeypatch, 400, checkpoint=page, index=SimpleNamespace(flushed_until_ms=300))
    lower_checkpoint(opened, 500, 100)
    assert (
        page.confirm_log_offset,
        (page.physic_ms, page.logics_ms, page.index_ms),
        page.logics_log_offset,
    ) == expected
    assert page.master_flushed_offset == page.confirm_log_offset


def _with_newest_entry(monkeypatch: pytest.MonkeyPatch, time_ms: int, **parts: Any) -> Any:
    """Return an opened store whose newest queue entry has a time; a record begins at each odd log offset."""
    monkeypatch.setattr(recover_plan, "newest_time_ms", lambda opened: time_ms)
    log = SimpleNamespace(lookup=lambda at: at if at % 2 else None)
    return SimpleNamespace(**{"log": log, "config": SimpleNamespace(queues_in_database=False), **parts})


def test_progress_is_told_of_each_run_up_to_the_last_byte_of_the_log(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 100)
    (root / "checkpoint").write_bytes(bytes(4096))
    (root / "abort").touch()
    told: list[tuple[int, int]] = []
    with planning(root) as opened:
        change = plan_recovery(opened, progress=lambda done, total: told.append((done, total)))
        total = sum(file.size for file in opened.log.segments.files)
    ends = [done for done, _ in told]
    assert len(ends) > 1
    (whole,) = {whole for _, whole in told}
    assert ends == sorted(ends)
    # The whole leaves out the hole at the log's end, which a tmpfs fills where a map is read.
    assert ends[-1] == change.report.log_end <= whole <= total


def test_a_report_without_a_walk_names_no_place() -> None:
    end = LogEnd(0, 0)
    assert RecoveryReport("normal", "so", end) == RecoveryReport(
        "normal", "so", end, entered_from=-1, queue_end_before=-1, has_unit_at_end=False, dispatched_count=0,
        is_rebuilt=False,
    )  # fmt: skip
    start = SimulatedStart("4.9", False)
    assert (start.start_segment, start.entered_from, start.log_end) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("marks_process", "last_record", "has_controller", "confirmed"),
    [(True, 700, False, 700), (True, 0, False, 0), (True, -1, False, 5), (False, 700, False, 5), (True, 700, True, 5)],
)
def test_the_last_record_is_noted_as_confirmed_as_5_3_does_without_a_controller(
    marks_process: bool, last_record: int, has_controller: bool, confirmed: int
) -> None:
    opened: Any = SimpleNamespace(
        line=SimpleNamespace(marks_process=marks_process),
        fs=SimpleNamespace(exists=lambda path: has_controller),
        layout=SimpleNamespace(controller_state="state"),
        checkpoint=SimpleNamespace(confirm_log_offset=5),
    )
    note_confirmed(opened, last_record)
    assert opened.checkpoint.confirm_log_offset == confirmed


@pytest.mark.parametrize(
    ("changed", "times"),
    [
        ({}, (100, 80, 60)),
        ({"last_ms": 101}, (101, 80, 60)),
        ({"last_ms": 99}, (100, 80, 60)),
        ({"last_ms": 99, "lost": 1}, (99, 80, 60)),
        ({"last_ms": 70, "lost": 1}, (70, 70, 60)),
        ({"last_ms": 70, "is_whole": False}, (70, 70, 60)),
        ({"last_ms": 70, "lost": 1, "as_broker": True}, (100, 80, 60)),
        ({"segments": [], "last_ms": 70}, (70, 70, 60)),
        ({"empty_last": "two", "last_ms": 70}, (70, 70, 60)),
        ({"queues_ms": 90}, (100, 90, 60)),
        ({"queues_ms": 75}, (100, 75, 60)),
        ({"index_ms": 59}, (100, 80, 59)),
        ({"index_ms": 59, "as_broker": True}, (100, 80, 60)),
    ],
)
def test_a_recovery_promises_the_ends_of_records_queues_and_index(
    changed: dict[str, Any], times: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, Any] = {
        "last_ms": 100, "lost": 0, "is_whole": True, "segments": ["one"], "queues_ms": 0, "index_ms": 1000,
        "as_broker": False, "empty_last": None, **changed,
    }  # fmt: skip
    page = SimpleNamespace(
        physic_ms=100, logics_ms=80, index_ms=60, confirm_log_offset=0, logics_log_offset=0, master_flushed_offset=0,
        is_whole=told["is_whole"],
    )  # fmt: skip
    opened = _with_newest_entry(
        monkeypatch,
        1000,
        log=SimpleNamespace(segments=SimpleNamespace(files=told["segments"], empty_last=told["empty_last"])),
        line=SimpleNamespace(marks_process=False),
        checkpoint=page,
        queues=SimpleNamespace(last_store_timestamp_ms=told["queues_ms"]),
        index=SimpleNamespace(flushed_until_ms=told["index_ms"]),
    )
    end = SimpleNamespace(last_store_timestamp_ms=told["last_ms"], last_record=-1)
    found: Any = SimpleNamespace(end=end, lost=SimpleNamespace(messages=told["lost"]), log_end=1)
    _set_times(opened, found, as_broker=told["as_broker"])
    assert (page.physic_ms, page.logics_ms, page.index_ms) == times


def test_an_empty_log_beside_queues_is_refused_unless_forced(whole: Path, tmp_path: Path) -> None:
    root = copy_store(whole, tmp_path / "store")
    shutil.rmtree(root / "commitlog")
    with planning(root) as opened, pytest.raises(NotAStore, match="the commit log is empty, but"):
        plan_recovery(opened)
    with planning(root) as opened:
        assert plan_recovery(opened, force_empty_log=True).report.log_end == 0
