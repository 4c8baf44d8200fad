"""Foretell a broker's next start on queues in a RocksDB (5.x, storeType=defaultRocksDB).

    queues' end    the log offset that the RocksDB remembers as CHECKPOINT, 0 without one
    after a crash  the walk begins at the newest segment whose first record names a log offset up to it; the times in
                   the checkpoint file are not read
    light queues   a batch of up to 256 messages, of which one has queue offsets there that are no numbers, is tried
                   again for ever: no message behind it gets a unit
    dispatch       overwrites equal keys; after a shutdown the record that begins at the queues' end is left out
    truncation     moves the newest unit of each queue in front of the log's end; the files are RocksDB's own

Source: RocksDBConsumeQueueStore.recover, truncateDirty, putMessagePosition0, RocksGroupCommitService.groupCommit,
CommitLog.isMappedFileMatchedRecover (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from store.errors import BadRequest, DamagedFile
from store.files.rocksdb_files import has_rocksdb, queue_database
from store.formats.message import LOG_OFFSET_AT, TRANSACTION_PREPARED
from store.formats.run import Run
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.end import END_OF_LOG, LogEnd
from store.structures.commitlog.scan import Segment
from store.structures.consumequeue.light_queues import find_light_parts
from store.structures.queuedb.database import QueueDatabase, open_database
from store.verbs.recover.lost import LossCounter, QueueUnits
from store.verbs.recover.recover import RecoveryReport, cut_log
from store.verbs.recover.start import Start, first_store_timestamp, is_abnormal
from store.verbs.recover.walk import Progress, walk


def foretell_rocksdb_start(
    opened: OpenedStore,
    mode: str,
    scratch: Path,
    progress: Progress | None = None,
    *,
    passes_damage: bool = False,
) -> RecoveryReport:
    """The log's end and the losses.

    Without the package rocksdict the walk begins at the first segment, only records count as lost, and a finding says
    so. A RocksDB that does not open is a DamagedFile, or with `passes_damage` taken as one that can't be read.
    """
    abnormal = is_abnormal(opened, mode)
    folder = queue_database(opened.layout, opened.fs)
    database = None
    start = Start(0, "where the queues end is not known: the whole log is walked")
    found = RecoveryReport("abnormal" if abnormal else "normal", start.reason, LogEnd(0, 0))
    try:
        # One that is lost altogether is created anew.
        database = open_database(folder, scratch, opened.fs) if has_rocksdb(folder, opened.fs) else None
    except (BadRequest, DamagedFile) as error:
        if isinstance(error, DamagedFile) and not passes_damage:
            raise
        found.findings.append(str(error))
    else:
        newest = database.newest.values() if database is not None else ()
        found.queue_end_before = database.checkpoint if database is not None else 0
        found.has_unit_at_end = any(place.log_offset >= found.queue_end_before for place in newest)
        start = _starting_segment(opened, found.queue_end_before, abnormal=abnormal)
        found.start_reason = start.reason
    return _walk(opened, database, start, found, progress)


def _starting_segment(opened: OpenedStore, queue_end: int, *, abnormal: bool) -> Start:
    segments = opened.log.segments.files
    for segment in reversed(segments):
        first = _first_log_offset(opened, segment) if abnormal else segment.file_start
        if 0 <= first <= queue_end:
            return Start(segment.file_start, f"the newest that the RocksDB's queues reach into ({queue_end})")
    return Start(segments[0].file_start if segments else 0, "the RocksDB's queues reach into no segment")


def _first_log_offset(opened: OpenedStore, segment: Segment) -> int:
    """The log offset that the segment's first record names, -1 without a record."""
    if not first_store_timestamp(segment, opened.line):
        return -1
    return int.from_bytes(segment.buffer[LOG_OFFSET_AT : LOG_OFFSET_AT + 8], "big", signed=True)


def _walk(
    opened: OpenedStore,
    database: QueueDatabase | None,
    start: Start,
    found: RecoveryReport,
    progress: Progress | None,
) -> RecoveryReport:
    segments = opened.log.segments.files
    if not segments:
        return found
    behind = -1 if found.mode == "abnormal" else found.queue_end_before
    handlers = [_LightFaults(found.light_faults, behind)] if opened.config.enable_lmq else []
    found.end = walk(opened, max(start.log_offset, segments[0].file_start), handlers, progress)
    cut_log(opened, found)
    losses = LossCounter(opened)
    losses.read_behind(found.behind, found.end)
    if database is not None:
        losses.count_units(_units_behind(database, found.log_end), found.log_end, END_OF_LOG)
    found.lost = losses.report()
    return found


class _LightFaults:
    """Note the dispatched records behind a log offset whose queue offsets in light queues are no numbers."""

    def __init__(self, faults: list[int], behind: int) -> None:
        self._faults, self._behind = faults, behind

    def dispatch(self, run: Run) -> None:
        # Neither PREPARED nor ROLLBACK.
        is_queued = run.columns.sys_flag & TRANSACTION_PREPARED == 0
        rows = np.flatnonzero(is_queued & (run.columns.log_offset > self._behind))
        self._faults += find_light_parts(run, rows, enable_lmq=True).faults


def _units_behind(database: QueueDatabase, log_end: int) -> Iterator[QueueUnits]:
    """The units that point at or behind the log's end, queue by queue."""
    for queue, newest in sorted(database.newest.items()):
        if newest.log_offset >= log_end:
            units = database.units(queue)
            units = units[units["log_offset"] >= log_end]
            queue_offset, log_offset, size = (
                units[name].astype(np.int64) for name in ("queue_offset", "log_offset", "size")
            )
            yield queue, queue_offset, log_offset, size
