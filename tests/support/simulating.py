"""What simulate foretells of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import store
from store.verbs.recover.outcome import SimulatedStart
from tests.support.stores import Clock

FOLDERS = ("commitlog/", "consumequeue/")


def simulate(root: Path, compat: str = "4.9", mode: str = "auto", **settings: Any) -> SimulatedStart:
    """The start of a broker of a line."""
    return store.simulate(root, settings=settings, clock=Clock(), compat=compat, mode=mode)


def sizes_afterwards(start: SimulatedStart) -> dict[str, int]:
    return {file.file: file.size for file in start.files if file.action != "remove"}


def sizes_in(root: Path) -> dict[str, int]:
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.stat().st_size for path in paths}
