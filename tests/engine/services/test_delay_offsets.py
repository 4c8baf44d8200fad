"""delay rewrite-offsets: behind a killed broker's deliveries, byte for byte as a broker writes the file, and undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.engine.services.stores import show, unpack


@pytest.mark.parametrize("name", ["services-aborted", "services5-aborted"])
def test_a_killed_brokers_messages_are_not_delivered_twice(name: str, tmp_path: Path) -> None:
    root, _ = unpack(name, tmp_path)
    (root / "abort").unlink()
    before = show(root, "delay", "show", code=1)["counts"]
    run = rmqctl("--format", "json", "delay", "rewrite-offsets", "--yes", store=root)
    after = show(root, "delay", "show")["counts"]
    assert (run.code, run.json["applied"]) == (0, True), run.err
    assert before["duplicate"] > 0
    assert (after["duplicate"], after["delivered"]) == (0, before["delivered"] + before["duplicate"])
    assert {**after, "duplicate": 0, "delivered": 0} == {**before, "duplicate": 0, "delivered": 0}


def test_a_closed_brokers_offsets_are_right_already(tmp_path: Path) -> None:
    root, _ = unpack("services", tmp_path)
    run = rmqctl("--format", "json", "delay", "rewrite-offsets", "--dry-run", store=root)
    assert (run.code, run.json["actions"]) == (0, [])


def test_an_unclean_store_is_recovered_first(tmp_path: Path) -> None:
    root, _ = unpack("services-aborted", tmp_path)
    run = rmqctl("delay", "rewrite-offsets", "--yes", store=root)
    assert (run.code, "recover --abnormal" in run.err) == (4, True)


def test_a_rewrite_is_undone(tmp_path: Path) -> None:
    root, _ = unpack("services-aborted", tmp_path)
    (root / "abort").unlink()
    file = root / "config" / "delayOffset.json"
    before = file.read_bytes() if file.exists() else None
    run = rmqctl("--format", "json", "delay", "rewrite-offsets", "--yes", store=root)
    assert rmqctl("undo", run.json["change_id"], store=root).code == 0
    assert (file.read_bytes() if file.exists() else None) == before
