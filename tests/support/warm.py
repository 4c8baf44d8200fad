"""Tests in forks of one process that has imported them: what each reaches, and whether one fails with changed code."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.machinery
import os
import pickle
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import pytest
from _pytest.main import pytest_runtestloop

WORKERS = 2
PASSED, TESTS_FAILED, FAILED, NOT_IN_PLACE, HUNG = 0, 1, 70, 71, 72
LEARNED_S = 900
"""What a file of tests may take while its lines are noted."""
MOST_STEPS = 500
HANGS_S, TIMES = 10, 5
"""A test hangs that takes so many seconds, and so many times what it took by the clock while its lines were noted."""
LOOKS_S = 0.5
"""How often a test is looked at."""
_most_waited = 0


class Reached(NamedTuple):
    """What a test that passes takes of the processor, whatever else runs, and the lines that it runs by function.

    A function has its file and qualified name; its lines are the bits of a number. The time by the clock has that of
    the file's shared fixtures, and none in which it waited for a processor.
    """

    seconds: float
    lines: dict[str, int]
    by_clock: float


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
    """A plugin that notes which lines of the code each test runs; a shared fixture's count for its whole file.

    Of each function the first MOST_STEPS lines of a test are noted: to trace all is slow.
    """

    def __init__(self, root: str) -> None:
        self.reached: dict[str, Reached] = {}
        self._root = root + "/"
        self._folders = (f"{root}/store/", f"{root}/rmqctl/")
        self._steps: set[tuple[int, int]] = set()
        self._left: dict[int, int] = {}
        self._codes: dict[int, CodeType] = {}
        self._shared: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._shared_s: dict[str, float] = defaultdict(float)
        self._failed = False
        self._caches: list[Any] = []
        self._module_count = 0

    @property
    def lines(self) -> dict[str, int]:
        """The lines run since the start or the last test's, by function."""
        lines: dict[str, int] = defaultdict(int)
        # A thread that a test has left may add to them meanwhile.
        for key, line in tuple(self._steps):
            lines[self._name(self._codes[key])] |= 1 << line
        return lines

    def trace(self) -> None:
        sys.settrace(self._called)
        threading.settrace(self._called)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[object]:
        if fixturedef.scope == "function":
            return (yield)
        before, started = self._steps, unhindered_s()
        self._begin()
        try:
            return (yield)
        finally:
            file = file_of(request.node.nodeid)
            self._shared_s[file] += unhindered_s() - started
            _add(self._shared[file], self.lines)
            self._begin(before)

    def pytest_runtest_logstart(self) -> None:
        self._forget()
        self._failed, self._started, self._started_at = False, time.process_time(), unhindered_s()
        self._begin()
        self.trace()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._failed |= not report.passed

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if not self._failed:
            file, taken, lines = file_of(nodeid), time.process_time() - self._started, self.lines
            by_clock = unhindered_s() - self._started_at + self._shared_s[file]
            _add(lines, self._shared[file])
            self.reached[nodeid] = Reached(taken, dict(lines), by_clock)

    def _forget(self) -> None:
        """Empty the caches of functions: a test that gets an earlier test's answer would not run their lines."""
        if self._module_count != len(sys.modules):
            self._caches, self._module_count = caches(), len(sys.modules)
        for cache in self._caches:
            cache.cache_clear()

    def _begin(self, steps: Iterable[tuple[int, int]] = ()) -> None:
        self._steps, self._left = set(steps), {}

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        left = self._left.get(id(code))
        if left is None:
            left = MOST_STEPS if code.co_filename.startswith(self._folders) else 0
            self._left[id(code)], self._codes[id(code)] = left, code
        return self._line if left > 0 else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        key = id(frame.f_code)
        self._steps.add((key, frame.f_lineno))
        self._left[key] = left = self._left.get(key, MOST_STEPS) - 1
        frame.f_trace_lines = left > 0
        return self._line

    def _name(self, code: CodeType) -> str:
        # What is written within a function without a name of its own is of the function.
        function = re.split(r"(?:\.<locals>)?\.?<(?!locals)", code.co_qualname)[0]
        return sys.intern(f"{code.co_filename.removeprefix(self._root)}::{function}")


def _add(lines: dict[str, int], others: dict[str, int]) -> None:
    for name, mask in others.items():
        lines[name] |= mask


class Change(NamedTuple):
    """Changed code of a module, the code as it is, and the names of the tests to run."""

    make: Callable[[], CodeType]
    original: Callable[[], CodeType]
    tests: Sequence[str]


class Known(NamedTuple):
    """What the tests of each file reach, the files with tests that fail, and the lines that importing all runs."""

    files: dict[str, dict[str, Reached]]
    failing: set[str]
    at_import: dict[str, int]

    @property
    def tests(self) -> dict[str, Reached]:
        return {name: reached for file in self.files.values() for name, reached in file.items()}


class Notes:
    """What is known of files of tests, in a folder: of each what it reaches, while it stays as it is.

    `files` are those of the code whose functions are asked for.
    """

    def __init__(self, folder: Path, root: Path, kind: str, files: Collection[str]) -> None:
        self._folder, self._root, self._kind, self._files = folder, root, kind, files

    def place(self, test: str) -> Path:
        """Name the file with the notes of a file of tests."""
        told = f"{self._kind}\0{Reached._fields}\0{self._root}\0{test}\0".encode() + (self._root / test).read_bytes()
        return self._folder / sha256(told).hexdigest()

    def read(self, test: str) -> dict[str, Reached] | None:
        """Give what is known of a file of tests, or None."""
        if not self.place(test).exists():
            return None
        kept: dict[str, Reached] = pickle.loads(self.place(test).read_bytes())
        return {name: self._asked(reached) for name, reached in kept.items()}

    def _asked(self, reached: Reached) -> Reached:
        lines = {name: mask for name, mask in reached.lines.items() if name.split("::")[0] in self._files}
        return reached._replace(lines=lines)


