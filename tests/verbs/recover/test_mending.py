"""After recover a store is sound, or each finding of check names the command that mends it, and that does."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.advice import mended_by
from store import Message, open_store
from store.errors import StoreError
from store.files.store_reader import StoreReader
from store.structures.findings import (
    BAD_SELF_OFFSET,
    KINDS,
    MISSING_RECORD,
    MISSING_UNIT,
    QUEUE_DUPLICATE,
    QUEUE_GAP,
    QUEUE_LEAP,
    QUEUE_SHIFT,
    TIME_BACKWARDS,
    UNIT_WRONG_RECORD,
    Finding,
)
from store.structures.registry import STRUCTURES
from store.verbs.check.check import check_files
from tests.cli.running import rmqctl
from tests.support.golden import copy_store
from tests.support.random_damage import damage
from tests.support.stores import SMALL, make_store, overwrite, recover

SETTINGS = tuple(word for name, value in SMALL.items() for word in ("--set", f"{name}={value}"))
MENDING = ("recover", "truncate-dirty", "rebuild --queues", "rebuild --index", "checkpoint rewrite")
MENDING_DELAYS = ("rebuild delay-offsets",)
MENDING_5_X = ("rebuild compaction", "rebuild message-database", "rebuild timer")

# Damage to what only the producer can tell: sound bytes to everybody else.
BYTES_OF_THE_PRODUCER = {TIME_BACKWARDS, BAD_SELF_OFFSET}
# What a record leaves for good whose queue or queue offset was changed.
OF_ANOTHER_QUEUE = {MISSING_RECORD, MISSING_UNIT, QUEUE_DUPLICATE, QUEUE_GAP, QUEUE_LEAP, QUEUE_SHIFT}
PHYSICAL_OFFSET_AT = 28


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("healthy") / "store", 120)


def findings(root: Path) -> list[Finding]:
    return list(check_files(StoreReader(str(root))))


def names_another_queue(root: Path) -> bool:
    """Whether a record names a queue or a queue offset that its unit and its neighbours contradict.

    Where the units are lost too, only its neighbours do.
    """
    found = findings(root)
    is_broken = any(
        one.kind in (MISSING_RECORD, QUEUE_DUPLICATE, QUEUE_LEAP) and "/commitlog/" in one.file for one in found
    )
    return is_broken and any(one.kind in (UNIT_WRONG_RECORD, QUEUE_SHIFT, MISSING_UNIT) for one in found)


def mend(root: Path) -> Iterator[str]:
    """Runs the commands that check names, the log's first, until it names none that was not run."""
    for command in MENDING:
        if command in {mended_by(finding.kind, None) for finding in findings(root)}:
            run = rmqctl(*SETTINGS, *command.split(), "--yes", store=root)
            assert run.code == int("of no record" in run.err), run.err
            yield command


@pytest.mark.slow
@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 32), crashed=st.booleans())
def test_what_check_names_after_recover_mends_the_store(
    healthy: Path, tmp_path_factory: pytest.TempPathFactory, seed: int, crashed: bool
) -> None:
    root = copy_store(healthy, tmp_path_factory.mktemp("damaged") / "store")
    if crashed:
        (root / "abort").touch()
    damage(root, random.Random(seed))
    may_stay = BYTES_OF_THE_PRODUCER | (OF_ANOTHER_QUEUE if names_another_queue(root) else set())
    try:
        recover(root, settings=SMALL)
    except StoreError:
        return
    list(mend(root))
    assert [finding for finding in findings(root) if finding.kind not in may_stay] == []


@pytest.mark.parametrize("command", ["recover", "rebuild"])
def test_a_record_with_another_log_offset_costs_its_queue_nothing(healthy: Path, tmp_path: Path, command: str) -> None:
    root = copy_store(healthy, tmp_path / "store")
    with open_store(root) as store:
        place = store.get("T", 0, 14).messages[0].log_offset
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(place + PHYSICAL_OFFSET_AT)
        file.write(b"\x00\x00\x00\x01")
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    assert rmqctl(*SETTINGS, "recover", "--yes", store=root).code == 0
    if command == "rebuild":
        assert rmqctl(*SETTINGS, "rebuild", "--yes", store=root).code == 0
    assert {finding.kind for finding in findings(root)} == {BAD_SELF_OFFSET}
    with open_store(root) as store:
        assert [queue.max_offset for queue in store.queues()] == [40, 40, 40]


