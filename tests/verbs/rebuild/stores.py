"""Stores that the tests of rebuild begin with."""

from __future__ import annotations

from pathlib import Path

from store import open_store
from tests.support.stores import SMALL, Clock, make_store, text_message


def expired_store(root: Path) -> Path:
    """A store whose queue Old/0 had 30 messages in two queue files; the log begins after them."""
    with open_store(root, settings=SMALL, read_only=False, clock=Clock(1_600_000_000_000)) as store:
        for number in range(30):
            assert store.put(text_message(number, "Old")).is_ok
    make_store(root, 200)
    (root / "commitlog" / f"{0:020d}").unlink()
    return root
