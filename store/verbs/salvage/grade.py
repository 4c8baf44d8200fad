"""Grade salvaged records.

    certain   magic, lengths, body CRC and log offset agree, and neither queue units nor index entries contradict them
    body-crc  as certain, but the body does not have the CRC of the record
    partial   the record's head is at its log offset, but other evidence contradicts it, or its end is missing

A 4.x record has a CRC of its body alone. A changed bit in its head, topic or properties shows only by comparison: with
its position, its queue unit (queue, queue offset, size, tags), its index entries (keys). A 5.x record may have the
property `__CRC32#`, which covers it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np

from store.formats.run import Int64Array, Run


class Grade(StrEnum):
    """Grades, best first."""

    CERTAIN = "certain"
    BODY_CRC = "body-crc"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class SalvagedRun:
    """Consecutive records of one file with the same grade.

    file    name of their file
    run     its file_start is the one in the log, which differs from the file's name in a shifted or renamed file
    reason  the contradiction; empty for certain records
    """

    file: str
    run: Run
    grade: Grade
    reason: str = ""

    @property
    def log_offsets(self) -> Int64Array:
        """The log offset of each."""
        return self.run.columns.position + self.run.file_start

    @property
    def count(self) -> int:
        return self.run.count

    @property
    def byte_count(self) -> int:
        return int(self.run.columns.size.sum())

    def rows(self, first: int, stop: int) -> SalvagedRun:
        """Return the records first … stop - 1."""
        return replace(self, run=self.run.part(first, stop))


@dataclass(frozen=True, slots=True)
class TornRecord:
    """The head of a record whose rest is lost. Positions and sizes are bytes, times epoch ms."""

    file: str
    position: int
    log_offset: int
    size: int
    queue_id: int
    queue_offset: int
    born_timestamp_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Bytes [position, stop) of a file without a record, and why the walk stopped there."""

    file: str
    position: int
    stop: int
    log_offset: int
    reason: str

    @property
    def size(self) -> int:
        return self.stop - self.position


@dataclass(frozen=True, slots=True)
class BlankEnd:
    """The blank up to a file's last byte."""

    file: str
    position: int
    log_offset: int
    size: int


Piece = SalvagedRun | TornRecord | Skipped | BlankEnd


def stretches(values: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the stretches (first, stop) of equal values."""
    breaks = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
    yield from pairwise(breaks)
