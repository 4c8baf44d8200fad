"""A segment cut at record starts and scanned by several threads gives what one walk gives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from store import kernels
from tests.support.golden import golden
from tests.support.twice import COLUMN_COUNT, KINDS


def starts(data: bytes, parts: int, file_start: int) -> list[int]:
    """The segment's beginning, and the first record start in each further part."""
    row = np.zeros((COLUMN_COUNT, 1), np.int64)
    size = len(data)
    found = {
        int(kernels.find_record_start(data, size * part // parts, size, file_start, True, row))
        for part in range(1, parts)
    }
    return sorted({0, *(found - {-1})})


def scan_part(data: bytes, start: int, stop: int) -> list[list[int]]:
    columns, state = np.zeros((COLUMN_COUNT, 1000), np.int64), np.zeros(8, np.int64)
    count = kernels.scan_records(data, start, stop, True, True, columns, state)
    rows: list[list[int]] = columns[:, :count].T.tolist()
    return rows


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["normal", "normal5", "ipv6", "batch"])
def test_the_result_does_not_depend_on_the_number_of_threads(name: str, kind: str, threads: int) -> None:
    for file_start, data in golden(name).log.items():
        whole = scan_part(data, 0, len(data))
        places = [*starts(data, threads, file_start), len(data)]
        with KINDS[kind](), ThreadPoolExecutor(threads) as pool:
            jobs = [pool.submit(scan_part, data, a, b) for a, b in pairwise(places)]
        assert [row for job in jobs for row in job.result()] == whole
