"""Stores of many queues: what check finds does not depend on how many there are, and its cost not on each of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store.files.store_reader import StoreReader
from store.structures.findings import MISSING_UNIT, UNIT_DIFFERS, Finding
from store.verbs.check import segment as module
from store.verbs.check.check import check_files
from tests.support.many_queues import many_queues, queue_name

QUEUES = 300


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return many_queues(tmp_path / "s", QUEUES, 2000, segment_size=1 << 16)


def findings(root: Path) -> list[Finding]:
    return list(check_files(StoreReader(str(root))))


def queue_file(root: Path, queue: int) -> Path:
    topic, queue_id = queue_name(queue)
    return root / "consumequeue" / topic / str(queue_id) / f"{0:020d}"


def test_a_store_of_many_queues_has_no_findings(root: Path) -> None:
    assert len(list((root / "commitlog").iterdir())) > 2
    assert findings(root) == []


def test_a_lost_queue_among_many_is_the_only_finding(root: Path) -> None:
    shutil.rmtree(queue_file(root, 17).parent)
    found = findings(root)
    assert {(f.kind, f.topic, f.queue_id) for f in found} == {(MISSING_UNIT, *queue_name(17))}
    assert sum(f.count for f in found) == len(range(17, 2000, QUEUES))


def test_a_wrong_unit_among_many_queues_is_the_only_finding(root: Path) -> None:
    with queue_file(root, 123).open("r+b") as file:
        file.seek(2 * 20 + 8)
        file.write((1 << 20).to_bytes(4, "big"))
    assert [(f.kind, f.topic, f.queue_id, f.offset) for f in findings(root)] == [(UNIT_DIFFERS, *queue_name(123), 2)]


def test_sound_queues_are_not_compared_one_by_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    alone = module.queue_differences

    def observed(segment: str, pieces: object, expected: module.ExpectedUnits, starts: object) -> object:
        asked.append(expected.queue)
        return alone(segment, pieces, expected, starts)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "queue_differences", observed)
    shutil.rmtree(queue_file(root, 5).parent)
    findings(root)
    assert set(asked) == {queue_name(5)}


@pytest.mark.parametrize("survive", [0, 1, 6], ids=lambda count: f"{count} units")
def test_units_that_a_crash_lost_are_counted_in_every_queue(root: Path, survive: int) -> None:
    for queue in range(QUEUES):
        path = queue_file(root, queue)
        data = path.read_bytes()
        path.write_bytes(data[: 20 * survive].ljust(len(data), b"\0"))
    found = [f for f in findings(root) if f.kind == MISSING_UNIT]
    assert sum(f.count for f in found) == 2000 - survive * QUEUES
