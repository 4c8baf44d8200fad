"""Opens a store for a plan: its files are only read, new files go to a staging folder.

dry run   takes no lock and stages in a scratch folder outside of the store, so it works on a read-only mount and
          beside a live broker
change    takes the lock before it opens the store, and stages inside of it, so that publishing is a rename
by path   a plan that `takes_path` opens a store like a change, and keeps it open until its Change is closed
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from store.change.workspace import staging_folder
from store.errors import StoreError, StoreIOError
from store.files.filesystem import Filesystem
from store.files.lock import StoreLock
from store.files.overlay import Overlay
from store.files.scratch import Scratch
from store.kernels.native import clock_ms
from store.layout import StoreLayout
from store.opened.arguments import checks_arguments
from store.opened.detect import find_store, make_layout, refuse_links, refuse_unchangeable, require_store
from store.opened.opened_store import OpenedStore, foreign_only
from store.opened.reach import reach_store
from store.structures.registry import DERIVE

P = ParamSpec("P")

if TYPE_CHECKING:
    from store.change.change import Change, R

    _Plan = Callable[Concatenate[OpenedStore, P], Change[R]]
    _PlanByPath = Callable[Concatenate[OpenedStore | str | Path, P], Change[R]]


@checks_arguments
@contextlib.contextmanager
def staged_store(
    root: str | Path,
    *,
    settings: Mapping[str, object] | None = None,
    compat: str | None = None,
    clock: Callable[[], int] = clock_ms,
    fs: Filesystem | None = None,
    dry_run: bool = False,
    scratch: str | Path | None = None,
    verb: str | None = DERIVE,
    refuse: Callable[[StoreError], None] | None = None,
) -> Iterator[OpenedStore]:
    """Open the store at `root` for a plan; options as for open_store.

    verb    the change's word in store.structures.registry, refused by some structures; None for reading
    refuse  is called with the error of a queue's file, and the file is left out: for plans that are only shown

    Raises NotAStore, UnsupportedFormat, StoreLocked, DamagedFile, StoreIOError.
    """
    folder, fs = reach_store(root, fs, scratch, to_change=not dry_run)
    with (
        locked_store(folder, settings, fs, take=not dry_run, verb=verb) as (layout, fs),
        staging(layout, fs, "plan", dry_run=dry_run, scratch=scratch) as staged,
    ):
        found = find_store(layout, settings or {}, fs, compat=compat)
        opened = OpenedStore.load(found, fs, clock, overlay=Overlay(staged), refuse=refuse)
        try:
            yield opened
        finally:
            opened.close()


def takes_path(verb: str, *, passes_foreign: bool = False) -> Callable[[_Plan[P, R]], _PlanByPath[P, R]]:
    """Let a plan take a store's path too: the store stays open and locked until the Change is closed.

    verb            the change's word in store.structures.registry, refused by some structures
    passes_foreign  leave out foreign names; the plan reports the brokers that do not start with them
    """
    refuse = foreign_only(lambda error: None) if passes_foreign else None

    def decorate(plan: _Plan[P, R]) -> _PlanByPath[P, R]:
        @checks_arguments
        @functools.wraps(plan)
        def plan_at(store: OpenedStore | str | Path, /, *args: P.args, **options: P.kwargs) -> Change[R]:
            if isinstance(store, OpenedStore):
                return plan(store, *args, **options)
            with contextlib.ExitStack() as until_planned:
                opened = until_planned.enter_context(staged_store(store, verb=verb, refuse=refuse))
                change = plan(opened, *args, **options)
                change.until_closed.push(until_planned.pop_all())
            return change

        # signature() and the library's page show this type for the first parameter.
        plan_at.__annotations__["opened"] = OpenedStore | str | Path
        return plan_at

    return decorate


@contextlib.contextmanager
def locked_store(
    root: Path,
    settings: Mapping[str, object] | None = None,
    fs: Filesystem | None = None,
    *,
    take: bool = True,
    verb: str | None = DERIVE,
) -> Iterator[tuple[StoreLayout, Filesystem]]:
    """Yield the store's layout and file system, with its lock held in the block if `take` is set.
    verb  the change's word in store.structures.registry, refused by some structures; None for reading
    """
    fs = fs or Filesystem()
    layout = make_layout(root, settings or {}, fs)
    require_store(layout, fs)
    if verb is not None:
        refuse_unchangeable(layout, fs, verb, settings or {})
    if take:
        refuse_links(layout, fs)
    with StoreLock(layout.lock, fs) if take else contextlib.nullcontext():
        yield layout, fs


@contextlib.contextmanager
def staging(
    layout: StoreLayout, fs: Filesystem, name: str, *, dry_run: bool, scratch: str | Path | None = None
) -> Iterator[Path]:
    """Yield a folder for files that a command builds; remove it when the block ends.

    Unless it is a dry run, the folder is in the store and the caller holds the store's lock. Raise StoreIOError then
    if a change was interrupted there.
    """
    if dry_run:
        with Scratch(scratch) as outside:
            yield outside.folder
        return
    require_no_interrupted_change(layout, fs)
    folder = staging_folder(layout.root, f"{name}-{os.getpid()}")
    # The caller holds the lock, so any process that staged here before has ended.
    fs.remove_tree(folder.parent)
    try:
        yield folder
    finally:
        # The next command removes what is left.
        with contextlib.suppress(StoreIOError):
            fs.remove_tree(folder)
            for parent in (folder.parent, folder.parent.parent):
                fs.remove_folder(parent)


def require_no_interrupted_change(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise StoreIOError if a crash interrupted a change."""
    # Imported here as it takes long, and a dry run never calls this.
    from store.change.quarantine import interrupted_change

    change = interrupted_change(layout.root, fs)
    if change is not None:
        raise StoreIOError(f"the change {change.id} was interrupted", file=layout.own, code=change.code, subject=change)
