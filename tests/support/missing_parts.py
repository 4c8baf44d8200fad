"""Stores that lost a part."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

COUNT, QUEUES = 240, 3


CQ = "consumequeue"


QUEUE, INDEX = Path(CQ, "T/1"), Path("index")


def nth(folder: Path, number: int) -> Callable[[Path], None]:
    """Removes one file of a folder."""

    def remove(root: Path) -> None:
        sorted((root / folder).iterdir())[number].unlink()

    return remove


def tree(folder: Path) -> Callable[[Path], None]:
    def remove(root: Path) -> None:
        shutil.rmtree(root / folder)

    return remove


def shorten(folder: Path, number: int) -> Callable[[Path], None]:
    def cut(root: Path) -> None:
        os.truncate(sorted((root / folder).iterdir())[number], 100)

    return cut


LOST: dict[str, Callable[[Path], None]] = {
    "a queue's folder": tree(QUEUE),
    "a topic's folder": tree(QUEUE.parent),
    "consumequeue": tree(QUEUE.parent.parent),
    "a queue's first file": nth(QUEUE, 0),
    "a queue's middle file": nth(QUEUE, 1),
    "a queue's last file": nth(QUEUE, -1),
    "the index": tree(INDEX),
    "the first index file": nth(INDEX, 0),
    "a middle index file": nth(INDEX, 1),
    "the last index file": nth(INDEX, -1),
    "a part of a queue file": shorten(QUEUE, 1),
    "a part of an index file": shorten(INDEX, 1),
    "all that is derived": lambda root: [tree(QUEUE.parent.parent)(root), tree(INDEX)(root), None][-1],
}
