"""An installation without the binding of RocksDB."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def without_rocksdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `import rocksdict` fail."""
    monkeypatch.setitem(sys.modules, "rocksdict", None)
