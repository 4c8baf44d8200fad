"""What a real start cuts off, and dead letters, sent into the real broker: each reaches a real consumer once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.runs.killed_replays import run_killed
from tests.support.refbroker import cluster, ids, needs_refbroker, needs_refbroker55, sent_ids

BOTH_LINES = [pytest.param("4.9", marks=needs_refbroker), pytest.param("5.5", marks=needs_refbroker55)]
COUNT = 12


@pytest.mark.parametrize("line", BOTH_LINES)
def test_the_losses_of_a_real_start_reach_a_consumer_once_over_kills_of_replay(tmp_path: Path, line: str) -> None:
    assert run_killed(tmp_path, line, count=200, kills=3, seed=1) == 99


@pytest.mark.parametrize("line", BOTH_LINES)
def test_dead_letters_reach_their_own_group_alone(tmp_path: Path, line: str) -> None:
    root, ledger = tmp_path / "store", tmp_path / "ledger"
    with cluster(tmp_path / "real", line) as real, real.broker(root):
        real.make_topic("Orders", 2)
        sent = sent_ids(real.produce("Orders", COUNT))
        assert ids(real.consume("Orders", "audit", COUNT)) == sent
        real.consume("Orders", "billing", COUNT, "--fail-first", 1, "--max-tries", 0)
        words = ("replay", root, "--topic", "%DLQ%billing", "--to", real.namesrv, "--ledger", ledger, "--verify")
        run = rmqctl("-f", "json", *words)
        assert (run.code, run.json["stop_reason"], run.json["ledger_doubt_count"]) == (0, None, 0), run.err
        assert ids(real.consume("Orders", "billing", COUNT, "--linger", 3)) == sent
        assert real.consume("Orders", "audit", 1, timeout_s=15) == []
