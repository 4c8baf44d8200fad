"""Open a copy of a RocksDB through the package rocksdict.

The store's own database is never opened, as rocksdict writes a file into an opened database. The small files are copied
into a scratch folder; table files never change, so links to them are enough. LOCK is not copied.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from store.errors import BadRequest, DamagedFile, StoreError
from store.files.filesystem import Filesystem, os_errors
from store.files.rocksdb_files import has_rocksdb
from store.files.scratch import Scratch

Families = dict[str, Any]
"""Column families by name, as rocksdict's objects."""
INSTALL = "install it: pip install 'rmqctl[rocksdb]'"
Edits = Mapping[str, Mapping[bytes, bytes | None]]
"""New values by key, by column family."""
_FORMAT_VERSION = 5
_ANY_CONTENT = "entries"
_OWN_FILE = "rocksdict-config.json"
_TRIES = 3
"""A live broker's compaction may replace files while others are copied."""


def require_binding(folder: Path, content: str) -> ModuleType:
    """Return the package rocksdict; BadRequest with installation advice if it is missing.

    content  the contents of the database, as a clause for people
    """
    try:
        import rocksdict
    except ImportError:
        raise BadRequest(
            f"the {content} are in a RocksDB, and the package rocksdict is not installed",
            file=folder,
            hint=INSTALL,
            code="no-rocksdict",
        ) from None
    return rocksdict


def open_copy(folder: Path, scratch: Path, fs: Filesystem, content: str, families: Sequence[str]) -> Families:
    """Open a copy of the RocksDB in `folder`, made in `scratch`; return its column families by name.

    families  names of required column families

    Raises BadRequest without the package rocksdict, DamagedFile if RocksDB does not open the copy, StoreIOError.
    """
    rocksdict = require_binding(folder, content)
    for left in reversed(range(_TRIES)):
        copy = scratch / f"{folder.name}.rocksdb"
        shutil.rmtree(copy, ignore_errors=True)
        try:
            _copy(folder, copy, fs)
            return _open(rocksdict, folder, copy, content, families)
        except StoreError:
            if not left:
                raise
    raise AssertionError


def list_families(folder: Path, fs: Filesystem) -> list[str]:
    """Return the names of a RocksDB's column families.

    Raises BadRequest without the package rocksdict, DamagedFile if RocksDB can't list them, StoreIOError.
    """
    rocksdict = require_binding(folder, _ANY_CONTENT)
    with Scratch() as scratch, damage_of(folder, _ANY_CONTENT):
        _copy(folder, scratch.folder / folder.name, fs)
        return list(rocksdict.Rdict.list_cf(str(scratch.folder / folder.name)))


@functools.cache
def own_version() -> bytes:
    """Return the OPTIONS of a new database, with RocksDB's version in rocksdict; BadRequest without it."""
    with Scratch() as scratch:
        folder = scratch.folder / "new"
        require_binding(folder, _ANY_CONTENT).Rdict(str(folder)).close()
        return max(folder.glob("OPTIONS-*")).read_bytes()


@contextlib.contextmanager
def damage_of(folder: Path, content: str) -> Iterator[None]:
    """Turn RocksDB's errors inside the block into DamagedFile."""
    try:
        yield
    except StoreError:
        raise
    # rocksdict raises a plain Exception.
    except Exception as error:
        reason = " ".join(str(error).split())
        text = f"RocksDB can't read the {content}: {reason}"
        raise DamagedFile(text, file=folder, code="rocksdb-damaged") from error


def edit_copy(folder: Path | None, copy: Path, fs: Filesystem, content: str, edits: Edits) -> None:
    """Copy the RocksDB in `folder` to `copy` with changed values; without a RocksDB create a new one.

    Unchanged table files are links. A value of None deletes the key.
    Raises BadRequest without the package rocksdict, DamagedFile if RocksDB does not open the copy, StoreIOError.
    """
    rocksdict = require_binding(folder or copy, content)
    if folder is not None and has_rocksdb(folder, fs):
        _copy(folder, copy, fs)
    with damage_of(folder or copy, content):
        names = rocksdict.Rdict.list_cf(str(copy)) if has_rocksdb(copy, fs) else ["default"]
        options = {name: _edit_options(rocksdict) for name in {*names, *edits}}
        database = rocksdict.Rdict(str(copy), _edit_options(rocksdict), options)
        families = [database.get_column_family(name) for name in options]
        unlogged = rocksdict.WriteOptions()
        unlogged.disable_wal = True
        for name, changed in edits.items():
            batch, handle = rocksdict.WriteBatch(raw_mode=True), database.get_column_family_handle(name)
            for key, value in changed.items():
                if value is None:
                    batch.delete(key, handle)
                else:
                    batch.put(key, value, handle)
            database.write(batch, unlogged)
        for family in (*families, database):
            # Closing flushes the family, and raises if that fails.
            family.close()
    remove_own_files(copy, fs)


def _edit_options(rocksdict: ModuleType) -> Any:
    """Return options that leave existing tables unchanged, and write new ones for a 5.5 broker."""
    options, table = rocksdict.Options(raw_mode=True), rocksdict.BlockBasedOptions()
    table.set_format_version(_FORMAT_VERSION)
    table.set_checksum_type(rocksdict.ChecksumType.crc32c())
    options.set_block_based_table_factory(table)
    options.set_compression_type(rocksdict.DBCompressionType.none())
    options.set_disable_auto_compactions(True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    return options


def remove_own_files(folder: Path, fs: Filesystem) -> None:
    """Remove rocksdict's settings, and RocksDB's text log; a broker keeps that log in another folder."""
    for name in fs.list_names(folder):
        if name == _OWN_FILE or name == "LOG" or name.startswith("LOG.old"):
            fs.unlink(folder / name)


def _copy(folder: Path, copy: Path, fs: Filesystem) -> None:
    with os_errors(copy, "copy the RocksDB"):
        copy.mkdir(parents=True)
        for entry in fs.list_folder(folder):
            name = entry.path.name
            if entry.is_folder or name == "LOCK":
                continue
            if name.endswith(".sst") and not fs.fetches:
                (copy / name).symlink_to(entry.path.absolute())
            else:
                (copy / name).write_bytes(fs.read_file(entry.path))


def _open(rocksdict: Any, folder: Path, copy: Path, content: str, families: Sequence[str]) -> dict[str, Any]:
    with damage_of(folder, content):
        options = {name: rocksdict.Options(raw_mode=True) for name in rocksdict.Rdict.list_cf(str(copy))}
        for name in families:
            if name not in options:
                raise DamagedFile(f"the RocksDB has no column family {name!r}", file=folder)
        read_only = rocksdict.AccessType.read_only()
        database = rocksdict.Rdict(str(copy), rocksdict.Options(raw_mode=True), options, read_only)
        return {name: database.get_column_family(name) for name in options}
