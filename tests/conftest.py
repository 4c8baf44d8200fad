"""What every test gets: compiled kernels, fresh copies of golden stores, and hypothesis without deadlines.

Tests import the checkout, so its kernels are compiled in place first (.build/kernels.py), unless they are current or
RMQCTL_NO_EXTENSIONS is set. Where they cannot be compiled everything runs uncompiled.
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.golden import Golden, copy_store, golden
from tests.support.soundness import Soundness

settings.register_profile(
    "quick",
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", parent=settings.get_profile("quick"), max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

STDERR = os.dup(2)
"""The process's own, while pytest captures."""
BUILD = Path(__file__).resolve().parents[1] / ".build" / "kernels.py"


HANGS_S = 420
"""Past the timeout of pyproject.toml, which ends a test but no thread that the test's end waits for."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Ends the process where a test hangs for good, and prints where; pytest-xdist goes on with another worker."""
    faulthandler.dump_traceback_later(HANGS_S, exit=True, file=STDERR)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or os.environ.get("RMQCTL_NO_EXTENSIONS", "0") not in ("", "0"):
        return
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
def sound_after_writing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test after which a store that this process wrote holds new damage, unless it `leaves_damage`."""
    soundness = Soundness()
    if request.node.get_closest_marker("leaves_damage") is None:
        soundness.watch(monkeypatch)
    yield
    assert soundness.new_damage == []
