"""What every test gets: fresh copies of golden stores, and hypothesis without deadlines (the machine is shared)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.golden import Golden, copy_store, golden

settings.register_profile(
    "quick",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", parent=settings.get_profile("quick"), max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

CopyOf = Callable[..., tuple[Golden, Path]]


@pytest.fixture
def copy_of(tmp_path: Path) -> CopyOf:
    """`copy_of("aborted")` gives the archive and a copy of its store/ that may be changed."""

    def copy(name: str, folder: str = "store") -> tuple[Golden, Path]:
        source = golden(name)
        original = source.store if folder == "store" else source.folder / folder
        return source, copy_store(original, tmp_path / name / folder)

    return copy
