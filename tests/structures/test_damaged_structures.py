"""Damage to each field of each structure of a 5.x broker is named by `check`; tests.support.five_damage tries all."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from store import Finding, check
from tests.support.five_damage import DEAD, Contents, apply, damages, findings
from tests.support.five_stores import copy_of_five, damage

TIMER_LOG = "timerlog/00000000000000000000"
COMPACTED = "compaction/compactionLog/CompB/0/00000000000000000000"
UNITS = "compaction/compactionCq/CompB/0/00000000000000000000"
LAST_UNITS = "compaction/compactionCq/CompB/0/00000000000000061824"
LAST_BATCH = "batchconsumequeue/BatchA/0/00000000000000002208"
CHECK = "config/timercheck"
MEMBER = "dledger-n0"

CHANGED_BYTES: dict[str, tuple[str, str, int, str, list[str]]] = {
    "a unit names another one before it": (
        "timer",
        TIMER_LOG,
        52 + 11,
        "33",
        ["timer-log timerlog 52 1 points to the entry at -205 as the previous one, which is at -1"],
    ),
    "a magic that is none": ("timer", TIMER_LOG, 15, "09", ["timer-log timerlog 0 1 a magic that no broker writes"]),
    "a magic that makes a delete of a message": (
        "timer",
        TIMER_LOG,
        15,
        "05",
        ["timer-log timerlog 0 1 its magic and its record's properties disagree whether it is a delete"],
    ),
    "a write time that no slot has": (
        "timer",
        TIMER_LOG,
        23,
        "ff",
        ["timer-log timerlog 0 2 write time and delay are the time of no slot"],
    ),
    "a delay that no slot has": (
        "timer",
        TIMER_LOG,
        27,
        "ff",
        ["timer-log timerlog 0 2 write time and delay are the time of no slot"],
    ),
    "another topic's hash": (
        "timer",
        TIMER_LOG,
        43,
        "00",
        ["timer-log timerlog 0 1 its topic hash is not that of TimerA"],
    ),
    "reserved bytes": ("timer", TIMER_LOG, 51, "01", ["timer-log timerlog 0 1 reserved bytes that are not 0"]),
    "a blank that is none": (
        "timer",
        TIMER_LOG,
        1040 + 12,
        "00",
        ["timer-log timerlog 1040 1 no blank after the last entry of a file: a start ends here"],
    ),
    "no unit in front of others": (
        "timer",
        TIMER_LOG,
        104 + 3,
        "00",
        [
            "timer-log timerlog 104 3 no entry, and room for 18 units up to the file's end: a start ends here",
            "timer-wheel timerwheel 243557 2 its last entry, at 832, is not of this slot",
        ],
    ),
    "a read time of no slot": (
        "timer",
        CHECK,
        6,
        "00",
        [
            "timer-state config/timercheck 0 1 read time 1795289907448 ms is the time of no slot",
            (
                "timer-again config/timercheck 0 21 a start delivers or rolls 21 timer messages once more, the "
                "first at queue offset 0: the timer's files were saved before what the timer did with them"
            ),
        ],
    ),
    "a read time to come": (
        "timer",
        CHECK,
        1,
        "7f",
        [
            (
                "timer-state config/timercheck 0 2 read time 35749117332216312 ms is later than the file's own, "
                "1795289964014 ms"
            )
        ],
    ),
    "a flushed position beyond the log": (
        "timer",
        CHECK,
        14,
        "7f",
        ["timer-state config/timercheck 0 1 flushed up to 32748, the log ends at 3820"],
    ),
    "a flushed position before the log's end": (
        "timer",
        CHECK,
        14,
        "00",
        ["timer-state config/timercheck 0 1 flushed up to 236, the log ends at 3820"],
    ),
    "a master's offset that takes messages up again": (
        "timer",
        CHECK,
        31,
        "01",
        [
            (
                "timer-state config/timercheck 0 1 the master's queue offset 1 is below 70: a start takes up "
                "69 messages once more"
            ),
            (
                "timer-again config/timercheck 0 61 a start delivers or rolls 61 timer messages once more, the "
                "first at queue offset 1: the timer's files were saved before what the timer did with them"
            ),
        ],
    ),
    "queue offsets that take all messages up again": (
        "timer",
        CHECK,
        23,
        "00" * 9,
        [
            (
                "timer-state config/timercheck 0 1 queue offset 0, and the log's last entry is of 69: 70 "
                "messages are processed again"
            ),
            (
                "timer-again config/timercheck 0 62 a start delivers or rolls 62 timer messages once more, the "
                "first at queue offset 0: the timer's files were saved before what the timer did with them"
            ),
        ],
    ),
    "a magic of a slot that was never used": (
        "timer",
        "timerwheel",
        31,
        "01",
        ["timer-wheel timerwheel 0 1 positions without a time"],
    ),
    "a version of before this time": (
        "timer",
        CHECK,
        40,
        "ff",
        ["timer-state config/timercheck 0 1 version time -72055798747964566: a negative number"],
    ),
    "bytes behind the checkpoint": (
        "timer",
        CHECK,
        90,
        "01",
        ["timer-state config/timercheck 0 1 4096 bytes, of which a broker writes 56 and 4040 zeros"],
    ),
    "a table that counts in words": (
        "timer",
        "config/timermetrics",
        27,
        "7878",
        ["timer-state config/timermetrics 0 1 no table of counts"],
    ),
    "another compacted offset": (
        "compaction",
        UNITS,
        41,
        "00",
        [
            (
                "compaction-unit compaction/compactionCq/CompB/0/00000000000000000000 0 CompB/0 1 does not say "
                "what its record at 0 says"
            )
        ],
    ),
    "reserved bytes of a compacted unit": (
        "compaction",
        UNITS,
        45,
        "01",
        [
            (
                "compaction-unit compaction/compactionCq/CompB/0/00000000000000000000 0 CompB/0 1 does not say "
                "what its record at 0 says"
            )
        ],
    ),
    "another mark of the end": (
        "compaction",
        UNITS,
        15 * 46 + 41,
        "00",
        [
            (
                "compaction-unit compaction/compactionCq/CompB/0/00000000000000000000 15 CompB/0 1 bytes past "
                "the last entry that no broker writes"
            )
        ],
    ),
    "bytes behind the last compacted unit": (
        "compaction",
        LAST_UNITS,
        8 * 46 + 30,
        "01",
        [
            (
                "compaction-unit compaction/compactionCq/CompB/0/00000000000000061824 7 CompB/0 1 bytes past "
                "the last entry that no broker writes"
            )
        ],
    ),
    "no unit of the last record": (
        "compaction",
        LAST_UNITS,
        6 * 46 + 8,
        "00000000",
        [
            (
                "compaction-unit compaction/compactionCq/CompB/0/00000000000000061824 6 CompB/0 1 1 record "
                "without an entry, the first at 63339: a start cuts them off"
            )
        ],
    ),
    "a flag of a compacted record": (
        "compaction",
        COMPACTED,
        19,
        "01",
        [
            (
                "compaction-record compaction/compactionLog/CompB/0/00000000000000000000 0 CompB/0 1 its byte "
                "19 is another one than in the commit log"
            )
        ],
    ),
    "a birth of a compacted record": (
        "compaction",
        COMPACTED,
        41,
        "01",
        [
            (
                "compaction-record compaction/compactionLog/CompB/0/00000000000000000000 0 CompB/0 1 its byte "
                "41 is another one than in the commit log"
            )
        ],
    ),
    "a queue of a compacted record": (
        "compaction",
        COMPACTED,
        15,
        "01",
        [
            (
                "compaction-record compaction/compactionLog/CompB/0/00000000000000000000 0 CompB/0 1 the "
                "record is of topic CompB, queue 1"
            )
        ],
    ),
    "a table of positions that is none": (
        "bcq",
        "compaction/position-checkpoint",
        16,
        "78",
        ["compaction-position compaction/position-checkpoint 0 1 no table of positions"],
    ),
    "bytes behind the last batch unit": (
        "bcq",
        LAST_BATCH,
        380,
        "01",
        [
            (
                "unit-nowhere batchconsumequeue/BatchA/0/00000000000000002208 169 BatchA/0 1 byte 380 is not "
                "0, and no entry"
            )
        ],
    ),
    "another end index": (
        "dledger",
        f"{MEMBER}/checkpoint",
        28,
        "31",
        ["dledger-state dledger-n0/checkpoint 0 1 endIndex=173, committedIndex=273, the last entry is 273"],
    ),
    "a line that no member writes": (
        "dledger",
        f"{MEMBER}/currterm",
        1,
        "78",
        ["dledger-state dledger-n0/currterm 0 1 a line that no member writes: 'vxteLeader=n0'"],
    ),
}


@pytest.mark.turns(6)
@pytest.mark.leaves_damage
@pytest.mark.parametrize("name", CHANGED_BYTES)
def test_each_changed_field_is_named(name: str, tmp_path: Path) -> None:
    store, file, position, digits, rows = CHANGED_BYTES[name]
    root = copy_of_five(store, tmp_path)
    status = (root / file).stat()
    damage(root, {"bytes": [[file, position, digits]]})
    os.utime(root / file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [_row(one, root) for one in check(root)] == rows


def _row(one: Finding, root: Path) -> str:
    queue = f"{one.topic}/{one.queue_id} " if one.topic is not None else ""
    return f"{one.kind} {one.file.removeprefix(f'{root}/')} {one.offset} {queue}{one.count} {one.detail}"


REMOVED = {
    "the timer log's first file": ("timer", TIMER_LOG, "timer-log"),
    "a timer log's file between others": ("timer", "timerlog/00000000000000001100", "timer-log"),
}


@pytest.mark.leaves_damage
@pytest.mark.parametrize("name", REMOVED)
def test_each_lost_file_is_named(name: str, tmp_path: Path) -> None:
    store, file, kind = REMOVED[name]
    root = copy_of_five(store, tmp_path)
    damage(root, {"remove": [file]})
    assert kind in {finding.kind for finding in check(root)}


@pytest.mark.leaves_damage
def test_a_zeroed_live_slot_leaves_units_that_nothing_leads_to(tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    damage(root, {"zero": [["timerwheel", 0, 38_707_200]]})
    found = [finding.detail for finding in check(root) if finding.kind == "timer-log"]
    assert any("its message is never delivered" in detail for detail in found)


@pytest.mark.turns(4)
@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("store", "file"),
    [
        ("bcq", LAST_BATCH),
        ("timer", TIMER_LOG),
        ("timer", CHECK),
        ("compaction", UNITS),
        ("dledger", f"{MEMBER}/checkpoint"),
    ],
)
def test_random_damage_is_named_or_touches_what_nobody_reads(store: str, file: str, tmp_path: Path) -> None:
    root = copy_of_five(store, tmp_path)
    sound, status, of = findings(root), (root / file).stat(), Contents(root / file)
    for one in damages(file, of, 4, random.Random(7)):
        apply(root / file, one)
        is_unchanged = one.size == of.size and of.read(0, of.size) == (root / file).read_bytes()
        if not is_unchanged and findings(root) == sound:
            assert any(dead.covers(one) for dead in DEAD), one
        of.restore()
        os.utime(root / file, ns=(status.st_atime_ns, status.st_mtime_ns))
