"""Findings on a compaction store of a real broker, each changed value of its files by a whole row."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.layout import StoreLayout
from store.structures.compaction.check import check
from tests.support.five_stores import copy_of_five, damage

LOG, UNITS = "compaction/compactionLog/Comp_A/0", "compaction/compactionCq/Comp_A/0"
OTHER = "compaction/compactionLog/Comp_A/1"
FIRST, SECOND, LAST = "00000000000000000000", "00000000000000008832", "00000000000000141312"
POSITIONS = "compaction/position-checkpoint"
LEVELS = (1000, 5000)

Change = Callable[[Path], None]


def found(root: Path, change: Change, *, is_written_to: bool = False) -> list[str]:
    """The findings: kind, file, place, queue, count and detail."""
    change(root)
    store = SimpleNamespace(
        files=StoreReader(str(root)),
        layout=StoreLayout(root),
        fs=Filesystem(),
        delay_levels_ms=LEVELS,
        horizon=0 if is_written_to else None,
    )
    return [
        f"{one.kind} {_short(one.file, root)} {one.offset} {one.topic}/{one.queue_id} {one.count} {one.detail}"
        for one in check(cast(Any, store))
    ]


def _short(file: str, root: Path) -> str:
    """The file's path in the folder of records or entries of queue 0, with its number."""
    name = file.removeprefix(f"{root}/").replace(LOG, "LOG").replace(UNITS, "UNITS")
    return re.sub("0{7,19}(?=[0-9])", "", name)


def changed(**how: Any) -> Change:
    return lambda root: damage(root, how)


def at(file: str, *places: tuple[int, str]) -> Change:
    """Overwrites bytes of a file at places."""
    return changed(bytes=[[file, position, digits] for position, digits in places])


def without_keys(root: Path) -> None:
    path = root / LOG / FIRST
    path.write_bytes(path.read_bytes().replace(b"KEYS\1", b"KEYT\1", 2))


def positions(**table: int) -> Change:
    text = json.dumps({"empty": False, "queueOffsetMap": table})
    return lambda root: cast(None, (root / POSITIONS).write_text(text))


def cut(file: str, size: int) -> Change:
    return lambda root: os.truncate(root / file, size)


def one_unit_more(root: Path) -> None:
    path = root / UNITS / LAST
    data = bytearray(path.read_bytes())
    data[13 * 46 : 14 * 46] = data[12 * 46 : 13 * 46]
    path.write_bytes(data)


def killed(change: Change) -> Change:
    def both(root: Path) -> None:
        change(root)
        (root / "abort").touch()

    return both


def lose_queue(root: Path) -> None:
    for tree in ("compactionLog", "compactionCq"):
        shutil.rmtree(root / f"compaction/{tree}/Comp_A/1")


WITHOUT_LAST = changed(remove=[f"{LOG}/{LAST}", f"{UNITS}/{LAST}"])

