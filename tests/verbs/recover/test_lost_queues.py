"""Queues that a truncation cut at a damaged entry: the entries after it are built again, up to the new end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from store import open_store
from store.formats.message import StoredMessage
from store.formats.queue_unit import UNIT_SIZE, QueueUnit
from store.verbs.recover.lost_queues import _ends_at_hole
from store.verbs.recover.truncate import plan_truncation
from tests.support.golden import copy_store
from tests.support.stores import make_store, planning

COUNT, END, UNITS_PER_FILE = 51, 45, 20
FAR = QueueUnit(1 << 40, 91, 0).encode()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """51 messages in three queues, with room for 20 entries in the first file of each."""
    return make_store(tmp_path_factory.mktemp("whole") / "store", COUNT)


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """72 messages: 24 entries of each queue, in two files."""
    return make_store(tmp_path_factory.mktemp("longer") / "store", 72)


@pytest.fixture(scope="module")
def stored(whole: Path) -> list[StoredMessage]:
    with open_store(whole) as store:
        found = [message for queue_id in range(3) for message in store.messages("T", queue_id)]
    return sorted(found, key=lambda one: one.log_offset)


@pytest.mark.parametrize(
    "damaged",
    [{0: 5}, {0: 5, 1: 12}, {0: 12, 1: 5}, {0: 0}, {2: 0, 1: 3}, {}],
)
def test_entries_after_a_damaged_one_are_built_from_the_log(
    damaged: dict[int, int], whole: Path, stored: list[StoredMessage], tmp_path: Path
) -> None:
    root = copy_store(whole, tmp_path / "store")
    for queue_id, at in damaged.items():
        with (root / f"consumequeue/T/{queue_id}/{0:020d}").open("r+b") as file:
            file.seek(at * UNIT_SIZE)
            file.write(FAR)
    with planning(root) as opened:
        change = plan_truncation(opened, stored[END].log_offset)
        built = "the entry of queue offset {} is of no record; it and later ones are rebuilt from the log"
        said = [f"T, queue {queue_id}: {built.format(at)}" for queue_id, at in sorted(damaged.items()) if at < END // 3]
        assert change.remarks[len(change.remarks) - len(said) :] == said
        assert change.lost == {"T": COUNT - END}
        change.apply()
    for queue_id in range(3):
        data = (root / f"consumequeue/T/{queue_id}/{0:020d}").read_bytes()
        expected = [one for one in stored[:END] if one.queue_id == queue_id]
        whole_data = (whole / f"consumequeue/T/{queue_id}/{0:020d}").read_bytes()
        assert data[: UNIT_SIZE * len(expected)] == whole_data[: UNIT_SIZE * len(expected)]
        assert not any(data[UNIT_SIZE * len(expected) :])


@pytest.mark.parametrize(
    ("cleared", "ends_at_hole"),
    [
        ((), False),
        (range(23, 24), False),
        (range(22, 24), False),
        (range(22, 23), True),
        (range(20, 21), True),
        (range(20, 24), False),
        (range(5, 6), True),
        (range(5, 24), True),
    ],
)
def test_a_queue_ends_at_a_hole_where_entries_or_files_come_after_it(
    cleared: Sequence[int], ends_at_hole: bool, longer: Path, tmp_path: Path
) -> None:
    root = copy_store(longer, tmp_path / "store")
    for at in cleared:
        number, row = divmod(at, UNITS_PER_FILE)
        with (root / f"consumequeue/T/0/{number * UNITS_PER_FILE * UNIT_SIZE:020d}").open("r+b") as file:
            file.seek(row * UNIT_SIZE)
            file.write(bytes(UNIT_SIZE))
    (root / "consumequeue/T/9").mkdir()
    with planning(root) as opened:
        opened.queues.recover()
        found = {one.queue_id: _ends_at_hole(opened, one) for one in opened.queues}
    assert found == {0: ends_at_hole, 1: False, 2: False, 9: False}
