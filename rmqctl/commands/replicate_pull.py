"""replicate pull: a live broker's commit log, copied by its own replication protocol."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.lost_connections import LostConnections
from rmqctl.options import Compat, MetricsPort, listen_address, require_folder
from rmqctl.result import Result
from rmqctl.show import count

if TYPE_CHECKING:
    from store.engine.ha import Begin, LogCopy, Receiver, ReceiveReport

EXAMPLES = (
    "rmqctl replicate pull broker-a:10912 --to /backup/broker-a",
    "rmqctl replicate pull broker-a:10912 --to /backup/broker-a --follow --metrics 9405",
    "rmqctl replicate pull broker-a:10912 --to /forensics/a --from-offset last-segment --observe",
)
SEE_ALSO = ("replicate serve", "recover", "check", "diff")
RATE_INTERVAL_S = 1.0


def run(
    ctx: typer.Context,
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The HA port of a master.", show_default=False)],
    to: Annotated[
        Path,
        typer.Option(
            metavar="DIR", callback=require_folder, help="The store's folder to copy into; new, or a former copy."
        ),
    ],
    from_offset: Annotated[
        str, typer.Option(metavar="N|min|last-segment", help="A new copy begins with the segment that holds this.")
    ] = "min",
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep copying until Ctrl-C, also after lost connections.")
    ] = False,
    rate: Annotated[bool, typer.Option("--rate", help="Show the rate on stderr each second.")] = False,
    observe: Annotated[
        bool, typer.Option("--observe", help="Never acknowledge received bytes, so the master does not count them.")
    ] = False,
    compat: Annotated[
        Compat | None,
        typer.Option(help="The master's version, noted in the copy.", show_default="the copy's own; 4.9 for a new one"),
    ] = None,
    controller: Annotated[
        bool, typer.Option("--controller", help="The master is a 5.x broker in controller mode.")
    ] = False,
    metrics: MetricsPort = None,
) -> Result:
    """Copy a live broker's commit log.

    Speaks the HA protocol of 4.x, and of 5.x without a controller, to haListenPort (default: listenPort + 1). Segments
    are byte-identical. Size, magic, CRC and log offset of each record are verified before it is written. Only synced
    bytes are acknowledged. Without --follow the command ends when it has reached the end of the master's log.

    An interrupted copy continues at its end. Before that, its last MiB, or up to 20 MiB of its last segment, is
    compared with the master's. Bytes lost in a power cut are written again. Any other difference is an error (exit code
    4), and nothing is written. Exit code 5 when the connection is lost; run it again.

    The master treats this command as a slave: a SYNC_MASTER waits for it and counts acknowledged bytes as replicated.
    With --observe only the first offset is acknowledged, but the slave still counts as connected.

    With --controller it speaks AutoSwitchHA as a learner, which the master never counts. It compares epochs before it
    copies, and writes epochFileCheckpoint.

    Queues and index are not copied: reading commands build them, and `rebuild` writes them.
    """
    session: Session = ctx.obj
    begin, page = _begin_of(from_offset), listen_address(metrics, "--metrics")
    choice = _Choice(begin, follow, rate, observe, controller, compat, page)
    report = _receive(session, address, to, choice)
    if report.is_size_assumed:
        size = f"the copy's segments have {report.segment_size} bytes by default: no end of a segment was received yet"
        session.note(f"note: {size}; --set mappedFileSizeCommitLog=N sets another size")
    exit_code = FINDINGS if report.unfinished_bytes else OK
    return Result("replicate pull", _facts(address, to, report), [], exit_code, _verdict(report))


@dataclass(frozen=True, slots=True)
class _Choice:
    """Options of one run."""

    begin: Begin | int
    follow: bool
    rate: bool
    observe: bool
    controller: bool
    compat: Compat | None
    metrics: str | None


def _receive(session: Session, address: str, to: Path, choice: _Choice) -> ReceiveReport:
    from store.engine.ha import Address, Begin, LogCopy, ReceiveOptions, Receiver, connector
    from store.files import Filesystem

    master = Address.parse(address)
    compat = choice.compat and choice.compat.value
    lost = LostConnections(session)
    copy = LogCopy(to, session.store.settings(), Filesystem(), compat=compat)
    try:
        with session.progress("receiving") as bar:
            options = ReceiveOptions(
                begin=choice.begin,
                follow=choice.follow,
                observe=choice.observe,
                on_progress=lost.reset_by(_with_rate(session, bar.update) if choice.rate else bar.update),
                connect=connector(
                    copy, has_controller=choice.controller, from_last_segment=choice.begin is Begin.LAST_SEGMENT
                ),
                on_lost=lost.note,
            )
            receiver = Receiver(master, copy, options)
            with _metrics_page(session, choice.metrics, receiver, copy):
                return _received(receiver, session, copy)
    finally:
        with session.interrupts.deferred():
            copy.close()


def _metrics_page(
    session: Session, address: str | None, receiver: Receiver, copy: LogCopy
) -> AbstractContextManager[object]:
    """Return the server of the copy's metrics; an empty context without --metrics."""
    from store.engine.ha import Address
    from store.engine.serving import CopyCollector, MetricsServer

    if address is None:
        return nullcontext()
    server = MetricsServer(CopyCollector(receiver, copy), Address.parse(address))
    session.note(f"note: metrics are at http://{server.address}/metrics")
    return server


def _received(receiver: Receiver, session: Session, copy: LogCopy) -> ReceiveReport:
    try:
        return receiver.run()
    except BaseException:
        report = receiver.report
        if report.received_bytes:
            session.note(f"note: {report.received_bytes} bytes were received, the copy is durable up to {copy.durable}")
        with session.interrupts.deferred():
            copy.remove_if_unused()
        raise
    finally:
        if receiver.has_v2:
            copy.note_v2()


def _begin_of(text: str) -> Begin | int:
    from store.engine.ha import Begin
    from store.layout import parse_whole_number

    if text in list(Begin):
        return Begin(text)
    offset = parse_whole_number(text)
    if offset is None:
        raise typer.BadParameter(f"{text!r} is not a log offset, min or last-segment", param_hint="--from-offset")
    return offset


def _with_rate(session: Session, update: Callable[[int], None]) -> Callable[[int], None]:
    """Return a progress function that also notes the rate, at most once a second."""
    before, counted = time.monotonic(), 0

    def on_progress(received: int) -> None:
        nonlocal before, counted
        update(received)
        now = time.monotonic()
        if now - before >= RATE_INTERVAL_S:
            session.note(f"{(received - counted) / (now - before) / 1e6:.1f} MB/s, {received} bytes received")
            before, counted = now, received

    return on_progress


def _facts(master: str, to: Path, report: ReceiveReport) -> dict[str, Any]:
    seconds = report.transfer_seconds
    return {
        "master": master,
        "target": str(to),
        "log_start": report.log_start,
        "log_end": report.log_end,
        "resumed_at": report.resumed_at or None,
        "received_bytes": report.received_bytes,
        "compared_bytes": report.compared_bytes,
        "received_records": report.record_count,
        "unfinished_bytes": report.unfinished_bytes,
        "connections": report.connection_count,
        "segment_size_bytes": report.segment_size,
        "is_segment_size_assumed": report.is_size_assumed,
        "bytes_per_second": round(report.received_bytes / seconds) if seconds else None,
    }


def _verdict(report: ReceiveReport) -> str:
    text = f"{count(report.record_count, 'record')} verified and durable"
    text += f", log offsets {report.log_start} to {report.log_end}"
    if report.unfinished_bytes:
        text += f"; {count(report.unfinished_bytes, 'byte')} of an incomplete record left out"
    return text
