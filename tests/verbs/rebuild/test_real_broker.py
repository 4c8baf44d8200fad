"""A rebuilt store under the real broker, with real clients."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.refbroker import cluster, needs_refbroker


@needs_refbroker
@pytest.mark.parametrize(
    ("word", "is_lost"), [("rebuild", False), ("rebuild", True), ("recover", True), ("salvage", False)]
)
def test_a_group_misses_no_message_of_a_queue_that_had_expired(word: str, is_lost: bool, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with cluster(tmp_path / "real") as real:
        with real.broker(root) as broker:
            real.make_topic("Orders", 1)
            real.produce("Orders", 75)
            assert len(real.consume("Orders", "billing", 75)) == 75
            real.produce("Filler", 300, "--body-size", 500)
            broker.stop()
        segments = sorted((root / "commitlog").iterdir())
        segments[0].unlink()
        if is_lost:
            shutil.rmtree(root / "consumequeue/Orders")
        target = tmp_path / "salvaged"
        words = ["--to", target] if word == "salvage" else ["--yes"]
        assert rmqctl(word, *words, store=root).code == 0
        root = target if word == "salvage" else root
        with real.broker(root):
            assert [row["queueOffset"] for row in real.produce("Orders", 30)] == list(range(75, 105))
            assert len(real.consume("Orders", "billing", 30)) == 30
