"""A put with settings of another kind of store is refused, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.snapshots import snapshot
from tests.support.stores import make_store


@pytest.mark.parametrize(
    "setting", ["enableDLegerCommitLog=true", "storeType=defaultRocksDB", "storeType=DefaultRocksDB"]
)
def test_put_refuses_settings_of_a_store_that_it_does_not_write(setting: str, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 5)
    before = snapshot(root)
    run = rmqctl("put", "T", "body", "--set", setting, store=root)
    assert run.code == 2
    assert setting.partition("=")[0] in run.err
    assert snapshot(root) == before


@pytest.mark.parametrize("setting", ["enableDLegerCommitLog=false", "storeType=default"])
def test_put_takes_the_settings_of_a_plain_store(setting: str, tmp_path: Path) -> None:
    assert rmqctl("put", "T", "body", "--set", setting, store=make_store(tmp_path / "store", 5)).code == 0
