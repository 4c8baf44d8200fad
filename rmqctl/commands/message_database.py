"""message-database: the RocksDB with index, timers and half messages of 5.4 and later."""

from __future__ import annotations

import typer

from rmqctl.changing import ChangeOptions, changes_store, run_change
from rmqctl.context import Session
from rmqctl.result import Result
from rmqctl.staged import planning

EXAMPLES = (
    "rmqctl --store /data/store rebuild message-database --dry-run",
    "rmqctl --store /data/store --set indexRocksDBEnable=true rebuild message-database --yes",
)
SEE_ALSO = ("check", "rebuild", "transaction show", "timer show")
FILES = ("commitlog", "rocksdbstore", "lock", ".rmqctl")


@changes_store
def run_rebuild(ctx: typer.Context, consent: ChangeOptions) -> Result:
    """Rebuild rocksdbstore/ from the log (5.4 and later).

    Half messages without an end are open again, with the check counts of the old database; those it had discarded stay
    discarded. Index and timers are built if the old database has them, or if indexRocksDBEnable and timerRocksDBEnable
    are true. A due timer that was neither delivered nor deleted is delivered at the broker's start.
    """
    session: Session = ctx.obj
    from store.structures import plan_message_database

    with planning(session, consent, "rebuild") as opened:
        return run_change(session, "rebuild message-database", plan_message_database(opened), consent)
