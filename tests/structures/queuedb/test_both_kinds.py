"""A start of 5.5 on queues that are written twice, in files and in a RocksDB, as the real classes made it.

starts.jsonl has what tests/runs/both_kinds.py recorded: stores in which a kind of queues begins late, ends early or is
lost.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from store import simulate
from store.config import StoreConfig
from store.errors import DamagedFile
from store.structures.commitlog.start import Rule
from store.structures.queuedb.combined import rule_of_both
from tests.runs.both_kinds import NAME, STATES, State, made
from tests.support.five_stores import fivefive
from tests.support.quickly import one_of

pytest.importorskip("rocksdict")
ASSIGNED_TO_DATABASE = {"combineAssignOffsetCQType": "defaultRocksDB"}
READ_DATABASE = {"combineCQPreferCQType": "defaultRocksDB"}


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (fivefive(NAME) / "starts.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("state", one_of(13, STATES), ids=str)
def test_a_start_is_foretold_in_counts(state: State, tmp_path: Path) -> None:
    found = simulate(made(fivefive(NAME), state, tmp_path / "store"), compat="5.5", settings=state.settings)
    foretold: dict[str, Any] = {"starts": found.starts}
    if found.starts:
        unseen = {f"{topic}-{queue_id}": count for (topic, queue_id), count in found.unseen.items()}
        foretold |= {"log_end": found.log_end, "unseen": unseen}
    assert {**state._asdict(), **foretold} in recorded()


def test_each_state_was_started() -> None:
    assert len(recorded()) == len(STATES) == 80


@pytest.mark.parametrize(
    ("settings", "ends", "outcome"),
    [
        # The log offsets of five first records, newest first, that a start tries: the first match counts.
        pytest.param({}, (450, 450), 400, id="both reach the newest"),
        pytest.param({}, (250, 450), 200, id="the assigned files end early"),
        pytest.param({}, (450, 250), 200, id="the database ends early"),
        pytest.param({}, (450, 50), 100, id="the database is given up after three segments"),
        pytest.param({}, (450, 0), 400, id="the database was never used"),
        pytest.param({"combineCQMaxExtraSearchCommitLogFiles": "0"}, (450, 250), 400, id="nothing more is tried"),
        pytest.param({"combineCQMaxExtraSearchCommitLogFiles": "1"}, (450, 250), 300, id="one more is tried"),
        pytest.param({"combineCQUseRocksdbForLmq": "true"}, (450, 50), 0, id="LMQ wait for the database"),
        pytest.param({"combineCQUseRocksdbForLmq": "true"}, (450, 0), 400, id="LMQ of a database never used"),
        pytest.param(ASSIGNED_TO_DATABASE, (50, 450), "ConsumeQueueStore", id="unread files are required"),
        pytest.param(ASSIGNED_TO_DATABASE, (250, 450), 200, id="files end early"),
        pytest.param(ASSIGNED_TO_DATABASE | READ_DATABASE, (50, 450), 100, id="files are given up"),
        pytest.param(READ_DATABASE, (450, 50), "RocksDBConsumeQueueStore", id="the database can't be read"),
    ],
)
def test_a_start_goes_back_for_the_kind_that_ends_early(
    settings: dict[str, str], ends: tuple[int, int], outcome: int | str
) -> None:
    files = Rule(lambda log_offset, time_ms: log_offset <= ends[0], "")
    rule = rule_of_both(StoreConfig().with_settings(settings), files, *ends)
    try:
        found: int | str = next(offset for offset in (400, 300, 200, 100, 0) if rule.matches(offset, 0))
    except DamagedFile as error:
        found = str(error).split()[1]
    assert found == outcome
