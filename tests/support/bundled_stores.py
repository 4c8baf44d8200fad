"""Stores to bundle, and what doctor says of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.cli.running import rmqctl
from tests.support.five_stores import five, fivefive, lines, names_of
from tests.support.golden import ALL, golden

STORES = (*ALL, *(f"five/{one}" for one in names_of("five")), *(f"fivefive/{one}" for one in names_of("fivefive")))
TOLD = [
    (name, line["damage"])
    for name in ("bcq", "compaction", "dledger", "lmq", "rocksdb", "timer")
    for line in lines(name, "damaged.jsonl")
]


NEEDS_MESSAGE_DATABASE = tuple(
    f"fivefive/{name}" for name in ("both-databases", "index-killed-wal", "index-only", "timer", "trans")
)


SEEDS = range(12)
_SCRATCH = re.compile(r"[^\s:]*/rmqctl-scratch-\w+(/store)?")


def store_of(name: str) -> Path:
    line, _, archive = name.rpartition("/")
    return {"": lambda: golden(archive).store}.get(line, lambda: _five(line, archive))()


def _five(line: str, archive: str) -> Path:
    return (five if line == "five" else fivefive)(archive) / "store"


def doctor(store: Path, root: Path) -> Any:
    """The document of doctor, with the store's folder and scratch folders left out of its texts."""
    document = rmqctl("--format", "json", "doctor", store=store).json
    for one in document["diagnoses"]:
        one["detail"] = _SCRATCH.sub("", one["detail"].replace(str(root), ""))
        one["command"] = one["command"].replace(str(store), "STORE")
    for one in document.get("commands", ()):
        one["command"] = one["command"].replace(str(store), "STORE")
    return document
