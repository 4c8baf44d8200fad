"""Half messages that a database alone names as open (5.5): open in a new store too."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import simulate
from tests.cli.running import rmqctl
from tests.support.five_stores import fivefive

pytest.importorskip("rocksdict")


def states(store: Path) -> dict[str, str]:
    rows = rmqctl("-f", "json", "transaction", "show", store=store).json["transactions"]
    return {row["uniq_key"]: row["state"] for row in rows}


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    """The states in the old store; a half message that it had given up is asked for once more."""
    found = states(fivefive("trans") / "store")
    assert sorted(found.values()) == ["committed"] * 3 + ["discarded"] + ["in-doubt"] * 5 + ["rolled-back"] * 2
    return {key: "in-doubt" if state == "discarded" else state for key, state in found.items()}


@pytest.mark.parametrize("options", [(), ("--keep-offsets",)], ids=["compacted", "kept"])
def test_a_salvage_keeps_the_state_of_each(options: tuple[str, ...], expected: dict[str, str], tmp_path: Path) -> None:
    run = rmqctl("salvage", *options, "--to", tmp_path / "new", store=fivefive("trans") / "store")
    assert (run.code, run.err, states(tmp_path / "new")) == (0, "", expected)
    assert rmqctl("check", store=tmp_path / "new").code == 0
    assert simulate(tmp_path / "new", compat="5.5").traps == []


def test_a_restored_backup_keeps_the_state_of_each(expected: dict[str, str], tmp_path: Path) -> None:
    rmqctl("backup", "create", tmp_path / "backup", store=fivefive("trans") / "store")
    run = rmqctl("backup", "restore", tmp_path / "backup", "--to", tmp_path / "new")
    assert (run.code, run.err, states(tmp_path / "new")) == (0, "", expected)


def test_without_its_package_a_salvage_says_that_they_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rocksdict", None)
    run = rmqctl("salvage", "--keep-offsets", "--to", tmp_path / "new", store=fivefive("trans") / "store")
    assert (run.code, "half messages without an end are forgotten: " in run.err) == (0, True), run.err


def test_a_new_store_for_5_3_forgets_them_and_says_so(tmp_path: Path) -> None:
    run = rmqctl(
        "-f", "json", "salvage", "--compat", "5.3", "--to", tmp_path / "new", store=fivefive("trans") / "store"
    )
    brought = {row["file"]: row["remark"] for row in run.json["brought"]}
    assert (run.code, (tmp_path / "new" / "rocksdbstore").exists()) == (0, False)
    assert "6 open half messages of RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC: no producer is asked" in run.err
    left = "a 5.3 broker does not read it; half messages without an end are forgotten"
    start = simulate(tmp_path / "new")
    assert (brought["rocksdbstore"], start.compat, start.traps) == (left, "5.3", [])
