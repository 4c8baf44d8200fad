"""rebuild: consume queues and index anew from the log."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.backend import SPARK_ABOVE_GIB, Engine, EngineOption, Master, Remote, SparkAbove
from rmqctl.changing import ChangeOptions, DryRun, ForceEmptyLog, NoQuarantine, Quarantine, Yes, run_change
from rmqctl.completion import complete_queue, complete_topic
from rmqctl.context import Session
from rmqctl.hints import hint_for
from rmqctl.result import Result
from rmqctl.show import count
from rmqctl.staged import locked, staging

if TYPE_CHECKING:
    from pathlib import Path

    from store import Change
    from store.files import Filesystem, StoreReader
    from store.layout import StoreLayout
    from store.verbs.rebuild import Rebuild, RebuildScope

EXAMPLES = (
    "rmqctl --store /data/store rebuild --dry-run",
    "rmqctl --store /data/store rebuild --queues --topic Orders --queue 3 --yes",
    "rmqctl --store /data/store rebuild --engine spark --master 'local[8]' --yes",
)
SEE_ALSO = ("check", "recover", "undo")
_ADVICE = "no queue shows them afterwards, and `rmqctl salvage --to NEWSTORE` copies them"
FILES = ("commitlog", "consumequeue", "index", "lock", ".rmqctl")


Queues = Annotated[bool, typer.Option("--queues", help="Only the consume queues.")]
Index = Annotated[bool, typer.Option("--index", help="Only the index.")]
Topic = Annotated[
    str | None, typer.Option(metavar="T", help="Only this topic's queues.", autocompletion=complete_topic)
]
QueueId = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Only this queue of the topic.", autocompletion=complete_queue),
]


def run(
    ctx: typer.Context,
    queues: Queues = False,
    index: Index = False,
    topic: Topic = None,
    queue: QueueId = None,
    engine: EngineOption = Engine.AUTO,
    master: Master = None,
    remote: Remote = None,
    spark_above: SparkAbove = SPARK_ABOVE_GIB,
    force_empty_log: ForceEmptyLog = False,
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
    consent = ChangeOptions.given(session, dry_run=dry_run, yes=yes, quarantine=quarantine, no_quarantine=no_quarantine)

    from store.opened import require_log
    from store.verbs.check import confirmed_offset
    from store.verbs.rebuild import RebuildScope, staged_files

    scope = RebuildScope(queues or not index, (index or not queues) and topic is None, topic, queue)
    with (
        locked(session, take=not dry_run) as (layout, fs),
        staging(layout, fs, "rebuild", dry_run=dry_run) as folder,
    ):
        if not force_empty_log:
            require_log(layout, fs)
        reader = session.store.open_reached() if force_empty_log else session.store.open_reader()
        if scope.queues:
            _warn_of_gaps(session, reader)
        scope = replace(scope, confirmed=confirmed_offset(reader))
        rebuild = _engine(session, layout, fs, engine, master, remote, spark_above)
        change = _plan(session, layout, fs, folder, reader, scope, rebuild)
        if scope.is_narrow and not staged_files(folder, fs):
            session.warn(f"the log holds nothing of {topic if queue is None else f'{topic}, queue {queue}'}")
        return run_change(session, "rebuild", change, consent)


def _plan(
    session: Session,
    layout: StoreLayout,
    fs: Filesystem,
    folder: Path,
    reader: StoreReader,
    scope: RebuildScope,
    rebuild: Rebuild,
) -> Change:
    """Builds the scope's files in `folder`; gives the plan that publishes them."""
    from store import VERIFYING
    from store.formats import SCHEDULE_TOPIC
    from store.opened import DELAY_LEVELS, describe_inferred_delays, infer_config, refuse_mixed_delays
    from store.verbs.rebuild import ends_in_damage, lower_checkpoint, messages_behind, plan_publish
    from store.verbs.recover import describe_unconfirmed

    settings, has_log = session.store.settings(), bool(reader.segments())
    config = infer_config(layout, settings, fs)
    made = rebuild(folder, config, scope, VERIFYING)
    change = plan_publish(layout.root, folder, scope, fs)
    in_rocksdb = scope.queues and scope.topic in (None, SCHEDULE_TOPIC) and config.queues_in_rocksdb
    if in_rocksdb or change.publishes_below(layout.consumequeue / SCHEDULE_TOPIC):
        change.remarks += describe_inferred_delays(config, settings)
        if DELAY_LEVELS not in settings:
            refuse_mixed_delays(layout, fs)
    lower_checkpoint(change, layout, config, scope, is_log_empty=not has_log)
    change.notes += made.findings
    if ends_in_damage(reader, made.log_end):
        change.notes.append(f"queues and index are built up to log offset {made.log_end}: {made.stopped_by}")
    lost = messages_behind(reader, scope, made.log_end) if has_log else _shown(session, layout, fs, scope)
    change.lost = lost
    change.facts["lost_messages"] = total = sum(lost.values())
    if total and has_log:
        change.remarks.append(f"{count(total, 'message')} can be read behind the log's end; {_ADVICE}")
    change.remarks += describe_unconfirmed(scope.confirmed or 0, made.log_end, only_confirmed=True)
    change.facts |= {"log_end": made.log_end, "stopped_by": made.stopped_by, "message_count": made.record_count}
    return change


def _warn_of_gaps(session: Session, reader: StoreReader) -> None:
    """Warns where the log lacks segments: messages behind them get other queue offsets."""
    for before, after in pairwise(reader.segments()):
        if after.number != before.number + before.size:
            gap = f"the log lacks segments in front of {after.number}"
            session.warn(f"{gap}: messages behind get other queue offsets; {hint_for('missing-segment')}")


def _shown(session: Session, layout: StoreLayout, fs: Filesystem, scope: RebuildScope) -> dict[str, int]:
    """The messages, by topic, that queues of the scope show beside an empty log."""
    from store.verbs import look_at_store

    counts: Counter[str] = Counter()
    for queue in look_at_store(layout, session.store.settings(), fs).queues if scope.queues else ():
        if scope.wants((queue.topic, queue.queue_id)):
            counts[queue.topic] += queue.max_offset - queue.min_offset
    return dict(sorted(counts.items()))


def _engine(
    session: Session,
    layout: StoreLayout,
    fs: Filesystem,
    engine: Engine,
    master: str | None,
    remote: str | None,
    spark_above_gib: int,
) -> Rebuild:
    """The rebuild of the engine that is chosen for the log's size."""
    from rmqctl.backend import choose_backend
    from rmqctl.rebuilding import make_rebuild
    from store.opened import refuse_unchangeable

    log_bytes = sum(file.size for file in session.store.open_reached().segments())
    backend = choose_backend(engine, log_bytes, master=master, remote=remote, spark_above_bytes=spark_above_gib << 30)
    if backend.is_spark:
        # The executors build queues from a store in a folder that all of them see.
        _ = session.store.root
        refuse_unchangeable(layout, fs, "spark")
    session.note(f"engine: {backend}")
    return make_rebuild(session, layout, fs, on_spark=backend.is_spark, master=master, remote=remote)
