"""What the broker was given, given to this store at the same times, makes the same bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.golden import golden
from tests.support.putting import put_all
from tests.support.snapshots import contents, differences, without_index_names

WRITTEN = ("normal", "aborted", "many", "batch", "ipv6", "normal5")
# Made by a moment, not by what was put: when the marker and the checkpoint were written, and files made ahead.
OF_THE_MOMENT = ("checkpoint", "abort", "abort.bak", "lock")
# 5.3 leaves it in every store; it says nothing of messages.
POSITION = "compaction/position-checkpoint"


@pytest.mark.parametrize("name", WRITTEN)
def test_log_queues_and_index_are_the_brokers_bytes(name: str, tmp_path: Path) -> None:
    archive = golden(name)
    put_all(archive, tmp_path / "store")
    assert differences(what_counts(archive.files("pristine")), what_counts(contents(tmp_path / "store"))) == []


@pytest.mark.parametrize("name", WRITTEN)
def test_every_put_is_answered_as_the_broker_answered_it(name: str, tmp_path: Path) -> None:
    archive = golden(name)
    answers = put_all(archive, tmp_path / "store")
    assert answers == [put.answer for put in archive.puts()]


@pytest.mark.parametrize("step", [1, 7])
def test_closing_and_opening_between_puts_leaves_the_same_bytes(step: int, tmp_path: Path) -> None:
    archive = golden("batch")
    put_all(archive, tmp_path / "store", reopen_every=40 * step)
    assert differences(what_counts(archive.files("pristine")), what_counts(contents(tmp_path / "store"))) == []


@pytest.mark.parametrize("pool", [False, True])
def test_the_transient_pool_makes_the_same_bytes(pool: bool, tmp_path: Path) -> None:
    archive = golden("many")
    put_all(archive, tmp_path / "store", transientStorePoolEnable=pool)
    assert differences(what_counts(archive.files("pristine")), what_counts(contents(tmp_path / "store"))) == []


def test_sync_flush_makes_the_same_bytes(tmp_path: Path) -> None:
    archive = golden("ipv6")
    put_all(archive, tmp_path / "store", flushDiskType="SYNC_FLUSH")
    assert differences(what_counts(archive.files("pristine")), what_counts(contents(tmp_path / "store"))) == []


def what_counts(files: dict[str, tuple[int, str]]) -> dict[str, object]:
    """Commit log, queues and index; an all-zero commit-log file made ahead does not count."""
    kept = {path: value for path, value in files.items() if path not in OF_THE_MOMENT and not path.startswith(POSITION)}
    kept = {path: value for path, value in kept.items() if value[1] != _ZEROS.get(value[0])}
    return without_index_names(kept)


_ZEROS = {size: hashlib.sha256(bytes(size)).hexdigest() for size in (16384, 65536)}
