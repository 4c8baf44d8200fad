"""Bench: what an operation is given, and the register of operations."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import stores
from tests.bench.report import Row

KIB, SMALL_BODY = 1024, 100
MIB, GIB = 1 << 20, 1 << 30
COUNTS = {KIB: 1_000_000, SMALL_BODY: 2_000_000}


@dataclass(slots=True)
class Bench:
    """Where to work, and how much: `share` of the numbers of messages in COUNTS."""

    folder: Path
    share: float = 1.0
    runs: int = 3
    large: bool = False
    against: tuple[str, ...] = ()
    """The words of a reference's command line, for rows that hold both in one run."""
    _made: dict[tuple[int, int, int], Path] = field(default_factory=dict)

    def count(self, body_size: int) -> int:
        return self.scaled(COUNTS[body_size])

    def scaled(self, count: int) -> int:
        return int(count * self.share)

    def store(self, body_size: int, count: int | None = None, keys: int = 2) -> Path:
        """A store of that many messages, made at its first use and shared by the operations that only read it."""
        which = body_size, count or self.count(body_size), keys
        if which not in self._made:
            root = self.folder / f"store-{body_size}-{which[1]}-{keys}"
            stores.make_store(root, which[1], body_size, keys)
            self._made[which] = root
        return self._made[which]

    @contextmanager
    def empty(self, name: str) -> Iterator[Path]:
        """A folder that is deleted afterwards."""
        root = self.folder / name
        try:
            yield root
        finally:
            shutil.rmtree(root, ignore_errors=True)


Operation = Callable[[Bench], Iterator[Row]]


def size_name(body_size: int) -> str:
    return "1 KiB" if body_size == KIB else f"{body_size} B"
