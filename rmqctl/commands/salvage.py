"""salvage: every record that can still be read."""

from __future__ import annotations

from collections.abc import Iterator
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
from rmqctl.output import Format
from rmqctl.programs import to_json
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from rmqctl.progress import Progress
    from store.config import StoreConfig
    from store.files import Filesystem
    from store.layout import StoreLayout
    from store.verbs import Gap, LostOps, SalvagedRun, SalvageReport
    from store.verbs.salvage.new_store import NewStore

EXAMPLES = (
    "rmqctl --store /data/store salvage",
    "rmqctl --store /data/store salvage --to /data/salvaged",
    "rmqctl salvage lost+found/00000000001073741824 --to rescued.jsonl",
    "rmqctl salvage --raw /dev/sdb1 --to rescued.parquet",
)
SEE_ALSO = ("check", "stale", "recover")
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
        bool, typer.Option("--keep-offsets", help="Keep log offsets in the new store; gaps are bridged.")
    ] = False,
    move_list: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE", help="Write old and new log offsets of a compacted store as CSV."),
    ] = None,
    grade: Annotated[
        WorstGrade, typer.Option(help="The worst grade that a file gets; a store gets certain records only.")
    ] = WorstGrade.PARTIAL,
    raw: Annotated[
        Path | None,
        typer.Option(metavar="IMAGE", help="Carve a disk image or a deleted file's space instead of a store."),
    ] = None,
    stored_body: StoredBody = False,
) -> Result:
    """Save every record that can be read.

    Also behind damage, in swapped, renamed, cut and shifted files, around unreadable sectors, and in a disk image. The
    source is never written. Without --to it says what could be saved.

    A certain record has its magic, lengths, CRC and log offset right, and neither queues nor index contradict it. No
    CRC covers header, topic and properties, but the one of 5.x's enabledAppendPropCRC. body-crc: its body is damaged.
    partial: something else contradicts it. Gaps are log offsets of which no record was saved: damaged and unreadable
    bytes, cut and missing files. lost counts, as `recover` does, the messages that the target does not get: those of a
    grade that it does not take, those that queues name in gaps, and queue offsets missing beside a gap. With --raw the
    segments' size is inferred from the blanks at their ends; --set mappedFileSizeCommitLog gives it. Exit code 1 when a
    record is lost or not certain.

    A new store has the broker's tables (brought) and every queue offset: placeholders (RMQCTL_LOST) take missing ones.
    """
    session: Session = ctx.obj
    _refuse_contradictions(to, move_list, keep_offsets=keep_offsets, stored_body=stored_body)
    target = _Target(to, grade, keep_offsets, move_list, stored_body)
    if session.options.uri is None:
        if source is None and raw is None:
            session.store.read_early("index", "commitlog")
        session.refuse_inside(source or raw or session.store.root, to, move_list)
    with _segments(session, raw) as segments:
        return _result(session, segments or source or session.store.reached[0], target)


@dataclass(frozen=True, slots=True)
class _Target:
    """Options of the written target."""

    path: Path | None
    grade: WorstGrade
    keep_offsets: bool
    move_list: Path | None
    stored_body: bool


def _refuse_contradictions(to: Path | None, move_list: Path | None, *, keep_offsets: bool, stored_body: bool) -> None:
    is_file = to is not None and to.suffix in (".jsonl", ".parquet")
    if stored_body and not is_file:
        raise typer.BadParameter("--stored-body is for a file: give one that ends in .jsonl or .parquet with --to")
    if (keep_offsets or move_list) and (to is None or is_file):
        raise typer.BadParameter("--keep-offsets and --map are for a new store: give its folder with --to")


@contextmanager
def _segments(session: Session, image: Path | None) -> Iterator[Path | None]:
    """A scratch folder with the segments carved from the image; None without one."""
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


