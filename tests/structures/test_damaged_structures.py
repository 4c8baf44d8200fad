"""Damage to each field of each structure of a 5.x broker is named by `check`; tests.support.five_damage tries all."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from store import check
from tests.support.five_damage import DEAD, Contents, apply, damages, findings
from tests.support.five_stores import copy_of_five, damage

TIMER_LOG = "timerlog/00000000000000000000"
COMPACTED = "compaction/compactionLog/CompB/0/00000000000000000000"
UNITS = "compaction/compactionCq/CompB/0/00000000000000000000"
LAST_UNITS = "compaction/compactionCq/CompB/0/00000000000000061824"
LAST_BATCH = "batchconsumequeue/BatchA/0/00000000000000002208"
CHECK = "config/timercheck"
MEMBER = "dledger-n0"

CHANGED_BYTES = {
    "a unit names another one before it": ("timer", TIMER_LOG, 52 + 11, "33", "timer-log"),
    "a magic that is none": ("timer", TIMER_LOG, 15, "09", "timer-log"),
    "a magic that makes a delete of a message": ("timer", TIMER_LOG, 15, "05", "timer-log"),
    "a write time that no slot has": ("timer", TIMER_LOG, 23, "ff", "timer-log"),
    "a delay that no slot has": ("timer", TIMER_LOG, 27, "ff", "timer-log"),
    "another topic's hash": ("timer", TIMER_LOG, 43, "00", "timer-log"),
    "reserved bytes": ("timer", TIMER_LOG, 51, "01", "timer-log"),
    "a blank that is none": ("timer", TIMER_LOG, 1040 + 12, "00", "timer-log"),
    "no unit in front of others": ("timer", TIMER_LOG, 104 + 3, "00", "timer-log"),
    "a read time of no slot": ("timer", CHECK, 6, "00", "timer-state"),
    "a read time to come": ("timer", CHECK, 1, "7f", "timer-state"),
    "a flushed position beyond the log": ("timer", CHECK, 14, "7f", "timer-state"),
    "a flushed position before the log's end": ("timer", CHECK, 14, "00", "timer-state"),
    "a master's offset that takes messages up again": ("timer", CHECK, 31, "01", "timer-state"),
    "queue offsets that take all messages up again": ("timer", CHECK, 23, "00" * 9, "timer-state"),
    "a magic of a slot that was never used": ("timer", "timerwheel", 31, "01", "timer-wheel"),
    "a version of before this time": ("timer", CHECK, 40, "ff", "timer-state"),
    "bytes behind the checkpoint": ("timer", CHECK, 90, "01", "timer-state"),
    "a table that counts in words": ("timer", "config/timermetrics", 27, "7878", "timer-state"),
    "another compacted offset": ("compaction", UNITS, 41, "00", "compaction-unit"),
    "reserved bytes of a compacted unit": ("compaction", UNITS, 45, "01", "compaction-unit"),
    "another mark of the end": ("compaction", UNITS, 15 * 46 + 41, "00", "compaction-unit"),
    "bytes behind the last compacted unit": ("compaction", LAST_UNITS, 8 * 46 + 30, "01", "compaction-unit"),
    "no unit of the last record": ("compaction", LAST_UNITS, 6 * 46 + 8, "00000000", "compaction-unit"),
    "a flag of a compacted record": ("compaction", COMPACTED, 19, "01", "compaction-record"),
    "a birth of a compacted record": ("compaction", COMPACTED, 41, "01", "compaction-record"),
    "a queue of a compacted record": ("compaction", COMPACTED, 15, "01", "compaction-record"),
    "a table of positions that is none": ("bcq", "compaction/position-checkpoint", 16, "78", "compaction-position"),
    "bytes behind the last batch unit": ("bcq", LAST_BATCH, 380, "01", "unit-nowhere"),
    "another end index": ("dledger", f"{MEMBER}/checkpoint", 28, "31", "dledger-state"),
    "a line that no member writes": ("dledger", f"{MEMBER}/currterm", 1, "78", "dledger-state"),
}  # fmt: skip


@pytest.mark.leaves_damage
@pytest.mark.parametrize("name", CHANGED_BYTES)
def test_each_changed_field_is_named(name: str, tmp_path: Path) -> None:
    store, file, position, digits, kind = CHANGED_BYTES[name]
    root = copy_of_five(store, tmp_path)
    status = (root / file).stat()
    damage(root, {"bytes": [[file, position, digits]]})
    os.utime(root / file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert kind in {finding.kind for finding in check(root)}


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
