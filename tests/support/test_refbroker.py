"""The helper over the real broker: what is put comes back, also after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.refbroker import cluster, needs_refbroker, needs_refbroker55


@pytest.mark.parametrize(
    "line", [pytest.param("4.9", marks=needs_refbroker), pytest.param("5.5", marks=needs_refbroker55)]
)
def test_a_group_gets_what_was_put_before_a_crash_and_a_committed_transaction(tmp_path: Path, line: str) -> None:
    store = tmp_path / "store"
    with cluster(tmp_path / "home", line) as real:
        with real.broker(store) as broker:
            real.make_topic("Orders")
            sent = real.produce("Orders", 20)
            broker.kill()
        with real.broker(store) as broker:
            halves = real.transact("Orders", 2, "--group", "senders", "--outcome", "commit,rollback")
            got = real.consume("Orders", "readers", 21)
            broker.stop()
    assert len(sent) == 20
    assert {row["msgId"] for row in got} == {row["msgId"] for row in [*sent, halves[0]]}
    assert not (store / "abort").exists()