class Warm:
    """A plugin that, in place of a run, learns what the tests reach, and tries each change in a fork.

    `changes` gives what to try, or None for what cannot be tried once all is imported. The target gets what is known
    then, and the exit code of the tests with each change.
    """

    def __init__(self, root: str, notes: Notes, changes: Callable[[Known], Sequence[Change | None]], target: Path):
        self._imports = Recorder(root)
        self._root, self._notes, self._changes, self._target = root, notes, changes, target
        self._known = Known({}, set(), {})

    def pytest_sessionstart(self) -> None:
        self._imports.trace()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        self._known.at_import.update(self._imports.lines)
        with ThreadPoolExecutor(WORKERS) as pool:
            files: dict[str, list[Any]] = defaultdict(list)
            for item in session.items:
                files[file_of(item.nodeid)].append(item)
            list(pool.map(self._learn, files, files.values()))
            codes = list(pool.map(partial(self._tried, session), self._changes(self._known)))
        self._target.write_bytes(pickle.dumps((self._known, codes)))
        return True

    def _learn(self, file: str, items: list[Any]) -> None:
        known = self._notes.read(file)
        if known is None:
            if in_fork(partial(self._record, file, items), LEARNED_S):
                self._known.failing.add(file)
            known = self._notes.read(file)
        self._known.files[file] = known or {}

    def _record(self, file: str, items: list[Any]) -> int:
        session, recorder = items[0].session, Recorder(self._root)
        session.config.pluginmanager.register(recorder)
        session.config.option.maxfail = 0
        session.items = items
        pytest_runtestloop(session)
        sys.settrace(None)
        self._notes.place(file).write_bytes(pickle.dumps(recorder.reached))
        return int(session.testsfailed > 0)

    def _tried(self, session: Any, change: Change | None) -> int | None:
        if change is None:
            return None
        return in_fork(partial(self._try, session, change), 600) if change.tests else PASSED

    def _try(self, session: Any, change: Change) -> int:
        imported_as(change.make)
        if not put_in_place(change.original(), change.make()):
            return NOT_IN_PLACE
        for cache in caches():
            cache.cache_clear()
        session.config.pluginmanager.register(Limited(self._known))
        Chosen(change.tests, self._known).pytest_collection_modifyitems(session.items)
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
        functions, known = {function_of(name): rank for name, rank in self._ranks.items()}, self._known.tests
        for item in items:
            if item.nodeid not in known and file_of(item.nodeid) not in self._known.failing:
                self._ranks.setdefault(item.nodeid, functions.get(function_of(item.nodeid), -1))
        items[:] = sorted((item for item in items if self._ranks.get(item.nodeid, -1) >= 0), key=self._rank)

    def _rank(self, item: Any) -> int:
        return self._ranks[item.nodeid]


def file_of(name: str) -> str:
    """Name the file of a test."""
    return name.split("::")[0]


def function_of(name: str) -> str:
    """Name the function of a test, without the values of a row."""
    return name.split("[")[0]


class Limited:
    """A plugin that ends the process where a test hangs, or fails: what is left of it may hang too."""

    def __init__(self, known: Known) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        for name, reached in known.tests.items():
            self._seconds[name] = reached.by_clock
            self._seconds[function_of(name)] = max(reached.by_clock, self._seconds[function_of(name)])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        most = HANGS_S + TIMES * self._seconds.get(nodeid, self._seconds[function_of(nodeid)])
        self._until = unhindered_s() + most
        # A kernel that does not end lets no handler run.
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, most)
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, LOOKS_S, LOOKS_S)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            os._exit(TESTS_FAILED)

    def _look(self, number: int, frame: FrameType | None) -> None:
        if unhindered_s() > self._until:
            os._exit(HUNG)


def unhindered_s() -> float:
    """Return the clock's time less what a thread of this process, the slowest, has waited for a processor."""
    global _most_waited
    for path in Path("/proc/self/task").glob("*/schedstat"):
        # A thread may end meanwhile.
        with contextlib.suppress(OSError):
            _most_waited = max(_most_waited, int(path.read_bytes().split()[1]))
    return time.monotonic() - _most_waited / 1e9


def imported_as(make: Callable[[], CodeType]) -> None:
    """Give the module this code when it is imported."""
    original, code = importlib.machinery.SourceFileLoader.get_code, make()

    def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        return code if loader.path == code.co_filename else original(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


def put_in_place(original: CodeType, changed: CodeType) -> bool:
    """Give each live function of a module its changed code; False where that is not possible, or no live one has it."""
    news = {old: new for old, new in _pairs(original, changed) if old != new}
    if any(old.co_freevars != new.co_freevars for old, new in news.items()):
        return False
    # What a collection froze is listed again: functions that were imported before.
    gc.unfreeze()
    live = [one for one in gc.get_objects() if isinstance(one, FunctionType) and one.__code__ in news]
    for function in live:
        function.__code__ = news[function.__code__]
    return bool(live)


def caches() -> list[Any]:
    """List the project's functions that keep their answers."""
    # What a collection froze is listed again.
    gc.unfreeze()
    found = (one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper))
    return [one for one in found if one.__module__.partition(".")[0] in ("store", "rmqctl")]


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    olds, news = ([each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new))
    for inner_old, inner_new in zip(olds, news, strict=False):
        if inner_old.co_name == inner_new.co_name:
            yield inner_old, inner_new
            yield from _pairs(inner_old, inner_new)
