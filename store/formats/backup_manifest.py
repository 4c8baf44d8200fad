"""The manifest of a backup: one JSON document with the names and digests of all its files.

    FOLDER/log/00000000000000000000.3f2a…    bytes of a segment; the newest one ends with its last whole record
    FOLDER/log/00000000000000000000+4096.5e… its bytes from 4096 on, of a backup that follows the log
    FOLDER/tables/config/topics.json.9c01…   a table, or another file of the broker, as it was copied
    FOLDER/tables/queue-ends.json.77be…      [topic, queue id, first and next queue offset, log offset and end of the
                                             newest record] of each queue
    FOLDER/backups/20261124T021500.123.json  the manifest; its name is the backup's id, the time in UTC

A name ends with the first digits of the content's SHA-256, and with `.zst` if the content is compressed. Backups share
files of the same name. The manifest's `sha256` covers the document without this field, with sorted keys and no blanks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

FORMAT = "rmqctl.backup/1"
LOG, TABLES, MANIFESTS = "log", "tables", "backups"
QUEUE_ENDS = "queue-ends.json"
DIGITS = 16
"""Hexadecimal digits of a digest in a name."""
ZSTD = ".zst"
BACKUP_DAMAGED = "backup-damaged"
"""Code of the error for a file of a backup that is missing, short or damaged."""
_ID = re.compile(r"\d{8}T\d{6}\.\d{3}", re.ASCII)


@dataclass(frozen=True, slots=True)
class BackedFile:
    """One file of a backup.

    path       of the file in a store
    stored     the path of its bytes below the folder of backups
    mtime_ms   of the store's file at the time of the copy
    is_sealed  no broker writes to it any more, so later backups need not read it again
    position   in the store's file; the manifest lists a segment's pieces in order
    """

    path: str
    size: int
    sha256: str
    stored: str
    stored_size: int
    mtime_ms: int = 0
    is_sealed: bool = False
    position: int = 0

    @property
    def is_log(self) -> bool:
        return self.path.startswith("commitlog/")

    @property
    def file_start(self) -> int:
        """Log offset of a segment's first byte."""
        return int(self.path.rpartition("/")[2])

    @property
    def end(self) -> int:
        """End of its bytes in the store's file."""
        return self.position + self.size


@dataclass(frozen=True, slots=True)
class Manifest:
    """One backup.

    store     folder or address of the store
    version   of the program that wrote the backup
    line      the broker version whose rules apply, such as 4.9
    last_store_timestamp_ms  of the newest record
    settings  under RocketMQ's names: given ones, those not at their default, and sizes that the files show
    notes     faults of the backup, as sentences for people
    """

    id: str
    store: str
    version: str
    line: str
    began_ms: int
    ended_ms: int
    log_start: int
    log_end: int
    last_store_timestamp_ms: int
    segment_size: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[BackedFile, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files, uncompressed."""
        return sum(one.size for one in self.files)

    @property
    def segments(self) -> list[BackedFile]:
        """The segments, in log order."""
        return sorted((one for one in self.files if one.is_log), key=lambda one: (one.file_start, one.position))


def backup_id(time_ms: int) -> str:
    """Return the id of a backup that began at this time."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{time_ms % 1000:03d}"


def time_of_id(text: str) -> int:
    """Return the time in an id, in ms."""
    moment = datetime.strptime(text, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def is_backup_id(text: str) -> bool:
    """Return whether a text has the form of a backup's id."""
    return _ID.fullmatch(text) is not None


def stored_name(folder: str, path: str, sha256: str, *, is_compressed: bool) -> str:
    """Return the path of a file's bytes below the folder of backups."""
    return f"{folder}/{path}.{sha256[:DIGITS]}{ZSTD if is_compressed else ''}"


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest's bytes, with its digest."""
    document = {"format": FORMAT, **asdict(manifest)}
    text = json.dumps({**document, "sha256": _digest(document)}, ensure_ascii=False, indent=1, sort_keys=True)
    return text.encode("utf-8", "surrogateescape") + b"\n"


def decode_manifest(data: bytes) -> Manifest:
    """Read a manifest; ValueError with its fault."""
    try:
        document = json.loads(data.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise ValueError(f"it is no whole JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else None
        raise ValueError(f"its format is {found!r}, and {FORMAT!r} is known")
    digest = document.pop("sha256", None)
    if digest != _digest(document):
        raise ValueError("its digest is wrong: it was changed, or is not whole")
    try:
        files = tuple(decode_file(one) for one in document["files"])
        known = {one.name: document[one.name] for one in fields(Manifest)}
    except (KeyError, TypeError) as error:
        raise ValueError(f"a field is missing: {error}") from None
    return Manifest(**{**known, "files": files, "notes": tuple(document["notes"])})


def decode_file(row: object) -> BackedFile:
    """Read a file's row; ValueError for a path that leads out of a folder, TypeError for other fields."""
    found = BackedFile(**row) if isinstance(row, dict) else BackedFile()  # type: ignore[call-arg]
    for path in (found.path, found.stored):
        if path.startswith("/") or "\0" in path or {"", ".", ".."} & set(path.split("/")):
            raise ValueError(f"a path in it leads elsewhere: {path!r}")
    return found


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
