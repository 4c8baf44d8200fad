"""The record around a log offset at which a slave's log differs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from store.engine.ha.slave_log import SlaveLog
from store.formats.columns import Column
from store.formats.run import Run

SEGMENT = 1000


def run(*sizes: int, start: int) -> Run:
    array = np.zeros((len(Column), len(sizes)), np.int64)
    array[Column.POSITION] = start + np.cumsum([0, *sizes[:-1]])
    array[Column.SIZE] = sizes
    return Run(SEGMENT, Path(), memoryview(b""), array, len(sizes))


STEPS = [run(100, 200, 50, start=0), run(10, 20, start=350), SimpleNamespace(), run(40, start=400)]
"""The runs of the segment at 1000, and a blank or damage at 1380 between them."""


@pytest.mark.parametrize(
    ("log_offset", "start"),
    [
        (1000, 1000), (1099, 1000), (1100, 1100), (1299, 1100), (1300, 1300), (1349, 1300), (1350, 1350),
        (1359, 1350), (1360, 1360), (1379, 1360), (1380, 1380), (1410, 1380), (1999, 1380),
    ],
)  # fmt: skip
def test_an_offset_is_in_the_record_that_holds_it_or_after_the_last(log_offset: int, start: int) -> None:
    asked: list[int] = []

    def scan(first: int) -> Iterator[object]:
        asked.append(first)
        return iter(STEPS)

    log = object.__new__(SlaveLog)
    log._log, log.segment_size = SimpleNamespace(scan=scan), SEGMENT  # type: ignore[assignment]
    assert (log._record_around(log_offset), asked) == (start, [SEGMENT])


def test_a_run_that_begins_behind_the_offset_does_not_hold_it() -> None:
    log = object.__new__(SlaveLog)
    log._log, log.segment_size = SimpleNamespace(scan=lambda first: iter([STEPS[3]])), SEGMENT  # type: ignore[assignment]
    assert [log._record_around(at) for at in (1000, 1399, 1400, 1439, 1440)] == [1000, 1000, 1400, 1400, 1440]
