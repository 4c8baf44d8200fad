"""A picture of a folder, to show that something changed nothing or brought everything back."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

OWN_FOLDER = ".rmqctl"


class FileState(NamedTuple):
    size: int
    sha256: str
    mtime_ns: int
    mode: int


def snapshot(root: Path, without: tuple[str, ...] = ()) -> dict[str, FileState | None]:
    """Every path below `root` but rmqctl's own folder, with size, SHA-256, mtime and mode; None for a folder.

    without  files to leave alone: reading `lock` in the process that holds it would drop its lock
    """
    picture: dict[str, FileState | None] = {}
    for folder, folders, files in os.walk(root):
        below = f"{folder.removeprefix(str(root)).lstrip('/')}/".lstrip("/")
        if not below and OWN_FOLDER in folders:
            folders.remove(OWN_FOLDER)
        picture |= {below + name: None for name in folders if below + name not in without}
        picture |= {below + name: _state(f"{folder}/{name}") for name in files if below + name not in without}
    return dict(sorted(picture.items(), key=lambda item: item[0].split("/")))


def contents(root: Path) -> dict[str, tuple[int, str]]:
    """Return (size, SHA-256) of every file by path, as in the lists of the golden archives."""
    return {name: (state.size, state.sha256) for name, state in snapshot(root).items() if state is not None}


def without_index_names(files: dict[str, tuple[int, str]]) -> dict[str, object]:
    """Return the same with the index files as a list: their names are times of writing."""
    plain: dict[str, object] = {path: value for path, value in files.items() if not path.startswith("index/")}
    plain["index/"] = [files[path] for path in sorted(files) if path.startswith("index/")]
    return plain


def differences(expected: dict[str, object], found: dict[str, object]) -> list[str]:
    """Return a line for each path that differs; empty if the two are equal."""
    return [
        f"{path}: expected {expected.get(path, 'no such file')}, found {found.get(path, 'no such file')}"
        for path in sorted(expected.keys() | found.keys())
        if expected.get(path) != found.get(path)
    ]


def _state(path: str) -> FileState:
    with Path(path).open("rb") as stream:
        status, digest = os.fstat(stream.fileno()), hashlib.sha256(stream.read()).hexdigest()
    return FileState(status.st_size, digest, status.st_mtime_ns, status.st_mode & 0o7777)
