"""A small store with each kind of message."""

from __future__ import annotations

from pathlib import Path

from tests.support.five_stores import five, fivefive
from tests.support.golden import golden


def store_of(name: str) -> Path:
    line, _, archive = name.rpartition(" ")
    root = five(archive) if line == "5" else fivefive(archive) if line else golden(name).store
    return root if (root / "commitlog").exists() else root / "store"
