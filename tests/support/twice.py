"""Runs kernels compiled and uncompiled, and requires the same results.

scan(data)                  a Scan: columns, next position, outcome, reason, size
both(lambda kernels: …)     any comparable answer of both kinds of kernels, once they agree
with uncompiled():          everything that uses kernels runs them from their sources
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from store import kernels
from store.formats.columns import COLUMN_NAMES, DamageReason, ScanOutcome
from store.kernels import (
    commit_groups,
    compare,
    dispatch,
    encode,
    index,
    line_writer,
    lines,
    properties,
    put,
    queue_table,
    requests,
    verify,
)
from store.kernels import scan as scanning
from tests.support import naive

COLUMN_COUNT = len(COLUMN_NAMES)
SOURCES = {
    name: getattr(module, name)
    for module in (
        scanning,
        verify,
        dispatch,
        index,
        requests,
        encode,
        put,
        queue_table,
        properties,
        compare,
        commit_groups,
        lines,
        line_writer,
    )
    for name in kernels.__all__
    if hasattr(module, name)
}


@dataclass(frozen=True)
class Scan:
    """The result of one call of scan_records; `columns` as a list of rows, one per record."""

    rows: tuple[tuple[int, ...], ...]
    next_position: int
    outcome: ScanOutcome
    reason: DamageReason
    size: int

    @property
    def matrix(self) -> Any:
        return np.array(self.rows, np.int64).reshape(-1, COLUMN_COUNT).T.copy()


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run kernels from their sources."""
    with mock.patch.multiple(kernels, **SOURCES):
        yield


KINDS = {"compiled": nullcontext, "uncompiled": uncompiled}
"""Contexts for kernels of both kinds, for tests that run with each."""


def both(ask: Callable[[ModuleType], Any]) -> Any:
    """Return the result of compiled kernels; fail if that of their sources differs."""
    compiled = ask(kernels)
    with uncompiled():
        assert ask(kernels) == compiled
    return compiled


def scan(
    data: bytes,
    position: int = 0,
    limit: int | None = None,
    *,
    accept_v2: bool = True,
    check_crc: bool = False,
    capacity: int = 1000,
) -> Scan:
    """Run scan_records compiled and uncompiled."""
    limit = len(data) if limit is None else limit

    def ask(kernels: ModuleType) -> Scan:
        columns = np.full((COLUMN_COUNT, capacity), -7, np.int64)
        state = np.zeros(8, np.int64)
        count = kernels.scan_records(data, position, limit, accept_v2, check_crc, columns, state)
        rows = tuple(tuple(row) for row in columns[:, :count].T.tolist())
        return Scan(rows, int(state[0]), ScanOutcome(int(state[1])), DamageReason(int(state[2])), int(state[3]))

    result: Scan = both(ask)
    return result


def agrees_with_twin(data: bytes, position: int = 0, *, accept_v2: bool, check_crc: bool) -> Scan:
    """Run scan_records both ways, and compare it with the naive scan."""
    result = scan(data, position, accept_v2=accept_v2, check_crc=check_crc)
    records, next_position, outcome, size = naive.scan(data, position, len(data), accept_v2, check_crc)
    assert [list(row) for row in result.rows] == [record.row for record in records]
    assert (result.next_position, int(result.outcome), result.size) == (next_position, outcome, size)
    return result
