"""Mutation testing: every operator of cosmic-ray at every place of the modules that hold the rules.

    python -m tests.mutation                  all of RULES
    python -m tests.mutation cleaning get     some of them

A mutant takes its module's place in a forked process, which runs the rule's tests; no file is changed. A mutant that
differs in annotations, protocols or in how arguments may be passed only is none. Prints every survivor as a line of
difference, and a last line of counts for each rule; the exit code is 1 when fewer than 90 % of a rule's are killed.

Needs cosmic-ray, which is no dependency of the tests.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib.machinery
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 10
"""At least; ten times what the tests take without a mutant."""
WANTED_SHARE = 0.9
PRELOADED = ("numpy", "pytest", "hypothesis", "pyarrow", "typer", "jsonschema")
"""Imported once, before the forks: nothing of the project is among them."""


class Rule(NamedTuple):
    """A module, the functions that count (all where none is named), and the tests that hold it."""

    file: str
    tests: tuple[str, ...]
    functions: tuple[str, ...] = ()


RULES = {
    "cleaning": Rule("store/cleaning/rules.py", ("tests/cleaning/test_rules.py",)),
    "get": Rule("store/reading/get.py", ("tests/reading/test_get_rules.py",)),
    "start": Rule("store/recovery/start.py", ("tests/recovery/test_start.py",)),
    "log-end": Rule("store/opened/log_end.py", ("tests/opened/test_log_end.py",)),
    "walk-end": Rule("store/commitlog/end.py", ("tests/commitlog/test_end.py",)),
    "checkpoint": Rule("store/opened/checkpoint.py", ("tests/opened/test_checkpoint.py",)),
    "promises": Rule(
        "store/recovery/checkpoint_review.py",
        ("tests/recovery/test_checkpoint_review.py",),
        ("promises_of", "page_faults", "verdict", "is_ahead", "excess"),
    ),
    "index-query": Rule(
        "store/index/index_service.py",
        ("tests/index/test_index_service.py",),
        ("query", "unsafe_files", "expired_files", "flushed_until_ms"),
    ),
    "query-rounds": Rule(
        "store/message_store.py", ("tests/index/test_query_rounds.py",), ("query", "_has_key", "_at_hit")
    ),
    "group-commit": Rule("store/live/group_commit.py", ("tests/live/test_group_commit.py",)),
}


class Mutant(NamedTuple):
    """A module with one change."""

    operator: str
    text: str


def mutants_of(source: str, functions: Sequence[str]) -> Iterator[Mutant]:
    """Every mutant that means something else than the source."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    tree, meaning, lines = get_ast(source), _meaning(source), _lines_of(source, functions)
    seen = {meaning}
    for name in sorted(operator_names()):
        if get_operator(name).arguments():
            continue
        operator = get_operator(name)()
        places = [start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node)]
        for number, (line, _) in enumerate(places):
            if line not in lines:
                continue
            text = mutate_code(source, operator, number)
            if text is not None and (changed := _meaning(text)) not in seen:
                seen.add(changed)
                yield Mutant(name.removeprefix("core/"), text)


def _lines_of(source: str, functions: Sequence[str]) -> set[int]:
    """Lines of these functions; of the whole module where none is named."""
    if not functions:
        return set(range(1, source.count("\n") + 2))
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


class _Meaning(ast.NodeTransformer):
    """Takes out what no test can see: annotations, protocols, marks in signatures, slots and frozen of classes."""

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        self.generic_visit(node)
        node.args, node.posonlyargs = [*node.posonlyargs, *node.args, *node.kwonlyargs], []
        node.defaults, node.kwonlyargs, node.kw_defaults = [*node.defaults, *filter(None, node.kw_defaults)], [], []
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        self.generic_visit(node)
        node.annotation = ast.Constant(None)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST | None:
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            return None
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "dataclass":
            node.keywords = []
        return node


def _meaning(source: str) -> str:
    try:
        return ast.dump(_Meaning().visit(ast.parse(source)))
    except SyntaxError:
        return ""


def is_killed(rule: Rule, text: str, timeout_s: float) -> bool:
    """Whether the rule's tests fail, or do not end in time, with the module changed so."""
    child = os.fork()
    if child == 0:
        os._exit(_run(rule, text))
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _run(rule: Rule, text: str) -> int:
    """The tests' exit code in this process, which has a group of its own."""
    import pytest

    os.setpgid(0, 0)
    path = str(ROOT / rule.file)
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        if loader.path == path:
            return compile(text, path, "exec", dont_inherit=True)
        return original(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-n", "0", "--tb=no", "-p", "no:randomly"]
    return int(pytest.main([*options, *rule.tests]))


def changed_line(source: str, text: str) -> str:
    """The lines taken out and put in, on one line."""
    lines = difflib.unified_diff(source.splitlines(), text.splitlines(), n=0, lineterm="")
    shown = [f"{line[0]} {line[1:].strip()}" for line in lines if line[:3] not in ("---", "+++") and line[0] in "+-"]
    return "  ".join(shown)


def kill(name: str, rule: Rule) -> float:
    """Prints the survivors of a rule, and gives the share that was killed."""
    source = (ROOT / rule.file).read_text(encoding="utf-8")
    started = time.monotonic()
    if is_killed(rule, source, 10 * TIMEOUT_S):
        print(f"{name}: the tests fail without a mutant")
        return 0
    timeout_s = max(TIMEOUT_S, 10 * (time.monotonic() - started))
    count = survived = 0
    for mutant in mutants_of(source, rule.functions):
        count += 1
        if not is_killed(rule, mutant.text, timeout_s):
            survived += 1
            print(f"{name} {mutant.operator}: {changed_line(source, mutant.text)}", flush=True)
    share = (count - survived) / max(1, count)
    print(f"{name}: {count - survived} of {count} mutants killed, {share:.1%}", flush=True)
    return share


def main(names: Sequence[str]) -> int:
    os.chdir(ROOT)
    for module in PRELOADED:
        with contextlib.suppress(ImportError):
            __import__(module)
    shares = [kill(name, rule) for name, rule in RULES.items() if not names or name in names]
    return int(min(shares) < WANTED_SHARE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