CASES: dict[str, tuple[Change, list[str]]] = {
    "as it was left": (changed(), []),
    "the queue of two records": (
        at(f"{LOG}/{FIRST}", (15, "07"), (508 + 15, "07")),
        ["compaction-record LOG/0 0 Comp_A/0 2 the record is of topic Comp_A, queue 7"],
    ),
    "a flag": (
        at(f"{LOG}/{SECOND}", (19, "01")),
        ["compaction-record LOG/8832 8832 Comp_A/0 1 its byte 19 is another one than in the commit log"],
    ),
    "a queue offset": (
        at(f"{LOG}/{SECOND}", (27, "ff")),
        ["compaction-unit UNITS/8832 0 Comp_A/0 1 does not say what its record at 8832 says"],
    ),
    "a place": (at(f"{LOG}/{SECOND}", (35, "ff")), ["compaction-record LOG/8832 8832 Comp_A/0 1 the record says 8959"]),
    "a store time": (
        at(f"{LOG}/{SECOND}", (63, "ff")),
        [
            "compaction-record LOG/8832 8832 Comp_A/0 1 its byte 63 is another one than in the commit log",
            "compaction-unit UNITS/8832 0 Comp_A/0 1 does not say what its record at 8832 says",
        ],
    ),
    "a body": (at(f"{LOG}/{SECOND}", (90, "ff")), ["compaction-record LOG/8832 8832 Comp_A/0 1 bad body CRC"]),
    "a size": (
        at(f"{LOG}/{SECOND}", (3, "01")),
        ["compaction-record LOG/8832 8832 Comp_A/0 1 total size differs from the sum of the fields"],
    ),
    "no KEYS": (
        without_keys,
        [
            "compaction-record LOG/0 0 Comp_A/0 2 the record has no KEYS, so it is never compacted",
            "compaction-record LOG/0 0 Comp_A/0 2 its byte 195 is another one than in the commit log",
        ],
    ),
    "an entry's log offset": (
        at(f"{UNITS}/{SECOND}", (46 + 7, "01")),
        ["compaction-unit UNITS/8832 1 Comp_A/0 1 does not say what its record at 9108 says"],
    ),
    "an entry's size": (
        at(f"{UNITS}/{SECOND}", (46 + 11, "01")),
        ["compaction-unit UNITS/8832 1 Comp_A/0 1 does not say what its record at 9108 says"],
    ),
    "an entry's tags": (
        at(f"{UNITS}/{SECOND}", (46 + 19, "01")),
        ["compaction-unit UNITS/8832 1 Comp_A/0 1 does not say what its record at 9108 says"],
    ),
    "an entry's store time": (
        at(f"{UNITS}/{SECOND}", (46 + 27, "01")),
        ["compaction-unit UNITS/8832 1 Comp_A/0 1 does not say what its record at 9108 says"],
    ),
    "two entries' queue offsets": (
        at(f"{UNITS}/{SECOND}", (46 + 35, "01"), (5 * 46 + 35, "02")),
        [
            "compaction-unit UNITS/8832 1 Comp_A/0 2 does not say what its record at 9108 says",
            "compaction-unit UNITS/8832 1 Comp_A/0 2 queue offset 1 is not above the one before",
        ],
    ),
    "an entry's count": (
        at(f"{UNITS}/{SECOND}", (46 + 37, "02")),
        ["compaction-unit UNITS/8832 1 Comp_A/0 1 does not say what its record at 9108 says"],
    ),
    "an entry's compacted offset": (
        at(f"{UNITS}/{SECOND}", (46 + 41, "00")),
        ["compaction-unit UNITS/8832 1 Comp_A/0 1 does not say what its record at 9108 says"],
    ),
    "an entry's reserved bytes": (
        at(f"{UNITS}/{SECOND}", (46 + 45, "01")),
        ["compaction-unit UNITS/8832 1 Comp_A/0 1 does not say what its record at 9108 says"],
    ),
    "the end's mark": (
        at(f"{UNITS}/{FIRST}", (15 * 46 + 41, "00")),
        ["compaction-unit UNITS/0 15 Comp_A/0 1 bytes past the last entry that no broker writes"],
    ),
    "no end's mark": (
        changed(zero=[[f"{UNITS}/{FIRST}", 15 * 46, 46]]),
        ["compaction-unit UNITS/0 15 Comp_A/0 1 bytes past the last entry that no broker writes"],
    ),
    "no last entry": (
        changed(zero=[[f"{UNITS}/{LAST}", 12 * 46, 46]]),
        [
            (
                "compaction-unit UNITS/141312 12 Comp_A/0 1 1 record without an entry, the first at 144152: a "
                "start cuts them off"
            )
        ],
    ),
    "no last two entries of a file before": (
        changed(zero=[[f"{UNITS}/{FIRST}", 13 * 46, 92]]),
        ["compaction-unit UNITS/0 13 Comp_A/0 2 2 records without an entry, the first at 3641"],
    ),
    "an entry more": (
        one_unit_more,
        [
            "compaction-unit UNITS/141312 13 Comp_A/0 1 1 entry after the last record",
            "compaction-unit UNITS/141312 13 Comp_A/0 1 queue offset 270 is not above the one before",
        ],
    ),
    "a byte behind the entries": (
        at(f"{UNITS}/{LAST}", (13 * 46 + 30, "01")),
        ["compaction-unit UNITS/141312 13 Comp_A/0 1 bytes past the last entry that no broker writes"],
    ),
    "no entries' file": (
        changed(remove=[f"{UNITS}/{SECOND}"]),
        ["compaction-files LOG/8832 8832 Comp_A/0 1 the file of entries of this name is missing"],
    ),
    "no records' file": (
        changed(remove=[f"{LOG}/{SECOND}"]),
        ["compaction-files UNITS/8832 8832 Comp_A/0 1 the file of records of this name is missing"],
    ),
    "a short file of records": (
        cut(f"{LOG}/{LAST}", 8831),
        ["compaction-files LOG/141312 141312 Comp_A/0 1 8831 bytes instead of 8832"],
    ),
    "a short file of entries": (
        cut(f"{UNITS}/{LAST}", 735),
        ["compaction-files UNITS/141312 141312 Comp_A/0 1 735 bytes instead of 736"],
    ),
    "an empty file that was replaced": (
        changed(create=[f"{LOG}/{SECOND}.delete"]),
        ["compaction-leftover LOG/8832.delete 0 Comp_A/0 1 an empty file, set aside"],
    ),
    "a file that was replaced": (
        changed(copy=[[f"{LOG}/{SECOND}", f"{LOG}/{SECOND}.delete"]]),
        ["compaction-files LOG/8832.delete 0 Comp_A/0 1 replaced by a run that was cut short"],
    ),
    "a run that was cut short": (
        changed(copy=[[f"{LOG}/{SECOND}", f"{LOG}/compacting/{SECOND}"]]),
        [("compaction-leftover LOG/compacting/8832 8832 Comp_A/0 1 of a run that was cut short; no broker reads it")],
    ),
    "a replication that was cut short": (
        changed(copy=[[f"{LOG}/{SECOND}", f"{LOG}/replicating/{FIRST}"]]),
        [("compaction-leftover LOG/replicating/0 0 Comp_A/0 1 of a run that was cut short; no broker reads it")],
    ),
    "no copies of the last messages": (
        WITHOUT_LAST,
        [
            (
                "compaction-uncopied LOG/132480 141312 Comp_A/0 13 13 messages from queue offset 258 on "
                "without a copy here: no broker copies them or gives them to consumers"
            )
        ],
    ),
    "the same after a kill": (killed(WITHOUT_LAST), []),
    "a queue without files": (
        lose_queue,
        [
            (
                "compaction-position compaction/position-checkpoint 0 None/None 1 Comp_A_1 is compacted up to "
                "109, its last message is -1"
            ),
            (
                "compaction-uncopied compaction 0 Comp_A/1 1 the topic is compacted, and the queue has no "
                "compaction log: older messages are lost"
            ),
        ],
    ),
    "no positions": (
        changed(remove=[POSITIONS]),
        [
            (
                "compaction-position compaction/position-checkpoint 0 None/None 1 missing: everything is "
                "compacted once more"
            )
        ],
    ),
    "a table that is none": (
        at(POSITIONS, (0, "78")),
        ["compaction-position compaction/position-checkpoint 0 None/None 1 no table of positions"],
    ),
    "positions at the last messages": (positions(Comp_A_1=144, Comp_A_0=270, CompB_0=119), []),
    "a position behind the last message": (
        positions(Comp_A_1=145, Comp_A_0=271, CompB_0=120),
        [
            (
                "compaction-position compaction/position-checkpoint 0 None/None 1 Comp_A_1 is compacted up to "
                "145, its last message is 144"
            ),
            (
                "compaction-position compaction/position-checkpoint 0 None/None 1 Comp_A_0 is compacted up to "
                "271, its last message is 270"
            ),
            (
                "compaction-position compaction/position-checkpoint 0 None/None 1 CompB_0 is compacted up to "
                "120, its last message is 119"
            ),
        ],
    ),
    "a position of no queue": (
        positions(None_0=0),
        [
            (
                "compaction-position compaction/position-checkpoint 0 None/None 1 None_0 is compacted up to 0, "
                "its last message is -1"
            )
        ],
    ),
    "no position of no queue": (positions(None_0=-1), []),
}


@pytest.mark.leaves_damage
@pytest.mark.parametrize("name", CASES)
def test_each_value_that_no_broker_writes_is_a_finding(name: str, tmp_path: Path) -> None:
    change, rows = CASES[name]
    assert found(copy_of_five("compaction", tmp_path), change) == rows


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    "name", ["no last entry", "a byte behind the entries", "no copies of the last messages", "an entry's size"]
)
def test_a_writer_puts_the_record_first_and_copies_later(name: str, tmp_path: Path) -> None:
    change, rows = CASES[name]
    kept = rows if name == "an entry's size" else []
    assert found(copy_of_five("compaction", tmp_path), change, is_written_to=True) == kept
