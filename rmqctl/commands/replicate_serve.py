"""replicate serve: serve a store's commit log to slaves."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.options import MOST_CONNECTIONS, Connections, listen_address
from rmqctl.result import Result

if TYPE_CHECKING:
    from store.engine.ha import HAMaster

EXAMPLES = (
    "rmqctl --store /data/store replicate serve --listen 127.0.0.1:10912",
    "rmqctl --store /data/store replicate serve --listen 0.0.0.0:10912 --once",
)
SEE_ALSO = ("replicate pull",)
# A signal that another thread receives does not end the main thread's wait.
_LOOK_FOR_SIGNALS_S = 0.5
HEARTBEAT_S = 0.5
"""The log of a closed store does not grow: a slave need not wait 5 s (a broker's interval) to learn its end."""


def run(
    ctx: typer.Context,
    listen: Annotated[
        str,
        typer.Option(metavar="[HOST:]PORT", help="For slaves; without HOST on the loopback; port 0 is a free one."),
    ],
    connections: Connections = MOST_CONNECTIONS,
    once: Annotated[bool, typer.Option("--once", help="End when a slave has reported the log's end.")] = False,
) -> Result:
    """Serve a store's commit log to slaves.

    Speaks the HA protocol of 4.x, and of 5.x without a controller, as a master does: to slaves of a broker and to
    `rmqctl replicate pull`. The log is served as it is now and never written. A slave with a log gets the bytes after
    its end; a new slave gets the last segment, as from a master. Anybody who can reach the port can read the log: the
    protocol has no passwords and no encryption.

    Ends at Ctrl-C or SIGTERM, or with --once when a slave has everything. Exit code 1 when no slave has everything.
    """
    session: Session = ctx.obj
    from store.engine.ha import Address, CommitLogSource, HAMaster, MasterOptions

    address = Address.parse(str(listen_address(listen, "--listen")))
    connected: list[str] = []

    def on_slave(text: str) -> None:
        connected.append(text)
        session.note(f"note: {text}")

    opened = session.store.open()
    source = CommitLogSource.of(opened)
    log_start, log_end = max(0, opened.min_log_offset), source.max_offset
    options = MasterOptions(on_slave=on_slave, heartbeat_s=HEARTBEAT_S, connections=connections)
    with HAMaster(source, address, options) as master:
        session.note(f"note: serving log offsets {log_start} to {log_end} at {master.address}")
        _serve(master, once=once)
    acknowledged = master.push_to_slave_max_offset
    facts = {
        "address": str(master.address),
        "log_start": log_start,
        "log_end": log_end,
        "acknowledged_offset": acknowledged,
        "connections": sum(text.endswith("connected") for text in connected),
        "segment_size_bytes": source.segment_size,
    }
    verdict = f"a slave has the log up to {acknowledged} of {log_end}"
    return Result("replicate serve", facts, [], OK if acknowledged >= log_end else FINDINGS, verdict)


def _serve(master: HAMaster, *, once: bool) -> None:
    try:
        if once:
            master.wait_for_end(lambda: False)
        while not once:
            threading.Event().wait(_LOOK_FOR_SIGNALS_S)
    except KeyboardInterrupt:
        # The ordinary end of a server.
        return
