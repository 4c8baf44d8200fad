"""Salvage a store, a folder of segments, or one file: pieces in log order, each record once.

Files are walked one after the other by their place in the log. A record whose log offset an earlier piece had already
is a duplicate: the file is there twice, or its bytes were copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from store.disk.filesystem import Filesystem
from store.disk.store_reader import StoreReader
from store.forensics.salvage.evidence import Evidence
from store.forensics.salvage.grade import Piece, SalvagedRun, Skipped, TornRecord, stretches
from store.forensics.salvage.sources import find_sources, is_store_root
from store.forensics.salvage.walk import walk_file
from store.formats.run import Int64Array
from store.formats.sets import distinct, is_in_sorted


@dataclass(slots=True)
class SalvageReport:
    """Count records and bytes by grade, and list torn records and skipped bytes."""

    files: list[str] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    torn: list[TornRecord] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    duplicate_count: int = 0

    def clear(self) -> None:
        """Forgets everything, for another walk."""
        for kept in (self.files, self.records, self.size_bytes, self.torn, self.skipped):
            kept.clear()
        self.duplicate_count = 0

    @property
    def skipped_bytes(self) -> int:
        return sum(one.stop - one.position for one in self.skipped)


def salvage_runs(
    path: Path,
    fs: Filesystem,
    report: SalvageReport,
    *,
    delay_levels_ms: tuple[int, ...] = (),
    on_progress: Callable[[int], None] = lambda done_bytes: None,
) -> Iterator[SalvagedRun]:
    """Yield every record of a store, a folder or a file, counted in `report`. Reads only."""
    evidence = _evidence(path, fs, delay_levels_ms)
    seen, done = np.empty(0, np.int64), 0
    for source, start in find_sources(path, fs):
        report.files.append(source.name)
        mine: list[Int64Array] = []
        for piece in walk_file(source, start):
            for run in _taken(piece, report, evidence):
                for fresh in _without(run, seen, report):
                    mine.append(fresh.log_offsets)
                    report.records[fresh.grade.value] += fresh.count
                    report.size_bytes[fresh.grade.value] += fresh.byte_count
                    yield fresh
        seen = distinct(np.concatenate([seen[seen >= start], *mine]))
        done += source.window.size
        on_progress(done)


def _evidence(path: Path, fs: Filesystem, delay_levels_ms: tuple[int, ...]) -> Evidence:
    """The store's queues and index; none where the path is no store's root."""
    if not is_store_root(path, fs):
        return Evidence.none()
    return Evidence.of(StoreReader(str(path), fs), delay_levels_ms)


def _taken(piece: Piece, report: SalvageReport, evidence: Evidence) -> Iterator[SalvagedRun]:
    if isinstance(piece, TornRecord):
        report.torn.append(piece)
    elif isinstance(piece, Skipped):
        report.skipped.append(piece)
    else:
        yield from evidence.review(piece)


def _without(run: SalvagedRun, seen: Int64Array, report: SalvageReport) -> Iterator[SalvagedRun]:
    """The run without the records whose log offsets were seen."""
    known = is_in_sorted(run.log_offsets, seen)
    if not known.any():
        yield run
        return
    report.duplicate_count += int(known.sum())
    for first, stop in stretches(known):
        if not known[first]:
            yield run.rows(first, stop)
