"""recover: a broker's recovery at its start, as a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.backend import SPARK_ABOVE_GIB, Engine, EngineOption, Master, Remote, SparkAbove
from rmqctl.changing import ChangeOptions, ForceEmptyLog, changes_store, run_change
from rmqctl.context import Session
from rmqctl.options import Compat
from rmqctl.result import Result
from rmqctl.show import count
from rmqctl.staged import planning

if TYPE_CHECKING:
    from rmqctl.backend import Backend
    from store import Change
    from store.opened import OpenedStore
    from store.verbs.recover import RecoveryPlan

EXAMPLES = (
    "rmqctl --store /data/store recover --dry-run",
    "rmqctl --store /data/store recover --abnormal --yes",
    "rmqctl --store /data/store recover --abnormal --keep-index --yes",
    "rmqctl --store /data/store recover --engine spark --master 'local[8]' --yes",
)
WALKED_SEGMENTS = 3
"""Newest segments that a recovery reads after a clean shutdown, and after most crashes."""
SEE_ALSO = ("simulate", "truncate-dirty", "undo", "check")


def _differences() -> list[tuple[str, str]]:
    from store.verbs.recover import Difference

    return [(difference.value, f"{difference.reason[:1].upper()}{difference.reason[1:]}.") for difference in Difference]


SECTIONS = {"DIFFERENCES FROM A BROKER": _differences}
"""Sections of the man page; a plan lists the differences that apply to the store."""


Normal = Annotated[bool, typer.Option("--normal", help="As after a clean shutdown.")]
Abnormal = Annotated[bool, typer.Option("--abnormal", help="As after a crash.")]
CompatOption = Annotated[
    Compat | None,
    typer.Option(help="The broker version whose rules apply.", show_default="the version that wrote the store"),
]
KeepIndex = Annotated[bool, typer.Option("--keep-index", help="Rebuild the index files that a broker would delete.")]
AsBroker = Annotated[
    bool, typer.Option("--as-broker", help="Make exactly the changes of a broker's start, with its losses.")
]


@changes_store
def run(
    ctx: typer.Context,
    consent: ChangeOptions,
    normal: Normal = False,
    abnormal: Abnormal = False,
    compat: CompatOption = None,
    keep_index: KeepIndex = False,
    as_broker: AsBroker = False,
    engine: EngineOption = Engine.AUTO,
    master: Master = None,
    remote: Remote = None,
    spark_above: SparkAbove = SPARK_ABOVE_GIB,
    force_empty_log: ForceEmptyLog = False,
) -> Result:
    """Recover a store as a broker does at its start.

    Chooses the first segment by the checkpoint, and scans the log with CRC to its valid end. Truncates dirty files;
    truncates or rebuilds consume queues and index. Writes the checkpoint, and removes the abort marker. Without
    --normal or --abnormal the abort marker decides. A queue whose files are lost and whose messages have all expired
    continues at the largest offset of a consumer group.

    Entries of a DLedger log stay as they are, and queues and index are completed from them. A recovery that would
    truncate such a log is refused, because the group decides which entries count. Queues in RocksDB are rebuilt with
    the index after a crash, or if they do not reach the log's end. Beside queue files (rocksdbCQDoubleWriteEnable) the
    files are recovered as usual, and the RocksDB is rebuilt.

    On Spark only the log is trusted: it is scanned whole, and all queues and the index are rebuilt. The result is that
    of --abnormal for a store without queues, index and checkpoint. --engine auto uses Spark with --master or --remote,
    or for a log larger than --spark-above that an abnormal recovery would read whole. The rules of --compat apply there
    too. --normal, --as-broker and --cold are refused there, and --keep-index has no effect.
    """
    session: Session = ctx.obj
    mode = "normal" if normal else "abnormal" if abnormal else "auto"
    session.store.read_early("commitlog", newest=WALKED_SEGMENTS)
    if consent.dry_run:
        session.store.warn_of_holder()
    with planning(session, consent, "recover", compat, passes_foreign=True) as opened:
        stays = session.options.cold or as_broker
        choice = _choose(opened, engine, master, remote, spark_above << 30, mode=mode, stays=stays)
        if choice.is_spark:
            session.note(f"engine: spark ({choice.why})")
            change = _plan_on_spark(session, opened, master, remote, force_empty_log=force_empty_log)
        else:
            rules = {"keep_index": keep_index, "as_broker": as_broker, "force_empty_log": force_empty_log}
            change = _plan(session, opened, mode, **rules)
        return run_change(session, "recover", change, consent)


def _plan(
    session: Session,
    opened: OpenedStore,
    mode: str,
    *,
    keep_index: bool,
    as_broker: bool,
    force_empty_log: bool,
) -> Change[RecoveryPlan]:
    from store import plan_recovery

    with session.progress("reading the log") as bar:
        change = plan_recovery(
            opened,
            mode=mode,
            keep_index=keep_index,
            as_broker=as_broker,
            force_empty_log=force_empty_log,
            progress=bar.update,
        )
    if keys := change.report.lost_index_keys:
        session.note(
            f"note: after this {count(keys, 'key')} of remaining messages will not be found, as after a broker's "
            "start; --keep-index rebuilds them"
        )
    return change


def _plan_on_spark(
    session: Session, opened: OpenedStore, master: str | None, remote: str | None, *, force_empty_log: bool
) -> Change[RecoveryPlan]:
    from rmqctl.rebuilding import make_rebuild
    from store import plan_recovery
    from store.opened import refuse_unchangeable

    refuse_unchangeable(opened.layout, opened.fs, "spark")
    rebuild = make_rebuild(session, opened.layout, opened.fs, on_spark=True, master=master, remote=remote)
    return plan_recovery(opened, rebuild=rebuild, force_empty_log=force_empty_log)


def _choose(
    opened: OpenedStore,
    engine: Engine,
    master: str | None,
    remote: str | None,
    spark_above: int,
    *,
    mode: str,
    stays: bool,
) -> Backend:
    """Return the engine. By size alone Spark is used only if the recovery reads the whole log.

    stays  whether other options need this process
    """
    from rmqctl.backend import Backend, choose_backend
    from store.verbs.recover import reads_whole_log

    log_size = sum(segment.size for segment in opened.log.segments.files)
    choice = choose_backend(engine, log_size, master=master, remote=remote, spark_above_bytes=spark_above)
    by_size = choice.is_spark and engine is Engine.AUTO and not (master or remote)
    if by_size and (stays or not reads_whole_log(opened, mode)):
        return Backend(False, "the recovery does not read the whole log")
    return choice
