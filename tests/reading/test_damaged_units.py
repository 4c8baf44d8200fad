"""A damaged queue unit is told by `get`, and hides no message but its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.engine.writable_store import WritableStore
from tests.cli.running import Run, rmqctl
from tests.support.stores import make_store


def spoil_second_unit(root: Path, unit: bytes) -> Path:
    with (root / "consumequeue/T/0" / f"{0:020d}").open("r+b") as file:
        file.seek(20)
        file.write(unit)
    return root


def get_all(root: Path) -> Run:
    return rmqctl("get", "T", "--queue", "0", "--offset", "0", "--max", "100", "--format", "json", store=root)


def test_get_tells_of_a_unit_outside_of_the_log_and_reads_on(tmp_path: Path) -> None:
    run = get_all(spoil_second_unit(make_store(tmp_path / "store", 30, queues=1), b"garbage!garbage!garb"))
    assert [row["queue_offset"] for row in run.json["messages"]] == [0, *range(2, 30)]
    assert run.code == 1
    assert "where the log has no record of this size" in run.err


def test_a_unit_that_ends_its_queue_and_those_behind_are_built_from_the_log(tmp_path: Path) -> None:
    run = get_all(spoil_second_unit(make_store(tmp_path / "store", 30, queues=1), b"\xff" * 20))
    assert [row["queue_offset"] for row in run.json["messages"]] == [*range(30)]


def test_what_a_store_says_when_it_is_closed_makes_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WritableStore, "describe_findings", lambda self: ["not dispatched: a record"])
    run = rmqctl("put", "T", "body", store=make_store(tmp_path / "store", 5))
    assert run.code == 1
    assert "not dispatched: a record" in run.err
