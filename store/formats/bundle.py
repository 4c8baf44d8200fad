"""A bundle: a store without the bodies of its messages, as one archive for an expert.

    bundle.json      the store's settings, findings and digests, and the treatment of each file
    store/…          the store's folders and files, under their own names, with their lengths and times
    unreadable.json  the ranges of bytes that were unreadable, by file; missing if there were none

The archive is a tar file (POSIX.1-2001), compressed by zstd in frames with a table at the end
(store.formats.zstd_frames): `tar --zstd -x` unpacks it, and a reader of one file unpacks the frames of that file.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = "rmqctl.bundle/1"
DOCUMENT, UNREADABLE = "bundle.json", "unreadable.json"
FOLDER = "store"
END = bytes(2 * tarfile.BLOCKSIZE)
"""The end of a tar file."""
WHOLE, BODILESS, RENAMED, EMPTIED, ABSENT = "whole", "bodies replaced", "names replaced", "zeros", "left out"
"""Content of a file in the archive: its bytes; its records with other bodies; other names in its text; its length;
nothing."""

Ranges = Sequence[tuple[int, int]]
"""Ranges of a file's bytes, each with its first byte and the one after its last."""


@dataclass(frozen=True, slots=True)
class BundledFile:
    """One file of the store. `path` is below the store's root, `content` is one of the five above."""

    path: str
    size: int
    mtime_ms: int
    content: str


@dataclass(frozen=True, slots=True)
class BundleDocument:
    """The content of bundle.json.

    settings         given settings under RocketMQ's names; the others follow from the files
    holds_log_alone  whether the store is a backup, without derived files
    findings         of `doctor`, the worst first
    digests          of `fingerprint`, for the store with its bodies
    """

    version: str
    line: str
    made_ms: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    holds_log_alone: bool = False
    findings: tuple[Mapping[str, Any], ...] = ()
    digests: tuple[Mapping[str, Any], ...] = ()
    files: tuple[BundledFile, ...] = ()
    notes: tuple[str, ...] = ()


def encode_document(document: BundleDocument) -> bytes:
    """Return the bytes of bundle.json."""
    text = json.dumps({"format": FORMAT, **asdict(document)}, ensure_ascii=False, indent=1)
    return text.encode("utf-8", "surrogateescape") + b"\n"


def decode_document(data: bytes) -> tuple[dict[str, str], bool]:
    """Read the settings in a bundle.json, and whether its store is a backup; ValueError with its fault."""
    document = json.loads(data.decode("utf-8", "surrogateescape"))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else None
        raise ValueError(f"its format is {found!r}, and {FORMAT!r} is known")
    settings = dict(document.get("settings") or {}).items()
    return {str(name): str(value) for name, value in settings}, bool(document.get("holds_log_alone"))


def encode_unreadable(unreadable: Mapping[str, Ranges]) -> bytes:
    """Return the bytes of unreadable.json."""
    return json.dumps(unreadable, indent=1).encode("utf-8", "surrogateescape") + b"\n"


def decode_unreadable(data: bytes) -> Mapping[str, Ranges]:
    """Read an unreadable.json; ValueError or TypeError for anything but ascending ranges."""
    document = dict(json.loads(data.decode("utf-8", "surrogateescape")))
    found = {str(name): [(int(start), int(stop)) for start, stop in ranges] for name, ranges in document.items()}
    for name, ranges in found.items():
        ends = [end for one in ranges for end in one]
        if not ends or ends[0] < 0 or ends != sorted(ends):
            raise ValueError(f"{UNREADABLE} has no ascending ranges of {name}")
    return found


def encode_head(path: str, size: int, mtime_ms: int, *, is_folder: bool = False) -> bytes:
    """Return the head before a file's bytes in the archive."""
    head = tarfile.TarInfo(path)
    head.type = tarfile.DIRTYPE if is_folder else tarfile.REGTYPE
    head.size, head.mtime, head.mode = size, mtime_ms / 1000, 0o755 if is_folder else 0o644
    return head.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def padding(size: int) -> bytes:
    """Return the padding after a file of this size in the archive."""
    return bytes(-size % tarfile.BLOCKSIZE)
