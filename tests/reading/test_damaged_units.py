"""A damaged queue unit is told by `get`, and hides no message but its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.writable_store import WritableStore
from tests.cli.running import rmqctl
from tests.support.stores import make_store


@pytest.mark.parametrize("garbage", [b"garbage!garbage!garb", b"\xff" * 20], ids=["beyond", "negative"])
def test_get_tells_of_a_unit_outside_of_the_log_and_reads_on(garbage: bytes, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 30, queues=1)
    with (root / "consumequeue/T/0" / f"{0:020d}").open("r+b") as file:
        file.seek(20)
        file.write(garbage)
    run = rmqctl("get", "T", "--queue", "0", "--offset", "0", "--max", "100", "--format", "json", store=root)
    assert [row["queue_offset"] for row in run.json["messages"]] == [0, *range(2, 30)]
    assert run.code == 1
    assert "where the log has no record of its size" in run.err


def test_what_a_store_says_when_it_is_closed_makes_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WritableStore, "describe_findings", lambda self: ["not dispatched: a record"])
    run = rmqctl("put", "T", "body", store=make_store(tmp_path / "store", 5))
    assert run.code == 1
    assert "not dispatched: a record" in run.err
