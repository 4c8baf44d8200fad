"""One table under config/ with its .bak and .tmp, and the file that a broker would load.

    main                  .bak                  a broker
    parses                any                   loads main
    missing or empty      parses                loads .bak
    missing or empty      missing or empty      starts with an empty table
    damaged               parses                loads .bak
    damaged               missing or empty      starts with an empty table: a silent loss
    damaged               damaged               does not start

If a RocksDB has the table (store.structures.tables.database), a 5.x broker loads it from there, and the RocksDB is main
here. If the JSON file counts more changes, the broker loads that file.

A broker never reads .tmp. A 4.x broker writes .tmp, copies main to .bak, deletes main and renames .tmp: after a crash
between the last two steps .tmp holds the newest table. A 5.x broker copies main to .bak and overwrites main.

Source: ConfigManager.load, persist and MixAll.string2File (4.9.8, 5.3.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from store.broker_line import BrokerLine
from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.files.rocksdb_files import CURRENT
from store.layout import JSON_FILES
from store.structures.tables.database import database_folders, read_table
from store.structures.tables.fastjson import Json, members, parse_fastjson


class State(StrEnum):
    """State of one of the three files."""

    MISSING = "missing"
    EMPTY = "empty"
    DAMAGED = "damaged"
    PARSES = "parses"


class Load(StrEnum):
    """How a broker starts with the three files."""

    MAIN = "loads the file"
    BACKUP = "loads .bak"
    DEFAULT = "starts with the built-in table"
    LOST = "starts with an empty table and logs an error"
    REFUSED = "does not start"


@dataclass(frozen=True, slots=True)
class ConfigCopy:
    """One of the three files. `document` is empty unless it parses to an object."""

    path: Path
    state: State
    document: dict[str, Json] = field(default_factory=dict)
    reason: str = ""
    mtime_ms: int = 0


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A table of the broker with its copies."""

    name: str
    main: ConfigCopy
    backup: ConfigCopy
    temporary: ConfigCopy

    @property
    def is_absent(self) -> bool:
        """Whether all three files are missing."""
        return all(one.state is State.MISSING for one in (self.main, self.backup, self.temporary))

    @property
    def is_in_database(self) -> bool:
        """Whether a broker loads the table from a RocksDB."""
        return self.main.path.name != self.name

    @property
    def load(self) -> Load:
        """The effect on a broker's start, by the module's table."""
        if self.main.state is State.PARSES:
            return Load.MAIN
        if self.backup.state is State.PARSES:
            return Load.BACKUP
        if self.main.state is not State.DAMAGED:
            return Load.DEFAULT if self.backup.state is not State.DAMAGED else Load.REFUSED
        return Load.REFUSED if self.backup.state is State.DAMAGED else Load.LOST

    @property
    def loaded(self) -> ConfigCopy | None:
        """The copy that a broker loads; None if it loads none."""
        return {Load.MAIN: self.main, Load.BACKUP: self.backup}.get(self.load)

    @property
    def document(self) -> dict[str, Json]:
        """The table that a broker loads, empty if it loads none."""
        return self.loaded.document if self.loaded is not None else {}

    def best(self, line: BrokerLine) -> ConfigCopy | None:
        """Return the copy with the newest table: a 4.x broker's .tmp is newer than its .bak."""
        order = (self.main, self.temporary, self.backup) if line.renames_config else (self.main, self.backup)
        return next((one for one in order if one.state is State.PARSES), None)


def read_config_file(folder: Path, name: str, fs: Filesystem) -> ConfigFile:
    """Read the three files of one table, or its database.

    ForeignFile if one is no regular file, StoreIOError if one is unreadable. BadRequest for a database without the
    package rocksdict, DamagedFile if RocksDB does not open it.
    """
    path = folder / name
    file = ConfigFile(name, *(_read_copy(path.with_name(path.name + end), fs) for end in ("", ".bak", ".tmp")))
    in_databases = (_read_database(one, name, fs) for one in database_folders(folder, name, fs))
    newest = max(filter(None, in_databases), key=_counter, default=None)
    is_stale = newest is not None and (file.loaded is None or _counter(file.loaded) <= _counter(newest))
    return replace(file, main=newest) if newest is not None and is_stale else file


def require_in_file(file: ConfigFile) -> None:
    """Raise UnsupportedFormat for a table that a broker loads from a database."""
    if file.is_in_database:
        raise UnsupportedFormat(
            f"the table of {file.name} is in a RocksDB here, and a broker would not load another {file.name}",
            file=file.main.path,
            code="table-in-database",
        )


def _read_database(folder: Path, name: str, fs: Filesystem) -> ConfigCopy | None:
    document, mtime_ms = read_table(folder, name, fs), fs.mtime_ns(folder / CURRENT) // 1_000_000
    return ConfigCopy(folder, State.PARSES, document, "", mtime_ms) if document is not None else None


def _counter(copy: ConfigCopy) -> int:
    """Return the number of changes in the table's version, 0 without one."""
    counter = members(copy.document.get("dataVersion")).get("counter")
    return counter if isinstance(counter, int) else 0


def read_config_files(folder: Path, fs: Filesystem) -> list[ConfigFile]:
    """Read the tables that have at least one file."""
    found = (read_config_file(folder, name, fs) for name in JSON_FILES)
    return [one for one in found if not one.is_absent]


def write_config_file(folder: Path, name: str, data: bytes, fs: Filesystem) -> None:
    """Write a table; the previous one becomes .bak. A crash leaves the old file or the new one."""
    path = folder / name
    for made in fs.make_folder(folder):
        fs.fsync_folder(made.parent)
    if fs.exists(path):
        _replace(fs, path.with_name(name + ".bak"), fs.read_file(path))
    _replace(fs, path, data)


def _replace(fs: Filesystem, path: Path, data: bytes) -> None:
    staged = path.with_name(path.name.removesuffix(".bak") + ".tmp")
    fs.unlink(staged)
    file = fs.open_new(staged)
    fs.write(file, 0, data)
    fs.fdatasync(file)
    fs.rename(staged, path)
    fs.fsync_folder(path.parent)


def _read_copy(path: Path, fs: Filesystem) -> ConfigCopy:
    if not fs.exists(path):
        return ConfigCopy(path, State.MISSING)
    data, mtime_ms = fs.read_file(path), fs.mtime_ns(path) // 1_000_000
    if not data:
        return ConfigCopy(path, State.EMPTY, reason="0 bytes", mtime_ms=mtime_ms)
    try:
        document = parse_fastjson(data.decode("utf-8", "replace"))
    except ValueError as error:
        return ConfigCopy(path, State.DAMAGED, reason=str(error), mtime_ms=mtime_ms)
    if document is None or document == []:
        # Fastjson decodes null and [] to null, and a broker then loads nothing.
        return ConfigCopy(path, State.PARSES, {}, "holds nothing", mtime_ms)
    if not isinstance(document, dict):
        return ConfigCopy(path, State.DAMAGED, reason="not an object", mtime_ms=mtime_ms)
    return ConfigCopy(path, State.PARSES, {str(key): value for key, value in document.items()}, "", mtime_ms)
