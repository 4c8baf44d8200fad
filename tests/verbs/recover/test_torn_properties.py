"""A record of which a power cut kept all but the end of its properties is cut: no CRC covers them."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import check, open_store
from store.formats.columns import DamageReason
from store.formats.message import StoredMessage
from store.formats.run import Run
from store.structures.commitlog import scan
from store.structures.commitlog.scan import Damage, ScanRules, scan_segment
from tests.support.small_log import SmallLog, SmallSegment
from tests.support.stores import SMALL, make_store, recover, stored_messages

COUNT = 10


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A crashed store; the checkpoint covers nothing."""
    root = make_store(tmp_path / "store", COUNT, queues=1)
    (root / "abort").touch()
    (root / "checkpoint").write_bytes(bytes(4096))
    return root


def tear(root: Path, number: int, count: int) -> StoredMessage:
    """Zeroes the last bytes of a record's properties."""
    with open_store(root, settings=SMALL, as_is=True) as store:
        message = store.get("T", 0, number).messages[0]
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(message.log_offset + message.size - count)
        file.write(bytes(count))
    return message


def queue_offsets(root: Path) -> list[int]:
    with open_store(root, settings=SMALL) as store:
        return [number for number, _ in stored_messages(store)["T", 0]]


@pytest.mark.parametrize("count", [1, 9, 30])
def test_a_crashed_log_ends_before_a_record_with_torn_properties(root: Path, count: int) -> None:
    torn = tear(root, COUNT - 1, count)
    assert queue_offsets(root) == [*range(COUNT - 1)]
    change, _ = recover(root, settings=SMALL)
    assert (change.report.log_end, change.report.lost_messages) == (torn.log_offset, 1)
    assert "properties end in zeros" in str(change.report.stopped_by)
    assert queue_offsets(root) == [*range(COUNT - 1)]
    assert list(check(root)) == []
    assert recover(root, settings=SMALL)[0].rows() == []


def test_it_is_cut_before_a_record_of_which_a_part_was_kept_too(root: Path) -> None:
    torn = tear(root, COUNT - 2, 9)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(torn.log_offset + torn.size + 4)
        file.write(bytes(40))
    change, _ = recover(root, settings=SMALL)
    assert change.report.log_end == torn.log_offset
    assert queue_offsets(root) == [*range(COUNT - 2)]


def test_a_record_with_others_behind_it_is_none_that_a_power_cut_tore(root: Path) -> None:
    tear(root, COUNT - 2, 9)
    recover(root, settings=SMALL)
    assert queue_offsets(root) == [*range(COUNT)]


def test_a_log_that_was_shut_down_keeps_it(root: Path) -> None:
    tear(root, COUNT - 1, 9)
    recover(root, settings=SMALL, mode="normal")
    assert queue_offsets(root) == [*range(COUNT)]


def test_a_broker_keeps_it(root: Path) -> None:
    tear(root, COUNT - 1, 9)
    recover(root, settings=SMALL, as_broker=True)
    assert queue_offsets(root) == [*range(COUNT)]


@pytest.mark.parametrize("behind", range(8))
def test_without_eight_bytes_behind_it_nothing_says_that_it_is_the_last(behind: int) -> None:
    log = SmallLog()
    log.put(keys="k")
    data = log.data[:-1] + bytes(1 + behind)
    segment = SmallSegment(memoryview(data), Path(f"{0:020d}"), 0)
    run, _ = scan_segment(segment, rules=ScanRules(cuts_torn=True))  # type: ignore[arg-type]
    assert isinstance(run, Run)


@pytest.mark.parametrize("room", [1, 3, COUNT, COUNT + 1])
def test_it_is_seen_wherever_a_run_ends(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "FIRST_CAPACITY", room)
    log = SmallLog()
    for number in range(COUNT):
        log.put("T", keys=f"k{number}")
    data = bytearray(log.data + bytes(100))
    data[log.end - 1] = 0
    segment = SmallSegment(memoryview(data), Path(f"{0:020d}"), 0)
    *runs, end = scan_segment(segment, rules=ScanRules(cuts_torn=True), capacity=room)  # type: ignore[arg-type]
    assert sum(run.count for run in runs if isinstance(run, Run)) == COUNT - 1
    assert isinstance(end, Damage)
    assert (end.reason, end.position) == (DamageReason.TORN_PROPERTIES, log.units[-1].log_offset)
