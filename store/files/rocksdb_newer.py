"""The traits of a newer broker in a RocksDB, from its small files.

MANIFEST adds a column family by the tag 201 and its name, after the length of the name. OPTIONS has the version of the
RocksDB that wrote the database.

Source: VersionEdit, OptionsFileName (RocksDB 8.3.2).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from store.errors import BadRequest, StoreError
from store.files.filesystem import Filesystem
from store.files.rocksdb_copy import list_families, own_version
from store.files.rocksdb_files import CURRENT, is_rocksdb_file

BROKERS_VERSION = (8, 3, 2)
"""RocksDB's version in 5.5."""
_FAMILY = re.compile(rb"\xc9\x01(.)", re.DOTALL)
_VERSION = re.compile(rb"^\s*rocksdb_version=(\d+)\.(\d+)\.(\d+)", re.MULTILINE)


def newer_traits(folder: Path, fs: Filesystem, known: Collection[str]) -> Iterator[str]:
    """Yield the traits of a newer broker as clauses for people: column families, RocksDB's version.

    known  the column families that a broker up to 5.5 makes

    The package rocksdict is imported only if the small files show a trait.
    """
    named = _families_named(folder, fs) - set(known)
    # A key in the MANIFEST may look like a column family.
    for name in sorted(named and named & _families(folder, fs, named)):
        yield f"a column family {name!r}"
    version = _written_by(folder, fs)
    if version > BROKERS_VERSION and (reader := _readers_version()) and version > reader:
        yield f"files of RocksDB {_text(version)}, which {_text(reader)} does not read for sure"


def _families_named(folder: Path, fs: Filesystem) -> set[str]:
    manifest = manifest_of(folder, fs)
    found = ((match.end(), match[1][0]) for match in _FAMILY.finditer(manifest))
    return {manifest[at : at + size].decode(errors="replace") for at, size in found}


def manifest_of(folder: Path, fs: Filesystem) -> bytes:
    """Return the bytes of the MANIFEST that CURRENT has; none if either is lost."""
    manifest = folder / _read(folder / CURRENT, fs).decode(errors="replace").strip()
    return _read(manifest, fs) if is_rocksdb_file(manifest.name) else b""


def _read(path: Path, fs: Filesystem) -> bytes:
    """Return a file's bytes; none without a file, as a topic's folder may have the same name."""
    found = fs.look_at(path)
    return fs.read_file(path) if found is not None and found.is_file else b""


def _families(folder: Path, fs: Filesystem, unconfirmed: set[str]) -> set[str]:
    """Return the column families: without rocksdict the unconfirmed ones, none of a damaged database."""
    try:
        return set(list_families(folder, fs))
    except BadRequest:
        return unconfirmed
    except StoreError:
        return set()


def _readers_version() -> tuple[int, ...]:
    """Return the version of RocksDB in the package rocksdict; empty without the package."""
    try:
        return _version_in(own_version())
    except BadRequest:
        return ()


def _written_by(folder: Path, fs: Filesystem) -> tuple[int, ...]:
    names = fs.list_names(folder) if fs.is_folder(folder) else ()
    options = max((name for name in names if name.startswith("OPTIONS-") and is_rocksdb_file(name)), default=None)
    return _version_in(_read(folder / options, fs)) if options is not None else ()


def _version_in(options: bytes) -> tuple[int, ...]:
    found = _VERSION.search(options)
    return tuple(map(int, found.groups())) if found is not None else ()


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
