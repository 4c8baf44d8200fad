"""Findings on the timer's files: three messages in two slots, and each value that no broker writes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store import check
from store.files.store_reader import StoredFile
from store.formats.timer import TIMER_BLANK, TIMER_BLANK_MAGIC, TIMER_CHECK
from store.structures.findings import Finding
from store.structures.timer import check as checks
from store.structures.timer.check_log import _are_records, _capacity
from store.structures.timer.files import WHEEL_SIZE
from tests.structures.timer.small_timer import (
    CHECK,
    HOUR_MS,
    LOG,
    METRICS,
    MS,
    QUEUE,
    SECOND,
    SEGMENT,
    SIZE,
    WRITTEN_S,
    found,
    record,
)
from tests.support.stores import make_store

BLANK = TIMER_BLANK.pack(16, 0, TIMER_BLANK_MAGIC)
LATER_UNIT = 2, "previous", 224
LATER: dict[str, Any] = {
    "log": "timerlog/00000000000000000224",
    "units": [LATER_UNIT],
    "slots": [(0, "first", 224), (0, "last", 328), (1, "first", 276), (1, "last", 276)],
    "check": [(1, 380)],
}
"""The same in the log's second file, where the first was removed."""

OWN = "the file's own, 1700697700000 ms"
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a time of the next slot": (
        {"slots": [(1, "time", SECOND + 2)]},
        [
            "timer-wheel timerwheel 1 1 a time that belongs into another slot",
            "timer-wheel timerwheel 1 1 its last entry, at 52, is not of this slot",
            ("timer-log timerlog 52 1 the slot of 1700697601000 does not lead to it: its message is never delivered"),
        ],
    ),
    "two magics": (
        {"slots": [(0, "magic", 1), (1, "magic", -1)]},
        ["timer-wheel timerwheel 0 2 a magic that is not 0"],
    ),
    "positions in slots that were never used": (
        {"slots": [(2, "first", 1), (3, "last", 1)]},
        ["timer-wheel timerwheel 2 2 positions without a time"],
    ),
    "a first position of 0 without a time": ({"slots": [(2, "first", 0), (3, "last", 0)]}, []),
    "a count without a time": ({"slots": [(2, "num", -1)]}, ["timer-wheel timerwheel 2 1 positions without a time"]),
    "a magic without a time": ({"slots": [(3, "magic", 1)]}, ["timer-wheel timerwheel 3 1 positions without a time"]),
    "a fired slot whose last entry is another's": (
        {"slots": [(0, "last", 52)], "check": [(0, MS + 1000)]},
        ["timer-wheel timerwheel 0 1 its last entry, at 52, is not of this slot"],
    ),
    "two fired slots that lead to no entry": (
        {"slots": [(0, "last", 1), (1, "last", 157)], "check": [(0, MS + 2000)]},
        ["timer-wheel timerwheel 0 2 its last entry, at 1, is not of this slot"],
    ),
    "a fired slot that leads before the log": ({"slots": [(0, "last", -1)], "check": [(0, MS + 1000)]}, []),
    "a fired slot that leads to the log's start": (
        {"slots": [(1, "last", 0)], "check": [(0, MS + 2000)]},
        ["timer-wheel timerwheel 1 1 its last entry, at 0, is not of this slot"],
    ),
    "a live slot whose last entry is another's": (
        {"slots": [(0, "last", 52)]},
        [
            "timer-wheel timerwheel 0 1 its last entry, at 52, is not of this slot",
            ("timer-log timerlog 104 1 the slot of 1700697600000 does not lead to it: its message is never delivered"),
        ],
    ),
    "two live slots that lead to no entry": (
        {"slots": [(0, "last", 0), (1, "last", 0)]},
        [
            "timer-wheel timerwheel 0 1 counts 2 messages, it has 1",
            "timer-wheel timerwheel 1 1 its last entry, at 0, is not of this slot",
            "timer-log timerlog 52 2 the slot of 1700697601000 does not lead to it: its message is never delivered",
        ],
    ),
    "a live slot with a later first": (
        {"slots": [(0, "first", 52)]},
        ["timer-wheel timerwheel 0 1 the entries from 104 back end at 0, and not at 52"],
    ),
    "a live slot with one message more": (
        {"slots": [(1, "num", 2)]},
        ["timer-wheel timerwheel 1 1 counts 2 messages, it has 1"],
    ),
    "a live slot with one message less": (
        {"slots": [(0, "num", 1)]},
        ["timer-wheel timerwheel 0 1 counts 1 message, it has 2"],
    ),
    "a first entry with one before": (
        {"units": [(1, "previous", 5)]},
        [
            "timer-wheel timerwheel 1 1 its first entry points to a previous one",
            "timer-log timerlog 52 1 points to the entry at 5 as the previous one, which is at -1",
        ],
    ),
    "an earlier one of another slot": (
        {"units": [(2, "previous", 52)]},
        [
            "timer-wheel timerwheel 0 1 the entries from 104 back end at 104, and not at 0",
            "timer-wheel timerwheel 0 1 counts 2 messages, it has 1",
            "timer-log timerlog 104 1 points to the entry at 52 as the previous one, which is at 0",
        ],
    ),
    "a slot that begins anew before the read time": ({"units": [(2, "previous", -1)], "check": [(0, MS + 1000)]}, []),
    "a slot that begins anew at the read time": (
        {"units": [(2, "previous", -1)]},
        [
            "timer-wheel timerwheel 0 1 the entries from 104 back end at 104, and not at 0",
            "timer-wheel timerwheel 0 1 counts 2 messages, it has 1",
            "timer-log timerlog 104 1 points to the entry at -1 as the previous one, which is at 0",
        ],
    ),
    "magics that no broker writes": (
        {"units": [(0, "magic", 0), (1, "magic", 8)]},
        ["timer-log timerlog 0 2 a magic that no broker writes"],
    ),
    "the greatest magic": (
        {"units": [(1, "magic", 7)]},
        [
            "timer-wheel timerwheel 1 1 counts 1 message, it has -1",
            "timer-log timerlog 52 1 its magic and its record's properties disagree whether it is a delete",
        ],
    ),
    "a magic before reserved bytes": (
        {"units": [(1, "magic", 8), (0, "reserved", 1)]},
        [
            "timer-log timerlog 52 1 a magic that no broker writes",
            "timer-log timerlog 0 1 reserved bytes that are not 0",
        ],
    ),
    "reserved bytes": (
        {"units": [(1, "reserved", 1), (2, "reserved", -1)]},
        ["timer-log timerlog 52 2 reserved bytes that are not 0"],
    ),
    "a millisecond beside a slot": (
        {"units": [(1, "delay_ms", 5001)]},
        [
            "timer-wheel timerwheel 1 1 its last entry, at 52, is not of this slot",
            "timer-log timerlog 52 1 write time and delay are the time of no slot",
            ("timer-log timerlog 52 1 the slot of 1700697601001 does not lead to it: its message is never delivered"),
        ],
    ),
    "another topic's hash": (
        {"units": [(2, "topic_hash", 1)]},
        ["timer-log timerlog 104 1 its topic hash is not that of T"],
    ),
    "another record size": (
        {"units": [(1, "record_size", SIZE + 1)]},
        ["timer-stale timerlog 52 1 no record of 151 bytes is at log offset 150"],
    ),
    "a record a byte behind": (
        {"units": [(1, "log_offset", SIZE + 1)]},
        ["timer-stale timerlog 52 1 no record of 150 bytes is at log offset 151"],
    ),
    "a record at the log's end": (
        {"units": [(2, "log_offset", 3 * SIZE + 100)]},
        ["timer-stale timerlog 104 1 no record of 150 bytes is at log offset 550"],
    ),
    "a record behind the log's end": (
        {"units": [(1, "log_offset", 1 << 40), (2, "log_offset", 1 << 41)]},
        ["timer-stale timerlog 52 2 no record of 150 bytes is at log offset 1099511627776"],
    ),
    "a record that expired": ({"units": [(0, "log_offset", -1)]}, []),
    "a checkpoint of another length": (
        {"files": {CHECK: TIMER_CHECK.pack(MS, 156, 3, 3, 0, 0, 0).ljust(4097, b"\0")}},
        ["timer-state config/timercheck 0 1 4097 bytes, of which a broker writes 56 and 4040 zeros"],
    ),
    "a byte behind the checkpoint": (
        {"bytes": [(CHECK, 56, b"\1")]},
        ["timer-state config/timercheck 0 1 4096 bytes, of which a broker writes 56 and 4040 zeros"],
    ),
    "the checkpoint's last byte": (
        {"bytes": [(CHECK, 4095, b"\1")]},
        ["timer-state config/timercheck 0 1 4096 bytes, of which a broker writes 56 and 4040 zeros"],
    ),
    "a checkpoint that is too short": (
        {"files": {CHECK: bytes(55)}},
        [
            (
                "timer-files config/timercheck 0 1 config/timercheck is missing or too short: what "
                "was due in the last 7 days is delivered again; all 3 messages of the timer queue "
                "are processed again"
            )
        ],
    ),
    "no read time": (
        {"check": [(0, 0)]},
        [
            (
                "timer-files config/timercheck 0 1 config/timercheck has no read time: what was due "
                "in the last 7 days is delivered again; all 3 messages of the timer queue are "
                "processed again"
            )
        ],
    ),
    "no read time and no queue": (
        {"check": [(0, 0)], "files": {QUEUE: None}},
        [
            (
                "timer-files config/timercheck 0 1 config/timercheck has no read time: what was due "
                "in the last 7 days is delivered again"
            ),
        ],
    ),
    "a read time of no slot": (
        {"check": [(0, MS + 1)]},
        ["timer-state config/timercheck 0 1 read time 1700697600001 ms is the time of no slot"],
    ),
    "a read time an hour behind its file's": ({"check": [(0, WRITTEN_S * 1000 + HOUR_MS)]}, []),
    "a read time later than its file's": (
        {"check": [(0, WRITTEN_S * 1000 + HOUR_MS + 1000)]},
        [f"timer-state config/timercheck 0 1 read time 1700701301000 ms is later than {OWN}"],
    ),
    "a version of before 1970": (
        {"check": [(5, -1)]},
        ["timer-state config/timercheck 0 1 version time -1: a negative number"],
    ),
    "a version later than its file's": (
        {"check": [(5, WRITTEN_S * 1000 + HOUR_MS + 1)]},
        [f"timer-state config/timercheck 0 1 version time 1700701300001 ms is later than {OWN}"],
    ),
    "a negative state": (
        {"check": [(4, -1)]},
        ["timer-state config/timercheck 0 1 version -1, counter 0: a negative number"],
    ),
    "a negative counter": (
        {"check": [(6, -1)]},
        ["timer-state config/timercheck 0 1 version 0, counter -1: a negative number"],
    ),
    "a queue offset before the last entry": (
        {"check": [(2, 2), (3, 2)]},
        [
            (
                "timer-state config/timercheck 0 1 queue offset 2, and the log's last entry is of 2: "
                "1 message is processed again"
            )
        ],
    ),
    "the same after a kill": ({"check": [(2, 2), (3, 2)], "files": {"abort": b""}}, []),
    "a queue offset behind the queue": (
        {"check": [(2, 5), (3, 5)]},
        ["timer-stale config/timercheck 0 2 read the timer queue up to 5, which ends at 3"],
    ),
    "a master's offset below": (
        {"check": [(3, 2)]},
        [
            (
                "timer-state config/timercheck 0 1 the master's queue offset 2 is below 3: a start "
                "takes up 1 message once more"
            )
        ],
    ),
    "a master's offset above": ({"check": [(3, 4)]}, []),
    "flushed a byte less": (
        {"check": [(1, 155)]},
        ["timer-state config/timercheck 0 1 flushed up to 155, the log ends at 156"],
    ),
    "flushed a byte less before a kill": ({"check": [(1, 155)], "files": {"abort": b""}}, []),
    "flushed a byte more": (
        {"check": [(1, 157)]},
        ["timer-state config/timercheck 0 1 flushed up to 157, the log ends at 156"],
    ),
    "flushed before the start": (
        {"check": [(1, -1)], "files": {"abort": b""}},
        ["timer-state config/timercheck 0 1 flushed up to -1, the log ends at 156"],
    ),
    "no counts": (
        {"files": {METRICS: None}},
        ["timer-state config/timermetrics 0 1 missing: pending messages are counted from 0"],
    ),
    "no counts after a kill": ({"files": {METRICS: None, "abort": b""}}, []),
    "no table of counts": ({"files": {METRICS: b"{}"}}, ["timer-state config/timermetrics 0 1 no table of counts"]),
    "no queue": ({"files": {QUEUE: None}}, []),
    "an empty queue": (
        {"files": {QUEUE: bytes(60)}},
        ["timer-stale config/timercheck 0 3 read the timer queue up to 3, which ends at 0"],
    ),
    "an empty unit between": ({"bytes": [(QUEUE, 20, bytes(20))]}, []),
    "a fault of an entry and another of its record": (
        {"units": [(0, "record_size", 1), (2, "reserved", 1)]},
        [
            "timer-log timerlog 104 1 reserved bytes that are not 0",
            "timer-stale timerlog 0 1 no record of 1 bytes is at log offset 0",
        ],
    ),
    "a record a byte behind the last one": (
        {"units": [(2, "log_offset", 2 * SIZE + 1)]},
        ["timer-stale timerlog 104 1 no record of 150 bytes is at log offset 301"],
    ),
    "an entry before a lost commit log": (
        {"files": {SEGMENT: None}, "units": [(0, "log_offset", -1)]},
        ["timer-stale timerlog 52 2 no record of 150 bytes is at log offset 150"],
    ),
    "a topic of another record in a later segment": (
        {
            "files": {SEGMENT: None, f"commitlog/{SIZE:020d}": b"".join(record(row, row * SIZE) for row in (1, 2))},
            "units": [(2, "topic_hash", 5)],
        },
        ["timer-log timerlog 104 1 its topic hash is not that of T"],
    ),
    "three faults of an entry": (
        {"units": [(2, "delay_ms", 5001), (2, "previous", 52)]},
        [
            "timer-wheel timerwheel 0 1 its last entry, at 104, is not of this slot",
            "timer-log timerlog 104 1 write time and delay are the time of no slot",
            "timer-log timerlog 104 1 points to the entry at 52 as the previous one, which is at -1",
            "timer-log timerlog 104 1 the slot of 1700697600001 does not lead to it: its message is never delivered",
        ],
    ),
    "no commit log": (
        {"files": {SEGMENT: None}},
        ["timer-stale timerlog 0 3 no record of 150 bytes is at log offset 0"],
    ),
    "a gap between log files": (
        {"files": {"timerlog/00000000000000000173": bytes(172)}, "rest": BLANK},
        [
            "timer-log timerlog 172 1 no file up to 173",
            "timer-state config/timercheck 0 1 flushed up to 156, the log ends at 173",
        ],
    ),
    "no gap between log files": (
        {"files": {"timerlog/00000000000000000172": bytes(172)}, "rest": BLANK},
        ["timer-state config/timercheck 0 1 flushed up to 156, the log ends at 172"],
    ),
    "a file behind one that is not full": (
        {"files": {"timerlog/00000000000000000224": bytes(224)}},
        [
            "timer-log timerlog 156 1 no entry, and room for 1 unit up to the file's end: a start ends here",
            "timer-state config/timercheck 0 1 flushed up to 156, the log ends at 224",
        ],
    ),
    "a log that begins behind 0 beside two segments": (
        {**LATER, "files": {f"commitlog/{3 * SIZE + 100:020d}": bytes(100)}},
        ["timer-log timerlog 0 1 it begins at 224, and the commit log has lost nothing"],
    ),
    "a log that begins behind 0": (
        LATER,
        ["timer-log timerlog 0 1 it begins at 224, and the commit log has lost nothing"],
    ),
    "an earlier one at the removed log's start": (
        {**LATER, "units": [LATER_UNIT, (1, "previous", 0)]},
        [
            "timer-wheel timerwheel 1 1 its first entry points to a previous one",
            "timer-log timerlog 0 1 it begins at 224, and the commit log has lost nothing",
        ],
    ),
    "an earlier one at the removed log's end": (
        {**LATER, "units": [LATER_UNIT, (1, "previous", 223)]},
        [
            "timer-wheel timerwheel 1 1 its first entry points to a previous one",
            "timer-log timerlog 0 1 it begins at 224, and the commit log has lost nothing",
        ],
    ),
    "an earlier one at the log's start": (
        {**LATER, "units": [LATER_UNIT, (1, "previous", 224)]},
        [
            "timer-wheel timerwheel 1 1 its first entry points to a previous one",
            "timer-log timerlog 0 1 it begins at 224, and the commit log has lost nothing",
            "timer-log timerlog 276 1 points to the entry at 224 as the previous one, which is at -1",
        ],
    ),
    "a full file without a blank": (
        {"rest": b"\1" * 16},
        ["timer-log timerlog 156 1 no blank after the last entry of a file: a start ends here"],
    ),
    "a full last file": ({"rest": bytes(16)}, []),
    "a full last file, flushed to its end": ({"rest": BLANK, "check": [(1, 172)]}, []),
    "a full last file, flushed past its end": (
        {"rest": BLANK, "check": [(1, 173)]},
        ["timer-state config/timercheck 0 1 flushed up to 173, the log ends at 156"],
    ),
    "a full file with its blank": ({"rest": BLANK}, []),
    "a blank of another size": (
        {"rest": TIMER_BLANK.pack(17, 0, TIMER_BLANK_MAGIC)},
        ["timer-log timerlog 156 1 no blank after the last entry of a file: a start ends here"],
    ),
    "bytes behind the last entry": (
        {"rest": bytes(51) + b"\1" + bytes(16)},
        ["timer-log timerlog 156 1 no entry, and room for 1 unit up to the file's end: a start ends here"],
    ),
    "no log": (
        {"files": {LOG: None}},
        ["timer-files timerlog 0 2 timerlog is missing: the messages of 2 slots are lost"],
    ),
    "no wheel": ({"wheel_size": 0}, []),
    "a wheel that is too short": (
        {"wheel_size": WHEEL_SIZE - 1},
        ["timer-files timerwheel 0 1 38707199 bytes instead of 38707200: no broker starts with it"],
    ),
}


