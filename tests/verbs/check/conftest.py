"""A store of three segments, and a copy of it for each test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Nothing of the store is imported before the kernels are compiled.
    from tests.support.stores import make_store

    return make_store(tmp_path_factory.mktemp("whole") / "store", 300)


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    from tests.support.golden import copy_store

    return copy_store(whole, tmp_path / "store")
