"""The plan of a mend: each leftover of a run with its action, its reason and the bytes that are written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.change.actions import Publish, Remove
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.compaction import build
from store.structures.compaction.build import plan_compaction_mend
from tests.support.five_stores import copy_of_five, five
from tests.support.golden import copy_store

LOG, UNITS = "compaction/compactionLog/Comp_A/0", "compaction/compactionCq/Comp_A/0"
FIRST, SECOND, LAST = "00000000000000000000", "00000000000000008832", "00000000000000141312"
NEW = "00000000000000150144"
POSITIONS = "compaction/position-checkpoint"
FROM_RECORDS, MOVED = "made from the records of the same name", "the run had not moved it up"
SET_ASIDE, LEFT = "a run that was cut short had set it aside", "a run that was cut short left it"
BACK = "nothing had taken its place"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copy_of_five("compaction", tmp_path)


def planned(root: Path) -> list[tuple[str, str, str]]:
    """Verb, path and reason of each action; nothing is changed."""
    change = plan_compaction_mend(StoreLayout(root), Filesystem(), root.with_name("staging"))
    rows = []
    for action in change.actions:
        assert isinstance(action, Publish | Remove)
        rows.append((action.verb, str(action.path.relative_to(root)), action.reason))
        WRITTEN[rows[-1][1]] = action.staged.read_bytes() if isinstance(action, Publish) else b""
    return rows


WRITTEN: dict[str, bytes] = {}
"""What the last plans write, by path."""


def test_a_sound_store_needs_nothing(root: Path) -> None:
    assert planned(root) == []


@pytest.mark.parametrize("name", [FIRST, SECOND, LAST])
def test_records_without_units_get_those_of_the_broker(name: str, root: Path) -> None:
    data = (root / UNITS / name).read_bytes()
    (root / UNITS / name).unlink()
    assert planned(root) == [("write", f"{UNITS}/{name}", FROM_RECORDS)]
    assert WRITTEN[f"{UNITS}/{name}"] == data


def test_where_no_file_of_units_is_left_their_size_is_that_of_the_other_queues(root: Path) -> None:
    before = {path.name: path.read_bytes() for path in sorted((root / UNITS).iterdir())}
    for name in before:
        (root / UNITS / name).unlink()
    assert planned(root) == [("write", f"{UNITS}/{name}", FROM_RECORDS) for name in before]
    assert {name: WRITTEN[f"{UNITS}/{name}"] for name in before} == before


@pytest.mark.parametrize(
    ("log_size", "most", "size"),
    [
        (104_857_460, 3, 10_485_746),
        (8832, 15, 736),
        (8832, 14, 736),
        (8832, 11, 552),
        (8832, 0, 46),
        # A file of records is five times as long at least.
        (8832, 37, 10_485_746),
        (8832, 31, 1472),
        (230, 0, 46),
        (184, 0, 10_485_746),
    ],
)
def test_the_size_of_lost_units_divides_that_of_the_records(log_size: int, most: int, size: int) -> None:
    assert build._unit_size_of(log_size, most) == size


def test_units_without_records_go_or_get_the_records_that_the_run_had_not_moved_up(root: Path) -> None:
    data = (root / LOG / SECOND).read_bytes()
    (root / LOG / "compacting").mkdir(exist_ok=True)
    (root / LOG / SECOND).rename(root / LOG / "compacting" / SECOND)
    assert planned(root) == [
        ("write", f"{LOG}/{SECOND}", MOVED),
        ("remove", f"{LOG}/compacting/{SECOND}", "moved up"),
    ]
    assert WRITTEN[f"{LOG}/{SECOND}"] == data
    (root / LOG / "compacting" / SECOND).unlink()
    assert planned(root) == [("remove", f"{UNITS}/{SECOND}", "there are no records of this name")]


@pytest.mark.parametrize("folder", [f"{LOG}/compacting", f"{LOG}/replicating", f"{UNITS}/compacting"])
def test_files_of_a_run_that_was_cut_short_go(folder: str, root: Path) -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / SECOND).write_bytes(b"x")
    assert planned(root) == [("remove", f"{folder}/{SECOND}", LEFT)]


def set_aside(root: Path, name: str, folders: tuple[str, ...] = (LOG, UNITS)) -> None:
    for folder in folders:
        (root / folder / name).rename(root / folder / f"{name}.delete")


def back(name: str, *folders: str) -> list[tuple[str, str, str]]:
    return [
        row
        for folder in folders
        for row in (("write", f"{folder}/{name}", BACK), ("remove", f"{folder}/{name}.delete", SET_ASIDE))
    ]


@pytest.mark.parametrize("name", [FIRST, SECOND, LAST])
def test_files_that_nothing_replaced_get_their_names_back(name: str, root: Path) -> None:
    set_aside(root, name)
    assert planned(root) == back(name, LOG, UNITS)


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        # Both names are there: the run had replaced the file.
        (lambda root: None, [("remove", f"{LOG}/{SECOND}.delete", SET_ASIDE)]),
        # One is not: it may get its name back.
        (
            lambda root: (root / UNITS / SECOND).unlink(),
            [*back(SECOND, LOG), ("write", f"{UNITS}/{SECOND}", FROM_RECORDS)],
        ),
        # The run had not moved all of its files up.
        (
            lambda root: (root / LOG / "compacting" / NEW).write_bytes(b"x"),
            [*back(SECOND, LOG), ("remove", f"{LOG}/compacting/{NEW}", LEFT)],
        ),
    ],
)
def test_a_file_set_aside_beside_one_of_its_name(
    make: Callable[[Path], object], rows: list[tuple[str, str, str]], root: Path
) -> None:
    (root / LOG / "compacting").mkdir(exist_ok=True)
    (root / LOG / f"{SECOND}.delete").write_bytes((root / LOG / SECOND).read_bytes())
    make(root)
    assert planned(root) == rows


def test_a_log_set_aside_beside_its_empty_units_gets_units_in_the_same_run(root: Path) -> None:
    data = (root / UNITS / LAST).read_bytes()
    set_aside(root, LAST)
    (root / UNITS / f"{LAST}.delete").write_bytes(b"")
    assert planned(root) == [
        *back(LAST, LOG),
        ("remove", f"{UNITS}/{LAST}.delete", SET_ASIDE),
        ("write", f"{UNITS}/{LAST}", FROM_RECORDS),
    ]
    assert WRITTEN[f"{UNITS}/{LAST}"] == data


def test_a_log_set_aside_stays_away_where_an_earlier_one_without_units_has_its_messages(root: Path) -> None:
    between = f"{int(SECOND) - 1:020d}"
    (root / LOG / f"{between}.delete").write_bytes((root / LOG / FIRST).read_bytes())
    (root / UNITS / FIRST).unlink()
    assert planned(root) == [
        ("remove", f"{LOG}/{between}.delete", SET_ASIDE),
        ("write", f"{UNITS}/{FIRST}", FROM_RECORDS),
    ]


def test_of_two_logs_set_aside_the_one_whose_messages_nothing_else_has_gets_its_name_back(root: Path) -> None:
    between = f"{int(SECOND) - 1:020d}"
    (root / LOG / f"{between}.delete").write_bytes((root / LOG / FIRST).read_bytes())
    set_aside(root, LAST)
    assert planned(root) == [("remove", f"{LOG}/{between}.delete", SET_ASIDE), *back(LAST, LOG, UNITS)]


def test_a_log_set_aside_stays_away_where_an_earlier_one_has_its_first_message(root: Path) -> None:
    between, blank = f"{int(SECOND) - 1:020d}", bytes(8832)
    records = (root / LOG / FIRST).read_bytes()
    (root / LOG / f"{between}.delete").write_bytes(records)
    size = int.from_bytes(records[:4], "big")
    (root / LOG / FIRST).write_bytes(records[:size] + blank[size:])
    (root / UNITS / FIRST).write_bytes((root / UNITS / FIRST).read_bytes()[:46] + blank[: 736 - 46])
    assert planned(root) == [("remove", f"{LOG}/{between}.delete", SET_ASIDE)]


def test_a_log_set_aside_with_the_queues_first_message_gets_its_name_back(tmp_path: Path) -> None:
    root = copy_store(five("compaction") / "store-before", tmp_path / "store")
    before = planned(root)
    set_aside(root, FIRST)
    assert planned(root) == [*back(FIRST, LOG, UNITS), *before]


def test_copies_follow_in_a_last_pair_of_files_that_is_empty(tmp_path: Path) -> None:
    root = copy_store(five("compaction") / "store-before", tmp_path / "store")
    folders = [f"compaction/{tree}/CompB/0" for tree in ("compactionLog", "compactionCq")]
    paths = [path for folder in folders for path in sorted((root / folder).iterdir())]
    before = {str(path.relative_to(root)): path.read_bytes() for path in paths}
    for path in paths:
        if path.name == FIRST:
            path.write_bytes(bytes(path.stat().st_size))
        else:
            path.unlink()
    rows = planned(root)
    assert sorted(rows) == sorted(("write", path, "with the messages that had no copy") for path in before)
    assert {path: WRITTEN[path] for path in before} == before


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_units_set_aside_without_records_do_not_get_their_name_back(name: str, root: Path) -> None:
    (root / LOG / name).unlink()
    set_aside(root, name, (UNITS,))
    assert planned(root) == [("remove", f"{UNITS}/{name}.delete", SET_ASIDE)]


def test_an_empty_file_and_one_without_a_number_never_get_a_name_back(root: Path) -> None:
    (root / LOG / "junk.delete").write_bytes(b"x")
    (root / UNITS / f"{NEW}.delete").write_bytes(b"")
    (root / LOG / "compacting").mkdir(exist_ok=True)
    (root / LOG / "compacting" / NEW).write_bytes(b"x")
    assert planned(root) == [
        ("remove", f"{LOG}/junk.delete", SET_ASIDE),
        ("remove", f"{UNITS}/{NEW}.delete", SET_ASIDE),
        ("remove", f"{LOG}/compacting/{NEW}", LEFT),
    ]


@pytest.mark.parametrize("size", [0, 400, 8831, 8833])
def test_a_log_file_of_another_length_gets_that_of_the_others(size: int, root: Path) -> None:
    path = root / LOG / SECOND
    data = path.read_bytes()
    path.write_bytes(data[:size].ljust(size, b"\0"))
    rows = planned(root)
    assert rows[0] == ("write", f"{LOG}/{SECOND}", f"it had {size} bytes, and the others have 8832")
    written = WRITTEN[f"{LOG}/{SECOND}"]
    assert (len(written), data.startswith(written.rstrip(b"\0")), written == data) == (8832, True, size > 8000)
    assert rows[1:] == ([] if size > 8000 else [("write", f"{UNITS}/{SECOND}", FROM_RECORDS)])


TABLE = b'{"queueOffsetMap":{"Comp_A_0":3}}'


@pytest.mark.parametrize(
    ("table", "copy", "row"),
    [
        (b"{", None, ("remove", POSITIONS, "no table of positions: everything is compacted again")),
        (b"{", b"{", ("remove", POSITIONS, "no table of positions: everything is compacted again")),
        (b"{", TABLE, ("write", POSITIONS, "the table was lost, and this is its copy")),
        (None, TABLE, ("write", POSITIONS, "the table was lost, and this is its copy")),
        (None, b"{", None),
        (None, None, None),
        (TABLE, b"{", None),
    ],
)
def test_a_table_of_positions_is_replaced_by_a_valid_copy(
    table: bytes | None, copy: bytes | None, row: tuple[str, str, str] | None, root: Path
) -> None:
    for path, data in ((root / POSITIONS, table), (root / f"{POSITIONS}.bak", copy)):
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
    assert planned(root) == ([row] if row is not None else [])
    if row is not None and row[0] == "write":
        assert WRITTEN[POSITIONS] == TABLE


@pytest.mark.parametrize("queue", ["Comp_A/0", "Comp_A/1", "CompB/0"])
def test_a_queue_without_files_gets_the_copies_that_the_broker_had_made(queue: str, tmp_path: Path) -> None:
    """Only that queue, though another one is mended."""
    root = copy_store(five("compaction") / "store-before", tmp_path / "store")
    other = "Comp_A/0" if queue != "Comp_A/0" else "Comp_A/1"
    folders = ("compaction/compactionLog", "compaction/compactionCq")
    before = {
        f"{folder}/{queue}/{path.name}": path.read_bytes()
        for folder in folders
        for path in (root / folder / queue).iterdir()
    }
    for folder in folders:
        shutil.rmtree(root / folder / queue)
    (root / folders[1] / other / FIRST).unlink()
    rows = planned(root)
    mended = ("write", f"{folders[1]}/{other}/{FIRST}", FROM_RECORDS)
    assert sorted(rows) == sorted([mended, *(("write", path, "with the messages that had no copy") for path in before)])
    assert {path: WRITTEN[path] for path in before} == before


def test_where_no_file_is_left_each_queue_of_a_compacted_topic_is_named(root: Path) -> None:
    shutil.rmtree(root / "compaction")
    change = plan_compaction_mend(StoreLayout(root), Filesystem(), root.with_name("staging"))
    lost = "has no compaction log, and none is left whose files say how long they are"
    assert (change.actions, sorted(change.remarks)) == (
        [], [f"{topic}, queue {queue} {lost}" for topic, queue in (("CompB", 0), ("Comp_A", 0), ("Comp_A", 1))]
    )  # fmt: skip


@pytest.mark.parametrize(("sizes", "is_fed"), [((10, 46), True), ((10, 0), False), ((0, 46), False), ((0, 0), False)])
def test_a_lost_queue_gets_files_where_both_lengths_are_known(
    sizes: tuple[int, int], is_fed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "queue_files", lambda files, queue: queue)
    calls: list[object] = []
    remarks: list[str] = []
    mend: Any = SimpleNamespace(
        files=SimpleNamespace(queues=lambda: [("Other", 0), ("T", 0), ("T", 1)]),
        topics={"T"},
        change=SimpleNamespace(remarks=remarks),
        _log_size=sizes[0],
        _unit_size=sizes[1],
        _feed=calls.append,
    )
    build._Mend._feed_lost(mend, {("T", 0)})
    assert calls == ([("T", 1)] if is_fed else [])
    lost = "T, queue 1 has no compaction log, and none is left whose files say how long they are"
    assert remarks == ([] if is_fed else [lost])
