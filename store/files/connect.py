"""Connect to a store's files by address: a folder, a backup, or a URI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from store.errors import NotAStore
from store.files.filesystem import Filesystem
from store.files.places import FetchedPlace, LocalPlace, connect_folder
from store.layout import BACKUP


def connect(address: str, fs: Filesystem, commitlogs: Sequence[Path] = ()) -> LocalPlace | FetchedPlace:
    """Return the place of an address; NotAStore if it can't be reached."""
    if address.startswith(BACKUP):
        # Most commands read no backup.
        from store.files.backup_files import BackupPlace

        return BackupPlace(address, fs)
    return connect_folder(address, fs, commitlogs)


def connect_remote(address: str) -> FetchedPlace:
    """Return the place of an address; NotAStore for a folder of this machine."""
    place = connect(address, Filesystem())
    if isinstance(place, LocalPlace):
        raise NotAStore("this address is a folder of this machine: name the folder", file=address)
    return place
