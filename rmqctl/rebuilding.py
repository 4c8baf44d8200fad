"""Builds queues and index for `rebuild` and `recover`: in this process, or in tasks of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rmqctl.backend import require_own_commitlog
from rmqctl.context import Session
from rmqctl.spark import spark_session

if TYPE_CHECKING:
    from store import ScanRules
    from store.config import StoreConfig
    from store.files import Filesystem
    from store.layout import StoreLayout
    from store.verbs.rebuild import Rebuild, RebuildReport, RebuildScope


def make_rebuild(
    session: Session,
    layout: StoreLayout,
    fs: Filesystem,
    *,
    on_spark: bool,
    master: str | None = None,
    remote: str | None = None,
) -> Rebuild:
    """Return the function that rebuilds with the chosen engine, with a progress bar."""
    if on_spark:
        require_own_commitlog(layout, "Spark")
    clock = session.environment.clock_ms

    def locally(staging: Path, config: StoreConfig, scope: RebuildScope, rules: ScanRules) -> RebuildReport:
        from store.files import StoreReader
        from store.verbs.rebuild import rebuild_locally

        files = StoreReader.of(layout, fs)
        with session.progress("rebuilding") as bar:
            return rebuild_locally(
                files,
                staging,
                config,
                scope,
                clock=clock,
                fs=fs,
                rules=rules,
                on_progress=bar.update,
            )

    def by_tasks(staging: Path, config: StoreConfig, scope: RebuildScope, rules: ScanRules) -> RebuildReport:
        from store.query.spark import rebuild_on_spark, watched

        with (
            spark_session(session, master, remote) as spark,
            session.progress("rebuilding", unit="tasks") as bar,
            watched(spark, bar.update),
        ):
            return rebuild_on_spark(
                spark, str(layout.root), staging.absolute(), config, scope, now_ms=clock(), rules=rules
            )

    return by_tasks if on_spark else locally
