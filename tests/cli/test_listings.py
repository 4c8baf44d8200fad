"""A command lists each folder of a store once."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from store.files import file_tree
from tests.cli.running import rmqctl
from tests.support.golden import copy_store, golden

COMMANDS = (
    "info",
    "doctor",
    "check",
    "recover --abnormal --dry-run",
    "simulate",
    "get TopicB",
    "find order130",
    "index-query TopicB order130",
    "lag",
    "stale",
    "usage",
    "delay show",
    "config check",
    "clean-expired --dry-run",
    "truncate-dirty --dry-run",
    "rebuild queues --dry-run",
)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of four topics with a damaged log; the last name in it was made an hour ago."""
    store = copy_store(golden("corrupt-mid").store, tmp_path_factory.mktemp("night"))
    hour_ago = time.time() - 3600
    for folder in (store, *(path for path in store.rglob("*") if path.is_dir())):
        os.utime(folder, times=(hour_ago, hour_ago))
    return store


@pytest.mark.turns(3)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_lists_each_folder_once(command: str, night: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listings: Counter[str] = Counter()
    scandir = os.scandir

    def count(folder: int | str) -> object:
        path = Path(f"/proc/self/fd/{folder}").resolve() if isinstance(folder, int) else folder
        listings[str(path)] += 1
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", count)
    monkeypatch.setattr(file_tree.FileTree, "_listings", file_tree.Listings())
    assert rmqctl(*command.split(), store=night).code in (0, 1)
    of_store = {folder: times for folder, times in listings.items() if folder.startswith(str(night))}
    assert of_store
    assert {folder: times for folder, times in of_store.items() if times > 1} == {}
