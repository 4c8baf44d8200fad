"""A compacted queue's records: each fault is marked in its rows, and described."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from store.formats.columns import Column
from store.formats.run import Run
from store.structures.compaction.expect import record_faults
from tests.support.small_log import SmallLog

START = 1000


def run_of(*records: tuple[str, str]) -> Run:
    """The records of these topics and keys, in a file that begins at 1000."""
    log, runs = SmallLog(), list[Run]()
    for topic, keys in records:
        log.put(topic, **({"KEYS": keys} if keys else {}))
    log.dispatch_to(cast(Any, SimpleNamespace(dispatch=runs.append)))
    (run,) = runs
    array = run.array.copy()
    array[Column.LOG_OFFSET] += START
    return replace(run, array=array, file_start=START)


def faults(run: Run, differences: list[int]) -> list[tuple[list[int], list[str]]]:
    """The rows of each kind of fault, and what is said of them."""
    originals = cast(Any, SimpleNamespace(differences=lambda run: np.array(differences)))
    found = [(np.flatnonzero(wrong).tolist(), describe) for wrong, describe in record_faults(run, ("T", 0), originals)]
    return [(rows, [describe(row) for row in rows]) for rows, describe in found]


def test_sound_records_have_no_fault() -> None:
    assert faults(run_of(("T", "a"), ("T", "b")), [-1, -1]) == [([], [])] * 4


def test_each_fault_has_its_rows_and_a_record_of_another_queue_no_other_fault() -> None:
    run = run_of(("T", "a"), ("U", ""), ("T", ""), ("T", "b"))
    run.array[Column.LOG_OFFSET, 3] += 1
    assert faults(run, [0, 5, -1, 7]) == [
        ([3], [f"the record says {START + run.columns.position[3] + 1}"]),
        ([1], ["the record is of topic U, queue 0"]),
        ([2], ["the record has no KEYS, so it is never compacted"]),
        ([0, 3], [f"its byte {at} is another one than in the commit log" for at in (0, 7)]),
    ]
