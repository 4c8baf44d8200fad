"""Stores that real 5.3.3 brokers wrote with structures of their own (fixtures/five), and the brokers' answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from store.files.filesystem import Filesystem
from store.files.rocksdb_copy import edit_copy
from tests.support.golden import copy_store, unpacked

ARCHIVES = Path(__file__).parents[2] / "fixtures" / "five"


def names_of(folder: str) -> list[str]:
    """Return the names of the archives in fixtures/five or fixtures/fivefive."""
    return sorted(path.name.removesuffix(".tar.xz") for path in ARCHIVES.with_name(folder).glob("*.xz"))


def five(name: str) -> Path:
    """Return the unpacked archive; it must not be changed."""
    return unpacked(ARCHIVES / f"{name}.tar.xz") / name


def fivefive(name: str) -> Path:
    """Return the unpacked archive of a 5.5 broker; it must not be changed."""
    return unpacked(ARCHIVES.with_name("fivefive") / f"{name}.tar.xz") / name


def fivefive_file(name: str) -> Path:
    """Return the path of a file beside the archives of a 5.5 broker."""
    return ARCHIVES.with_name("fivefive") / name


def copy_of_five(name: str, target: Path) -> Path:
    """Return a copy of the store, which may be changed."""
    return copy_store(five(name) / "store", target / "store")


def asked(name: str, kind: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the requests of one kind with the broker's answers."""
    pairs = [(line["req"], line["res"]) for line in lines(name, "ops-expected.jsonl")]
    return [pair for pair in pairs if pair[0]["op"] == kind]


def lines(name: str, file: str) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    text = (five(name) / file).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def damage(root: Path, how: dict[str, Any]) -> None:
    """Damage a copy of a store by a line of damaged.jsonl."""
    for name in how.get("remove", ()):
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, offset, size in how.get("zero", ()):
        _write(root / name, offset, bytes(size))
    for name, offset, digits in how.get("bytes", ()):
        _write(root / name, offset, bytes.fromhex(digits))
    for name, target in how.get("copy", ()):
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, root / target)
    for name in how.get("create", ()):
        (root / name).touch()
    for name, before, after in how.get("replaceText", ()):
        path = root / name
        path.write_text(path.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")


def _write(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def lose_database(root: Path) -> None:
    """Remove the message database of a broker; topics.json still mentions it."""
    shutil.rmtree(root / "rocksdbstore")
    (root / "config").mkdir(exist_ok=True)
    name = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
    topic = f'{{"topicName":"{name}","readQueueNums":1,"writeQueueNums":1}}'
    (root / "config" / "topics.json").write_text(f'{{"topicConfigTable":{{"{name}":{topic}}}}}')


def change_database(root: Path, edits: dict[str, dict[bytes, bytes | None]], database: str = "rocksdbstore") -> None:
    """Set keys of a database to other values, by family; None deletes a key."""
    folder, edited = root / database, root.parent / "edited"
    edit_copy(folder, edited, Filesystem(), "entries", edits)
    # Tables that did not change are links.
    whole = shutil.copytree(edited, root.parent / "whole")
    shutil.rmtree(folder)
    shutil.move(whole, folder)
