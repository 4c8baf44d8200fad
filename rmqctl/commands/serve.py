"""serve: a store with a broker's services, open for other processes until it is stopped."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.changing import ForceEmptyLog
from rmqctl.context import Session
from rmqctl.options import MOST_CONNECTIONS, Connections, MetricsPort, listen_address
from rmqctl.result import Result
from rmqctl.show import count

if TYPE_CHECKING:
    from store import ServedStore
    from store.engine.ha import Limits
    from store.engine.serving import ControlServer, MetricsServer

EXAMPLES = (
    "rmqctl --store /tmp/store serve",
    "rmqctl --store /tmp/store serve --ha-listen 10912 --metrics 9404",
    "rmqctl --store /tmp/store serve --no-clean --set flushDiskType=SYNC_FLUSH",
)
SEE_ALSO = ("put", "get", "stats", "flush", "stop", "replicate pull")
FILES = ("commitlog", "consumequeue", "index", "checkpoint", "abort", "lock")
# A signal that another thread receives does not end the main thread's wait.
_LOOK_FOR_SIGNALS_S = 0.5

HaListen = Annotated[
    str | None, typer.Option(metavar="[HOST:]PORT", help="Serve the log to slaves; without HOST on the loopback.")
]
IdleTimeout = Annotated[
    float, typer.Option(min=0.1, metavar="SECONDS", help="Close a connection that is idle for this long.")
]
Ready = Annotated[bool, typer.Option("--ready", help="Print `ready` when requests are accepted.")]


def run(
    ctx: typer.Context,
    ha_listen: HaListen = None,
    metrics: MetricsPort = None,
    connections: Connections = MOST_CONNECTIONS,
    idle_timeout: IdleTimeout = 60.0,
    no_clean: Annotated[bool, typer.Option("--no-clean", help="Never delete expired segments.")] = False,
    recover: Annotated[bool, typer.Option("--recover", help="Recover first after a crash or damage.")] = False,
    force_empty_log: ForceEmptyLog = False,
    ready: Ready = False,
) -> Result:
    """Keep a store open, as a broker does.

    Opens the store as its owner, or creates one in an empty folder, and runs a broker's services: dispatch, flushes,
    delivery of delayed messages, checks of half messages, statistics, disk checks. Expired segments are deleted by
    deleteWhen, fileReservedTime and the disk's ratios (not with --no-clean).

    No producer can be asked about a half message: each check puts it back with a higher check count. After
    transactionCheckMax checks, or fileReservedTime, it goes to TRANS_CHECK_MAX_TIME_TOPIC, as in a broker without
    producers. Other rmqctl processes of the same user put, get and query through a socket in the store's folder, and
    use `stats`, `flush` and `stop`. Programs use store.engine.serving.StoreClient.

    No network port is open by default. A port without a host is on the loopback. Neither protocol has passwords or
    encryption. A port or socket has at most --connections connections, and at most a sixth of the process's open files
    (ulimit -n); one more closes the connection that has been idle longest. A connection has --idle-timeout to send a
    request or read an answer, a slave haHousekeepingInterval to report.

    Ends at `rmqctl stop`, SIGTERM or Ctrl-C with exit code 0, after everything is durable and the abort marker is
    removed. The marker stays if a full disk or a failed service refuses puts, as in a broker.
    """
    session: Session = ctx.obj
    from store.engine.ha import Limits

    # Refused before a store is created.
    slaves_address, metrics_address = listen_address(ha_listen, "--ha-listen"), listen_address(metrics, "--metrics")
    limits = Limits(connections, idle_timeout)
    with session.interrupts.deferred():
        opened = session.store.open_to_serve(
            _services(no_clean), recover=recover, force_empty_log=force_empty_log, listen=slaves_address
        )
        with ExitStack() as open_ports:
            server, page = _open_ports(session, opened, open_ports, metrics_address, limits)
            # An earlier signal waits until the block ends.
            facts = _facts(opened, server, page)
            ended_by = _serve(session, opened, server, ready)
            facts |= _counts(opened)
        opened.close()
    verdict = f"closed by {ended_by}, {count(facts['put_messages'], 'message')} taken, {facts['gets']} gets answered"
    return Result("serve", {**facts, "ended_by": ended_by}, verdict=verdict)


def _services(no_clean: bool) -> list[str]:
    return ["schedule", "transactions", "statistics", *([] if no_clean else ["cleaning"])]


def _open_ports(
    session: Session, opened: ServedStore, open_ports: ExitStack, metrics: str | None, limits: Limits
) -> tuple[ControlServer, MetricsServer | None]:
    from store.engine.ha import Address
    from store.engine.serving import ControlServer, MetricsServer, StoreCollector

    opened.limit_connections(limits.connections)
    page = None
    if metrics is not None:
        page = open_ports.enter_context(MetricsServer(StoreCollector(opened), Address.parse(metrics), limits))
        opened.listeners.append(page.listener)
    server = open_ports.enter_context(ControlServer(opened, limits))
    session.note(f"note: serving {opened.layout.root} with {', '.join(sorted(opened.services))}")
    if opened.ha_address is not None:
        session.note(f"note: slaves find the log at {opened.ha_address}")
    if page is not None:
        session.note(f"note: metrics are at http://{page.address}/metrics")
    return server, page


def _serve(session: Session, opened: ServedStore, server: ControlServer, ready: bool) -> str:
    """Wait for the end, warn of new findings meanwhile, and return the cause of the end."""
    try:
        with session.interrupts.allowed():
            if ready:
                session.environment.stdout.write("ready\n")
                session.environment.stdout.flush()
            while not server.stop_asked.wait(_LOOK_FOR_SIGNALS_S):
                session.store.warn_of_news(opened)
    except KeyboardInterrupt:
        return "a signal"
    return "rmqctl stop"


def _facts(opened: ServedStore, server: ControlServer, page: MetricsServer | None) -> dict[str, Any]:
    return {
        "root": str(opened.layout.root),
        "socket": str(server.path),
        "services": sorted(opened.services),
        "ha_address": str(opened.ha_address) if opened.ha_address is not None else None,
        "metrics_address": str(page.address) if page is not None else None,
    }


def _counts(opened: ServedStore) -> dict[str, Any]:
    stats = opened.statistics
    return {
        "put_messages": stats.put_messages,
        "put_bytes": stats.put_bytes,
        "failed_puts": stats.failed_puts,
        "gets": stats.found_gets + stats.missed_gets,
        "halves_given_up": opened.state().halves_given_up,
        "log_start": max(0, opened.min_log_offset),
        "log_end": opened.max_log_offset,
    }
