"""A store of 4.x brokers needs nothing of the rooms for 5.x: no command imports them for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden import copy_store, golden

COMMANDS = (
    "check",
    "simulate",
    "doctor",
    "info",
    "get TopicA",
    "rebuild --queues --dry-run",
    "recover --dry-run",
    "truncate-dirty --dry-run",
    "clean-expired --dry-run",
    "put TopicA x",
    "salvage --to {new}",
)
CODE = """
import sys
from rmqctl.app import main
from store.structures.registry import STRUCTURES
ROOMS = {one.room for one in STRUCTURES if one.lines and "4.9" not in one.lines}
assert len(ROOMS) > 5
root = sys.argv[1]
for words in sys.argv[2:]:
    assert main(["--store", root, *words.split()]) == 0, words
    found = [name for name in sys.modules if name.startswith("store.structures.") and name.split(".")[2] in ROOMS]
    assert not found, (words, found)
"""


@pytest.mark.turns(3)
def test_no_command_imports_a_room_of_5x_for_a_store_of_4x(tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    commands = [words.format(new=tmp_path / "new") for words in COMMANDS]
    argv = [sys.executable, "-c", CODE, str(root), *commands]
    run = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
