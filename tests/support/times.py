"""Another clock for one module of the code under test."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest


def set_time(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **functions: Callable[..., object]) -> None:
    """Replace functions of `time` in `module` alone; other modules, with their threads, keep theirs."""
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), **functions}))
