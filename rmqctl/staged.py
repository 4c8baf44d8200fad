"""The engine's ways to open --store for a plan, by the global options."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rmqctl.changing import ChangeOptions
from rmqctl.context import Session

if TYPE_CHECKING:
    from store import StoreError
    from store.files import Filesystem
    from store.layout import StoreLayout
    from store.opened import OpenedStore


def planning(
    session: Session,
    consent: ChangeOptions,
    verb: str | None,
    compat: str | None = None,
    *,
    passes_foreign: bool = False,
) -> AbstractContextManager[OpenedStore]:
    """Open --store for a plan.

    verb            the change's word in store.structures.registry, refused by some structures; None for reading: then
                    queue files that keep a broker from starting are left out, with a note
    compat          the broker line whose rules apply; None for the line that wrote the store
    passes_foreign  leave out foreign names; the plan reports the brokers that do not start with them
    """
    from store import staged_store
    from store.opened import foreign_only

    def leave_out(error: StoreError) -> None:
        session.note(f"note: left out: {error}")

    refuse = leave_out if verb is None else foreign_only(lambda error: None) if passes_foreign else None

    root, fs = session.store.reached if consent.dry_run else (session.store.root, None)
    return staged_store(
        root,
        fs=fs,
        settings=session.store.settings(),
        compat=compat,
        clock=session.environment.clock_ms,
        dry_run=consent.dry_run,
        scratch=session.options.scratch,
        verb=verb,
        refuse=refuse,
    )


def locked(session: Session, *, take: bool = True) -> AbstractContextManager[tuple[StoreLayout, Filesystem]]:
    """Yield the layout and file system of --store, with its lock held in the block if `take` is set.

    For commands that do not change the log, and that rebuild queues in a database or do not change them.
    """
    from store.opened import locked_store

    root, fs = (session.store.root, None) if take else session.store.reached
    return locked_store(root, session.store.settings(), fs, take=take)
