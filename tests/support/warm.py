"""Tests in forks of one process that has imported them: what each reaches, and whether one fails with changed code."""

from __future__ import annotations

import contextlib
import gc
import importlib.machinery
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import pytest
from _pytest.main import pytest_runtestloop

WORKERS = 2
PASSED, TESTS_FAILED, FAILED, NOT_IN_PLACE = 0, 1, 70, 71
LEARNED_S = 300
"""What a file of tests may take while its lines are noted."""
HANGS_S = 10
"""A test that takes ten times its processor time and this in addition hangs."""


class Reached(NamedTuple):
    """What a test that passes takes of the processor, whatever else runs, and the lines that it runs by file."""

    seconds: float
    lines: dict[str, frozenset[int]]


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
        try:
            return _wait(child, time.monotonic() + timeout_s)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)


def _wait(child: int, deadline: float) -> int:
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
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


class Recorder:
    """A plugin that writes down what lines of a room each test runs; a shared fixture's count for its whole file."""

    def __init__(self, room: str) -> None:
        self.reached: dict[str, Reached] = {}
        self._room = room
        self.lines: set[tuple[str, int]] = set()
        self._shared: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self._failed = False

    def trace(self) -> None:
        sys.settrace(self._called)
        threading.settrace(self._called)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[object]:
        before, self.lines = self.lines, set()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._shared[request.node.nodeid.split("::")[0]] |= self.lines
            self.lines |= before

    def pytest_runtest_logstart(self) -> None:
        self.lines, self._failed, self._started = set(), False, time.process_time()
        self.trace()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._failed |= not report.passed

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if not self._failed:
            lines: dict[str, set[int]] = defaultdict(set)
            for file, line in self.lines | self._shared[nodeid.split("::")[0]]:
                lines[file].add(line)
            taken = time.process_time() - self._started
            self.reached[nodeid] = Reached(taken, {file: frozenset(lines[file]) for file in lines})

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(self._room) else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


class Change(NamedTuple):
    """Changed code of a module, the code as it is, and the tests to run: their names and seconds."""

    make: Callable[[], CodeType]
    original: Callable[[], CodeType]
    tests: dict[str, float]


class Known(NamedTuple):
    """What the tests of each file reach, the files with tests that fail, and the lines that importing all runs."""

    files: dict[str, dict[str, Reached]]
    failing: set[str]
    at_import: set[tuple[str, int]]

    @property
    def tests(self) -> dict[str, Reached]:
        return {name: reached for file in self.files.values() for name, reached in file.items()}


class Warm:
    """A plugin that, in place of a run, learns what the tests reach, and tries each change in a fork.

    `known` has the files that need not be learned. `changes` gives what to try, or None for what cannot be tried once
    all is imported. The target gets what is known then, and the exit code of the tests with each change.
    """

    def __init__(self, room: str, known: Known, changes: Callable[[Known], Sequence[Change | None]], target: Path):
        self._imports = Recorder(room)
        self._room, self._known, self._changes, self._target = room, known, changes, target

    def pytest_sessionstart(self) -> None:
        self._imports.trace()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        self._known.at_import.update(self._imports.lines)
        with ThreadPoolExecutor(WORKERS) as pool:
            self._learn(session, pool)
            codes = list(pool.map(partial(self._tried, session), self._changes(self._known)))
        self._target.write_bytes(pickle.dumps((self._known, codes)))
        return True

    def _learn(self, session: Any, pool: ThreadPoolExecutor) -> None:
        files: dict[str, list[Any]] = defaultdict(list)
        for item in session.items:
            files[item.nodeid.split("::")[0]].append(item)
        new = [file for file in files if file not in self._known.files]
        with tempfile.TemporaryDirectory() as folder:
            targets = [Path(folder, str(rank)) for rank in range(len(new))]
            works = [partial(self._record, files[file], target) for file, target in zip(new, targets, strict=True)]
            codes = list(pool.map(lambda work: in_fork(work, LEARNED_S), works))
            for file, target, code in zip(new, targets, codes, strict=True):
                self._known.files[file] = pickle.loads(target.read_bytes()) if target.exists() else {}
                if code:
                    self._known.failing.add(file)

    def _record(self, items: list[Any], target: Path) -> int:
        session, recorder = items[0].session, Recorder(self._room)
        session.config.pluginmanager.register(recorder)
        session.config.option.maxfail = 0
        session.items = items
        pytest_runtestloop(session)
        sys.settrace(None)
        target.write_bytes(pickle.dumps(recorder.reached))
        return int(session.testsfailed > 0)

    def _tried(self, session: Any, change: Change | None) -> int | None:
        if change is None:
            return None
        return in_fork(partial(self._try, session, change), 600) if change.tests else PASSED

    def _try(self, session: Any, change: Change) -> int:
        imported_as(change.make)
        if not put_in_place(change.original(), change.make()):
            return NOT_IN_PLACE
        session.config.pluginmanager.register(Limited(change.tests))
        Chosen(list(change.tests), self._known).pytest_collection_modifyitems(session.items)
        with contextlib.suppress(session.Failed):
            pytest_runtestloop(session)
        return TESTS_FAILED if session.testsfailed else PASSED


class Chosen:
    """A plugin that runs these tests alone, in their order.

    A test with a changed value in its name is none of the known ones: it is run for its function.
    """

    def __init__(self, names: Sequence[str], known: Known) -> None:
        self._ranks = {name: rank for rank, name in enumerate(names)}
        self._known = known

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        functions, known = {_function(name): rank for name, rank in self._ranks.items()}, self._known.tests
        for item in items:
            if item.nodeid not in known and item.nodeid.split("::")[0] not in self._known.failing:
                self._ranks.setdefault(item.nodeid, functions.get(_function(item.nodeid), -1))
        items[:] = sorted((item for item in items if self._ranks.get(item.nodeid, -1) >= 0), key=self._rank)

    def _rank(self, item: Any) -> int:
        return self._ranks[item.nodeid]


def _function(name: str) -> str:
    return name.split("[")[0]


class Limited:
    """A plugin that ends the process where a test hangs."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, HANGS_S + 10 * self._seconds.get(nodeid, 0))


def imported_as(make: Callable[[], CodeType]) -> None:
    """Give the module this code when it is imported."""
    original, code = importlib.machinery.SourceFileLoader.get_code, make()

    def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        return code if loader.path == code.co_filename else original(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


def put_in_place(original: CodeType, changed: CodeType) -> bool:
    """Give each live function of a module its changed code; False where a function's free variables differ."""
    news = dict(_pairs(original, changed))
    if any(old.co_freevars != new.co_freevars for old, new in news.items()):
        return False
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename == original.co_filename:
            function.__code__ = news.get(function.__code__, function.__code__)
    return True


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    olds, news = ([each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new))
    for inner_old, inner_new in zip(olds, news, strict=False):
        if inner_old.co_name == inner_new.co_name:
            yield inner_old, inner_new
            yield from _pairs(inner_old, inner_new)
