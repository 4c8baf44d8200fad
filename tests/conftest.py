"""What every test gets: compiled kernels, fresh copies of golden stores, and hypothesis without deadlines.

Tests import the checkout, so its kernels are compiled in place first (.build/kernels.py), unless they are current or
RMQCTL_NO_EXTENSIONS is set. So nothing here imports them at the top. Where kernels cannot be compiled everything
runs uncompiled. Its modules are compiled to bytecode, which every process that a test starts reads, even where
PYTHONDONTWRITEBYTECODE is set. Test modules with pytest's asserts are kept as bytecode too: writing the asserts of
all takes longer than the rest of the collection, so each worker process does a share.

`pytest` alone leaves out tests that are marked slow, other_turn or long, and runs in one process more than there are
processors where pytest-xdist is installed; with a path, -n, or -m with one of these marks it does as told. With each
commit `.ci/run` has the next turn.

Stores lie in memory where /dev/shm has room, as thousands of small stores are synced; TMPDIR or --basetemp says
otherwise. Archives are unpacked once for all worker processes.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.golden import UNPACKED_AT, Golden, copy_store, golden
from tests.support.quickly import chosen_marks, is_drawn, leave_to_other_turns

settings.register_profile(
    "quick",
    deadline=None,
    # The same examples in each run; the thorough profile draws others.
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", parent=settings.get_profile("quick"), derandomize=False, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
# Index files have names of local time, and deleteWhen is an hour of it.
os.environ["TZ"] = "UTC"
time.tzset()
# Others may read what a test makes: some command lines run as somebody else.
os.umask(0o022)
# Also where PYTHONDONTWRITEBYTECODE is set.
sys.dont_write_bytecode = False
# A session that ends would write 150 MB into the cache folder of whoever runs the tests.
os.environ.setdefault("RMQCTL_SPARK_CACHE", "")

STDERR = os.dup(2)
"""The process's own, while pytest captures."""
CHECKOUT = Path(__file__).resolve().parents[1]
BUILD = CHECKOUT / ".build" / "kernels.py"
COMPILED_FOLDERS = ("store", "rmqctl", "tests/support")
MEMORY = Path("/dev/shm")
ENOUGH_MEMORY = 4 << 30
ARCHIVES = "rmqctl-archives-"
UNPACKED = pytest.StashKey[Path]()

TOGETHER = ("tests/query/",)
"""Folders of tests that share what takes long to make: Spark. The unit of work with the most tests begins first."""

HANGS_S = 720
"""Past the timeout of pyproject.toml, which ends a test but no thread that the test's end waits for."""
WATCHED_S = 60
"""Seconds of tests that share a watch: each watch is a thread, and to end one took 8 ms on a loaded machine."""


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Iterator[None]:
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


