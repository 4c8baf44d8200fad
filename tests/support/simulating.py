"""What simulate foretells of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.opened.detect import find_store
from store.verbs.recover.outcome import SimulatedStart
from store.verbs.recover.simulate import simulate_start
from tests.support.stores import Clock

FOLDERS = ("commitlog/", "consumequeue/")


def simulate(root: Path, compat: str = "4.9", mode: str = "auto", **settings: Any) -> SimulatedStart:
    """The start of a broker of a line, in a scratch folder beside the store."""
    layout, fs = StoreLayout(root), Filesystem()
    found, scratch = find_store(layout, settings, fs, compat=compat), root.parent / f"{root.name}-scratch-{compat}"
    return simulate_start(found, fs, Clock(), scratch=scratch, mode=mode)


def sizes_afterwards(start: SimulatedStart) -> dict[str, int]:
    return {file.file: file.size for file in start.files if file.action != "remove"}


def sizes_in(root: Path) -> dict[str, int]:
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.stat().st_size for path in paths}
