"""Opening a store for a plan: the real files are only read, and what the plan builds lands in a staging folder.

A dry run takes no lock and stages in a scratch folder outside the store, so it works on a read-only mount and beside a
live broker. A change takes the lock before it looks at anything, and stages inside the store, so that publishing is a
rename.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rmqctl.changing import Consent
from rmqctl.context import Session

if TYPE_CHECKING:
    from store.disk.filesystem import Filesystem
    from store.disk.overlay import Overlay
    from store.layout import StoreLayout
    from store.store_parts import StoreParts


@contextlib.contextmanager
def planning(session: Session, consent: Consent, compat: str | None = None) -> Iterator[StoreParts]:
    """The parts of --store, opened for a plan. `compat` None takes the line that wrote the store."""
    from store.opening import detect_compat, infer_config
    from store.store_opener import require_no_interrupted_change
    from store.store_parts import open_parts

    with locked(session, take=not consent.dry_run) as (layout, fs), _overlay(layout, consent) as overlay:
        if not consent.dry_run:
            require_no_interrupted_change(layout, fs)
        config = infer_config(layout, session.settings(), fs)
        line = compat or detect_compat(layout, fs)
        parts = open_parts(layout, config, fs, session.environment.clock_ms, compat=line, overlay=overlay)
        try:
            yield parts
        finally:
            parts.close()


@contextlib.contextmanager
def locked(session: Session, *, take: bool = True) -> Iterator[tuple[StoreLayout, Filesystem]]:
    """The layout of --store, which is a store, and whose lock is held inside the block (unless not `take`n)."""
    from store.disk.filesystem import Filesystem
    from store.disk.lock import StoreLock
    from store.opening import make_layout, require_store

    fs = Filesystem()
    layout = make_layout(session.root, session.settings())
    require_store(layout, fs)
    with StoreLock(layout.lock, fs) if take else contextlib.nullcontext():
        yield layout, fs


@contextlib.contextmanager
def _overlay(layout: StoreLayout, consent: Consent) -> Iterator[Overlay]:
    """Where changes go until they are applied; gone when the block ends."""
    from store.change.own_folder import staging_folder
    from store.disk.overlay import Overlay
    from store.rebuild import drop_leftovers

    if consent.dry_run:
        folder = Path(tempfile.mkdtemp(prefix="rmqctl-plan-"))
    else:
        folder = staging_folder(layout.root, f"plan-{os.getpid()}")
        drop_leftovers(folder.parent)
    try:
        yield Overlay(folder, sparse=consent.dry_run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not consent.dry_run:
            # rmqctl's own folder goes as well, where nothing else is in it.
            for parent in (folder.parent, folder.parent.parent):
                with contextlib.suppress(OSError):
                    parent.rmdir()
