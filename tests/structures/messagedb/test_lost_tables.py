"""A message database whose table files are gone while its MANIFEST names them does not open, and is not empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import check, simulate, staged_store
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures import plan_message_database
from store.structures.messagedb.database import may_hold_entries
from tests.runs.starts_of_5_5 import start
from tests.support.five_stores import fivefive
from tests.support.golden import copy_store
from tests.support.refstore import COMMAND_55, needs_refstore55

pytest.importorskip("rocksdict")
TRANSACTIONS = {"transRocksDBEnable": "true", "transWriteOriginTransHalfEnable": "false"}
BROKEN = "NullPointerException: rocksdbstore does not open, and half messages are to be put into it"


def without_tables(name: str, tmp_path: Path, *, crashed: bool = False) -> Path:
    root = copy_store(fivefive(name) / "store", tmp_path / "store")
    for path in (root / "rocksdbstore").glob("*.sst"):
        path.unlink()
    if crashed:
        (root / "abort").touch()
    return root


@pytest.mark.parametrize(
    ("name", "file", "may_hold"),
    [
        ("trans", None, True),
        ("index", None, True),
        ("timer", None, True),
        # Nothing was put into it.
        ("plain", None, False),
        # RocksDB creates a new database then.
        ("trans", "CURRENT", False),
        ("trans", "MANIFEST-000005", False),
    ],
)
def test_a_manifest_that_names_a_table_tells_of_entries(
    name: str, file: str | None, may_hold: bool, tmp_path: Path
) -> None:
    root = without_tables(name, tmp_path)
    if file is not None:
        (root / "rocksdbstore" / file).unlink()
    assert may_hold_entries(StoreLayout(root), Filesystem()) is may_hold


@pytest.mark.parametrize("name", ["trans", "index"])
def test_check_finds_that_it_does_not_open_and_a_rebuild_mends_it(name: str, tmp_path: Path) -> None:
    root = without_tables(name, tmp_path)
    assert [finding.kind for finding in check(root)] == ["message-database"]
    with staged_store(root) as opened, plan_message_database(opened) as change:
        change.apply()
    assert list(check(root)) == []


def test_a_start_after_a_crash_ends_at_the_first_half_message(tmp_path: Path) -> None:
    found = simulate(without_tables("trans", tmp_path, crashed=True), settings=TRANSACTIONS)
    assert (found.starts, found.blocker[0], found.reason) == (False, "message-database-broken", BROKEN)


@pytest.mark.parametrize(
    ("name", "settings"), [("trans", TRANSACTIONS), ("index", {"indexRocksDBEnable": "true"}), ("index", {})]
)
def test_a_start_after_a_shutdown_runs_without_it(name: str, settings: dict[str, str], tmp_path: Path) -> None:
    found = simulate(without_tables(name, tmp_path), settings=settings)
    assert (found.starts, [trap.code for trap in found.traps]) == (True, ["message-database-broken"])


@needs_refstore55
@pytest.mark.parametrize("crashed", [True, False])
def test_the_real_broker_starts_as_foretold(crashed: bool, tmp_path: Path) -> None:
    root = without_tables("trans", tmp_path, crashed=crashed)
    load, _ = start(COMMAND_55, root, tmp_path / "answers", [f"{name}={one}" for name, one in TRANSACTIONS.items()])
    assert (load is None) is crashed
