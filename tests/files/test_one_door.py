"""The engine reaches the disk through store.files.filesystem alone: what passes it by, no injected failure meets."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import store

ROOT = Path(store.__file__).parent
DOOR = {
    "files/filesystem.py",
    "files/file_tree.py",
    "files/descriptor.py",
    "files/beneath.py",
    "files/mapping.py",
    "files/portable.py",
}
# Files that are no store's, with the reason.
PASSES = {
    "config.py": "reads the user's broker.conf",
    "verbs/recover/open_for_reading.py": "a scratch folder outside of the store",
    "files/scratch.py": "a scratch folder outside of the store",
    "query/spark/query.py": "an export goes to a folder of the user's",
    "query/embedded/export.py": "an export goes to a folder of the user's",
    "query/embedded/engine.py": "a scratch folder outside of the store",
    "query/tables/export.py": "an export goes to a folder of the user's",
    "query/spark/session.py": "the log and the package that a session of Spark is given",
    "query/spark/class_archive.py": "Java's own archive, in the user's cache",
    "engine/serving/place.py": "a socket is no file of the store",
    "files/rocksdb_copy.py": "a scratch folder outside of the store; RocksDB itself reads the table files",
    "verbs/replay/copies.py": "what waits for other messages, beyond what memory holds",
    "verbs/replay/ledger.py": "a ledger is in a folder of the user's",
    "kernels/shipped.py": "compiled kernels that a package brings to a Spark executor",
}
MODULES = {"shutil", "tempfile", "mmap", "glob"}
OS_FUNCTIONS = {
    "open", "stat", "lstat", "listdir", "scandir", "walk", "remove", "unlink", "rename", "replace", "link", "symlink",
    "mkdir", "makedirs", "rmdir", "truncate", "ftruncate", "fsync", "fdatasync", "utime", "statvfs", "posix_fallocate",
}  # fmt: skip
PATH_METHODS = {
    "glob", "rglob", "iterdir", "mkdir", "rmdir", "touch", "is_dir", "is_file", "is_symlink", "read_text", "read_bytes",
    "write_text", "write_bytes", "symlink_to", "hardlink_to", "lstat",
}  # fmt: skip


def passed_by(source: str) -> Iterator[str]:
    """What a module does to files by itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield "open"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, of = node.func.attr, node.func.value
            if isinstance(of, ast.Name) and of.id == "os" and name in OS_FUNCTIONS:
                yield f"os.{name}"
            elif name in PATH_METHODS and not (isinstance(of, ast.Name) and of.id in ("fs", "os")):
                yield f".{name}"


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_passes_the_door_by(path: Path) -> None:
    if str(path.relative_to(ROOT)) not in DOOR | PASSES.keys():
        assert list(passed_by(path.read_text())) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import shutil", ["shutil"]),
        ("from tempfile import mkdtemp", ["tempfile"]),
        ("open('x')", ["open"]),
        ("os.unlink(path)", ["os.unlink"]),
        ("path.mkdir(parents=True)", [".mkdir"]),
        ("fs.unlink(path); self._fs.open_read(path)", []),
    ],
)
def test_what_passes_the_door_by_is_seen(source: str, found: list[str]) -> None:
    assert list(passed_by(source)) == found
