"""rebuild on Spark: consume queues and index from the log, into a staging folder.

    1. survey   every part of every segment is walked with CRCs: where it ends and how, which queue offsets it holds,
                how many keys. From that the driver knows the log's valid end, the files there will be, and the rank
                of every part's first key.
    2. build    the parts are walked again; units and keys leave a task as few large rows, one per queue
    file or index file
                and run, not one per record: shuffled by file, sorted by log offset, written at fixed places

    part -> (file, first log offset, bytes) -> shuffle by file, sort by log offset -> one task writes the file

A queue whose offsets follow one another has a fixed place for every unit, and its files are written by
several tasks. A queue
with a repeat or a gap goes as a whole to one task, which applies the broker's rules one by one (ConsumeQueue.put).
Keys have a place by their rank in the log: entry rank % (capacity - 1) + 1 of file rank // (capacity - 1).

Staging files are made anew by the task that writes them, so a retried task writes the same bytes; nobody looks into the
staging folder before the job is over. The folder must be the same path on every executor (local, or a shared mount).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from store.commitlog.scan import Damage, End, ScanRules
from store.config import StoreConfig
from store.consumequeue.consume_queue import ConsumeQueue
from store.derived import UNIT_DTYPE
from store.disk.filesystem import Filesystem
from store.disk.mapped_file_queue import MappedFileQueue
from store.expected import Units, expected_entries, expected_units
from store.files import StoreFiles
from store.formats.columns import COLUMN_NAMES
from store.formats.index_page import HEADER_SIZE, IndexHeader, decode_header, index_file_size
from store.formats.queue_unit import PRE_BLANK, UNIT_SIZE
from store.kernels import for_work
from store.kernels.run import Run
from store.layout import StoreLayout, index_file_name, segment_name
from store.parts import DEFAULT_PART_BYTES, Part, cut, cut_into, walk_part
from store.pipeline.session import Progress, errors_as_sentences, watched
from store.pipeline.tasks import SHARE_ARROW, SHARE_SCHEMA, in_tasks, share_frame, shares_of
from store.rebuild import Queue, RebuildScope, Rebuilt

CHUNK_SCHEMA = "file bigint, log_offset bigint, payload binary"
CHUNK_ARROW = pa.schema([("file", pa.int64()), ("log_offset", pa.int64()), ("payload", pa.binary())])

WHOLE_QUEUE = -1
VERIFYING = ScanRules(check_crc=True)
KEY_DTYPE = np.dtype([("key_hash", "i4"), ("log_offset", "i8"), ("store_timestamp_ms", "i8")])
IRREGULAR_DTYPE = np.dtype([("unit", UNIT_DTYPE), ("queue_offset", "i8")])


@dataclass(slots=True)
class PartSurvey:
    """What one part holds, with log offsets. `first` is None where nothing begins; `outcome` says what
    ended the walk, if anything did."""

    part: Part
    first: int | None = None
    end: int = 0
    outcome: str | None = None
    record_count: int = 0
    key_count: int = 0
    last_key: int = -1
    last_record: int = -1
    queues: dict[Queue, QueueSpan] = field(default_factory=dict)


@dataclass(slots=True)
class QueueSpan:
    """Queue offsets first … last; dense if each is the one before plus one."""

    first: int
    last: int
    dense: bool


@dataclass(frozen=True, slots=True)
class TargetFile:
    """One file to be written. `file_start` is WHOLE_QUEUE for a queue that goes to one task."""

    path: str
    queue: Queue | None
    file_start: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """Everything the build tasks need; small beside the log."""

    staging: str
    files: tuple[TargetFile, ...]
    queue_file: dict[tuple[str, int, int], int]
    irregular: frozenset[Queue]
    first_index_file: int
    queue_file_size: int
    slot_count: int
    entry_count: int
    delay_levels_ms: tuple[int, ...]
    scope: RebuildScope


def rebuild_on_spark(
    spark: Any,
    address: str,
    staging: Path,
    config: StoreConfig,
    scope: RebuildScope,
    *,
    now_ms: int,
    rules: ScanRules = VERIFYING,
    part_bytes: int = DEFAULT_PART_BYTES,
    parts_per_segment: int | None = None,
    progress: Progress | None = None,
) -> Rebuilt:
    """Builds the scope's files under `staging`, laid out like a store; the store itself is only read.

    The log ends at the first thing that is no record by the `rules`.
    """
    files = StoreFiles(address)
    files.check_is_store()
    segments = files.segments()
    parts = cut_into(segments, parts_per_segment) if parts_per_segment else cut(segments, part_bytes)
    with errors_as_sentences(), watched(spark, progress):
        survey = partial(_survey, address, config.delay_levels_ms, rules)
        live, log_end, why = valid_parts(list(in_tasks(spark, parts, survey)), survey)
        plan = make_plan(live, staging, config, scope, now_ms)
        _build(spark, address, live, log_end, plan)
    records = sum(survey.record_count for survey in live)
    return Rebuilt(log_end, why, records, len(plan.files))


# Step 1: survey.


def _survey(address: str, delay_levels_ms: tuple[int, ...], rules: ScanRules, part: Part) -> PartSurvey:
    return survey_part(StoreFiles(address), part, delay_levels_ms, rules)


def survey_part(
    files: StoreFiles, part: Part, delay_levels_ms: tuple[int, ...], rules: ScanRules = VERIFYING
) -> PartSurvey:
    """Walks a part up to its stop or to what ends the log in it."""
    survey = PartSurvey(part)
    for step in walk_part(files, part, rules, go_on=False):
        if isinstance(step, Run):
            survey.first = step.start if survey.first is None else survey.first
            survey.end = step.end
            survey.record_count += step.count
            survey.last_record = step.file_start + int(step.columns.position[-1])
            _note_queues(survey, expected_units(step, delay_levels_ms))
            entries = expected_entries(step)
            if len(entries.log_offset):
                survey.key_count += len(entries.log_offset)
                survey.last_key = int(entries.log_offset[-1])
        else:
            survey.end = step.file_start + step.position
            survey.first = survey.end if survey.first is None else survey.first
            survey.outcome = "blank"
            if isinstance(step, Damage):
                survey.outcome = step.reason.describe()
            elif isinstance(step, End):
                survey.outcome = "end"
    return survey


def _note_queues(survey: PartSurvey, units: Units) -> None:
    for number, queue in enumerate(units.queues):
        offsets = units.queue_offset[units.queue == number]
        if not len(offsets):
            continue
        first, last = int(offsets[0]), int(offsets[-1])
        dense = bool((np.diff(offsets) == 1).all())
        span = survey.queues.get(queue)
        if span is None:
            survey.queues[queue] = QueueSpan(first, last, dense)
        else:
            survey.queues[queue] = QueueSpan(
                span.first, last, span.dense and dense and first == span.last + 1
            )


def valid_parts(
    surveys: Sequence[PartSurvey], survey_again: Callable[[Part], PartSurvey]
) -> tuple[list[PartSurvey], int, str]:
    """The parts up to the log's valid end, that end, and why it is there: the walk of one machine, put together.

    A part looks for its first record by what records say of themselves. Where the one before it ended at something
    else, such as a blank or a record that is wrong about its own place, the part is walked again from there.
    """
    live: list[PartSurvey] = []
    log_end, why = (surveys[0].part.file_start if surveys else 0), "the log ends"
    for _, group in groupby(surveys, key=lambda survey: survey.part.file_start):
        in_segment = list(group)
        log_end = in_segment[0].part.file_start
        for survey in in_segment:
            if survey.part.log_stop <= log_end:
                continue  # a record reaches over the whole part
            if survey.first != log_end:
                start = log_end - survey.part.file_start
                survey = survey_again(replace(survey.part, start=start, is_exact=True))
            live.append(survey)
            log_end = survey.end
            if survey.outcome == "blank":
                break
            if survey.outcome is not None:
                return live, log_end, survey.outcome
        else:
            return live, log_end, "the segment ends without a blank"
    return live, log_end, why


# The plan.


def make_plan(
    live: Sequence[PartSurvey], staging: Path, config: StoreConfig, scope: RebuildScope, now_ms: int
) -> RebuildPlan:
    """Every file that will be there, and who gets which bytes."""
    spans, irregular = _queue_spans(live)
    layout = StoreLayout(staging)
    files: list[TargetFile] = []
    queue_file: dict[tuple[str, int, int], int] = {}
    size = config.mapped_file_size_consume_queue
    for queue in sorted(q for q in spans if scope.queues and scope.wants(q)):
        folder = layout.queue_folder(*queue)
        first, last = spans[queue].first * UNIT_SIZE, spans[queue].last * UNIT_SIZE
        starts = [WHOLE_QUEUE] if queue in irregular else range(first - first % size, last + 1, size)
        for start in starts:
            queue_file[(*queue, start)] = len(files)
            path = folder if start == WHOLE_QUEUE else folder / segment_name(start)
            files.append(TargetFile(str(path), queue, start, spans[queue].first))
    first_index_file = len(files)
    if scope.index:
        name = int(index_file_name(now_ms))
        for i in range(_index_file_count(live, config.max_index_num - 1)):
            files.append(TargetFile(str(layout.index / f"{name + i:017d}"), None, i, 0))
    return RebuildPlan(
        str(staging),
        tuple(files),
        queue_file,
        frozenset(irregular),
        first_index_file,
        size,
        config.max_hash_slot_num,
        config.max_index_num,
        config.delay_levels_ms,
        scope,
    )


def _queue_spans(live: Sequence[PartSurvey]) -> tuple[dict[Queue, QueueSpan], set[Queue]]:
    spans: dict[Queue, QueueSpan] = {}
    for survey in live:
        for queue, span in survey.queues.items():
            known = spans.get(queue)
            if known is None:
                spans[queue] = replace(span)
            else:
                dense = known.dense and span.dense and span.first == known.last + 1
                spans[queue] = QueueSpan(known.first, span.last, dense)
    return spans, {queue for queue, span in spans.items() if not span.dense}


def _index_file_count(live: Sequence[PartSurvey], capacity: int) -> int:
    """As the broker creates them: the next file appears with the first record behind the one that filled the last."""
    records = sum(survey.record_count for survey in live)
    keys = sum(survey.key_count for survey in live)
    if not records:
        return 0
    if not keys or keys % capacity:
        return keys // capacity + 1
    last_key = max(survey.last_key for survey in live)
    return keys // capacity + _has_record_behind(live, last_key)


def _has_record_behind(live: Sequence[PartSurvey], log_offset: int) -> bool:
    last = max((survey for survey in live if survey.record_count), key=lambda survey: survey.part.log_start)
    return last.last_record > log_offset


# Step 2: build.


def _build(spark: Any, address: str, live: Sequence[PartSurvey], log_end: int, plan: RebuildPlan) -> None:
    shares, rank = [], 0
    for survey in live:
        if survey.record_count:
            shares.append((survey.part, rank))
        rank += survey.key_count
    for target in plan.files:
        Path(target.path).parent.mkdir(parents=True, exist_ok=True)
    if not shares:
        return
    chunks = share_frame(spark, shares).mapInArrow(
        partial(_chunk_shares, address, log_end, plan), CHUNK_SCHEMA
    )
    writers = min(len(plan.files), max(len(shares), 2))
    ordered = chunks.repartition(writers, "file").sortWithinPartitions("file", "log_offset")
    ordered.mapInArrow(partial(_write_files, plan), SHARE_SCHEMA).collect()
    _add_empty_index_file(plan)


def _add_empty_index_file(plan: RebuildPlan) -> None:
    """The last index file may have no key yet; like a broker's it takes over the end of the one before."""
    targets = plan.files[plan.first_index_file :]
    if not targets or Path(targets[-1].path).exists():
        return
    _write_index_file(plan, targets[-1], ())
    previous = decode_header(Path(targets[-2].path).read_bytes()[:HEADER_SIZE]) if len(targets) > 1 else None
    if previous is not None:
        time_ms, offset = max(0, previous.end_timestamp_ms), max(0, previous.end_log_offset)
        # The count stays 0 on disk until the first entry; readers take that for 1.
        header = IndexHeader(time_ms, time_ms, offset, offset, index_count=0)
        fs = Filesystem()
        fs.write(fs.open_write(Path(targets[-1].path)), 0, header.encode())


