"""Connect to a store's files by address: a folder, a backup, or a URI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from store.config import has_effect
from store.errors import NotAStore
from store.files.filesystem import Filesystem
from store.files.places import FetchedPlace, LocalPlace, connect_folder
from store.layout import BACKUP, is_bundle, names_a_place


def connect(address: str, fs: Filesystem, commitlogs: Sequence[Path] = ()) -> LocalPlace | FetchedPlace:
    """Return the place of an address; NotAStore if it can't be reached."""
    if address.startswith(BACKUP):
        # Most commands read no backup.
        from store.files.backup_files import BackupPlace

        return BackupPlace(address, fs)
    return connect_folder(address, fs, commitlogs)


def own_settings(address: str) -> dict[str, str]:
    """Return the settings in a bundle or a backup; none for another address.

    Those without effect here, and paths of the place that it was copied from, are left out of a backup's.
    """
    if is_bundle(address):
        from store.files.bundle_files import bundle_settings

        return bundle_settings(address)
    if not address.startswith(BACKUP):
        return {}
    from store.files.backup_files import BackupFiles, split_address

    folder, backup = split_address(address)
    found = BackupFiles(folder).find(backup).settings
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in found.items()
        if has_effect(name) and not names_a_place(name)
    }


def connect_remote(address: str) -> FetchedPlace:
    """Return the place of an address; NotAStore for a folder of this machine."""
    place = connect(address, Filesystem())
    if isinstance(place, LocalPlace):
        raise NotAStore("this address is a folder of this machine: name the folder", file=address)
    return place
