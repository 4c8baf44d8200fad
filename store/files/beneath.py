"""Access to names below rmqctl's own folder without following links.

Files in ROOT/.rmqctl are moved, overwritten and deleted. A store may come from anywhere, so a link there must not
redirect these actions out of the store. Therefore each path component from .rmqctl on is opened relative to its parent
with O_NOFOLLOW, and actions are relative to the last folder. Other paths are used unchanged: changes of a store refuse
its links (store.opened.detect, store.change.actions), and readers follow them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from store.errors import ForeignFile
from store.files.descriptor import Descriptor, open_number, require_kind
from store.layout import OWN_FOLDER

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


@contextlib.contextmanager
def parent_of(path: Path) -> Iterator[tuple[int | None, str]]:
    """Open the parent folder; yield its descriptor and the name in it, (None, path) for paths elsewhere."""
    text = os.fspath(path)
    parent, _, name = text.rpartition("/")
    if not _is_guarded(parent):
        # .rmqctl itself is used like other paths; opening a name inside it refuses a link.
        yield None, text
        return
    with _opened(parent) as folder:
        yield folder, name


@contextlib.contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    """Open the folder; yield its descriptor."""
    text = os.fspath(path)
    if _is_guarded(text):
        with _opened(text) as number:
            yield number
        return
    number = open_number(text, _FOLDER)
    try:
        yield number
    finally:
        os.close(number)


def open_file(path: Path, flags: int) -> Descriptor:
    """Open a regular file; ForeignFile for anything else."""
    if OWN_FOLDER not in os.fspath(path):
        descriptor = Descriptor(open_number(path, flags), path)
    else:
        with parent_of(path) as (folder, name):
            # Below .rmqctl no link is followed, not even as the last component.
            no_link = os.O_NOFOLLOW if folder is not None else 0
            descriptor = Descriptor(open_number(name, flags | no_link, folder), path)
    require_kind(stat.S_IFREG, os.fstat(descriptor.number), path)
    return descriptor


def open_unnamed(folder: Path, flags: int) -> int:
    """Open a new file without a name in the folder (O_TMPFILE)."""
    if not _is_guarded(os.fspath(folder)):
        return open_number(folder, flags)
    with _opened(os.fspath(folder)) as number:
        return open_number(".", flags, number)


def make_folders(path: Path) -> list[Path]:
    """Create a folder and its parents; return the created ones, outermost first."""
    made = []
    try:
        _make_folder(path)
    except FileExistsError:
        pass
    except FileNotFoundError:
        made = [*make_folders(path.parent), path]
        with contextlib.suppress(FileExistsError):
            _make_folder(path)
    else:
        return [path]
    with opened_folder(path):
        # Opening it proves that it is a folder, and below .rmqctl that no link leads to it.
        return made


def _make_folder(path: Path) -> None:
    with parent_of(path) as (parent, name):
        os.mkdir(name, dir_fd=parent)


def _is_guarded(path: str) -> bool:
    # To take a path of pathlib apart takes longer than to open it.
    return OWN_FOLDER in path and OWN_FOLDER in path.split("/")


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    parts = path.split("/")
    own = parts.index(OWN_FOLDER)
    number = open_number("/".join(parts[:own]) or ("/" if own else "."), _FOLDER)
    try:
        for depth in range(own, len(parts)):
            fresh = _open_below(number, parts[: depth + 1])
            os.close(number)
            number = fresh
        yield number
    finally:
        os.close(number)


def _open_below(folder: int, parts: Sequence[str]) -> int:
    """Open the last component in `folder`, its parent; `parts` is the whole path."""
    try:
        return open_number(parts[-1], _FOLDER | os.O_NOFOLLOW, folder)
    except OSError as error:
        # With both flags Linux returns ENOTDIR for a link to a folder.
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ForeignFile(
                "a link or a file, where rmqctl has a folder of its own",
                file=Path("/".join(parts)),
                hint="move it out of the store",
            ) from None
        raise
