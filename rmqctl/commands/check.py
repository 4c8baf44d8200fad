"""check: the log against queues, index and checkpoint, on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.hints import MENDED_BY, hint_for
from rmqctl.result import Facts, Result, Table
from rmqctl.show import count, show_bytes

EXAMPLES = (
    "rmqctl --store /data/store check",
    "rmqctl --store /data/store check --sample 5 --max-seconds 60",
    "rmqctl --store /data/store --format jsonl check --from 107374182400",
)
SEE_ALSO = ("recover", "rebuild", "audit", "simulate")
FILES = ("commitlog", "consumequeue", "index", "checkpoint")
EXIT_CODES = {1: "Something was found."}
MENDING_ORDER = ("truncate-dirty", "rebuild --queues", "rebuild --index", "checkpoint rewrite")
"""The log first: queues and index are built from it."""
COLUMNS = ("kind", "file", "offset", "topic", "queue_id", "count", "detail")


def run(
    ctx: typer.Context,
    sample: Annotated[
        float, typer.Option(min=0, max=100, metavar="PERCENT", help="Check so many of the segments.")
    ] = 100,
    max_seconds: Annotated[
        float | None, typer.Option(min=0, metavar="S", help="Stop at the next segment then.")
    ] = None,
    from_offset: Annotated[
        int,
        typer.Option("--from", min=0, metavar="OFFSET", help="Begin at the segment that holds this log offset."),
    ] = 0,
    cold: Annotated[
        bool, typer.Option("--cold", help="Leave nothing of the log in the page cache, for the broker's sake.")
    ] = False,
) -> Result:
    """Find damage in a store.

    Looks in both directions and changes nothing.

    Every record's length, CRC, own offset and time; every queue unit and index entry against the record it points to,
    and every record against the unit and entries it should have; headers, chains, holes, the checkpoint, files that no
    broker made. With --format jsonl a finding is printed when it is found. Exit code 1 when something was found.

    A finding names the command that mends it, where there is one.

    Beside a live broker the log is checked up to what was dispatched when the check began.

    A check that ran out of time says where to go on with --from. The two of them find what one alone would, but for a
    queue offset that does not follow the one before when that one's record is more than a segment back.
    """
    session: Session = ctx.obj

    from store import CheckOptions
    from store.check import Progress, check_files

    files = session.open_reader()
    options = CheckOptions(
        sample_percent=sample,
        max_seconds=max_seconds,
        from_offset=from_offset,
        cold=cold,
        settings=session.settings(),
    )
    progress, findings = Progress(), 0

    def rows() -> Iterator[dict[str, Any]]:
        """The findings as they are found."""
        nonlocal findings
        kinds: dict[str, None] = {}
        with session.progress("checking") as bar:
            for finding in check_files(files, options, progress, lambda p: bar.update(p.bytes_done, p.bytes_in_all)):
                findings += 1
                kinds[finding.kind] = None
                mended_by = MENDED_BY.get(finding.kind)
                yield {name: getattr(finding, name) for name in COLUMNS} | {"mended_by": mended_by}
        for command in MENDING_ORDER:
            if command in map(MENDED_BY.get, kinds):
                session.note(f"mend with: rmqctl --store {session.options.store} {command}")
        for hint in filter(None, map(hint_for, kinds)):
            session.note(hint)
        if progress.horizon is not None:
            session.warn(
                f"a broker or another rmqctl holds the store: checked up to log offset {progress.horizon}, "
                "which was dispatched before the check began, and without the checkpoint"
            )
        if not progress.bytes_in_all:
            session.warn(
                "no segment was checked: " + ("none is in the sample" if files.segments() else "there is none")
            )
        if progress.stopped_at is not None:
            session.warn(f"time is up; go on with --from {progress.stopped_at}")

    def facts() -> Facts:
        done = progress.bytes_done
        return {"finding_count": findings, "checked_bytes": done, "stopped_at": progress.stopped_at}

    def verdict() -> str:
        """Sums up the findings, and says where the check ended early."""
        checked = f"in {show_bytes(progress.bytes_done)} of the log"
        return f"{count(findings, 'finding') if findings else 'nothing wrong'} {checked}"

    table = Table("findings", rows(), COLUMNS)
    return Result("check", facts, [table], lambda: FINDINGS if findings else OK, verdict)
