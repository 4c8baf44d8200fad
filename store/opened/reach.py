"""Reaches a store: in a folder, or for readers in a bundle, in a backup or behind a URI."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.layout import is_address, is_bundle


def reach_store(
    root: str | Path, fs: Filesystem | None = None, scratch: str | Path | None = None, *, to_change: bool = False
) -> tuple[Path, Filesystem]:
    """Return folder and file system of the store at `root`, a path or a URI.

    A remote store has a mirror in `scratch`, removed with its file system. A bundle is unpacked. Raise BadRequest for
    both if the store is `to_change`.
    """
    address = str(root)
    if not is_address(address):
        return Path(root), fs or Filesystem()
    parts = urlsplit(address)
    if parts.scheme == "file" and not is_bundle(address):
        return Path(unquote(parts.path)), fs or Filesystem()
    if to_change:
        raise BadRequest("this needs a store in a folder of this machine", file=address)
    if is_bundle(address):
        from store.files.bundle_files import unpack_bundle

        return unpack_bundle(address, scratch)
    from store.files.mirror import mirror_of

    return mirror_of(address, scratch)