@pytest.mark.parametrize(
    ("at", "size", "place", "is_there"),
    [(0, 70, 5, True), (-1, 70, 5, False), (1, 70, 5, False), (0, 71, 5, False), (0, 70, 6, False),
     (64, 80, 9, True), (63, 80, 9, False), (65, 80, 9, False)],
)  # fmt: skip
def test_a_record_begins_where_its_size_and_its_log_offset_are(at: int, size: int, place: int, is_there: bool) -> None:
    data = bytearray(100)
    for start, its_size, its_place in ((0, 70, 5), (64, 80, 9)):
        data[start : start + 4] = its_size.to_bytes(4, "big")
        data[start + 28 : start + 36] = its_place.to_bytes(8, "big")
    one = (np.array([number]) for number in (at, size, place))
    assert _are_records(np.frombuffer(bytes(data), np.uint8), *one).tolist() == [is_there]


@pytest.mark.parametrize(("size", "units"), [(0, 0), (15, 0), (16, 0), (67, 0), (68, 1), (119, 1), (120, 2)])
def test_a_file_has_room_for_units_before_its_blank(size: int, units: int) -> None:
    assert _capacity(StoredFile("timerlog/0", 0, size, 0)) == units


def test_a_sound_timer_has_no_findings(tmp_path: Path) -> None:
    assert found(tmp_path) == []


