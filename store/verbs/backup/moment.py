"""The moment to restore a backup to: the restored log ends before the first record past it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from store.broker_line import broker_line
from store.errors import BadRequest, DamagedFile
from store.files.backup_files import BackupFiles
from store.files.store_reader import StoredFile, StoreReader
from store.formats.backup_manifest import Manifest
from store.formats.run import Run
from store.layout import BACKUP
from store.structures.commitlog.scan import Damage, ScanRules
from store.structures.commitlog.slices import walk_slice, whole_segment


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment to restore; the newest if neither field is set.

    time_ms     records that were stored later are left out
    log_offset  records from this log offset on are left out
    """

    time_ms: int | None = None
    log_offset: int | None = None

    @property
    def is_newest(self) -> bool:
        return self.time_ms is None and self.log_offset is None

    def is_before(self, run: Run) -> npt.NDArray[np.bool_]:
        """Mark the records of a run that are before the moment."""
        is_before = np.ones(run.count, np.bool_)
        if self.log_offset is not None:
            is_before &= run.log_offsets < self.log_offset
        if self.time_ms is not None:
            is_before &= run.columns.store_timestamp_ms <= self.time_ms
        return is_before


NEWEST = Moment()


@dataclass(frozen=True, slots=True)
class MomentEnd:
    """The log's end at a moment, and the store time of the record before it."""

    log_offset: int
    last_ms: int


def end_at(files: BackupFiles, manifest: Manifest, moment: Moment) -> MomentEnd:
    """Find the log's end at the moment: the end of the record before the first one past the moment.

    BadRequest for a log offset outside of the backup, or inside of a record.
    """
    if moment.is_newest:
        return MomentEnd(manifest.log_end, manifest.last_store_timestamp_ms)
    wanted = manifest.log_end if moment.log_offset is None else moment.log_offset
    if not manifest.log_start <= wanted <= manifest.log_end:
        reason = f"the backup has the log from {manifest.log_start} to {manifest.log_end}, and not {wanted}"
        raise BadRequest(reason, file=files.address)
    reader = StoreReader(f"{BACKUP}{files.address}@{manifest.id}")
    rules = ScanRules(accept_v2=broker_line(manifest.line).accepts_v2, by_place=True)
    begin, found = manifest.log_start, MomentEnd(manifest.log_start, 0)
    for run in _runs(reader, rules, moment):
        is_before, columns = moment.is_before(run), run.columns
        count = run.count if is_before.all() else int(is_before.argmin())
        if count:
            begin = run.file_start + int(columns.position[count - 1])
            found = MomentEnd(begin + int(columns.size[count - 1]), int(columns.store_timestamp_ms[count - 1]))
        if count < run.count:
            break
    if found.log_offset > wanted:
        hint = f"the record before begins at {begin}, and ends at {found.log_offset}"
        raise BadRequest(f"no record begins or ends at log offset {wanted}", file=files.address, hint=hint)
    return found


def runs_until(files: BackupFiles, manifest: Manifest, log_end: int) -> Iterator[Run]:
    """Yield the records up to the log's end at a moment; DamagedFile if one is damaged."""
    reader = StoreReader(f"{BACKUP}{files.address}@{manifest.id}")
    rules = ScanRules(check_crc=True, accept_v2=broker_line(manifest.line).accepts_v2, by_place=True)
    for segment in reader.segments():
        for step in walk_slice(reader, whole_segment(segment), rules) if segment.number < log_end else ():
            if isinstance(step, Damage) and step.file_start + step.position < log_end:
                raise damaged_log(files, manifest, step.file_start + step.position, log_end, segment.path)
            if isinstance(step, Run) and (part := step.up_to(log_end)).count:
                yield part


def damaged_log(files: BackupFiles, manifest: Manifest, damage: int, log_end: int, path: str) -> DamagedFile:
    """Make the error for damage within a log."""
    reason, which = f"the log is damaged, {log_end - damage} bytes before its end", f"{files.address}@{manifest.id}"
    position = damage % manifest.segment_size
    return DamagedFile(reason, file=path, offset=position, code="damaged-backup-log", subject=(which,))


def _runs(reader: StoreReader, rules: ScanRules, moment: Moment) -> Iterator[Run]:
    """Yield the runs of the last segment that begins before the moment, and of later segments."""
    segments = wanted = reader.segments()
    for number, segment in enumerate(segments):
        head = next(_runs_of(reader, segment, rules), None)
        if head is None or not moment.is_before(head)[0]:
            break
        wanted = segments[number:]
    for segment in wanted:
        yield from _runs_of(reader, segment, rules)


def _runs_of(reader: StoreReader, segment: StoredFile, rules: ScanRules) -> Iterator[Run]:
    return (step for step in walk_slice(reader, whole_segment(segment), rules) if isinstance(step, Run))
