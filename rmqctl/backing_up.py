"""Follows a broker with a backup, and restores a backup in tasks of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from rmqctl.backend import Backend
from rmqctl.context import Session
from rmqctl.lost_connections import LostConnections
from rmqctl.times import show_time

if TYPE_CHECKING:
    from store.formats import Manifest
    from store.query.spark import RestoreTasks
    from store.verbs import BackupTarget, CreateOptions, Moment, RestoreReport

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
    creating, bar = ExitStack(), session.progress("receiving")

    def on_created(made: Manifest) -> None:
        creating.close()
        # From here on a signal ends the following cleanly; before, it interrupts as in any command.
        following.enter_context(session.interrupts.deferred())
        session.note(f"note: backup {made.id} is made, and follows {broker} from here on")
        following.enter_context(bar)
        on_grown(made)

    def on_grown(made: Manifest) -> None:
        bar.title = f"received; backed up to {show_time(made.last_store_timestamp_ms)}"

    how = FollowOptions(
        session.interrupts.asked,
        options,
        every or DEFAULT_EVERY_S,
        has_controller,
        on_created=on_created,
        on_grown=on_grown,
        on_progress=lost.reset_by(bar.update),
        on_lost=lost.note,
    )
    with ExitStack() as following, creating:
        options.progress = creating.enter_context(session.progress("copying the log")).update
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


def say_restored(session: Session, manifest: Manifest, moment: Moment, made: RestoreReport) -> None:
    """Note the remarks; warn of damage, and of a moment past the backup."""
    if moment.time_ms is not None and moment.time_ms > manifest.ended_ms:
        ended = show_time(manifest.ended_ms)
        session.warn(f"the backup was made at {ended}, before --at: messages stored later are not in it")
    for remark in made.remarks:
        session.note(remark)
    for finding in made.findings:
        session.warn(finding)


def restored_facts(made: RestoreReport) -> dict[str, object]:
    """Return the facts of a restored store."""
    return {
        "log_start": made.log_start,
        "log_end": made.log_end,
        "last_ms": made.last_store_timestamp_ms,
        "record_count": made.record_count,
        "expired_queue_count": made.expired_queue_count,
        "bumped_queue_count": made.bumped_queue_count,
        "finding_count": len(made.findings),
    }
