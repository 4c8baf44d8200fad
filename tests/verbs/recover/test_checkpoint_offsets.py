"""The checkpoint after a recovery or a truncation of a 5.5 store: no offset and no time that the files do not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import check, simulate
from store.files.filesystem import Filesystem
from store.opened.checkpoint import StoreCheckpoint
from tests.runs.starts_of_5_5 import start
from tests.support.five_stores import fivefive
from tests.support.golden import copy_store
from tests.support.refstore import COMMAND_55, needs_refstore55
from tests.support.stores import recover, truncate

LOG_END, LAST_RECORD, INSIDE = 5257, 5073, 5000
FAST = "enableAcceleratedRecovery"


def copy_of(name: str, tmp_path: Path) -> Path:
    return copy_store(fivefive(name) / "store", tmp_path / "store")


def offsets_of(root: Path) -> tuple[int, int]:
    """Return the log offset of the queues, and the one that the master has flushed."""
    page = StoreCheckpoint.load(root / "checkpoint", Filesystem()).page
    return page.logics_log_offset, page.master_flushed_offset


def crashed(tmp_path: Path, log_offset: int, flushed: int = 0) -> Path:
    """Copy a store after a crash whose checkpoint has these log offsets."""
    root = copy_of("plain", tmp_path)
    (root / "abort").touch()
    with (root / "checkpoint").open("r+b") as file:
        file.seek(24)
        file.write(flushed.to_bytes(8, "big"))
        file.seek(40)
        file.write(log_offset.to_bytes(8, "big"))
    return root


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ((LAST_RECORD, LOG_END), (LAST_RECORD, LOG_END)),
        ((0, 0), (0, 0)),
        ((LOG_END, LOG_END + 1), (0, LOG_END)),
        ((70000, 70000), (0, LOG_END)),
        ((1 << 62, 1 << 62), (0, LOG_END)),
        # An accelerated recovery would read, and truncate, inside of a record.
        ((INSIDE, 0), (0, 0)),
    ],
)
def test_a_recovery_keeps_an_offset_that_the_log_has(
    written: tuple[int, int], kept: tuple[int, int], tmp_path: Path
) -> None:
    root = crashed(tmp_path, *written)
    recover(root)
    assert (offsets_of(root), list(check(root))) == (kept, [])


def test_a_recovery_as_a_broker_leaves_it(tmp_path: Path) -> None:
    root = crashed(tmp_path, 70000)
    recover(root, as_broker=True)
    assert offsets_of(root) == (70000, 0)


@pytest.mark.parametrize("log_offset", [LOG_END, 70000, INSIDE])
def test_an_accelerated_recovery_of_a_recovered_store_loses_nothing(log_offset: int, tmp_path: Path) -> None:
    root = crashed(tmp_path, log_offset)
    recover(root)
    found = simulate(root, settings={FAST: "true"})
    assert (found.starts, found.log_end, found.lost.messages) == (True, LOG_END, 0)


# The records at 1830 and 2001 have the flags of a rolled-back message and of a half message, and are in no queue.
@pytest.mark.parametrize("log_offset", [1648, 1830, 2001, 2168])
def test_a_truncated_checkpoint_has_no_time_of_a_record_in_no_queue(log_offset: int, tmp_path: Path) -> None:
    root = copy_of("index", tmp_path)
    truncate(root, log_offset)
    assert list(check(root)) == []


@needs_refstore55
@pytest.mark.parametrize("log_offset", [70000, INSIDE])
def test_the_real_broker_starts_and_keeps_every_record(log_offset: int, tmp_path: Path) -> None:
    root = crashed(tmp_path, log_offset)
    recover(root)
    (root / "abort").touch()
    page = offsets_of(root)
    load, _ = start(COMMAND_55, root, tmp_path / "answers", ["mappedFileSizeCommitLog=65536"])
    assert (page[0], load is not None and load["maxPhy"]) == (0, LOG_END)
