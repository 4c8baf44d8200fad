"""Stores for the examples of the manual."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.engine.services.stores import unpack
from tests.support.golden import copy_store, golden

LONG_AGO_S = 1_700_000_000


def copy_of(name: str) -> Callable[[Path], Path]:
    return lambda folder: copy_store(golden(name).store, folder / "store")


def of_old_segments(folder: Path) -> Path:
    root = copy_of("normal")(folder)
    for segment in (root / "commitlog").iterdir():
        os.utime(segment, (LONG_AGO_S, LONG_AGO_S))
    return root


def with_services(folder: Path) -> Path:
    return unpack("services", folder)[0]
