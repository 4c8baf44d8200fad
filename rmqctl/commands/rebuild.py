"""rebuild: consume queues and index anew from the log."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from rmqctl.changing import Consent, DryRun, NoQuarantine, Quarantine, Yes, carry_out
from rmqctl.context import Session
from rmqctl.planning import locked
from rmqctl.result import Result
from rmqctl.spark import Engine, EngineOption, Master, Remote, SparkAbove, spark_session

EXAMPLES = (
    "rmqctl --store /data/store rebuild --dry-run",
    "rmqctl --store /data/store rebuild --queues --topic Orders --queue 3 --yes",
    "rmqctl --store /data/store rebuild --engine spark --master 'local[8]' --yes",
)


def run(
    ctx: typer.Context,
    queues: Annotated[bool, typer.Option("--queues", help="Only the consume queues.")] = False,
    index: Annotated[bool, typer.Option("--index", help="Only the index.")] = False,
    topic: Annotated[str | None, typer.Option(metavar="T", help="Only this topic's queues.")] = None,
    queue: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only this queue of the topic.")
    ] = None,
    engine: EngineOption = Engine.AUTO,
    master: Master = None,
    remote: Remote = None,
    spark_above: SparkAbove = 64,
    dry_run: DryRun = False,
    yes: Yes = False,
    quarantine: Quarantine = None,
    no_quarantine: NoQuarantine = False,
) -> Result:
    """Build consume queues and index from the log.

    Everything is built in a staging folder and published by rename under the store's lock; the old files go to
    quarantine. Without --queues and --index both are built; with --topic or --queue the queues alone.
    """
    session: Session = ctx.obj
    if queue is not None and topic is None:
        raise typer.BadParameter("--queue needs --topic")
    if topic is not None and index:
        raise typer.BadParameter("the index holds all topics; give --topic without --index")
    consent = Consent.given(
        session, dry_run=dry_run, yes=yes, quarantine=quarantine, no_quarantine=no_quarantine
    )

    from store.change.own_folder import staging_folder
    from store.files import StoreFiles
    from store.opening import infer_config
    from store.pipeline.engine import choose_engine, require_spark_can_build
    from store.rebuild import RebuildScope, drop_leftovers, plan_publish
    from store.rebuild_local import rebuild_locally
    from store.store_opener import require_no_interrupted_change

    scope = RebuildScope(queues or not index, (index or not queues) and topic is None, topic, queue)
    with locked(session, take=not dry_run) as (layout, fs):
        if not dry_run:
            require_no_interrupted_change(layout, fs)
        address, clock = str(layout.root.absolute()), session.environment.clock_ms
        choice = choose_engine(
            engine.value, [StoreFiles(address)], master=master, remote=remote, spark_above=spark_above << 30
        )
        session.note(f"engine: {'spark' if choice.is_spark else 'local'} ({choice.why})")
        config = infer_config(layout, session.settings(), fs)
        staging = _staging(staging_folder(layout.root.absolute(), f"rebuild-{os.getpid()}"), dry_run)
        if not dry_run:
            drop_leftovers(staging.parent)
        try:
            if choice.is_spark:
                from store.pipeline.rebuild import rebuild_on_spark

                require_spark_can_build(layout, config)
                with (
                    spark_session(session, master, remote) as spark,
                    session.progress("rebuilding", unit="tasks") as bar,
                ):
                    made = rebuild_on_spark(
                        spark, address, staging, config, scope, now_ms=clock(), progress=bar.update
                    )
            else:
                with session.progress("rebuilding") as bar:
                    made = rebuild_locally(
                        address, staging, config, scope, clock=clock, on_progress=bar.update
                    )
            change = plan_publish(layout.root.absolute(), staging, scope, fs)
            facts = {"log_end": made.log_end, "stopped_by": made.stopped_by, "messages": made.record_count}
            return carry_out(session, "rebuild", change, consent, facts)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _staging(inside: os.PathLike[str], dry_run: bool) -> Path:

    return Path(tempfile.mkdtemp(prefix="rmqctl-rebuild-")) if dry_run else Path(inside)
