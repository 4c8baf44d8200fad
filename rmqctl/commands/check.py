"""check: the log against queues, index and checkpoint, of a store or a fleet."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.advice import CUT, MENDING, OF_A_FOLDER, Fault, Remedies, fault_of, say_plan
from rmqctl.backend import SPARK_ABOVE_GIB, Engine, EngineOption, Master, Remote, SparkAbove, Stores, stores_of
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.fleet import check_fleet
from rmqctl.hints import hint_for
from rmqctl.result import Facts, Result, Table
from rmqctl.show import count, show_bytes

if TYPE_CHECKING:
    from store import CheckOptions
    from store.files import StoreReader

EXAMPLES = (
    "rmqctl --store /data/store check",
    "rmqctl --store /data/store check --sample 5 --max-seconds 60",
    "rmqctl --store /data/store --format jsonl check --from 107374182400",
    "rmqctl check --store '/mnt/*/store'",
    "rmqctl --store /data/store check --master 'local[8]'",
)
SEE_ALSO = ("recover", "rebuild", "sql", "simulate")
FILES = ("commitlog", "consumequeue", "index", "checkpoint")
EXIT_CODES = {1: "Something was found."}
COLUMNS = ("kind", "file", "offset", "topic", "queue_id", "count", "detail")


Sample = Annotated[float, typer.Option(min=0, max=100, metavar="PERCENT", help="Check this share of the segments.")]
MaxSeconds = Annotated[
    float | None, typer.Option(min=0, metavar="SECONDS", help="Stop at the next segment after this time.")
]
FromOffset = Annotated[
    int, typer.Option("--from", min=0, metavar="N", help="Begin at the segment that holds this log offset.")
]
Fleet = Annotated[bool, typer.Option("--fleet", help="Check as a fleet: one list of findings, with counts.")]


def run(
    ctx: typer.Context,
    stores: Stores = None,
    sample: Sample = 100,
    max_seconds: MaxSeconds = None,
    from_offset: FromOffset = 0,
    fleet: Fleet = False,
    engine: EngineOption = Engine.AUTO,
    master: Master = None,
    remote: Remote = None,
    spark_above: SparkAbove = SPARK_ABOVE_GIB,
) -> Result:
    """Find damage in a store.

    Compares the log with queues, index and checkpoint, in both directions. Nothing is changed.

    Each record is checked: length, CRC, log offset, time, and the entries that it should have. Each queue entry and
    index entry is compared with its record. Also checked are headers, chains, holes, the checkpoint, and files that no
    broker made. With --format jsonl each finding is printed as soon as it is found. Exit code 1 when something was
    found.

    A finding has the command that mends it, if there is one. If the log lacks segments, no command is given for its
    queues: a rebuild would give new queue offsets to the messages after the gap.

    Beside a live broker, check covers the records that were dispatched before it began.

    A check that ran out of time prints the --from value to continue with. Both runs together find the same as one run,
    except a queue offset that does not follow a record more than one segment earlier.

    --store can be one segment file. With several stores, and with --fleet, --master, --remote or --engine spark, the
    result is one list of findings with a count of each kind. On Spark each queue, index file and segment is one task.
    """
    session: Session = ctx.obj
    given = stores_of(session, stores) if stores else []
    if fleet or len(given) > 1 or master or remote or engine is Engine.SPARK:
        return check_fleet(session, stores, sample, COLUMNS, (engine, master, remote, spark_above))
    for store in given:
        session.take_options({"store": store})
    if sample == 100 and not from_offset:
        session.store.read_early("index", "commitlog")

    from store import CheckOptions

    options = CheckOptions(
        sample_percent=sample,
        max_seconds=max_seconds,
        from_offset=from_offset,
        settings=session.store.settings(),
    )
    check = _Check(session, session.store.open_reader(any_size=True, or_segment=True), options)
    table = Table("findings", check.rows(), COLUMNS)
    return Result("check", check.facts, [table], lambda: FINDINGS if check.count else OK, check.verdict)


class _Check:
    """A running check; it counts the findings as they are printed."""

    def __init__(self, session: Session, files: StoreReader, options: CheckOptions) -> None:
        from store.opened import make_layout
        from store.verbs.check import Progress

        self.session, self.files, self.options = session, files, options
        self.progress, self.count = Progress(), 0
        is_local = files.is_local and not files.is_segment
        layout = make_layout(Path(files.address), options.settings) if is_local else None
        # Only the member's group may cut its entries.
        is_member = files.member is not None or (layout is not None and layout.dledger is not None)
        harmful = [] if files.segments(with_empty=True) else [*MENDING]
        harmful += [CUT] if is_member else []
        harmful += OF_A_FOLDER if files.is_segment else []
        self.remedies = Remedies(withheld=harmful)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the findings as they are found."""
        from store.verbs.check import check_files

        with self.session.progress("checking") as bar:
            for finding in check_files(
                self.files, self.options, self.progress, lambda p: bar.update(p.walked, p.to_walk)
            ):
                self.count += 1
                self.remedies.add(fault_of(finding.kind, finding.topic, finding.queue_id))
                command = self.remedies.mending(finding.kind, finding.topic)
                yield {name: getattr(finding, name) for name in COLUMNS} | {"mended_by": command}
        self._advise([*self.remedies.faults])
        self._warn()

    def _advise(self, faults: Collection[Fault]) -> None:
        """Write the commands to run to stderr, in the order that loses nothing."""
        was_shut_down = self.progress.horizon is not None or not self.files.exists("abort")
        if faults and not was_shut_down:
            self.remedies.add(("not-shut-down", ()))
        plan = self.remedies.plan(done=("check",))
        say_plan(self.session, plan)
        said = [f"run `rmqctl {step.command}`" for step in plan]
        if faults and not self.files.segments(with_empty=True):
            self.session.note(f"the commit log is empty; {hint_for('empty-log')}")
        for hint in dict.fromkeys(hint_for(*fault) for fault in faults):
            if hint and hint not in said:
                self.session.note(hint)

    def _warn(self) -> None:
        """Note the remarks of the check, and warn if the log was not checked as a whole."""
        progress, warn = self.progress, self.session.warn
        for remark in progress.remarks:
            self.session.note(remark)
        if progress.horizon is not None:
            warn(
                f"a broker or another rmqctl holds the store: checked up to log offset {progress.horizon}, "
                "which was dispatched before the check began, and without the checkpoint"
            )
        if not progress.bytes_in_all:
            warn("no segment was checked: " + ("none is in the sample" if self.files.segments() else "there is none"))
        if progress.stopped_at is not None:
            warn(f"time is up; continue with --from {progress.stopped_at}")

    def facts(self) -> Facts:
        done = self.progress.bytes_done
        return {"finding_count": self.count, "checked_bytes": done, "stopped_at": self.progress.stopped_at}

    def verdict(self) -> str:
        """Return the number of findings, and the checked bytes."""
        checked = f"in {show_bytes(self.progress.bytes_done)} of the log"
        return f"{count(self.count, 'finding') if self.count else 'nothing wrong'} {checked}"
