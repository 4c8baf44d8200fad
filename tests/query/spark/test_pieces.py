"""Pieces of units and the files that are planned for them, at every boundary; no Spark runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from store.formats.columns import Column
from store.formats.run import Run
from store.query.spark.pieces import UnitPiece, _QueueUnits, _Scratch
from store.query.spark.rebuild_plan import TASK_BYTES, _has_fixed_places, _place_of, plan_tasks
from store.query.spark.writers import WholeQueue


def piece(
    first: int = 0, last: int = 9, first_end: int = 100, last_end: int = 200, *, is_dense: bool = True
) -> UnitPiece:
    return UnitPiece("scratch", 0, last - first + 1, first, last, first_end, last_end, is_dense)


@pytest.mark.parametrize(
    ("first", "first_end", "leads"),
    [(9, 300, False), (10, 300, True), (11, 300, False), (10, 201, True), (10, 200, False), (10, 199, False)],
)
def test_a_piece_leads_on_to_the_next_queue_offset_behind_it_in_the_log(
    first: int, first_end: int, leads: bool
) -> None:
    later = piece(first, 20, first_end, 400)
    assert piece().leads_on_to(later) is leads
    assert _has_fixed_places([piece(), later], 400) is leads


@pytest.mark.parametrize(("first", "is_dense", "fixed"), [(0, True, True), (-1, True, False), (0, False, False)])
def test_units_have_fixed_places_from_queue_offset_0_on_without_a_gap(first: int, is_dense: bool, fixed: bool) -> None:
    assert _has_fixed_places([piece(first, is_dense=is_dense)], 400) is fixed


def units(*runs: list[tuple[int, int]]) -> _QueueUnits:
    """The units of a queue from runs of records: queue offset and log offset of each; a record has 10 bytes."""
    made = _QueueUnits()
    for records in runs:
        array = np.zeros((len(Column), len(records)), np.int64)
        array[Column.QUEUE_OFFSET], array[Column.LOG_OFFSET] = np.array(records).T
        array[Column.SIZE] = 10
        rows = np.arange(len(records))
        made.add(cast(Run, None), array, rows, memoryview(bytes(20 * len(records))))
    return made


@pytest.mark.parametrize(
    ("runs", "ends", "is_dense"),
    [
        ([[(5, 100)]], (5, 5, 110, 110), True),
        ([[(5, 100), (6, 110)]], (5, 6, 110, 120), True),
        ([[(5, 100)], [(6, 110)], [(7, 150)]], (5, 7, 110, 160), True),
        ([[(5, 100), (7, 110)]], (5, 7, 110, 120), False),
        ([[(5, 100)], [(7, 110)]], (5, 7, 110, 120), False),
        ([[(5, 100)], [(5, 110)]], (5, 5, 110, 120), False),
        ([[(5, 100)], [(7, 110)], [(8, 120)]], (5, 8, 110, 130), False),
        ([[(0, 0)]], (0, 0, 10, 10), True),
    ],
)
def test_a_piece_is_dense_whose_queue_offsets_follow_each_other(
    runs: list[list[tuple[int, int]]], ends: tuple[int, int, int, int], is_dense: bool, tmp_path: Path
) -> None:
    found = units(*runs).piece(_Scratch(tmp_path))
    count = sum(map(len, runs))
    assert found[1:] == (0, count, *ends, is_dense)
    offsets = b"" if is_dense else np.array([record[0] for run in runs for record in run], np.int64).tobytes()
    assert Path(found.path).read_bytes() == bytes(20 * count) + offsets


def test_pieces_stand_one_after_another_in_a_scratch_file(tmp_path: Path) -> None:
    scratch = _Scratch(tmp_path)
    assert not scratch.path.exists()
    assert [scratch.append(b"abc", np.arange(2)), scratch.append(b"d")] == [0, 19]
    assert scratch.path.read_bytes() == b"abc" + np.arange(2).tobytes() + b"d"


@dataclass
class Share:
    weight_bytes: int


@pytest.mark.parametrize(
    ("weights", "tasks"),
    [
        ([], []),
        ([1, 3, 2], [[3, 2, 1]]),
        ([TASK_BYTES, 1], [[TASK_BYTES], [1]]),
        ([TASK_BYTES - 1, 1], [[TASK_BYTES - 1, 1]]),
        ([2, TASK_BYTES - 1, 1], [[TASK_BYTES - 1], [2, 1]]),
        ([TASK_BYTES + 5], [[TASK_BYTES + 5]]),
    ],
)
def test_a_task_has_the_largest_shares_first_up_to_its_bytes(weights: list[int], tasks: list[list[int]]) -> None:
    shares: Any = [Share(weight) for weight in weights]
    assert [[share.weight_bytes for share in task] for task in plan_tasks(shares)] == tasks


@pytest.mark.parametrize(("value", "place"), [(-5, 0), (0, 0), (9, 0), (10, 1), (11, 1), (20, 2), (99, 2)])
def test_a_value_is_in_the_piece_that_begins_at_or_before_it(value: int, place: int) -> None:
    assert _place_of(value, [0, 10, 20]) == place


def test_a_queue_weighs_as_much_as_its_units() -> None:
    queue = WholeQueue(Path("q"), ("T", 0), 400, (piece(0, 9), piece(20, 24)))
    assert queue.weight_bytes == 15 * 20
