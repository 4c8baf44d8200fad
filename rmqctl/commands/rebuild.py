"""rebuild: consume queues and index from the log."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.backend import SPARK_ABOVE_GIB, Engine, EngineOption, Master, Remote, SparkAbove
from rmqctl.changing import ChangeOptions, ForceEmptyLog, changes_store, run_change
from rmqctl.completion import complete_queue, complete_topic
from rmqctl.context import Session
from rmqctl.hints import hint_for
from rmqctl.result import Result
from rmqctl.show import count

if TYPE_CHECKING:
    from pathlib import Path

    from store import Change, ScanRules
    from store.config import StoreConfig
    from store.files import StoreReader
    from store.verbs.rebuild import Rebuild, RebuildPlan, RebuildReport, RebuildScope

EXAMPLES = (
    "rmqctl --store /data/store rebuild --dry-run",
    "rmqctl --store /data/store rebuild queues --topic Orders --queue 3 --yes",
    "rmqctl --store /data/store rebuild timer --dry-run",
    "rmqctl --store /data/store rebuild --engine spark --master 'local[8]' --yes",
)
SEE_ALSO = (
    "check", "rebuild compaction", "rebuild delay-offsets", "rebuild message-database", "rebuild timer",
    "rebuild topics", "recover", "undo",
)  # fmt: skip
_ADVICE = "no queue shows them afterwards, and `rmqctl salvage --to NEWSTORE` copies them"
FILES = ("commitlog", "consumequeue", "index", "config", "lock", ".rmqctl")


Queues = Annotated[bool, typer.Option("--queues", help="Only the consume queues.")]
Index = Annotated[bool, typer.Option("--index", help="Only the index.")]
Topic = Annotated[
    str | None, typer.Option(metavar="TOPIC", help="Only this topic's queues.", autocompletion=complete_topic)
]
QueueId = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Only this queue of the topic.", autocompletion=complete_queue),
]


@changes_store
def run(
    ctx: typer.Context,
    consent: ChangeOptions,
    queues: Queues = False,
    index: Index = False,
    topic: Topic = None,
    queue: QueueId = None,
    engine: EngineOption = Engine.AUTO,
    master: Master = None,
    remote: Remote = None,
    spark_above: SparkAbove = SPARK_ABOVE_GIB,
    force_empty_log: ForceEmptyLog = False,
) -> Result:
    """Build consume queues and index from the log.

    Everything is built in a staging folder and renamed into place under the store's lock. The old files go to
    quarantine. Without --queues and --index both are built; with --topic or --queue only queues.

    A queue whose messages have all expired keeps its next queue offset. If its files are lost, it continues at the
    largest offset of a consumer group; queues of deleted topics are left out.

    A word after the command rebuilds one structure. `queues` and `index` are the same as --queues and --index. These
    have options of their own (`rmqctl rebuild timer --help`): `timer` (timerwheel, timerlog, timercheck), `compaction`
    (messages of compacted topics), `message-database` (rocksdbstore), `delay-offsets` (delayOffset.json) and `topics`
    (topics.json).
    """
    session: Session = ctx.obj
    if queue is not None and topic is None:
        raise typer.BadParameter("--queue needs --topic")
    from store import plan_rebuild
    from store.verbs.rebuild import RebuildScope

    scope = RebuildScope(queues or not index, (index or not queues) and topic is None, topic, queue)
    root, fs = session.store.reached if consent.dry_run else (session.store.root, None)

    def build(folder: Path, config: StoreConfig, scope: RebuildScope, rules: ScanRules) -> RebuildReport:
        log = session.store.open_reached()
        if scope.queues:
            _warn_of_gaps(session, log)
        return _engine(session, log, engine, master, remote, spark_above)(folder, config, scope, rules)

    with plan_rebuild(
        root,
        scope,
        settings=session.store.settings(),
        force_empty_log=force_empty_log,
        rebuild=build,
        scratch=session.options.scratch,
        dry_run=consent.dry_run,
        fs=fs,
    ) as change:
        _remark(session, change, scope)
        return run_change(session, "rebuild", change, consent)


def _remark(session: Session, change: Change[RebuildPlan], scope: RebuildScope) -> None:
    """Note the way to save lost messages; warn if the log holds nothing of a narrow scope."""
    from store.verbs.rebuild import staged_files

    if change.lost and session.store.open_reached().segments():
        lost = count(change.report.lost_messages, "message")
        change.remarks.append(f"{lost} can be read past the log's end; {_ADVICE}")
    if scope.is_narrow and change.staging is not None and not staged_files(change.staging, change.fs):
        what = scope.topic if scope.queue_id is None else f"{scope.topic}, queue {scope.queue_id}"
        session.warn(f"the log holds nothing of {what}")


def _warn_of_gaps(session: Session, reader: StoreReader) -> None:
    """Warn if the log lacks segments: later messages get other queue offsets."""
    for before, after in pairwise(reader.segments()):
        if after.number != before.number + before.size:
            gap = f"the log lacks segments before {after.number}"
            session.warn(f"{gap}: later messages get other queue offsets; {hint_for('missing-segment')}")


def _engine(
    session: Session,
    log: StoreReader,
    engine: Engine,
    master: str | None,
    remote: str | None,
    spark_above_gib: int,
) -> Rebuild:
    """Return the function that rebuilds with the engine chosen by the options and the log's size."""
    from rmqctl.backend import choose_backend
    from rmqctl.rebuilding import make_rebuild
    from store.opened import make_layout, refuse_unchangeable

    root, fs = session.store.reached
    layout = make_layout(root, session.store.settings(), fs)
    log_bytes = sum(file.size for file in log.segments())
    backend = choose_backend(engine, log_bytes, master=master, remote=remote, spark_above_bytes=spark_above_gib << 30)
    if backend.is_spark:
        # Raises BadRequest for a URI: executors need a folder that all of them see.
        _ = session.store.root
        refuse_unchangeable(layout, fs, "spark")
    backend.tell(session)
    return make_rebuild(session, layout, fs, on_spark=backend.is_spark, master=master, remote=remote)
