"""Replication with the real store of both broker lines at the other end: logs are byte-identical."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from store import open_store
from store.engine.ha.link import Address
from store.engine.ha.master import CommitLogSource, HAMaster
from tests.cli.running import rmqctl
from tests.support.refstore import (
    LINES,
    SETTINGS,
    SIZES,
    free_port,
    needs_refstore,
    refstore,
    segments,
    wait_for,
    write_input,
)
from tests.support.stores import make_store

pytestmark = [needs_refstore, pytest.mark.slow]


@pytest.mark.parametrize("line", LINES)
def test_a_real_master_is_copied_byte_for_byte(line: str, tmp_path: Path) -> None:
    port, master, to = free_port(), tmp_path / "master", tmp_path / "copy"
    given = write_input(tmp_path / "in.jsonl", 1000)
    words = ("write", "--store", master, *SIZES, "--input", given, "--ha-port", port, "--linger-ms", 60000)
    with refstore(line, *words):
        wait_for(port)
        for _ in range(2):
            run = rmqctl("receive", f"127.0.0.1:{port}", "--to", to, "--format", "json")
            assert run.code == 0, run.err
        assert len(segments(master)) > 3
        assert segments(to) == segments(master)


@pytest.mark.parametrize("line", LINES)
def test_a_real_slave_copies_our_log_byte_for_byte(line: str, tmp_path: Path) -> None:
    ours, slave = tmp_path / "ours", tmp_path / "slave"
    make_store(ours, 150, **SETTINGS)
    with (
        open_store(ours) as store,
        HAMaster(CommitLogSource(store.opened.log), Address("127.0.0.1", 0)) as master,
        refstore(line, "slave", "--store", slave, *SIZES, "--master", str(master.address), "--seconds", 20) as real,
    ):
        deadline = time.monotonic() + 60
        while master.push_to_slave_max_offset < store.max_log_offset:
            assert real.poll() is None, real.communicate(timeout=10)
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert segments(slave) == segments(ours)
