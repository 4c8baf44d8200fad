"""Grade lost records as a salvage does: a forecast has the number of messages that it then writes."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from store.files.store_reader import StoreReader
from store.formats.run import Int64Array, Run
from store.formats.sets import is_in
from store.opened.opened_store import OpenedStore

if TYPE_CHECKING:
    from store.verbs.salvage.evidence import Evidence


class LostGrades:
    """The grades of lost records by the queues and the index as they are on the disk."""

    def __init__(self, opened: OpenedStore) -> None:
        self._opened = opened
        self._starts: dict[Path, int] = {}

    def are_certain(self, run: Run, rows: Int64Array) -> npt.NDArray[np.bool_]:
        """Mark the records of a sound run that a new store gets."""
        from store.verbs.salvage.grade import Grade, SalvagedRun

        placed = replace(run, file_start=self._start_of(run))
        reviewed = self._evidence.review(SalvagedRun("", placed, Grade.CERTAIN))
        doubted = [one.log_offsets for one in reviewed if one.grade is not Grade.CERTAIN]
        return ~is_in(placed.log_offsets[rows], np.concatenate([np.empty(0, np.int64), *doubted]))

    def _start_of(self, run: Run) -> int:
        """Return the log offset of the first byte of a run's file; its name may be another segment's."""
        if np.array_equal(run.columns.log_offset, run.log_offsets):
            return run.file_start
        from store.verbs.salvage.sources import open_source
        from store.verbs.salvage.walk import find_start

        if run.path not in self._starts:
            self._starts[run.path] = find_start(open_source(run.path, self._opened.fs))
        start = self._starts[run.path]
        return run.file_start if start < 0 else start

    @cached_property
    def _evidence(self) -> Evidence:
        """The evidence of the whole store; most recoveries lose nothing, and it takes a read of all queues."""
        from store.verbs.salvage.derived_files import DerivedFiles
        from store.verbs.salvage.evidence import Evidence

        opened = self._opened
        files = DerivedFiles(StoreReader.of(opened.layout, opened.fs))
        return Evidence(files, opened.config.delay_levels_ms)
