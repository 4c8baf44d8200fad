"""DLedger logs in an object store: reading commands answer as from a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five, damage
from tests.support.quickly import one_of
from tests.support.s3 import s3_bucket

NAMES = ("dledger-killed", "dledger-mixed")
INDEX = "dledger-n0/index/00000000000000000000"
READING = [
    ("check",),
    ("get", "DlA", "--queue", "0", "--offset", "0", "--max", "100"),
    ("dump", "commitlog"),
    ("fingerprint",),
    ("timeline",),
    ("usage", "--by", "queue"),
    ("sql", "select topic, queue_id, count(*) n, sum(size) s from messages group by all order by all"),
]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, str]]]:
    """Each store in a folder and at a URI, with the unused rest of the index cut off and one unit of it wrong."""
    from pyarrow.fs import copy_files

    found = {}
    with s3_bucket("members") as files:
        for name in NAMES:
            root = copy_of_five(name, tmp_path_factory.mktemp(name))
            os.truncate(root / INDEX, 65536)
            damage(root, {"zero": [[INDEX, 64, 32]]})
            copy_files(str(root), f"members/{name}", destination_filesystem=files)
            found[name] = root, f"s3://members/{name}"
        yield found


@pytest.mark.parametrize(("name", "words"), one_of(13, NAMES, READING))
def test_a_reading_command_answers_as_from_a_folder(
    stores: dict[str, tuple[Path, str]], name: str, words: tuple[str, ...]
) -> None:
    root, address = stores[name]
    local, remote = rmqctl("-f", "json", *words, store=root), rmqctl("-f", "json", "--store", address, *words)
    assert (remote.code, remote.out.replace(address, str(root))) == (local.code, local.out), remote.err


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", NAMES)
def test_check_finds_faults_of_entries_and_index(stores: dict[str, tuple[Path, str]], name: str) -> None:
    run = rmqctl("-f", "json", "--store", stores[name][1], "check")
    assert {one["kind"] for one in run.json["findings"]} == {"dledger-index", "wrong-size"}
