"""Take each sync of the tree away, one at a time, and require that a test fails for each.

    python -m tests.runs.every_sync              all
    python -m tests.runs.every_sync journal      those whose name has the word

A sync is a call of SYNCS in store/, found in the syntax tree. Wrappers count, so that a caller that leaves its own out
is found too. held_syncs.toml names the test of each; test_durable.py requires that it names every one.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from tests.mutants import PASSED, ROOT, TESTS_FAILED, WORKERS, in_fork, preload, run_mutated, run_tests

SYNCS = frozenset(
    {
        "_flush_everything", "_flush_folders", "_flush_full", "_sync_name", "fdatasync",
        "flush", "flush_file", "flush_groups", "flush_queues", "fsync", "fsync_folder", "sync", "sync_data",
        "sync_files", "sync_folders", "sync_for_groups", "sync_new", "sync_rebuilt", "sync_tree",
    }
)  # fmt: skip
TABLE = Path(__file__).with_name("held_syncs.toml")
OUTCOMES = {TESTS_FAILED: "held", PASSED: "SURVIVES"}
TIMEOUT_S = 120


class Sync(NamedTuple):
    """A call that makes something durable: the `rank`th of all calls of its file."""

    name: str
    file: str
    rank: int


def held() -> dict[str, str]:
    """The test of each sync."""
    return {sync: test for test, names in tomllib.loads(TABLE.read_text(encoding="utf-8")).items() for sync in names}


def syncs() -> list[Sync]:
    """Every sync of the tree; the name says file, function and call, and which one of equal calls it is."""
    return [sync for path in sorted((ROOT / "store").rglob("*.py")) for sync in _syncs_of(path)]


def _syncs_of(path: Path) -> Iterator[Sync]:
    file, seen = str(path.relative_to(ROOT)), dict[str, int]()
    for rank, (function, call) in enumerate(_calls(ast.parse(path.read_text(encoding="utf-8")), "")):
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        text = ast.unparse(call.func)
        if called in SYNCS and not text.startswith(("sys.", "stream.")):
            name = f"{file.removeprefix('store/')} {function} {text}"
            seen[name] = seen.get(name, 0) + 1
            yield Sync(name if seen[name] == 1 else f"{name} {seen[name]}", file, rank)


def _calls(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    function = node.name if isinstance(node, ast.FunctionDef) else function
    if isinstance(node, ast.Call):
        yield function, node
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, function)


def without(sync: Sync) -> CodeType:
    """The module with `True` in the call's place: a flush that says that nothing moved."""
    path = ROOT / sync.file
    tree = ast.parse(path.read_text(encoding="utf-8"))
    doomed = [call for _, call in _calls(tree, "")][sync.rank]

    class Removal(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            return ast.copy_location(ast.Constant(True), node) if node is doomed else self.generic_visit(node)

    return compile(ast.fix_missing_locations(Removal().visit(tree)), str(path), "exec", dont_inherit=True)


def outcome(sync: Sync, test: str) -> str:
    """Whether the test fails without the sync; UNCLEAR when it did not come to an end."""
    code = in_fork(partial(run_mutated, sync.file, partial(without, sync), [test]), TIMEOUT_S)
    return OUTCOMES.get(code, f"UNCLEAR {code}")


def main(words: list[str]) -> int:
    os.chdir(ROOT)
    preload()
    tests = held()
    chosen = [sync for sync in syncs() if not words or any(word in sync.name for word in words)]
    if not chosen:
        print(f"no sync has {' or '.join(words)} in its name")
        return 2
    named = sorted({tests[sync.name] for sync in chosen})
    if in_fork(partial(run_tests, named), 600) != PASSED:
        print("the tests fail though every sync is there; once more, to be seen:", flush=True)
        if subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *named], check=False).returncode:
            return 1
    with ThreadPoolExecutor(WORKERS) as pool:
        outcomes = list(pool.map(lambda sync: outcome(sync, tests[sync.name]), chosen))
    for sync, result in zip(chosen, outcomes, strict=True):
        print(f"{result:11}{sync.name:75} {tests[sync.name]}")
    print(f"{outcomes.count('held')} of {len(chosen)} held")
    return int(set(outcomes) != {"held"})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
