"""Stores of 5.x in an object store: check and doctor say of every structure what they say of it in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five, damage, five, fivefive
from tests.support.s3 import s3_bucket

Stores = Callable[[str], tuple[Path, str]]
FIVE = ("bcq", "compaction", "rocksdb", "rocksdb-double", "timer")
FIVEFIVE = ("combine", "index", "rocksdbcq-separate", "snapshot", "timer", "trans")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    """Each store in a folder and at a URI; `damaged` lacks two units of its timer log."""
    from pyarrow.fs import copy_files

    roots = {f"five-{name}": five(name) / "store" for name in FIVE}
    roots |= {f"fivefive-{name}": fivefive(name) / "store" for name in FIVEFIVE}
    roots["damaged"] = copy_of_five("timer", tmp_path_factory.mktemp("damaged"))
    damage(roots["damaged"], {"zero": [["timerlog/00000000000000000000", 0, 104]]})

    @cache
    def copied(name: str) -> tuple[Path, str]:
        copy_files(str(roots[name]), f"structures/{name}", destination_filesystem=files, use_threads=False)
        return roots[name], f"s3://structures/{name}"

    with s3_bucket("structures") as files:
        yield copied


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "doctor"])
@pytest.mark.parametrize("name", [*(f"five-{name}" for name in FIVE), *(f"fivefive-{name}" for name in FIVEFIVE)])
def test_a_sound_store_is_sound(stores: Stores, name: str, command: str) -> None:
    root, address = stores(name)
    local, remote = (rmqctl("-f", "json", "--store", at, command) for at in (root, address))
    assert remote.code == 0, remote.out
    assert remote.out.replace(address, str(root)) == local.out


@pytest.mark.turns(4)
def test_damage_is_found_at_the_uri_as_in_the_folder(stores: Stores) -> None:
    root, address = stores("damaged")
    local, remote = (rmqctl("-f", "json", "--store", at, "check") for at in (root, address))
    assert (local.code, {one["file"] for one in local.json["findings"]}) == (1, {f"{root}/timerlog"})
    assert remote.out.replace(address, str(root)) == local.out