watched_since = -math.inf


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol() -> None:
    """Ends the process where a test hangs for good, and prints where; pytest-xdist goes on with another worker."""
    global watched_since
    if time.monotonic() - watched_since >= WATCHED_S:
        watched_since = time.monotonic()
        faulthandler.dump_traceback_later(HANGS_S + WATCHED_S, exit=True, file=STDERR)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run the default tests in one worker more than there are processors; those of a file stay in one of them."""
    if config.pluginmanager.hasplugin("xdist") and config.option.numprocesses and config.option.dist == "no":
        config.option.dist = "loadgroup"
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    # Workers get the words of the command line, and none of what is set here.
    config.option.markexpr = chosen_marks(config.option.markexpr)
    if hasattr(config, "workerinput"):
        return
    if config.pluginmanager.hasplugin("xdist") and config.option.numprocesses is None and not config.option.usepdb:
        # One more, as workers wait: for processes that tests start, for intervals of services, for disks.
        config.option.numprocesses, config.option.dist = len(os.sched_getaffinity(0)) + 1, "loadgroup"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark rows before their marks are asked for."""
    leave_to_other_turns(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file, and of each folder of TOGETHER, in one worker.

    What a file's tests share is made once. For each unit of work the controller looks through all tests: with a unit
    for each of 15,000 tests it took 60 s of its own. The mark xdist_group does nothing with pytest 9.2 and
    pytest-xdist 3.8: each worker started Spark.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((one for one in TOGETHER if nodeid.startswith(one)), nodeid.split("::")[0])

    return Together(config, log) if config.option.dist == "loadgroup" else None


def pytest_collection_finish() -> None:
    """Keep the collector from looking at some 20,000 tests again and again."""
    gc.freeze()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Leave bytecode of a worker's share of the test modules to all workers.

    The collection of a fresh clone takes 27 s with two workers, 34 s without this.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    modules = sorted(CHECKOUT.glob("tests/**/test_*.py"))
    for path in modules[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        module = ModuleType("rewritten")
        module.__spec__ = ModuleSpec(module.__name__, None, origin=str(path))
        # Without builtins nothing of it runs: its first import fails.
        module.__dict__["__builtins__"] = {}
        with contextlib.suppress(ImportError):
            session.config.pluginmanager.rewrite_hook.exec_module(module)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what all workers share; they inherit the variables."""
    if UNPACKED_AT in os.environ:
        return
    if "store.kernels" in sys.modules:
        raise pytest.UsageError("store.kernels was imported before it is compiled: look what imports it in conftest.py")
    if "TMPDIR" not in os.environ and has_memory():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None
    remove_left_archives()
    config.stash[UNPACKED] = Path(tempfile.mkdtemp(prefix=f"{ARCHIVES}{os.getpid()}-"))
    os.environ[UNPACKED_AT] = str(config.stash[UNPACKED])
    compileall = [sys.executable, "-m", "compileall", "-q", *COMPILED_FOLDERS]
    subprocess.run(compileall, cwd=CHECKOUT, capture_output=True, check=False)
    if os.environ.get("RMQCTL_NO_EXTENSIONS", "0") in ("", "0"):
        compile_kernels()


def pytest_unconfigure(config: pytest.Config) -> None:
    if UNPACKED in config.stash:
        shutil.rmtree(config.stash[UNPACKED], ignore_errors=True)


def remove_left_archives() -> None:
    """Removes what runs left behind that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{ARCHIVES}*-*"):
        try:
            os.kill(int(folder.name.removeprefix(ARCHIVES).split("-")[0]), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (ValueError, PermissionError):
            continue


def has_memory() -> bool:
    """Whether a file system in memory has room for the stores of a few tests."""
    try:
        return os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY
    except OSError:
        return False


def compile_kernels() -> None:
    built = subprocess.run([sys.executable, BUILD], capture_output=True, text=True, check=False)
    if built.returncode != 0:
        os.environ["RMQCTL_NO_EXTENSIONS"] = "1"
        warnings.warn(built.stderr.strip(), stacklevel=1)


CopyOf = Callable[..., tuple[Golden, Path]]


@pytest.fixture
def copy_of(tmp_path: Path) -> CopyOf:
    """`copy_of("aborted")` gives the archive and a copy of its store/ that may be changed."""

    def copy(name: str, folder: str = "store") -> tuple[Golden, Path]:
        source = golden(name)
        original = source.store if folder == "store" else source.folder / folder
        return source, copy_store(original, tmp_path / name / folder)

    return copy


@pytest.fixture(autouse=True)
def half_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk above 90 % refuses puts, and above 75 % is cleaned; the machine's own may be that full."""
    measure = shutil.disk_usage

    def half_full(path: Any) -> Any:
        total = measure(path).total
        return type(measure(path))(total, total // 2, total - total // 2)

    monkeypatch.setattr(shutil, "disk_usage", half_full)


@pytest.fixture(autouse=True)
def sound_after_writing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test after which a store that this process wrote holds new damage, unless it `leaves_damage`.

    A run of all tests looks after the writers of a third of them: of 28 files of tests the looks took a sixth of the
    CPU time.
    """
    from tests.support.soundness import Soundness

    soundness, takes_all = Soundness(), request.config.args_source is pytest.Config.ArgsSource.TESTPATHS
    may_leave = request.node.get_closest_marker("leaves_damage") is not None
    if not may_leave and (not takes_all or is_drawn(request.node.nodeid, 3)):
        soundness.watch(monkeypatch)
    yield
    assert soundness.new_damage == []
