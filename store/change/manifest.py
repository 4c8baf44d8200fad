"""manifest.json: the form of a change on disk, and the checks when it is read again.

A store may come from anywhere. Undo moves and overwrites the files in a manifest. So each name must be one that a
change of this store could have written:

    path      below one of the store's folders, or below a folder of the commit log elsewhere
    kept_as   files/<number>-<the file's name>
    digest    SHA-256 of the rest of the document: a manifest that was cut or edited is not acted on
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from store.errors import DamagedFile, UnsupportedFormat
from store.layout import is_store_name

MANIFEST_VERSION = 2
"""1 had no digest."""
STATES = ("applying", "applied", "undoing", "undone")
KINDS = ("remove", "write", "patch")

MOST_IN_LINES = 1000
"""Actions; json takes seven times as long for lines."""
_KEPT_AS = re.compile(r"files/\d{6}-(?P<name>[^/]+)", re.DOTALL)
_SHA256 = re.compile(r"[0-9a-f]{64}")


def encode_manifest(document: dict[str, object]) -> bytes:
    """Return the bytes of a manifest, with its digest; in lines where there are few actions."""
    actions: Any = document.get("actions", ())
    indent = 1 if len(actions) <= MOST_IN_LINES else None
    return json.dumps({**document, "digest": _digest(document)}, indent=indent).encode()


def decode_manifest(data: bytes, path: Path, elsewhere: Iterable[Path] | None = None) -> dict[str, object]:
    """Read the document; DamagedFile unless a change of this store could have written it.

    elsewhere  folders outside of the store's that belong to it, such as storePathCommitLog; None where nothing is
               done to the files, so that any may be named
    """
    try:
        document: dict[str, Any] = json.loads(data)
    except (ValueError, RecursionError):
        raise _damaged(path, "not readable JSON") from None
    _require(path, isinstance(document, dict), "not an object")
    version = document.get("version")
    if version not in (1, MANIFEST_VERSION):
        raise UnsupportedFormat(f"a manifest of version {version!r}, known are 1 and {MANIFEST_VERSION}", file=path)
    digest = document.pop("digest", None)
    _require(path, version == 1 or digest == _digest(document), "its digest is another")
    _require(path, document.get("state") in STATES, f"unknown state {document.get('state')!r}")
    _require(path, isinstance(document.get("command"), str), "no command")
    _require(path, _is_size(document.get("time_ms")), "no time")
    require_sound_actions(document.get("actions"), path, elsewhere)
    return document


def require_sound_actions(actions: object, path: Path, elsewhere: Iterable[Path] | None = None) -> None:
    """Raise DamagedFile for an entry that no change could have written.

    A change asks so before it begins.
    """
    folders = None if elsewhere is None else tuple(folder.resolve() for folder in elsewhere)
    if not isinstance(actions, list):
        raise _damaged(path, "no actions")
    for number, entry in enumerate(actions):
        fault = _fault_of(entry, folders)
        _require(path, fault is None, f"action {number}: {fault}")


def _fault_of(entry: Any, elsewhere: tuple[Path, ...] | None) -> str | None:
    """Name the fault of an action's entry, None for a sound one."""
    if not isinstance(entry, dict) or entry.get("kind") not in KINDS:
        return "unknown kind"
    path, kind = entry.get("path"), entry["kind"]
    if not isinstance(path, str) or not _is_of_store(path, elsewhere):
        return f"the path {path!r} is not one of the store's files"
    if "original" not in entry or not _is_look(entry["original"], optional=kind != "patch"):
        return "no size and time of the original"
    if kind == "patch":
        return None if _is_patch(entry) else "no position and bytes"
    kept = _KEPT_AS.fullmatch(entry["kept_as"]) if isinstance(entry.get("kept_as"), str) else None
    if kept is None or kept["name"] != PurePosixPath(path).name:
        return f"{entry.get('kept_as')!r} is no place in the quarantine"
    if kind == "write" and not _is_look(entry.get("published"), optional=False):
        return "no size and time of the published file"
    if not _is_size(entry.get("new_folders", 0)):
        return "the number of new folders is none"
    return None


def _is_of_store(path: str, elsewhere: tuple[Path, ...] | None) -> bool:
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or "\0" in path:
        return False
    if PurePosixPath(path).is_absolute():
        return elsewhere is None or any(
            Path(path).is_relative_to(folder) and Path(path) != folder for folder in elsewhere
        )
    return is_store_name(parts[0])


def _is_look(look: Any, *, optional: bool) -> bool:
    if look is None:
        return optional
    if not isinstance(look, dict) or not _is_size(look.get("size")) or not _is_size(look.get("mtime_ns")):
        return False
    return "sha256" not in look or bool(isinstance(look["sha256"], str) and _SHA256.fullmatch(look["sha256"]))


def _is_patch(entry: dict[str, Any]) -> bool:
    try:
        before, after = bytes.fromhex(entry["before"]), bytes.fromhex(entry["after"])
    except (KeyError, TypeError, ValueError):
        return False
    return _is_size(entry.get("position")) and len(before) == len(after)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _digest(document: dict[str, Any]) -> str:
    return sha256_of(json.dumps(document, sort_keys=True).encode())


def sha256_of(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    # It loads OpenSSL, which takes longer than a plan that is only shown.
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _require(path: Path, condition: bool, fault: str) -> None:
    if not condition:
        raise _damaged(path, fault)


def _damaged(path: Path, fault: str) -> DamagedFile:
    return DamagedFile(
        f"not a manifest that rmqctl has written: {fault}",
        file=path,
        hint="nothing was done; the files that a change took away are beside it in files/",
    )
