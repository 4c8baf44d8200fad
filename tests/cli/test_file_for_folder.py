"""A file where an option wants a folder: every command says so, and that a folder is wanted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.golden import golden

LINES = (
    "replicate pull 127.0.0.1:1 --to {file}",
    "replicate pull 127.0.0.1:1 --to {file}/in",
    "recover --dry-run --quarantine {file}",
    "quarantine list --quarantine {file}",
    "undo any --quarantine {file}",
    "simulate --scratch {file}",
    "simulate --scratch {file}/in",
    "replay 127.0.0.1:1 --to 127.0.0.1:1 --ledger {file}",
    "backup restore any --to {file}",
    "backup list {file}",
    "backup create {file}",
    "backup create {file}/in",
    "salvage --to {file}",
    "salvage --to {file}/in",
    "export --to {file}/in",
    "--store {file}/in put T x",
    "--store {file}/in flush-bench --messages 5",
    "--store {file} put T x",
    "--store backup:{file} info",
)


@pytest.mark.parametrize("line", LINES)
def test_a_file_in_place_of_a_folder_is_called_one(line: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    words = line.format(file=file).split()
    has_store = words[0] in ("--store", "replicate")
    run = rmqctl(*words) if has_store else rmqctl(*words, store=golden("normal").store)
    assert run.code in (2, 4, 5)
    assert str(file) in run.err
    assert re.search(r"(file(, .*)?|not a folder); (name|give) (a|the store's root) folder", run.err)