def test_a_recovery_as_a_broker_loses_what_follows_a_record_with_another_log_offset(
    healthy: Path, tmp_path: Path
) -> None:
    root = copy_store(healthy, tmp_path / "store")
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(PHYSICAL_OFFSET_AT)
        file.write(b"\x00\x00\x00\x01")
    shutil.rmtree(root / "consumequeue")
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    own, _ = recover(copy_store(root, tmp_path / "own"), settings=SMALL)
    assert "misplaced-record" in [row.difference for row in own.report.differs_from_broker]
    recover(root, settings=SMALL, as_broker=True)
    with open_store(root) as store:
        assert sum(queue.max_offset for queue in store.queues()) < 100


def test_every_kind_that_a_command_can_mend_names_one_that_there_is() -> None:
    for one in STRUCTURES:
        one.furniture("check")
    assert {mended_by(kind, None) for kind in KINDS} - {None} == {*MENDING, *MENDING_DELAYS, *MENDING_5_X}


def test_check_names_what_mends_a_queue_file_of_another_size(healthy: Path, tmp_path: Path) -> None:
    root = copy_store(healthy, tmp_path / "store")
    file = max((root / "consumequeue" / "T" / "0").iterdir())
    os.truncate(file, file.stat().st_size + 7)
    run = rmqctl("check", store=root)
    assert run.code == 1
    assert "rebuild --queues" in run.err
    assert rmqctl(*SETTINGS, "rebuild", "--queues", "--yes", store=root).code == 0
    assert findings(root) == []


def test_check_names_what_takes_a_level_past_a_message_that_names_no_queue(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, read_only=False, settings=SMALL) as store:
        store.put_many([Message.of("T", str(number), delay_level=1) for number in range(3)])
    log = root / "commitlog" / f"{0:020d}"
    overwrite(log, log.read_bytes().index(b"REAL_QID"), b"REAL_QIE")
    said = rmqctl("check", store=root).err.splitlines()
    assert said[:2] == [
        f"step 1: rmqctl --store {root} delay show (only looks)",
        f"step 2: rmqctl --store {root} rebuild delay-offsets (reads the whole log; undo takes it back)",
    ]
    assert rmqctl(*SETTINGS, "rebuild", "delay-offsets", "--yes", store=root).code == 0
    assert findings(root) == []
    shown = rmqctl("delay", "show", "--at", "+1h", "--format", "json", store=root).json
    assert [one["state"] for one in shown["messages"]] == ["lost", "due", "due"]


def test_check_names_no_rebuild_of_queues_over_a_gap_and_rebuild_warns_of_it(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 500)
    sorted((root / "commitlog").iterdir())[1].unlink()
    run = rmqctl("check", store=root)
    assert "rebuild --queues" not in run.err
    assert "bring the segment back" in run.err
    assert "get other queue offsets" in rmqctl(*SETTINGS, "rebuild", "--dry-run", store=root).err
    assert "other queue offsets" not in rmqctl(*SETTINGS, "rebuild", "--index", "--dry-run", store=root).err


def test_check_of_an_empty_log_beside_queues_names_no_command_that_is_refused(healthy: Path, tmp_path: Path) -> None:
    root = copy_store(healthy, tmp_path / "store")
    for segment in (root / "commitlog").iterdir():
        segment.unlink()
    run = rmqctl("check", store=root)
    assert run.code == 1
    assert "mend with" not in run.err
    assert "mount or restore the log" in run.err
    (root / "commitlog").rmdir()
    run = rmqctl("check", store=root)
    assert (run.code, "storePathCommitLog" in run.err) == (1, True)