def _chunk_shares(
    address: str, log_end: int, plan: RebuildPlan, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    files = StoreFiles(address)
    for _, (part, rank) in shares_of(batches):
        for step in walk_part(files, part, ScanRules(check_crc=False), go_on=False):
            if not isinstance(step, Run) or step.start >= log_end:
                continue
            run = step.part(0, int(np.searchsorted(step.columns.position + step.file_start, log_end)))
            rows = list(_unit_chunks(run, plan)) if plan.scope.queues else []
            if plan.scope.index:
                keys, rank = _key_chunks(run, plan, rank)
                rows += keys
            yield _chunk_batch(rows)


Chunk = tuple[int, int, np.ndarray]  # number of the file, log offset of the first row, rows


def _chunk_batch(chunks: Sequence[Chunk]) -> pa.RecordBatch:
    """The chunks with the rows' bytes; they are copied once, into one buffer."""
    sizes = [rows.nbytes for _, _, rows in chunks]
    data = np.concatenate([np.empty(0, np.uint8), *(rows.view(np.uint8) for _, _, rows in chunks)])
    ends = np.cumsum([0, *sizes]).astype(np.int32)
    payloads = pa.Array.from_buffers(pa.binary(), len(chunks), [None, pa.py_buffer(ends), pa.py_buffer(data)])
    files, places = ([chunk[n] for chunk in chunks] for n in (0, 1))
    return pa.RecordBatch.from_arrays(
        [pa.array(files, pa.int64()), pa.array(places, pa.int64()), payloads], schema=CHUNK_ARROW
    )


def _unit_chunks(run: Run, plan: RebuildPlan) -> Iterator[Chunk]:
    """Per queue file its units of this run."""
    units = expected_units(run, plan.delay_levels_ms)
    order = np.argsort(units.queue, kind="stable")
    edges = np.searchsorted(units.queue[order], np.arange(len(units.queues) + 1))
    rows = np.empty(len(order), IRREGULAR_DTYPE)
    for name in ("log_offset", "size", "tags_code"):
        rows["unit"][name] = getattr(units, name)[order]
    rows["queue_offset"] = units.queue_offset[order]
    for queue, start, stop in zip(units.queues, edges, edges[1:], strict=False):
        if not plan.scope.wants(queue) or start == stop:
            continue
        mine = rows[start:stop]
        if queue in plan.irregular:
            pieces = [(WHOLE_QUEUE, mine)]
        else:
            by_file = _by_file(mine, mine["queue_offset"] * UNIT_SIZE // plan.queue_file_size)
            pieces = [(index * plan.queue_file_size, piece) for index, piece in by_file]
        for file_start, piece in pieces:
            yield plan.queue_file[(*queue, file_start)], int(piece["unit"]["log_offset"][0]), piece


def _key_chunks(run: Run, plan: RebuildPlan, rank: int) -> tuple[list[Chunk], int]:
    """Per index file its keys of this run, and the rank of the next run's first key."""
    entries = expected_entries(run)
    count = len(entries.log_offset)
    keys = np.empty(count, KEY_DTYPE)
    for name in KEY_DTYPE.names or ():
        keys[name] = getattr(entries, name)
    pieces = _by_file(keys, (np.arange(count) + rank) // (plan.entry_count - 1))
    return [
        (plan.first_index_file + i, int(piece["log_offset"][0]), piece) for i, piece in pieces
    ], rank + count


def _by_file(rows: np.ndarray, file_index: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The rows of each file; `file_index` rises."""
    if not len(rows):
        return
    first, last = int(file_index[0]), int(file_index[-1])
    edges = np.searchsorted(file_index, np.arange(first, last + 2))
    for i, (start, stop) in enumerate(pairwise(edges)):
        if start < stop:
            yield first + i, rows[start:stop]


def _write_files(plan: RebuildPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes the files of one task, each from its chunks in log order."""
    for number, chunks in groupby(_chunk_rows(batches), key=lambda row: row[0]):
        target = plan.files[number]
        payloads = (payload for _, payload in chunks)
        if target.queue is None:
            _write_index_file(plan, target, payloads)
        elif target.file_start == WHOLE_QUEUE:
            _write_whole_queue(plan, target, payloads)
        else:
            _write_queue_file(plan, target, payloads)
        yield pa.RecordBatch.from_pydict({"number": [number], "share": [b""]}, SHARE_ARROW)


def _chunk_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Buffer]]:
    for batch in batches:
        for number, payload in zip(batch.column("file"), batch.column("payload"), strict=True):
            yield number.as_py(), payload.as_buffer()


def _write_queue_file(plan: RebuildPlan, target: TargetFile, payloads: Iterable[pa.Buffer]) -> None:
    """One file of a dense queue: every unit at its queue offset, fillers before the queue's first."""
    fs, path = Filesystem(), Path(target.path)
    path.unlink(missing_ok=True)
    descriptor = fs.create_file(path, plan.queue_file_size)
    fillers = target.first_offset - target.file_start // UNIT_SIZE
    if fillers > 0:
        fs.write(descriptor, 0, PRE_BLANK.encode() * fillers)
    for payload in payloads:
        piece = np.frombuffer(payload, IRREGULAR_DTYPE)
        at = int(piece["queue_offset"][0]) * UNIT_SIZE - target.file_start
        fs.write(descriptor, at, np.ascontiguousarray(piece["unit"]).tobytes())
    fs.fdatasync(descriptor)


def _write_whole_queue(plan: RebuildPlan, target: TargetFile, payloads: Iterable[pa.Buffer]) -> None:
    """A queue with repeats or gaps, by the broker's rules one by one."""
    assert target.queue is not None
    folder = Path(target.path)
    shutil.rmtree(folder, ignore_errors=True)
    queue = ConsumeQueue(
        *target.queue, MappedFileQueue(folder, plan.queue_file_size, Filesystem(), writable=True)
    )
    for payload in payloads:
        for row in np.frombuffer(payload, IRREGULAR_DTYPE):
            log_offset, size, tags_code = (int(value) for value in row["unit"])
            queue.put(log_offset, size, tags_code, int(row["queue_offset"]))
    queue.flush(0)
    queue.close()


def _write_index_file(plan: RebuildPlan, target: TargetFile, payloads: Iterable[pa.Buffer]) -> None:
    """One index file, its keys put in the order of their ranks."""
    fs, path = Filesystem(), Path(target.path)
    path.unlink(missing_ok=True)
    size = index_file_size(plan.slot_count, plan.entry_count)
    descriptor = fs.create_file(path, size)
    mapping = fs.map(descriptor, size, writable=True)
    kernels = for_work(size)
    header = np.array(IndexHeader(), np.int64)
    for payload in payloads:
        keys = np.frombuffer(payload, KEY_DTYPE)
        columns = np.zeros((len(COLUMN_NAMES), len(keys)), np.int64)
        columns[COLUMN_NAMES.index("log_offset")] = keys["log_offset"]
        columns[COLUMN_NAMES.index("store_timestamp_ms")] = keys["store_timestamp_ms"]
        hashes, records = keys["key_hash"].astype(np.int64), np.arange(len(keys))
        view = kernels.view(mapping)
        kernels.put_index_entries(
            view, plan.slot_count, plan.entry_count, hashes, records, 0, len(keys), columns, header
        )
        del view
    fs.fdatasync(descriptor)
