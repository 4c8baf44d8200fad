"""A start of 5.5 on stores with both databases lost, behind or ahead, as the real classes made it.

starts.jsonl has what tests/runs/both_databases.py recorded: log whole or cut, each database now, before or gone.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from store import simulate
from tests.runs.both_databases import NAME, SETTINGS, STATES, as_line, damaged
from tests.support.five_stores import fivefive
from tests.support.quickly import one_of

pytest.importorskip("rocksdict")
State = tuple[str, str, str, bool]


def recorded(state: State) -> dict[str, Any]:
    lines = map(json.loads, (fivefive(NAME) / "starts.jsonl").read_text().splitlines())
    wanted = as_line(state)
    return next(line for line in lines if {name: line[name] for name in wanted} == wanted)


def sum_of(pattern: str, details: list[str]) -> int:
    return sum(int(found[1].replace(",", "")) for one in details if (found := re.search(pattern, one)))


@pytest.mark.parametrize("state", one_of(13, STATES), ids=str)
def test_a_start_is_foretold_in_counts(state: State, tmp_path: Path) -> None:
    found = simulate(damaged(fivefive(NAME), state, tmp_path / "store"), compat="5.5", settings=SETTINGS)
    details = [trap.detail for trap in found.traps]
    # The database that never had it forgot no half message; the one that gave it up had.
    given_up = state[2] != "gone"
    foretold = {
        "starts": found.starts,
        "log_end": found.log_end,
        "unseen": {f"{topic}-{queue_id}": count for (topic, queue_id), count in found.unseen.items()},
        "missing_keys": sum_of(r"never ([\d,]+) key", details),
        "forgotten_halves": sum_of(r"forgets ([\d,]+) open half", details) + given_up,
    }
    assert {**as_line(state), **foretold} == recorded(state)


def test_each_state_was_started() -> None:
    assert len((fivefive(NAME) / "starts.jsonl").read_text().splitlines()) == len(STATES) == 36
