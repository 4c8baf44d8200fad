"""What a quick command imports: most of its time is that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from store.files import early_read
from tests.cli.running import rmqctl
from tests.support.stores import make_store

CODE = """
import json, sys
from rmqctl.app import main
import numpy, tabulate
of_libraries = set(sys.modules)
main(sys.argv[1:])
print(json.dumps([sorted(sys.modules), sorted(set(sys.modules) - of_libraries)]))
"""
LIBRARIES = {"pyarrow", "pyspark", "pandas", "duckdb", "rich", "lark", "jinja2", "pygal", "rocksdict", "socketserver"}
OF_PYTHON = {"decimal", "hashlib", "socket", "logging", "asyncio", "email"}
FOR_WRITING = ("engine.live", "engine.ha", "engine.services", "engine.stats", "query", "verbs.clean", "verbs.rebuild")
FOR_CHANGING = {"store.change.change", "store.verbs.recover.recover"}
FOR_FEW_STORES = {"store.reading.filter", "store.structures.tables.config_file"}
QUICK = {
    "get": (["get", "T", "--max", "1"], FOR_CHANGING | FOR_FEW_STORES, 123),
    "index-query": (["index-query", "T", "K"], FOR_CHANGING | FOR_FEW_STORES, 122),
    "info": (["info"], {"store.files.mapped_file", "store.structures.consumequeue.survey"}, 91),
    "checkpoint show": (["checkpoint", "show"], FOR_CHANGING | FOR_FEW_STORES, 118),
    "recover --dry-run": (["recover", "--abnormal", "--dry-run"], FOR_FEW_STORES, 137),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("one") / "store", 1)


@pytest.mark.turns(3)
@pytest.mark.parametrize("command", QUICK)
def test_a_quick_command_imports_neither_what_writes_nor_a_large_library(command: str, root: Path) -> None:
    words, unneeded, most = QUICK[command]
    argv = [sys.executable, "-c", CODE, "--store", str(root), *words]
    run = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    loaded, own = map(set, json.loads(run.stdout.splitlines()[-1]))
    assert loaded & (LIBRARIES | unneeded) == set()
    assert own & OF_PYTHON == set()
    rooms = tuple(f"store.{room}" for room in FOR_WRITING)
    assert [name for name in loaded if name.startswith(rooms)] == []
    assert len([name for name in loaded if name.startswith("store.")]) <= most


@pytest.mark.parametrize("words", [["--help"], ["backup", "--help"]])
def test_a_list_of_commands_imports_neither_a_command_nor_the_engine(words: list[str]) -> None:
    code = "import sys\nfrom rmqctl.app import main\nmain(sys.argv[1:])\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, timeout=120)
    loaded = run.stdout.splitlines()[-1].split()
    assert [name for name in loaded if name.startswith(("rmqctl.commands.", "store.engine", "store.verbs"))] == []


def test_the_libraries_of_numpy_start_no_threads(root: Path) -> None:
    code = """
import os, sys
from rmqctl.app import main
main(sys.argv[1:])
print(len(os.listdir("/proc/self/task")))
"""
    argv = [sys.executable, "-c", code, "--store", str(root), "get", "T"]
    run = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.splitlines()[-1] == "1"


def test_a_process_of_its_own_collects_garbage_seldom_and_not_at_its_end() -> None:
    # What is registered first is called last: behind it only the interpreter's own collections follow.
    code = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_threshold()[0], gc.get_freeze_count() > 0))
from rmqctl.__main__ import main
main()
"""
    argv = [sys.executable, "-c", code, "--version"]
    run = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.splitlines()[-1] == "100000 True"


READ_EARLY = {
    "check": ["index", "commitlog"],
    "check --sample 50": None,
    "check --from 1": None,
    "check --cold": None,
    "check --bwlimit 50M": None,
    "salvage": ["index", "commitlog"],
    "salvage commitlog": None,
    "recover --dry-run": ["commitlog"],
    "get T": None,
}


@pytest.mark.parametrize("line", READ_EARLY)
def test_what_a_command_walks_first_is_read_beside_its_imports(
    line: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Asked:
        def __init__(self, folders: list[Path], newest: int | None) -> None:
            asked.append([folder.relative_to(root).as_posix() for folder in folders])

        def close(self) -> None:
            asked.append(["closed"])

    monkeypatch.setattr(early_read, "EarlyRead", Asked)
    monkeypatch.chdir(root)
    rmqctl(*line.split(), store=root)
    folders = READ_EARLY[line]
    assert asked == ([folders, ["closed"]] if folders else [])


@pytest.mark.turns(3)
def test_a_command_with_duckdb_says_nothing_at_its_end(root: Path) -> None:
    argv = [sys.executable, "-m", "rmqctl", "--store", str(root), "-q", "sql", "select count(*) from messages"]
    run = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    assert run.stderr == ""
