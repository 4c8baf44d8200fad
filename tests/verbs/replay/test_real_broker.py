"""What a real start cuts off is sent into the real broker, and each message reaches a real consumer once."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.processes import command_line, running
from tests.support.refbroker import cluster, needs_refbroker, needs_refbroker55
from tests.verbs.salvage.test_real_broker import ids, log_offset, sent_ids

COUNT, KILLS = 200, 3
BOTH_LINES = [pytest.param("4.9", marks=needs_refbroker), pytest.param("5.5", marks=needs_refbroker55)]


def damage(root: Path, at: int) -> None:
    """Change a byte of the body of the record at a log offset."""
    for path in sorted((root / "commitlog").iterdir()):
        start = int(path.name)
        if start <= at < start + path.stat().st_size:
            data = bytearray(path.read_bytes())
            data[at - start + 120] ^= 1
            path.write_bytes(data)


@pytest.mark.parametrize("line", BOTH_LINES)
def test_the_losses_of_a_real_start_reach_a_consumer_once_over_kills_of_replay(tmp_path: Path, line: str) -> None:
    root, copy, ledger = tmp_path / "store", tmp_path / "copy", tmp_path / "ledger"
    with cluster(tmp_path / "real", line) as real:
        with real.broker(root) as broker:
            real.make_topic("Orders", 2)
            sent = sorted(real.produce("Orders", COUNT, "--body-size", 500), key=log_offset)
            assert ids(real.consume("Orders", "billing", COUNT)) == sent_ids(sent)
            broker.kill()
        damage(root, log_offset(sent[COUNT // 2]))
        shutil.copytree(root, copy)
        lost = sent[COUNT // 2 + 1 :]
        with real.broker(root):
            words = ["replay", copy, "--losses", "--to", real.namesrv, "--ledger", ledger, "--verify"]
            for _ in range(KILLS):
                with running(command_line(None, *words, "--rate", 30)) as replay:
                    time.sleep(1.5)
                    replay.kill()
            run = rmqctl("-f", "json", *words)
            assert (run.json["stop_reason"], run.json["ledger_doubt_count"]) == (None, 0), run.err
            got = real.consume("Orders", "audit", COUNT // 2 + len(lost), "--from", "first", "--linger", 3)
            assert ids(got) == sent_ids([*sent[: COUNT // 2], *lost])
