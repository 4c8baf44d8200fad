"""The forecast of a loss counts as intact exactly the lost messages that a salvage then writes to a new store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from store import StoredMessage, open_store, plan_recovery, salvage, simulate
from store.verbs.salvage.grade import SalvagedRun
from tests.cli.running import rmqctl
from tests.support.golden import copy_store
from tests.support.stores import SMALL, make_store, overwrite

SEGMENT = SMALL["mappedFileSizeCommitLog"]
LOST = 20
"""Messages past the damage, with the damaged one."""


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("healthy") / "store", 120)


@pytest.fixture(scope="module")
def last(healthy: Path) -> list[StoredMessage]:
    """The last messages of the log, in its order."""
    with open_store(healthy) as store:
        found = [one for queue in store.queues() for one in store.messages(queue.topic, queue.queue_id)]
    return sorted(found, key=lambda one: one.log_offset)[-LOST:]


def write(root: Path, one: StoredMessage, at: int, data: bytes) -> None:
    place = one.log_offset + at
    overwrite(root / "commitlog" / f"{place - place % SEGMENT:020d}", place % SEGMENT, data)


def in_unit(at: int, data: bytes) -> Callable[[Path, StoredMessage], None]:
    def change(root: Path, one: StoredMessage) -> None:
        place = one.queue_offset * 20 + at
        size = SMALL["mappedFileSizeConsumeQueue"]
        file = root / "consumequeue" / one.topic / str(one.queue_id) / f"{place - place % size:020d}"
        overwrite(file, place % size, data)

    return change


DAMAGES: dict[str, tuple[Callable[[Path, StoredMessage], None], str]] = {
    "none": (lambda root, one: None, "certain"),
    "a body": (lambda root, one: write(root, one, 88, b"\xff"), "body-crc"),
    "a key": (lambda root, one: write(root, one, one.raw.index(b"KEYS\1") + 5, b"#"), "partial"),
    "the end of the properties": (lambda root, one: write(root, one, one.size - 1, b"\0"), "partial"),
    "a flag, which nothing covers": (lambda root, one: write(root, one, 16, b"\1"), "certain"),
    "a size in its queue entry": (in_unit(8, b"\0\0\0\7"), "certain"),
    "a tags code in its queue entry": (in_unit(12, b"\0\0\0\0\0\0\0\7"), "partial"),
}


@pytest.mark.parametrize("compat", ["4.9", "5.3"])
@pytest.mark.parametrize("case", DAMAGES)
def test_as_many_messages_can_be_salvaged_as_are(
    case: str, compat: str, healthy: Path, last: list[StoredMessage], tmp_path: Path
) -> None:
    damage, grade = DAMAGES[case]
    root = copy_store(healthy, tmp_path / "store")
    write(root, last[0], 4, b"\1\1\1\1")
    damage(root, last[LOST // 2])
    (root / "abort").touch()
    start = simulate(root, compat=compat)
    graded: dict[str, int] = {}

    def count(runs: object) -> int:
        for run in runs:  # type: ignore[attr-defined]
            assert isinstance(run, SalvagedRun)
            past = int((run.log_offsets >= start.log_end).sum())
            graded[run.grade.value] = graded.get(run.grade.value, 0) + past
        return 0

    salvage(root, count)
    doubted = {grade: 1} if grade != "certain" else {}
    assert graded == {"certain": LOST - 1 - sum(doubted.values()), **doubted}
    assert (start.lost.messages, start.lost.intact) == (LOST, graded["certain"])
    with plan_recovery(root, as_broker=True) as change:
        found = change.report
        assert (found.lost_intact, found.lost_damaged, found.lost_unreadable) == (
            graded["certain"], sum(doubted.values()), 1,
        )  # fmt: skip
    kept = 120 - LOST
    report = salvage(root, tmp_path / "new")
    assert report.saved == kept + start.lost.intact
    shown = rmqctl("--format", "json", "doctor", "--compat", compat, store=root).json
    details = [one["detail"] for one in shown["diagnoses"] if one["what"] == f"a {compat} broker loses messages"]
    assert [detail.rpartition("; ")[2] for detail in details] == [f"{start.lost.intact} can be salvaged"]
