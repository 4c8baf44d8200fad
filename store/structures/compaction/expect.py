"""Compare the records of a compacted queue with the queue and with the commit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from store import kernels
from store.formats.properties import KEYS
from store.formats.run import Run
from store.formats.sets import is_in
from store.structures.compaction.files import Queue
from store.structures.compaction.originals import NO_DIFFERENCE, Originals
from store.structures.consumequeue.numbering import QueueTable

Wrong = npt.NDArray[np.bool_]


def record_faults(run: Run, queue: Queue, originals: Originals) -> Iterator[tuple[Wrong, Callable[[int], str]]]:
    """Yield the rows with each kind of fault, and a function that describes the fault of one row."""
    named = run.columns.log_offset
    yield named != run.columns.position + run.file_start, lambda row: f"the record says {int(named[row])}"
    table = QueueTable()
    numbers = table.assign(run.buffer, run.array, run.count, queued_only=False)
    is_foreign = ~is_in(numbers, [number for number, name in enumerate(table.names) if name == queue])
    yield is_foreign, lambda row: "the record is of topic {}, queue {}".format(*table.names[int(numbers[row])])
    yield ~is_foreign & ~_have_keys(run), lambda row: "the record has no KEYS, so it is never compacted"
    differs = np.where(is_foreign, NO_DIFFERENCE, originals.differences(run))
    yield differs != NO_DIFFERENCE, lambda row: f"its byte {int(differs[row])} is another one than in the commit log"


def _have_keys(run: Run) -> Wrong:
    """Mark the records that have the property KEYS."""
    rows, found = np.empty(run.count, np.int64), np.zeros(run.count, bool)
    found[rows[: kernels.rows_with_property(run.buffer, run.array, run.count, KEYS.encode(), rows)]] = True
    return found
