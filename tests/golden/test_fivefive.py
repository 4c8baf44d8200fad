"""Stores of a real 5.5.0 broker (fixtures/fivefive): what they are, what is wrong with them, what its starts did."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store import RebuildScope, SimulatedStart, check, plan_rebuild, simulate
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.opened.detect import detect_line
from tests.support.five_stores import fivefive
from tests.support.golden import copy_store

GEOMETRY = {"maxHashSlotNum": 500, "maxIndexNum": 1000}
SOUND = ("plain", "bulk", "index", "index-only", "trans", "timer", "combine")
KILLED = ("index-killed", "index-killed-wal")
ALL = (*SOUND, *KILLED, "snapshot", "combine-separate", "rocksdbcq-separate")
UNIT = 20


def copy_of(name: str, tmp_path: Path) -> Path:
    return copy_store(fivefive(name) / "store", tmp_path / "store")


def start_of(root: Path, **settings: object) -> SimulatedStart:
    return simulate(root, compat="5.5", settings=settings)


def zero_unit(root: Path, log_offset: int) -> None:
    """Put zeros in the place of the unit of one record."""
    for file in root.glob("consumequeue/*/*/*"):
        data = bytearray(file.read_bytes())
        for at in range(0, len(data), UNIT):
            if int.from_bytes(data[at : at + 8], "big") == log_offset and any(data[at : at + UNIT]):
                data[at : at + UNIT] = bytes(UNIT)
                file.write_bytes(data)


@pytest.mark.parametrize("name", ALL)
def test_a_store_of_5_5_is_one(name: str) -> None:
    layout = StoreLayout(fivefive(name) / "store")
    assert detect_line(layout, Filesystem()).name == "5.5"


@pytest.mark.parametrize("name", [*SOUND, *KILLED])
def test_a_sound_or_killed_store_has_no_finding(name: str) -> None:
    pytest.importorskip("rocksdict")
    assert list(check(fivefive(name) / "store")) == []


@pytest.mark.parametrize("name", ["plain", "combine"])
def test_a_lost_index_is_built_as_the_broker_wrote_it(name: str, tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    root = copy_of(name, tmp_path)
    files = sorted((root / "index").iterdir())
    wanted = [file.read_bytes() for file in files]
    shutil.rmtree(root / "index")
    with plan_rebuild(root, RebuildScope(queues=False), settings=GEOMETRY) as change:
        change.apply()
    assert [file.read_bytes() for file in sorted((root / "index").iterdir())] == wanted


# Where 5.5.0 began, and how many messages no queue showed then: damaged.jsonl of each store.
@pytest.mark.parametrize(
    ("is_killed", "settings", "start", "unseen"),
    [
        pytest.param(False, {}, 4 * 65536, 120, id="shut down"),
        pytest.param(True, {}, 4 * 65536, 120, id="killed, without a checkpoint"),
        pytest.param(False, {"commitLogRecoverMaxNum": 100}, 0, 0, id="with room for all segments"),
        pytest.param(False, {"commitLogRecoverMaxNum": 13}, 65536, 30, id="with room for all but one"),
        pytest.param(False, {"commitLogRecoverMaxNum": 0}, 4 * 65536, 120, id="with no number"),
    ],
)
def test_a_start_without_queues_builds_those_of_some_segments(
    is_killed: bool, settings: dict[str, object], start: int, unseen: int, tmp_path: Path
) -> None:
    root = copy_of("bulk", tmp_path)
    shutil.rmtree(root / "consumequeue")
    if is_killed:
        (root / "abort").touch()
        (root / "checkpoint").unlink()
    found = start_of(root, **settings)
    assert (found.starts, found.start_segment, sum(found.unseen.values())) == (True, start, unseen)


@pytest.mark.parametrize(("units", "unseen"), [((5073,), 1), ((4908, 5073), 1)])
def test_the_record_at_the_queues_end_is_left_out(units: tuple[int, ...], unseen: int, tmp_path: Path) -> None:
    root = copy_of("plain", tmp_path)
    for log_offset in units:
        zero_unit(root, log_offset)
    found = start_of(root)
    assert (found.log_end, sum(found.unseen.values())) == (5257, unseen)


@pytest.mark.parametrize("offset", [0, 5073, 9_999_999])
def test_a_killed_store_is_read_from_where_its_checkpoint_says(offset: int, tmp_path: Path) -> None:
    root = copy_of("plain", tmp_path)
    (root / "abort").touch()
    page = bytearray((root / "checkpoint").read_bytes())
    page[40:48] = offset.to_bytes(8, "big")
    (root / "checkpoint").write_bytes(page)
    found = start_of(root)
    assert (found.starts, found.mode, found.start_segment, found.log_end) == (True, "abnormal", 0, 5257)
    assert (found.lost.messages, sum(found.unseen.values())) == (0, 0)