def _result(session: Session, path: Path, target: _Target) -> Result:
    from store.verbs import SalvageReport

    report = SalvageReport()
    facts = {**_save(session, path, target, report), **report.lost.lost_facts()}
    brought = facts.pop("brought", [])
    if target.path is None and report.records:
        session.note("nothing was written; --to NEWSTORE, FILE.jsonl or FILE.parquet saves the records")
    if report.unread_offsets:
        session.warn(f"nothing is counted as unconsumed: {report.unread_offsets}")
    if report.lost_ops is not None:
        facts |= {"lost_op_records": report.lost_ops.known, "possible_op_records": report.lost_ops.possible}
        session.warn(_describe_lost_ops(report.lost_ops))
    if report.first_log_offset > 0:
        text = f"note: the log begins at {report.first_log_offset}; what was before it expired or is lost"
        session.note(f"{text}; {count(report.units_before, 'queue unit')} still name it")
    tables = [
        Table("grades", [{"grade": g, "records": n, "size_bytes": report.size_bytes[g]} for g, n in _by_grade(report)]),
        Table("gaps", [_gap_row(one) for one in report.gaps]),
        Table("lost", report.lost.queue_rows()),
        Table("unconsumed", report.lost.group_rows()),
        Table("brought", brought),
        Table("torn", [asdict(one) for one in report.torn], SHOWN_TORN),
        Table("skipped", [{**asdict(one), "size_bytes": one.size} for one in report.skipped], SHOWN_SKIPPED),
    ]
    return Result("salvage", facts, tables, OK if report.is_whole else FINDINGS, _verdict(report))


def _describe_lost_ops(ops: LostOps) -> str:
    counts = (
        (ops.known, "of RMQ_SYS_TRANS_OP_HALF_TOPIC"),
        (ops.possible, "of no known queue, which may be op records"),
    )
    found = [f"{count(number, 'lost message')} {where}" for number, where in counts if number]
    return (
        f"{' and '.join(found)}: without its op record a half message is checked again, and may be committed a second "
        "time; before a broker starts with the new store, see `transaction show` there, and end with `transaction "
        "resolve` what it warns of or calls in-doubt"
    )


def _gap_row(gap: Gap) -> dict[str, Any]:
    place = {"file": gap.file, "position": gap.position, "log_offset": gap.log_offset}
    return {**place, "size_bytes": gap.size, "reason": gap.reason}


def _by_grade(report: SalvageReport) -> list[tuple[str, int]]:
    return [(grade.value, report.records[grade.value]) for grade in WorstGrade if report.records[grade.value]]


def _verdict(report: SalvageReport) -> str:
    if not report.files:
        return "no file that can hold records was found"
    certain = report.records["certain"]
    doubtful = sum(report.records.values()) - certain
    found = f"{count(certain, 'certain record')}, {doubtful:,} doubtful, {len(report.torn):,} torn"
    if report.gaps:
        return f"{found}; {count(report.gap_bytes, 'byte')} lost in {count(len(report.gaps), 'gap')}"
    return f"{found}; nothing is missing between them"


def _save(session: Session, path: Path, target: _Target, report: SalvageReport) -> dict[str, Any]:
    """Walks the source and writes the target; the facts of the result."""
    from store.files import Filesystem
    from store.verbs import Grade, config_of, salvage_runs, write_parquet

    to, written = target.path, {}
    fs = session.store.reached[1] if session.options.uri is not None else Filesystem()
    logs = _logs_elsewhere(session, path)
    config = config_of(path, session.store.settings(), fs, logs)
    with session.progress("reading the log") as bar:
        levels = config.delay_levels_ms
        taken = frozenset(Grade(one) for one in list(WorstGrade)[: list(WorstGrade).index(target.grade) + 1])
        runs = salvage_runs(path, fs, report, logs=logs, delay_levels_ms=levels, taken=taken, on_progress=bar.update)
        wanted = (one for one in runs if one.grade in taken)
        if to is None:
            saved = sum(one.count for one in wanted)
        elif to.suffix == ".jsonl":
            saved = _write_lines(wanted, to, target.stored_body)
        elif to.suffix == ".parquet":
            saved = write_parquet(wanted, to)
        else:
            written = _write_store(session, path, report, to, config, target, fs, bar)
            saved = written["saved_records"]
            _note_assumed_delays(session, path, to, config, fs)
    return {
        "target": str(to) if to else None,
        **written,
        "saved_records": saved,
        "source_files": report.files,
        "gap_bytes": report.gap_bytes,
        "skipped_bytes": report.skipped_bytes,
        "duplicate_records": report.duplicate_count,
    }


