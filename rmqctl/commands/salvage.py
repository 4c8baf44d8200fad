"""salvage: save every record that can still be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.messages import MessageRows, StoredBody
from rmqctl.options import Compat
from rmqctl.output import Format
from rmqctl.programs import to_json
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from store import SalvagedRun, SalvageReport
    from store.verbs import Gap, LostOps, NewStore

EXAMPLES = (
    "rmqctl --store /data/store salvage",
    "rmqctl --store /data/store salvage --to /data/salvaged",
    "rmqctl --store /data/store salvage --to /data/for-5.3 --compat 5.3",
    "rmqctl salvage lost+found/00000000001073741824 --to rescued.jsonl",
    "rmqctl salvage --raw /dev/sdb1 --to rescued.parquet",
)
SEE_ALSO = ("check", "stale", "recover")
LOG_PATHS = ("storePathCommitLog", "readOnlyCommitLogStorePaths", "storePathDLegerCommitLog")
SHOWN_SKIPPED = ("file", "position", "size_bytes", "reason")
SHOWN_TORN = ("file", "position", "log_offset", "queue_id", "queue_offset", "reason")


class WorstGrade(StrEnum):
    """Values of --grade."""

    CERTAIN = "certain"
    BODY_CRC = "body-crc"
    PARTIAL = "partial"


def run(
    ctx: typer.Context,
    source: Annotated[
        Path | None,
        typer.Argument(metavar="[SOURCE]", help="A segment file or a folder of them.", show_default="the store"),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="TARGET", help="A new store's folder, or a file that ends in .jsonl or .parquet."),
    ] = None,
    keep_offsets: Annotated[
        bool, typer.Option("--keep-offsets", help="Keep log offsets in the new store; gaps are filled.")
    ] = False,
    move_list: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE", help="Write old and new log offsets of a compacted store as CSV."),
    ] = None,
    compat: Annotated[
        Compat | None,
        typer.Option(
            help="The broker version that starts on the new store.", show_default="the version that wrote the store"
        ),
    ] = None,
    grade: Annotated[
        WorstGrade, typer.Option(help="The worst grade to write to a file; a store gets only certain records.")
    ] = WorstGrade.PARTIAL,
    raw: Annotated[
        Path | None,
        typer.Option(metavar="IMAGE", help="Carve a disk image or a deleted file's space instead of a store."),
    ] = None,
    stored_body: StoredBody = False,
) -> Result:
    """Save every record that can be read.

    Also past damage, from swapped, renamed, cut and shifted files, around unreadable sectors, and from a disk image.
    The source is never written. Without --to the command only reports what could be saved.

    Grades: certain (magic, lengths, CRC and log offset are right, and neither queues nor index contradict), body-crc
    (the body is damaged), partial (something else contradicts it). No CRC covers header, topic and properties, except
    with enabledAppendPropCRC (5.x).

    Gaps are log offsets without a saved record: damaged or unreadable bytes, truncated or missing files. lost counts
    messages that do not get into the target, as in `recover`: those of a worse grade, those in gaps that queue entries
    point to, and missing queue offsets beside a gap. With --raw the segment size is inferred from blanks; --set
    mappedFileSizeCommitLog overrides it. Exit code 1 when a record is lost or not certain.

    A new store gets the broker's tables (brought). Messages keep their queue offsets: a placeholder (RMQCTL_LOST) fills
    each missing one. With --compat it is for a broker of another version: notes say what that broker does not read.
    """
    session: Session = ctx.obj
    target = _Target(to, grade, keep_offsets, move_list, stored_body, compat)
    _refuse_contradictions(target)
    if session.options.uri is None:
        if source is None and raw is None:
            session.store.open_reader(as_it_is=True, or_segment=True)
            session.store.read_early("index", "commitlog")
        session.refuse_inside(source or raw or session.store.root, to, move_list)
    settings = session.store.settings()
    if source is not None or raw is not None or session.options.uri is not None:
        # These settings are paths of --store; a source holds its own log.
        settings = {name: value for name, value in settings.items() if name not in LOG_PATHS}
    with _segments(session, raw) as segments:
        return _result(session, segments or source or session.store.reached[0], settings, target)


@dataclass(frozen=True, slots=True)
class _Target:
    """Options of the written target."""

    path: Path | None
    grade: WorstGrade
    keep_offsets: bool
    move_list: Path | None
    stored_body: bool
    compat: Compat | None


def _refuse_contradictions(target: _Target) -> None:
    is_file = target.path is not None and target.path.suffix in (".jsonl", ".parquet")
    if target.stored_body and not is_file:
        raise typer.BadParameter("--stored-body is for a file: give one that ends in .jsonl or .parquet with --to")
    if (target.keep_offsets or target.move_list or target.compat) and (target.path is None or is_file):
        raise typer.BadParameter("--keep-offsets, --map and --compat are for a new store: give its folder with --to")


@contextmanager
def _segments(session: Session, image: Path | None) -> Iterator[Path | None]:
    """Yield a scratch folder with the segments carved from the image; None without an image."""
    if image is None:
        yield None
        return
    from store.files import Filesystem
    from store.opened import Scratch
    from store.verbs import infer_segment_size, place_blocks, write_segments

    fs = Filesystem()
    with Scratch(session.options.scratch) as scratch:
        with session.progress("searching the image"):
            placed = place_blocks(image, fs)
            given = int(session.store.settings().get("mappedFileSizeCommitLog", 0))
            write_segments(image, placed, scratch.folder, fs, given or infer_segment_size(image, placed, fs))
        yield scratch.folder


def _result(session: Session, path: Path, settings: Mapping[str, str], target: _Target) -> Result:
    report = _save(session, path, settings, target)
    for remark in report.remarks:
        session.note(remark)
    _warn(session, report)
    if target.path is None and report.records:
        session.note("nothing was written; --to NEWSTORE, FILE.jsonl or FILE.parquet saves the records")
    if report.first_log_offset > 0:
        text = f"note: the log begins at {report.first_log_offset}; earlier records have expired or are lost"
        session.note(f"{text}; {count(report.units_before, 'queue entry')} still point to it")
    brought = report.new_store.brought if report.new_store is not None else []
    graded = [(grade.value, number) for grade in WorstGrade if (number := report.records[grade.value])]
    tables = [
        Table("grades", [{"grade": g, "records": n, "size_bytes": report.size_bytes[g]} for g, n in graded]),
        Table("gaps", [_gap_row(one) for one in report.gaps]),
        Table("lost", [asdict(one) for one in report.lost.queue_rows()]),
        Table("unconsumed", [asdict(one) for one in report.lost.group_rows()]),
        Table("brought", [asdict(one) for one in brought]),
        Table("torn", [asdict(one) for one in report.torn], SHOWN_TORN),
        Table("skipped", [{**asdict(one), "size_bytes": one.size} for one in report.skipped], SHOWN_SKIPPED),
    ]
    return Result("salvage", _facts(report, target), tables, OK if report.is_whole else FINDINGS, _verdict(report))


def _facts(report: SalvageReport, target: _Target) -> dict[str, Any]:
    facts: dict[str, Any] = {"target": str(target.path) if target.path else None}
    if (made := report.new_store) is not None:
        facts |= {
            "placeholder_records": made.placeholder_count,
            "filler_records": made.filler_count,
            "left_out_records": made.left_out_count,
            "log_end": made.log_end,
        }
    facts |= {
        "saved_records": report.saved,
        "source_files": report.files,
        "gap_bytes": report.gap_bytes,
        "skipped_bytes": report.skipped_bytes,
        "duplicate_records": report.duplicate_count,
        **asdict(report.lost.counts()),
    }
    if (ops := report.lost_ops) is not None:
        facts |= {"lost_op_records": ops.known, "possible_op_records": ops.possible}
    return facts


def _warn(session: Session, report: SalvageReport) -> None:
    """Warn of losses that are not in the tables."""
    for end in report.unknown_ends:
        if end.topic is None:
            session.warn(f"queues without a record start at 0: {end.fault}")
        else:
            session.warn(f"{end.topic}/{end.queue_id}: the offset of its next message is unknown: {end.fault}")
    made = report.new_store
    if made is not None and made.compacted:
        session.warn(f"the log is compacted, and records have other log offsets: {made.compacted}")
    if made is not None and (lost := made.moved.lost_half_count):
        session.warn(
            f"{count(lost, 'committed message')} of half messages that were not saved: the log offset of the half "
            "message is -1 there"
        )
    for one in made.brought if made is not None else ():
        if not one.copied_from:
            session.warn(f"{one.file} was not copied: {one.remark}")
    if report.unread_offsets:
        session.warn(f"nothing is counted as unconsumed: {report.unread_offsets}")
    if report.lost_ops is not None:
        session.warn(_describe_lost_ops(report.lost_ops))


def _describe_lost_ops(ops: LostOps) -> str:
    counts = (
        (ops.known, "of RMQ_SYS_TRANS_OP_HALF_TOPIC"),
        (ops.possible, "of no known queue, which may be op records"),
    )
    found = [f"{count(number, 'lost message')} {where}" for number, where in counts if number]
    return (
        f"{' and '.join(found)}: without its op record a half message is checked again, and may be committed a second "
        "time; before a broker starts with the new store, run `transaction show` on it, and `transaction resolve` for "
        "each transaction that is in-doubt or has a warning"
    )


def _gap_row(gap: Gap) -> dict[str, Any]:
    place = {"file": gap.file, "position": gap.position, "log_offset": gap.log_offset}
    return {**place, "size_bytes": gap.size, "reason": gap.reason}


def _verdict(report: SalvageReport) -> str:
    if not report.files:
        return "no file that can hold records was found"
    certain = report.records["certain"]
    doubtful = sum(report.records.values()) - certain
    found = f"{count(certain, 'certain record')}, {doubtful:,} doubtful, {len(report.torn):,} torn"
    if report.gaps:
        return f"{found}; {count(report.gap_bytes, 'byte')} lost in {count(len(report.gaps), 'gap')}"
    return f"{found}; nothing is missing between them"


def _save(session: Session, path: Path, settings: Mapping[str, str], target: _Target) -> SalvageReport:
    """Scan the source and write the target."""
    from store import Grade, salvage
    from store.files import Filesystem

    to = target.path
    writers = {".jsonl": _write_lines, ".parquet": _write_table}
    write = writers.get(to.suffix) if to is not None else None
    with session.progress("reading the log") as bar:
        report = salvage(
            path,
            partial(write, target) if write is not None else to,
            settings=settings,
            keep_offsets=target.keep_offsets,
            compat=target.compat,
            worst=Grade(target.grade),
            clock=session.environment.clock_ms,
            progress=bar.update,
            fs=session.store.reached[1] if session.options.uri is not None else Filesystem(),
        )
    if report.new_store is not None and target.move_list is not None:
        _write_moves(report.new_store, target.move_list)
    return report


def _write_table(target: _Target, runs: Iterator[SalvagedRun]) -> int:
    from store.verbs import write_parquet

    assert target.path is not None
    return write_parquet(runs, target.path)


def _write_lines(target: _Target, runs: Iterator[SalvagedRun]) -> int:
    """Write message objects as of `get`, one a line, with grade, reason and file; return their number."""
    from store.formats import decode_record

    assert target.path is not None
    written = 0
    rows = MessageRows(None, Format.JSONL, stored=target.stored_body, warn=lambda text: None)
    with target.path.open("x", encoding="utf-8") as file:
        for run in runs:
            more = {"grade": run.grade.value, "reason": run.reason, "file": run.file}
            for row in range(run.count):
                record = decode_record(bytes(run.run.record(row)))
                file.write(to_json({**rows.row(record), **more}) + "\n")
                written += 1
    return written


def _write_moves(made: NewStore, path: Path) -> None:
    with path.open("x", encoding="ascii") as file:
        file.write("old_log_offset,new_log_offset\n")
        file.writelines(f"{old},{new}\n" for old, new in made.moves())
