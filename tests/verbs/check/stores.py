"""What the tests of a check share: a store of three segments, and what is found in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from store import open_store
from store.files.store_reader import StoreReader
from store.formats.message import StoredMessage
from store.structures.findings import (
    Finding,
)
from store.verbs.check.check import check_files
from tests.support.stores import SMALL

SIZE = SMALL["mappedFileSizeCommitLog"]


def findings(root: Path, *kinds: str) -> list[Finding]:
    """Check the store; the findings of these kinds, or all, with their files by their places in the store."""
    found = [one for one in check_files(StoreReader(str(root))) if not kinds or one.kind in kinds]
    return [replace(one, file=one.file.removeprefix(f"{root}/")) for one in found]


def records(root: Path) -> list[StoredMessage]:
    with open_store(root) as store:
        found = [message for queue_id in range(3) for message in store.messages("T", queue_id)]
    return sorted(found, key=lambda one: one.log_offset)


def write(root: Path, log_offset: int, data: bytes) -> None:
    with (root / "commitlog" / f"{log_offset // SIZE * SIZE:020d}").open("r+b") as file:
        file.seek(log_offset % SIZE)
        file.write(data)
