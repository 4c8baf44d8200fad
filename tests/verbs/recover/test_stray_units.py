"""Units inside of queues that can be no record's: a broker's recovery reads queues at their ends, ours names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store
from tests.cli.running import rmqctl
from tests.support.stores import make_store, stored_messages

SPOILED = {
    "past the log's end": 0x7F00_0000,
    "inside the record before": 4470,
}
QUEUE_FILE_BYTES = 400


def spoil(root: Path, log_offset: int, queue_offset: int = 25, size: int = 200) -> None:
    file = root / f"consumequeue/T/0/{queue_offset * 20 // QUEUE_FILE_BYTES * QUEUE_FILE_BYTES:020d}"
    unit = log_offset.to_bytes(8, "big", signed=True) + size.to_bytes(4, "big", signed=True) + bytes(8)
    data, at = file.read_bytes(), queue_offset * 20 % QUEUE_FILE_BYTES
    file.write_bytes(data[:at] + unit + data[at + 20 :])


@pytest.mark.turns(2)
@pytest.mark.leaves_damage
@pytest.mark.parametrize("where", SPOILED)
@pytest.mark.parametrize("consent", ["--dry-run", "--yes"])
@pytest.mark.parametrize("mode", ["--normal", "--abnormal"])
def test_recover_names_a_unit_of_no_record_and_what_mends_it(
    where: str, consent: str, mode: str, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 60, queues=1)
    spoil(root, SPOILED[where])
    run = rmqctl("recover", mode, consent, store=root)
    assert run.code == 1
    assert "consumequeue/T/0: 1 entry is of no record: the one of queue offset 25; run `rmqctl rebuild" in run.err
    assert rmqctl("rebuild", "--queues", "--topic", "T", "--queue", "0", "--yes", store=root).code == 0
    again = rmqctl("recover", mode, "--dry-run", store=root)
    assert (again.code, again.err) == (0, "")


@pytest.mark.leaves_damage
def test_recover_counts_the_units_of_a_queue_that_is_read_from_its_first_page(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 15, queues=1)
    for queue_offset in (3, 4, 9):
        spoil(root, 0, queue_offset)
    run = rmqctl("recover", "--dry-run", store=root)
    assert "3 entries are of no record: the one of queue offset 3 and 2 more" in run.err


def bytes_of(root: Path, queue_offset: int) -> bytes:
    file = root / f"consumequeue/T/0/{queue_offset * 20 // QUEUE_FILE_BYTES * QUEUE_FILE_BYTES:020d}"
    return file.read_bytes()[queue_offset * 20 % QUEUE_FILE_BYTES :][:20]


def point_at(root: Path, queue_offset: int, other: int, *, size: int | None = None) -> None:
    """Gives a unit the place of another unit's record."""
    unit = bytes_of(root, other)
    own = int.from_bytes(unit[8:12], "big")
    spoil(root, int.from_bytes(unit[:8], "big"), queue_offset, own if size is None else size)


@pytest.mark.leaves_damage
@pytest.mark.parametrize("count", [15, 60], ids=["read from its first page", "of several files"])
@pytest.mark.parametrize(
    ("pointing", "named"),
    [
        ({3: 9}, "1 entry is of no record: the one of queue offset 3;"),
        ({3: 4}, "1 entry is of no record: the one of queue offset 3;"),
        ({9: 3}, "1 entry is of no record: the one of queue offset 9;"),
        ({4: 3}, "1 entry is of no record: the one of queue offset 4;"),
        ({0: 14}, "1 entry is of no record: the one of queue offset 0;"),
        ({3: 12, 4: 13}, "2 entries are of no record: the one of queue offset 3 and 1 more;"),
        ({3: 9, 10: 2}, "2 entries are of no record: the one of queue offset 3 and 1 more;"),
    ],
)
def test_recover_names_the_unit_that_points_at_the_record_of_another(
    pointing: dict[int, int], named: str, count: int, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", count, queues=1)
    for queue_offset, other in pointing.items():
        point_at(root, queue_offset, other)
    run = rmqctl("recover", "--dry-run", store=root)
    assert f"consumequeue/T/0: {named}" in run.err


@pytest.mark.leaves_damage
@pytest.mark.parametrize("pointing", [{19: 50}, {18: 50, 19: 51}, {20: 5}, {19: 25, 20: 5}])
def test_units_at_the_seam_of_two_queue_files_are_told_apart(pointing: dict[int, int], tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60, queues=1)
    for queue_offset, other in pointing.items():
        point_at(root, queue_offset, other)
    run = rmqctl("recover", "--dry-run", store=root)
    more = f" and {len(pointing) - 1} more" if len(pointing) > 1 else ""
    assert f"of queue offset {min(pointing)}{more};" in run.err


@pytest.mark.leaves_damage
def test_recover_names_the_unit_whose_size_reaches_into_the_next_record(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60, queues=1)
    point_at(root, 25, 25, size=300)
    run = rmqctl("recover", "--dry-run", store=root)
    assert "1 entry is of no record: the one of queue offset 25;" in run.err


CHANGES = {
    "recover": ("recover", "--yes"),
    "recover after a crash": ("recover", "--abnormal", "--yes"),
    "truncate-dirty": ("truncate-dirty", "--yes"),
    "put": ("put", "U", "body"),
}
LAST_FILE, MIDDLE_FILE, FIRST_UNIT = 45, 25, 0
BEHIND_THE_END, NEVER_WRITTEN = (1 << 40, 200), (0, 0)


@pytest.mark.turns(6)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("queues", [1, 2])
@pytest.mark.parametrize(
    ("queue_offset", "unit"),
    [
        (LAST_FILE, BEHIND_THE_END),
        (LAST_FILE, NEVER_WRITTEN),
        (MIDDLE_FILE, NEVER_WRITTEN),
        (FIRST_UNIT, NEVER_WRITTEN),
    ],
)
def test_a_unit_that_ends_its_queue_early_costs_no_message(
    change: str, queues: int, queue_offset: int, unit: tuple[int, int], tmp_path: Path
) -> None:
    """A broker would lose those behind it, and give their queue offsets a second time."""
    root = make_store(tmp_path / "store", 59 * queues, queues=queues)
    spoil(root, unit[0], queue_offset, unit[1])
    run = rmqctl("-f", "json", *CHANGES[change], store=root)
    assert run.code == 0, run.err
    assert run.json.get("lost_messages", 0) == 0
    with open_store(root) as store:
        assert store.max_offset("T", 0) == 59
        assert [number for number, _ in stored_messages(store)["T", 0]] == [*range(59)]
    checked = rmqctl("check", store=root)
    assert checked.code == 0, checked.out


def test_a_cut_keeps_what_stands_behind_a_damaged_unit(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 118, queues=2)
    with open_store(root) as store:
        cut = store.get("T", 1, 57).messages[0].log_offset
    spoil(root, 1 << 40, LAST_FILE)
    run = rmqctl("-f", "json", "truncate-dirty", "--offset", str(cut), "--yes", store=root)
    assert (run.code, run.json["lost_messages"]) == (0, 3)
    assert "queue offset 45 is of no record" in run.err
    with open_store(root) as store:
        assert (store.max_offset("T", 0), store.max_offset("T", 1)) == (58, 57)
