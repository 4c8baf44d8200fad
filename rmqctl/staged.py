"""Opening a store for a plan: the real files are only read, and what the plan builds lands in a staging folder.

A dry run takes no lock and stages in a scratch folder outside the store, so it works on a read-only mount and beside a
live broker. A change takes the lock before it looks at anything, and stages inside the store, so that publishing is a
rename.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rmqctl.changing import ChangeOptions
from rmqctl.context import Session

if TYPE_CHECKING:
    from store.disk.filesystem import Filesystem
    from store.layout import StoreLayout
    from store.opened.opened_store import OpenedStore


@contextlib.contextmanager
def planning(session: Session, consent: ChangeOptions, compat: str | None = None) -> Iterator[OpenedStore]:
    """The parts of --store, opened for a plan. `compat` None takes the line that wrote the store."""
    from store.config import broker_line
    from store.disk.overlay import Overlay
    from store.opened.detect import detect_line, infer_config
    from store.opened.opened_store import load_store

    with (
        locked(session, take=not consent.dry_run) as (layout, fs),
        staging(layout, fs, "plan", dry_run=consent.dry_run) as folder,
    ):
        config = infer_config(layout, session.settings(), fs)
        line = broker_line(compat) if compat is not None else detect_line(layout, fs)
        overlay = Overlay(folder)
        opened = load_store(layout, config, fs, session.environment.clock_ms, line=line, overlay=overlay)
        try:
            yield opened
        finally:
            opened.close()


@contextlib.contextmanager
def locked(session: Session, *, take: bool = True) -> Iterator[tuple[StoreLayout, Filesystem]]:
    """The layout of --store, which is a store, and whose lock is held inside the block (unless not `take`n)."""
    from store.disk.filesystem import Filesystem
    from store.disk.lock import StoreLock
    from store.opened.detect import make_layout, require_store

    fs = Filesystem()
    layout = make_layout(session.root, session.settings())
    require_store(layout, fs)
    with StoreLock(layout.lock, fs) if take else contextlib.nullcontext():
        yield layout, fs


@contextlib.contextmanager
def staging(layout: StoreLayout, fs: Filesystem, name: str, *, dry_run: bool) -> Iterator[Path]:
    """A folder for what a command builds; gone when the block ends, as is what killed commands have left there.

    Unless it is a dry run it lies in the store, whose lock is held, and in which no change is half done.
    """
    from store.change.workspace import staging_folder
    from store.errors import StoreError
    from store.open import require_no_interrupted_change
    from store.rebuild.publish import drop_leftovers

    if dry_run:
        with tempfile.TemporaryDirectory(prefix=f"rmqctl-{name}-", ignore_cleanup_errors=True) as scratch:
            yield Path(scratch)
        return
    require_no_interrupted_change(layout, fs)
    folder = staging_folder(layout.root.absolute(), f"{name}-{os.getpid()}")
    drop_leftovers(folder.parent, fs)
    try:
        yield folder
    finally:
        with contextlib.suppress(StoreError):
            fs.remove_tree(folder)
            # rmqctl's own folder goes as well, where nothing else is in it.
            for parent in (folder.parent, folder.parent.parent):
                fs.remove_folder(parent)
