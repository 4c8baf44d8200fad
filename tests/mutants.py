"""Change the code, one place at a time, and require that a test fails.

    python -m tests.mutants                                     all named mutants: the rules that decide over data
    python -m tests.mutants keep-index ...                      some of them
    python -m tests.mutants --random 100 --seed 1               a random hundred of all rooms, by operator
    python -m tests.mutants --random 100 store/commitlog ...    of some rooms or files

A mutant takes its module's place in a forked process, which runs the tests of the module's room (TESTS) that reach the
changed function; no file is changed, and processes that a test starts run the code as it is. Prints each survivor and
a table of rooms; exits with 1 when fewer than 90 % of a room's mutants are killed. A mutant that hangs counts as
killed. mutants.toml has the named mutants, and the changes that change nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.machinery
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
import tomllib
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from tests.support.operators import Mutant, code_of, mutants_of

ROOT = Path(__file__).resolve().parent.parent
TOLD = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text(encoding="utf-8"))
WORKERS = 2
TIMEOUT_S = 10
"""At least; ten times what the tests take without a mutant."""
MOST_S = 10
"""A mutant is tried for so long, by what the tests take without one."""
WANTED_SHARE = 0.9
PASSED, TESTS_FAILED, FAILED = 0, 1, 70
PRELOADED = ("numpy", "hypothesis", "pyarrow", "typer", "jsonschema")
"""Imported once, before the forks: nothing of the project is among them."""

TESTS = {
    "store/kernels": ("tests/kernels", "tests/index", "tests/consumequeue", "tests/dispatch"),
    "store/commitlog": ("tests/commitlog", "tests/live", "tests/golden/test_writing.py", "tests/five/test_put.py"),
    "store/consumequeue": ("tests/consumequeue", "tests/golden/test_reading.py", "tests/five/test_light_queues.py"),
    "store/index": ("tests/index", "tests/golden/test_reading.py"),
    "store/dispatch": ("tests/dispatch", "tests/commitlog", "tests/live/test_reput.py"),
    "store/reading": ("tests/reading", "tests/golden/test_reading.py"),
    "store/formats": ("tests/formats", "tests/brokerconfig", "tests/commitlog", "tests/five/test_timer.py"),
}
"""The tests that hold a room, where those are more than the tests of its own name."""


class Named(NamedTuple):
    """A rule with one change, and the test that must fail for it."""

    name: str
    file: str
    rule: str
    mutated: str
    test: str


class Reached(NamedTuple):
    """What a test takes, and the functions that it reaches: file and first line."""

    seconds: float
    functions: frozenset[tuple[str, int]]


class Recorder:
    """A plugin that writes down what each test reaches; what a shared fixture reaches counts for its whole file."""

    def __init__(self) -> None:
        self.reached: dict[str, Reached] = {}
        self._functions: set[tuple[str, int]] = set()
        self._shared: dict[str, set[tuple[str, int]]] = defaultdict(set)

    def pytest_sessionstart(self) -> None:
        sys.settrace(self._called)
        threading.settrace(self._called)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[object]:
        before, self._functions = self._functions, set()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._shared[request.node.nodeid.split("::")[0]] |= self._functions
            self._functions |= before

    def pytest_runtest_logstart(self) -> None:
        self._functions = set()
        self._started = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        sys.settrace(self._called)
        functions = frozenset(self._functions | self._shared[nodeid.split("::")[0]])
        self.reached[nodeid] = Reached(time.monotonic() - self._started, functions)

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        self._functions.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))


class Chosen:
    """A plugin that runs these tests alone, in their order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._ranks = {name: rank for rank, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self._ranks), key=self._rank)

    def _rank(self, item: Any) -> int:
        return self._ranks[item.nodeid]


def preload() -> None:
    """Import what every fork needs."""
    for module in PRELOADED:
        with contextlib.suppress(ImportError):
            __import__(module)


def in_fork(work: Callable[[], int], timeout_s: float) -> int:
    """Return the exit code of the work, done in a process of its own; -1 when it takes longer."""
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = folder
            tempfile.tempdir = None
            silence = os.open(os.devnull, os.O_RDWR)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            os._exit(_code(work))
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return -1


def _code(work: Callable[[], int]) -> int:
    try:
        return work()
    except BaseException:
        traceback.print_exc()
        return FAILED


def run_tests(tests: Sequence[str], *plugins: object) -> int:
    """Return the exit code of pytest in this process."""
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--tb=no", *tests], plugins=plugins))