def _write_lines(runs: Iterator[SalvagedRun], to: Path, stored: bool) -> int:
    """The message object of get, one a line, with grade, reason and file."""
    from store.formats import decode_record

    written = 0
    rows = MessageRows(None, Format.JSONL, stored=stored, warn=lambda text: None)
    with to.open("x", encoding="utf-8") as file:
        for run in runs:
            columns, more = run.run.columns, {"grade": run.grade.value, "reason": run.reason, "file": run.file}
            for at, size in zip(columns.position.tolist(), columns.size.tolist(), strict=True):
                record = decode_record(bytes(run.run.buffer[at : at + size]))
                file.write(to_json({**rows.row(record), **more}) + "\n")
                written += 1
    return written


def _logs_elsewhere(session: Session, path: Path) -> tuple[Path, ...]:
    """Folders of the log where storePathCommitLog puts it; a SOURCE holds its own."""
    from store.opened import make_layout

    if session.options.uri is not None or path != session.store.reached[0]:
        return ()
    layout = make_layout(path, session.store.settings())
    return layout.commitlogs_elsewhere if layout.has_plain_log else ()


def _source_layout(session: Session, path: Path, config: StoreConfig, fs: Filesystem) -> StoreLayout:
    """The source's layout; says its delays, and refuses those that its entries do not tell."""
    from store.opened import DELAY_LEVELS, describe_inferred_delays, make_layout, refuse_mixed_delays

    settings = session.store.settings()
    layout = make_layout(path, settings, fs)
    for remark in describe_inferred_delays(config, settings):
        session.note(remark)
    if DELAY_LEVELS not in settings:
        refuse_mixed_delays(layout, fs)
    return layout


def _note_assumed_delays(session: Session, path: Path, to: Path, config: StoreConfig, fs: Filesystem) -> None:
    """Notes the delays of the new store that neither settings nor entries tell."""
    from store.files import Filesystem
    from store.opened import DELAY_LEVELS, describe_assumed_delays, make_layout, stored_levels

    settings = session.store.settings()
    if DELAY_LEVELS not in settings:
        levels = stored_levels(make_layout(to, {}), Filesystem())
        for remark in describe_assumed_delays(make_layout(path, settings, fs), config, fs, levels):
            session.note(remark)


def _write_moves(made: NewStore, path: Path) -> None:
    with path.open("x", encoding="ascii") as file:
        file.write("old_log_offset,new_log_offset\n")
        file.writelines(f"{old},{new}\n" for old, new in made.moves())


def _tell(bar: Progress, before: int, walks: int, done: int, in_all: int) -> None:
    """Report one of several walks."""
    bar.update(before + done, in_all * walks)


def _write_store(
    session: Session,
    path: Path,
    report: SalvageReport,
    to: Path,
    config: StoreConfig,
    target: _Target,
    fs: Filesystem,
    bar: Progress,
) -> dict[str, Any]:
    from store.verbs import Grade, is_store_root, next_offsets_of, salvage_runs, write_new_store

    logs = _logs_elsewhere(session, path)
    source = _source_layout(session, path, config, fs) if logs or is_store_root(path, fs) else None

    def walk() -> Iterator[SalvagedRun]:
        """The source's records; each walk counts anew."""
        report.clear()
        certain, levels, before = frozenset([Grade.CERTAIN]), config.delay_levels_ms, bar.done
        tell = partial(_tell, bar, before, 1 + target.keep_offsets)
        return salvage_runs(path, fs, report, logs=logs, delay_levels_ms=levels, taken=certain, on_progress=tell)

    made = write_new_store(
        walk,
        to,
        config,
        fs,
        keep_offsets=target.keep_offsets,
        clock=session.environment.clock_ms,
        next_offsets=next_offsets_of(path, fs, logs, session.warn),
        source=source,
    )
    if lost := made.moved.lost_half_count:
        session.warn(
            f"{count(lost, 'committed message')} of half messages that were not saved: the log offset of the half "
            "message is -1 there"
        )
    for one in made.brought:
        if not one.copied_from:
            session.warn(f"{one.file} was not brought: {one.remark}")
    if target.move_list is not None:
        _write_moves(made, target.move_list)
    return {
        "saved_records": made.record_count,
        "placeholder_records": made.placeholder_count,
        "filler_records": made.filler_count,
        "left_out_records": made.left_out_count,
        "log_end": made.log_end,
        "brought": [asdict(one) for one in made.brought],
    }
