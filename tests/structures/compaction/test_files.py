"""The files of compacted queues in both trees, the faults that end a start, and the bytes after the last unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.store_reader import StoredFile, StoreReader
from store.structures.commitlog.scan import Blank, End
from store.structures.compaction.files import (
    QueueFiles,
    behind_units,
    iterate_names,
    queues_of,
    read_positions,
    start_faults,
)

LOG, UNITS = "compaction/compactionLog", "compaction/compactionCq"


def file(number: int, size: int, path: str = "f") -> StoredFile:
    return StoredFile(f"{path}/{number}", number, size, 0)


def queue(logs: dict[int, int], units: dict[int, int], *deleted: int) -> QueueFiles:
    """A queue with files of these lengths by number, and set-aside files of these lengths."""
    trees = [{number: file(number, size, path) for number, size in tree.items()}
             for path, tree in (("log", logs), ("units", units))]  # fmt: skip
    return QueueFiles(("T", 0), *trees, tuple(file(-1, size, "deleted") for size in deleted), ())


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        (queue({0: 10, 10: 10}, {0: 46, 10: 46}), []),
        (queue({}, {}), []),
        (queue({0: 10}, {}), [("log/0", "the file of entries of this name is missing")]),
        (queue({}, {5: 46}), [("units/5", "the file of records of this name is missing")]),
        (queue({0: 10}, {0: 46}, 0, 7), [("deleted/-1", "replaced by a run that was cut short")]),
        (queue({0: 10, 10: 10, 20: 9}, {0: 46, 10: 46, 20: 46}), [("log/20", "9 bytes instead of 10")]),
        (queue({0: 10, 10: 10, 20: 10}, {0: 46, 10: 92, 20: 92}), [("units/0", "46 bytes instead of 92")]),
    ],
)
def test_a_start_wants_pairs_of_one_length_and_nothing_set_aside(
    given: QueueFiles, faults: list[tuple[str, str]]
) -> None:
    assert [(one.path, fault) for one, fault in start_faults(given)] == faults


def test_names_come_in_order_with_the_trees_that_have_them() -> None:
    given = queue({20: 10, 0: 10}, {10: 46, 0: 46})
    assert list(iterate_names(given)) == [(0, True, True), (10, False, True), (20, True, False)]
    assert [(log.path, units.path) for log, units in given.pairs] == [("log/0", "units/0")]
    assert given.folders == (f"{LOG}/T/0", f"{UNITS}/T/0")


BLANK, ZEROS = Blank(0, Path(), 0, 8), End(0, Path(), 0)
END = b"\xff" * 8 + bytes(30) + b"\xff" * 4 + bytes(4)


@pytest.mark.parametrize(
    ("outcome", "size", "data"),
    [
        (BLANK, 46, END),
        (BLANK, 100, END + bytes(54)),
        (BLANK, 45, bytes(45)),
        (BLANK, 0, b""),
        (ZEROS, 46, bytes(46)),
        (None, 92, bytes(92)),
    ],
)
def test_a_full_log_has_an_end_mark_after_its_units(outcome: Blank | End | None, size: int, data: bytes) -> None:
    assert behind_units(outcome, size) == data


def test_queues_are_those_with_a_folder_in_either_tree(tmp_path: Path) -> None:
    name = "00000000000000000000"
    for path in (f"{LOG}/T/1/{name}", f"{LOG}/T/1/{name}.delete", f"{LOG}/T/1/compacting/{name}", f"{UNITS}/T/1/{name}",
                 f"{UNITS}/A/0/{name}", f"{UNITS}/A/0/replicating/{name}", f"{LOG}/T/1/compacting/{name}.delete",
                 f"{LOG}/T/x/{name}"):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    first, second = queues_of(StoreReader(str(tmp_path)))
    assert [(one.queue, sorted(one.logs), sorted(one.units)) for one in (first, second)] == [
        (("A", 0), [], [0]), (("T", 1), [0], [0])
    ]  # fmt: skip
    assert [one.path for one in second.deleted] == [f"{LOG}/T/1/{name}.delete"]
    assert [one.path for one in (*first.unfinished, *second.unfinished)] == [
        f"{UNITS}/A/0/replicating/{name}", f"{LOG}/T/1/compacting/{name}"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ('{"queueOffsetMap":{"T_0":5,"T_1":"6"}}', {"T_0": 5, "T_1": 6}),
        ('{"queueOffsetMap":{}}', {}),
        ("{}", None), ("[]", None), ("x", None), ('{"queueOffsetMap":[]}', None),
        ('{"queueOffsetMap":{"T":"x"}}', None),
    ],
)  # fmt: skip
def test_positions_are_a_table_of_numbers(text: str, table: dict[str, int] | None, tmp_path: Path) -> None:
    (tmp_path / "compaction").mkdir()
    (tmp_path / "compaction/position-checkpoint").write_text(text, encoding="utf-8")
    assert read_positions(StoreReader(str(tmp_path)), "compaction/position-checkpoint") == table
