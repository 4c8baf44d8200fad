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
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from store.errors import quoted, shown
from store.formats.java import INT_MAX
from store.layout import parse_segment_name

FORMAT = "rmqctl.backup/1"
LOG, TABLES, MANIFESTS = "log", "tables", "backups"
QUEUE_ENDS = "queue-ends.json"
DIGITS = 16
"""Hexadecimal digits of a digest in a name."""
ZSTD = ".zst"
BACKUP_DAMAGED = "backup-damaged"
"""Code of the error for a file of a backup that is missing, short or damaged."""
_TYPES = {"str": str, "int": int, "bool": bool, "Mapping": dict, "tuple": list}
"""The JSON types of fields, by the first word of their annotation."""
_SIZES = (0, 1 << 40)
"""No file of a broker has more than a TiB."""
_MS = (-(1 << 63), (1 << 63) - 1)
_LIMITS = {
    "segment_size": (1, INT_MAX),
    "log_start": (0, (1 << 63) - 1),
    "log_end": (0, (1 << 63) - 1),
    **dict.fromkeys(("began_ms", "ended_ms", "last_store_timestamp_ms"), _MS),
    # A file's time in ns has 64 bits.
    "mtime_ms": (_MS[0] // 1_000_000, _MS[1] // 1_000_000),
}
"""The limits of numbers; others are sizes."""
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
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            found = document.get("format") if isinstance(document, dict) else None
            raise ValueError(f"its format is {shown(found)}, and {FORMAT!r} is known")
        digest = document.pop("sha256", None)
        if digest != _digest(document):
            raise ValueError("its digest is wrong: it was changed, or is not whole")
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no whole JSON: {error}") from None
    except RecursionError:
        raise ValueError("it is no whole JSON: it is nested too deeply") from None
    known = _fields_of(Manifest, document)
    if not is_backup_id(known["id"]):
        raise ValueError(f"its id is {quoted(known['id'])}, and one looks like 20260115T083000.000")
    if not all(isinstance(note, str) for note in known["notes"]):
        raise ValueError("one of its notes is not text")
    files = tuple(map(decode_file, known["files"]))
    _require_following(files)
    return Manifest(**{**known, "files": files, "notes": tuple(known["notes"])})


def decode_file(row: object) -> BackedFile:
    """Read a file's row; ValueError for a wrong field, and for a path that leads out of a folder."""
    found = BackedFile(**_fields_of(BackedFile, row))
    for path in (found.path, found.stored):
        if path.startswith("/") or "\0" in path or {"", ".", ".."} & set(path.split("/")):
            raise ValueError(f"a path in it leads elsewhere: {quoted(path)}")
    if found.is_log and parse_segment_name(found.path.removeprefix("commitlog/")) is None:
        raise ValueError(f"a file of its log has no name of a segment: {quoted(found.path)}")
    return found


def _require_following(files: Iterable[BackedFile]) -> None:
    """Raise ValueError unless the pieces of each file follow each other, from its start."""
    ends: dict[str, int] = {}
    for file in files:
        wanted = ends.get(file.path, 0)
        if file.position != wanted:
            raise ValueError(f"a piece of {quoted(file.path)} is at {file.position} instead of {wanted}")
        ends[file.path] = file.end


def _fields_of(kind: type, row: object) -> dict[str, Any]:
    """Return the fields of a dataclass that a JSON object has; ValueError for a missing or wrong one."""
    if not isinstance(row, dict):
        raise ValueError(f"it has {shown(row)} in place of an object")
    known = {}
    for one in fields(kind):
        if one.name in row:
            value = known[one.name] = row[one.name]
            least, most = _LIMITS.get(one.name, _SIZES)
            if type(value) is not _TYPES[str(one.type).partition("[")[0]]:
                raise ValueError(f"its {one.name} is of a wrong kind: {shown(value)}")
            if type(value) is int and not least <= value <= most:
                raise ValueError(f"its {one.name} is not in {least}..{most}: {shown(value)}")
        elif one.default is MISSING:
            raise ValueError(f"a field is missing: {one.name}")
    return known


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
