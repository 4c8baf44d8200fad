"""Commands that read, and every dry run, work for one who may not write, and change nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.golden import copy_store, golden
from tests.support.processes import Finished, namespace, run_as_a_stranger, run_on_read_only_mount
from tests.support.snapshots import snapshot

READING = [
    ("get", "TopicA", "--queue", "1", "--offset", "3", "--max", "2"),
    ("get", "--log-offset", "0"),
    ("index-query", "TopicA", "all"),
    ("checkpoint", "show"),
    ("recover", "--dry-run"),
    ("recover", "--abnormal", "--dry-run"),
    ("truncate-dirty", "--dry-run"),
    ("clean-expired", "--dry-run", "--force", "--reserved-hours", "0"),
    ("quarantine", "list"),
]
WRITING = [
    ("put", "TopicA", "body"),
    ("recover", "--abnormal", "--yes"),
    ("truncate-dirty", "--offset", "0", "--yes"),
    ("clean-expired", "--force", "--reserved-hours", "0", "--yes"),
]
BLOCKED_CODE = 5


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["normal", "aborted"])
def test_a_stranger_reads_and_changes_nothing(name: str, tmp_path: Path) -> None:
    root = copy_store(golden(name).store, tmp_path / "store")
    before = snapshot(root)
    assert_answers(run_as_a_stranger(root, READING))
    assert snapshot(root) == before
    assert not (root / ".rmqctl").exists()


def test_a_stranger_who_would_change_something_is_told_why_not(tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    before = snapshot(root)
    assert_refusals(run_as_a_stranger(root, WRITING), "permission denied")
    assert snapshot(root) == before


@pytest.mark.turns(3)
@pytest.mark.skipif(not namespace(), reason="this system lets nobody mount; the stranger above shows the same")
@pytest.mark.parametrize("name", ["normal", "aborted", "no-derived"])
def test_reading_works_on_a_read_only_mount(name: str, tmp_path: Path) -> None:
    root = copy_store(golden(name).store, tmp_path / "store")
    before = snapshot(root)
    assert_answers(run_on_read_only_mount(root, READING))
    assert snapshot(root) == before


@pytest.mark.skipif(not namespace(), reason="this system lets nobody mount; the stranger above shows the same")
def test_writing_on_a_read_only_mount_is_an_io_error_in_one_sentence(tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    before = snapshot(root)
    assert_refusals(run_on_read_only_mount(root, WRITING), "read-only")
    assert snapshot(root) == before


def assert_answers(ends: list[Finished]) -> None:
    for line, done in zip(READING, ends, strict=True):
        assert (done.code, "Traceback" in done.err) == (0, False), f"{line}: {done.err}"


def assert_refusals(ends: list[Finished], reason: str) -> None:
    """Every writing command ended in one sentence that gives the reason."""
    for line, done in zip(WRITING, ends, strict=True):
        assert done.code == BLOCKED_CODE, f"{line}: {done.err}"
        assert reason in done.err
        assert len(done.err.strip().splitlines()) == 1