@pytest.mark.parametrize("name", CASES)
def test_each_value_that_no_broker_writes_is_a_finding(name: str, tmp_path: Path) -> None:
    changed, rows = CASES[name]
    assert found(tmp_path, **changed) == rows


@pytest.mark.parametrize("check_size", [0, 4096])
def test_a_service_that_was_killed_before_its_first_slot_lacks_nothing(check_size: int, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 5)
    (root / "config").mkdir(exist_ok=True)
    (root / "config/timercheck").write_bytes(bytes(check_size))
    with (root / "timerwheel").open("wb") as wheel:
        wheel.truncate(WHEEL_SIZE)
    assert list(check(root)) == []


@pytest.mark.parametrize("horizon", [None, 0])
@pytest.mark.parametrize("has_lost_part", [False, True])
@pytest.mark.parametrize(
    ("is_used", "is_of_5", "has_queue", "is_checked"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (False, True, True, True),
        (False, True, False, False),
        (False, False, True, False),
    ],
)
def test_a_timer_is_checked_where_it_is_used_or_a_broker_of_the_version_has_one(
    is_used: bool,
    is_of_5: bool,
    has_queue: bool,
    is_checked: bool,
    has_lost_part: bool,
    horizon: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages that come again are looked for without a writer, where no part is lost."""
    one, again = (Finding("timer-log", name, 0) for name in ("one", "again"))
    monkeypatch.setattr(checks, "read_timer_files", lambda *given: SimpleNamespace(is_used=is_used))
    monkeypatch.setattr(checks, "is_of_others", lambda path, line: not is_of_5)
    monkeypatch.setattr(
        checks,
        "_Check",
        lambda files, timer, reads_queue: SimpleNamespace(run=lambda: [one], has_lost_part=has_lost_part),
    )
    monkeypatch.setattr(checks, "_again_findings", lambda store: [again])
    store: Any = SimpleNamespace(
        files=SimpleNamespace(exists=lambda path: has_queue), layout=None, fs=None, line=SimpleNamespace(name="5.3"),
        config=SimpleNamespace(timer_rocks_db_enable=False), horizon=horizon,
    )  # fmt: skip
    looks_again = is_checked and horizon is None and not has_lost_part
    assert list(checks.check(store)) == [one] * is_checked + [again] * looks_again