def run_mutated(file: str, make: Callable[[], CodeType], tests: Sequence[str], *plugins: object) -> int:
    """Run the tests with the file's module changed; the exit code is pytest's."""
    path, original = str(ROOT / file), importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        return make() if loader.path == path else original(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    if file.startswith("store/kernels/"):
        os.environ["RMQCTL_NO_EXTENSIONS"] = "1"
    return run_tests(tests, *plugins)


def record(tests: Sequence[str], target: Path) -> int:
    """Run tests unchanged and write what they reach."""
    recorder = Recorder()
    code = run_tests(tests, recorder)
    target.write_bytes(pickle.dumps(recorder.reached))
    return code


class Room:
    """A room of the code, and what its tests reach."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tests = TESTS.get(name, tests_of(name))
        with tempfile.NamedTemporaryFile() as file:
            target = Path(file.name)
            if in_fork(partial(record, self.tests, target), 1800):
                sys.exit(f"{name}: the tests fail without a mutant: pytest {' '.join(self.tests)}")
            self._reached: dict[str, Reached] = pickle.loads(target.read_bytes())

    def chosen(self, mutant: Mutant) -> list[str]:
        """List the tests that reach the function, the shortest first, for MOST_S at most.

        A change outside of all functions is seen by the tests that reach any function of the file, or by all.
        """
        path = str(ROOT / mutant.file)
        near = self._reaching(lambda place: place == (path, mutant.function))
        if not mutant.function:
            near = self._reaching(lambda place: place[0] == path) or list(self._reached)
        near.sort(key=self._seconds)
        sums = accumulate(map(self._seconds, near))
        return [name for name, seconds in zip(near, sums, strict=True) if seconds <= MOST_S or name == near[0]]

    def _reaching(self, is_there: Callable[[tuple[str, int]], bool]) -> list[str]:
        return [name for name, test in self._reached.items() if any(map(is_there, test.functions))]

    def _seconds(self, name: str) -> float:
        return self._reached[name].seconds

    def survives(self, mutant: Mutant) -> bool:
        """Whether no test fails with the mutant."""
        names = self.chosen(mutant)
        if not names:
            return True
        source = (ROOT / mutant.file).read_text(encoding="utf-8")
        make = partial(code_of, mutant, source, str(ROOT / mutant.file))
        files = list(dict.fromkeys(name.split("::")[0] for name in names))
        timeout_s = TIMEOUT_S + 10 * sum(map(self._seconds, names))
        return in_fork(partial(run_mutated, mutant.file, make, files, Chosen(names)), timeout_s) == 0


def tests_of(room: str) -> tuple[str, ...]:
    """Name the tests beside a room: those of its own name."""
    beside = (f"tests/{Path(room).stem}", f"tests/test_{Path(room).stem}.py")
    return tuple(test for test in beside if (ROOT / test).exists()) or ("tests/cli",)


def room_of(file: str) -> str:
    """Name the room of a file: the folder of the engine, or the command line as a whole."""
    return "rmqctl" if file.startswith("rmqctl/") else "/".join(file.split("/")[:2])


def equivalents() -> set[tuple[str, str, str]]:
    """Read the changes that change nothing: file, source line and change."""
    return {(each["file"], each["line"], each["change"]) for each in TOLD["equivalent"]}


def all_mutants(places: Sequence[str]) -> Iterator[tuple[Mutant, str]]:
    """Yield the mutants of files whose names begin with one of the places, each with its source line."""
    for path in sorted([*(ROOT / "store").rglob("*.py"), *(ROOT / "rmqctl").rglob("*.py")]):
        file = str(path.relative_to(ROOT))
        if not places or file.startswith(tuple(places)):
            source = path.read_text(encoding="utf-8")
            lines = source.splitlines()
            yield from ((mutant, lines[mutant.line - 1].strip()) for mutant in mutants_of(file, source))


def try_random(count: int, seed: int, places: Sequence[str]) -> int:
    """Try a sample of the places' mutants, and print the survivors and a table."""
    known = equivalents()
    made = list(all_mutants(places))
    sample = sorted(random.Random(seed).sample(made, min(count, len(made))))
    rooms: dict[str, list[Mutant]] = defaultdict(list)
    for mutant, line in sample:
        if (mutant.file, line, mutant.change) not in known:
            rooms[room_of(mutant.file)].append(mutant)
    table = [try_room(name, mutants) for name, mutants in rooms.items()]
    print(f"\n{'room':24} {'made':>5} {'killed':>7} {'survived':>9}")
    for name, tried, survived in [*table, ("all", sum(row[1] for row in table), sum(row[2] for row in table))]:
        print(f"{name:24} {tried:5} {tried - survived:7} {survived:9}")
    return int(any(survived > (1 - WANTED_SHARE) * tried for _, tried, survived in table))


def try_room(name: str, mutants: Sequence[Mutant]) -> tuple[str, int, int]:
    """Try these mutants; return the room's row: name, made, survived."""
    room, survived = Room(name), 0
    with ThreadPoolExecutor(WORKERS) as pool:
        for mutant, survives in zip(mutants, pool.map(room.survives, mutants), strict=True):
            if survives:
                survived += 1
                print(f"{mutant.file}:{mutant.line}: {mutant.change}", flush=True)
    return name, len(mutants), survived


def try_named(names: Sequence[str]) -> int:
    """Try the named mutants; a rule whose text is not in its file any more survives."""
    chosen = [Named(**each) for each in TOLD["named"] if not names or each["name"] in names]
    if in_fork(partial(run_tests, sorted({mutant.test for mutant in chosen})), 600):
        print("the tests fail without a mutant")
        return 1
    survivors = 0
    for mutant in chosen:
        path = ROOT / mutant.file
        source = path.read_text(encoding="utf-8")
        changed = source.replace(mutant.rule, mutant.mutated)
        make = partial(compile, changed, str(path), "exec", dont_inherit=True)
        work = partial(run_mutated, mutant.file, make, [mutant.test])
        killed = changed != source and in_fork(work, 600) == TESTS_FAILED
        survivors += not killed
        print(f"{mutant.name:24} {'killed' if killed else f'survives pytest {mutant.test}'}", flush=True)
    return min(1, survivors)


def main() -> int:
    parser = argparse.ArgumentParser(description="Change the code and require that a test fails.")
    parser.add_argument("names", nargs="*", help="named mutants; with --random, folders or files")
    parser.add_argument("--random", type=int, metavar="N", help="try N random mutants by operator")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.chdir(ROOT)
    preload()
    with tempfile.TemporaryDirectory() as unpacked:
        os.environ["RMQCTL_UNPACKED_ARCHIVES"] = unpacked
        if given.random is None:
            return try_named(given.names)
        return try_random(given.random, given.seed, given.names)


if __name__ == "__main__":
    sys.exit(main())
