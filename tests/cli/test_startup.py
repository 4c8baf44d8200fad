"""What a quick command imports: most of its time is that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stores import make_store

CODE = """
import json, sys
from rmqctl.app import main
main(sys.argv[1:])
print(json.dumps(sorted(sys.modules)))
"""
LIBRARIES = {"pyarrow", "pyspark", "pandas", "duckdb", "rich", "lark", "jinja2", "pygal", "rocksdict", "socketserver"}
FOR_WRITING = {"live", "ha", "services", "stats", "cleaning", "rebuild", "five", "tables"}
QUICK = {
    "get": (["get", "T", "--max", "1"], {"store.change.change", "store.recovery.recover", "store.reading.filter"}, 105),
    "checkpoint show": (["checkpoint", "show"], {"store.change.change", "store.recovery.recover"}, 105),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("one") / "store", 1)


@pytest.mark.parametrize("command", QUICK)
def test_a_quick_command_imports_neither_what_writes_nor_a_large_library(command: str, root: Path) -> None:
    words, unneeded, most = QUICK[command]
    argv = [sys.executable, "-c", CODE, "--store", str(root), *words]
    run = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    loaded = set(json.loads(run.stdout.splitlines()[-1]))
    rooms = {name.split(".")[1] for name in loaded if name.startswith("store.")}
    assert loaded & (LIBRARIES | unneeded) == set()
    assert rooms & FOR_WRITING == set()
    assert len([name for name in loaded if name.startswith("store.")]) <= most


def test_the_libraries_of_numpy_start_no_threads(root: Path) -> None:
    code = CODE.replace("json.dumps(sorted(sys.modules))", "len(__import__('os').listdir('/proc/self/task'))")
    argv = [sys.executable, "-c", code, "--store", str(root), "get", "T"]
    run = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.splitlines()[-1] == "1"
