"""stats, flush, stop: requests to the process that serves a store."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.show import count

EXAMPLES = {
    "stats": ("rmqctl --store /tmp/store stats", "rmqctl --store /tmp/store stats --over hour --format json"),
    "flush": ("rmqctl --store /tmp/store flush",),
    "stop": ("rmqctl --store /tmp/store stop", "rmqctl --store /tmp/store stop --timeout 300"),
}
SEE_ALSO = ("serve",)
EXIT_CODES = {
    "stats": {1: "The store refuses puts or gets, or a service met damage.", 2: "No process serves the store."},
    "flush": {2: "No process serves the store."},
    "stop": {1: "The store is not closed in the time allowed.", 2: "No process serves the store."},
}


class Ring(StrEnum):
    """Values of --over."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


def run_stats(
    ctx: typer.Context,
    over: Annotated[Ring, typer.Option(help="Sums and rates over the last minute, hour or day.")] = Ring.MINUTE,
) -> Result:
    """Show the counters of a served store.

    The runtime report has the names of `mqadmin brokerStatus`. Its rates cover the last 10, 60 and 600 seconds, its
    latencies the last full minute. The counters have the names of BrokerStatsManager; their keys are a topic,
    topic@group or queueId@topic@group. All count from the start of the serving process.

    Also shows each slave's acknowledged offset, pending and due delayed messages, half messages in doubt or discarded,
    and each port's connections.
    """
    session: Session = ctx.obj
    served = session.store.connect_served()
    report = served.stats(over.value)
    runtime = [{"runtime_name": name, "runtime_value": value} for name, value in report["runtime"].items()]
    counters = [
        {"set": name, "key": key, "total": value, "sum": total, "per_second": rate, "average": average}
        for name, key, value, total, rate, average in report["items"]
    ]
    lags = [{"set": name, "key": key, "behind": value} for name, key, value in report["moments"]]
    listeners = [{**one, "ended": sum(one["ended"].values())} for one in report["listeners"]]
    facts = {
        "process_id": served.process_id,
        "over": over.value,
        "push_to_slave_max_offset": report["push_to_slave_max_offset"],
        "halves_in_doubt": report["halves_in_doubt"],
        "halves_given_up": report["halves_given_up"],
        "flags": report["flags"],
        "warnings": report["findings"],
    }
    wrong = [*report["flags"], *report["findings"]]
    state = f"it reports {', '.join(wrong)}" if wrong else "no flag is set"
    verdict = f"process {served.process_id} has taken {count(_messages(report['runtime']), 'message')}; {state}"
    tables = [
        Table("runtime", runtime),
        Table("counters", counters),
        Table("lags", lags),
        Table("slaves", report["slaves"]),
        Table("delay_levels", report["delay_levels"]),
        Table("listeners", listeners),
    ]
    return Result("stats", facts, tables, FINDINGS if wrong else OK, verdict)


def _messages(runtime: dict[str, str]) -> int:
    # A broker reports a total of 1 message for none.
    return int(runtime["putMessageTimesTotal"]) if runtime["putMessageSizeTotal"] != "0" else 0


def run_flush(ctx: typer.Context) -> Result:
    """Flush a served store to the disk.

    Returns when log, queues, index and checkpoint are on the disk.
    """
    session: Session = ctx.obj
    served = session.store.connect_served()
    log_end = served.flush()
    facts = {"process_id": served.process_id, "log_end": log_end}
    return Result("flush", facts, verdict=f"everything before log offset {log_end} is durable")


def run_stop(
    ctx: typer.Context,
    timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait at most this long for the process to end.")
    ] = 60.0,
) -> Result:
    """Stop the process that serves a store.

    Returns when the store is closed: everything is durable and the lock is free.
    """
    session: Session = ctx.obj
    served = session.store.connect_served()
    is_closed = served.stop(timeout)
    facts = {"process_id": served.process_id, "is_closed": is_closed}
    done = "has closed the store" if is_closed else f"has not closed the store in {timeout:g} seconds"
    return Result("stop", facts, [], OK if is_closed else FINDINGS, f"process {served.process_id} {done}")
