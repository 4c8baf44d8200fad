"""Follows a broker with a backup, and restores a backup in tasks of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from rmqctl.backend import Backend
from rmqctl.context import Session
from rmqctl.lost_connections import LostConnections

if TYPE_CHECKING:
    from store.formats import Manifest
    from store.query.spark import RestoreTasks
    from store.verbs import BackupTarget, CreateOptions

HA_ADDRESS = "127.0.0.1:10912"
"""The default of haListenPort."""


def follow_broker(
    session: Session,
    broker: str,
    folder: BackupTarget,
    options: CreateOptions,
    every: float | None,
    *,
    has_controller: bool,
) -> Manifest:
    """Keep a backup up to date with the broker at HOST:PORT until a signal ends it; return its manifest."""
    from store.engine.ha import DEFAULT_EVERY_S, Address, FollowOptions, follow_master

    address, (root, fs), lost = Address.parse(broker), session.store.reached, LostConnections(session)

    def on_created(made: Manifest) -> None:
        # From here on a signal ends the following cleanly; before, it interrupts as in any command.
        following.enter_context(session.interrupts.deferred())
        session.note(f"note: backup {made.id} is made, and follows {broker} from here on")

    how = FollowOptions(
        options,
        every or DEFAULT_EVERY_S,
        has_controller,
        on_created=on_created,
        should_stop=session.interrupts.asked,
        on_progress=lost.reset_by(lambda received: None),
        on_lost=lost.note,
    )
    with ExitStack() as following:
        return follow_master(root, address, folder, how, fs, session.environment.clock_ms)


@contextmanager
def restore_cluster(
    session: Session, backend: Backend, master: str | None, remote: str | None
) -> Iterator[RestoreTasks | None]:
    """Yield the restore tasks of a started Spark, or None if this process is chosen."""
    backend.tell(session)
    if not backend.is_spark:
        yield None
        return
    from rmqctl.spark import spark_session
    from store.query.spark import RestoreTasks

    with spark_session(session, master, remote) as spark:
        yield RestoreTasks(spark, session.environment.clock_ms())
