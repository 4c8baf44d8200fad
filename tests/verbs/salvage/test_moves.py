"""Records that name another by its log offset, after a move of both."""

from __future__ import annotations

import numpy as np
import pytest

from store.verbs.salvage.log_writer import Moves
from tests.support.logs import record


@pytest.mark.parametrize(
    ("sys_flag", "half", "moved", "lost"),
    [(8, -1, -1, 0), (8, 0, 0, 0), (8, 1, -1, 1), (8, 100, 30, 0), (8, 101, -1, 1), (8, 99, -1, 1), (0x28, 100, 30, 0)],
)
def test_a_commit_without_a_half_message_names_none_after_a_move(
    sys_flag: int, half: int, moved: int, lost: int
) -> None:
    moves = Moves()
    moves.runs = [(np.array([100, 200]), np.array([30, 40]))]
    data = bytearray(record(sys_flag=sys_flag))
    at = len(data) - len(b"body") - len(b"Topic") - 3 - 4 - 8
    data[at : at + 8] = half.to_bytes(8, "big", signed=True)
    moves.correct(memoryview(data))
    assert (int.from_bytes(data[at : at + 8], "big", signed=True), moves.lost_half_count) == (moved, lost)


@pytest.mark.parametrize(("old", "new"), [(99, -1), (100, 30), (101, -1), (200, 40), (201, -1), (300, 5), (301, -1)])
def test_a_record_is_found_where_it_was_moved_to(old: int, new: int) -> None:
    moves = Moves()
    assert moves.find(old) == -1
    moves.runs = [(np.array([100, 200]), np.array([30, 40])), (np.array([300]), np.array([5]))]
    assert moves.find(old) == new
