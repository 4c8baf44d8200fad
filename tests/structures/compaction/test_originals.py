"""Copies and their originals in the commit log: at the edges of segments and of the queue's files."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.files.store_reader import StoredFile
from store.formats.queue_unit import UNIT_SIZE, QueueUnit
from store.formats.run import Run
from store.structures.compaction.originals import Originals
from tests.support.small_log import SmallLog

COUNT, PER_FILE = 5, 2


def log_of(*keys: str) -> SmallLog:
    """A record of queue T/3 for each text of keys."""
    log = SmallLog()
    for one in keys:
        log.put("T", 3, keys=one)
    return log


LOG = log_of(*"abcde")
AT = [unit.log_offset for unit in LOG.units]
SIZE = LOG.units[0].size


def originals(
    data: bytes = LOG.data,
    units: list[QueueUnit] = LOG.units,
    *,
    segment_size: int = 2 * SIZE,
    log_start: int = 0,
    queue_id: int = 3,
    first_unit: int = 0,
) -> Originals:
    """Originals in segments of two records, by files of two units."""
    pieces = {f"log/{at}": data[at : at + segment_size] for at in range(log_start, len(data), segment_size)}
    for first in range(first_unit, len(units), PER_FILE):
        part = b"".join(one.encode() for one in units[first : first + PER_FILE])
        pieces[f"queue/{first * UNIT_SIZE}"] = part.ljust(PER_FILE * UNIT_SIZE, b"\0")

    def files(folder: str) -> list[StoredFile]:
        return [
            StoredFile(path, int(path.partition("/")[2]), len(piece), 0)
            for path, piece in pieces.items()
            if path.startswith(folder)
        ]

    def read(path: str, start: int = 0, size: int | None = None) -> memoryview:
        return memoryview(pieces[path])[start : None if size is None else start + size]

    reader = SimpleNamespace(read=read, segments=lambda: files("log"), queue_files=lambda *queue: files("queue"))
    return Originals(cast(Any, reader), ("T", queue_id))


def copies(log: SmallLog = LOG) -> Run:
    """The records as a run of a compaction log, where they stand as in the commit log."""
    runs = list[Run]()
    log.dispatch_to(cast(Any, SimpleNamespace(dispatch=runs.append)), start=0)
    return runs[0]


def changed(*places: int) -> bytes:
    data = bytearray(LOG.data)
    for place in places:
        data[place] ^= 1
    return bytes(data)


@pytest.mark.parametrize("row", range(COUNT))
@pytest.mark.parametrize("byte", [SIZE - 1, 60, 0])
def test_a_copy_differs_from_its_original_at_its_first_byte_that_is_another(row: int, byte: int) -> None:
    """A record whose head is another one is not the original."""
    wanted = [-1] * COUNT
    wanted[row] = byte or -1
    assert originals(changed(AT[row] + byte)).differences(copies()).tolist() == wanted


@pytest.mark.parametrize(
    ("segment_size", "log_start", "known"),
    [
        (COUNT * SIZE, 0, [0, 1, 2, 3, 4]),
        (2 * SIZE, 0, [0, 1, 2, 3, 4]),
        # A record over the seam is none.
        (2 * SIZE - 1, 0, [0, 2, 4]),
        (2 * SIZE, 2 * SIZE, [2, 3, 4]),
    ],
)
def test_an_original_is_within_one_segment(segment_size: int, log_start: int, known: list[int]) -> None:
    data = changed(*(at + 60 for at in AT))
    found = originals(data, segment_size=segment_size, log_start=log_start).differences(copies())
    assert found.tolist() == [60 if row in known else -1 for row in range(COUNT)]


@pytest.mark.parametrize(
    ("units", "known"),
    [
        ([LOG.units[0]._replace(size=SIZE + 1), *LOG.units[1:]], [1, 2, 3, 4]),
        (LOG.units[:4], [0, 1, 2, 3]),
        (LOG.units[:1], [0]),
    ],
)
def test_an_original_is_one_of_the_queue_s_entry_of_its_size(units: list[QueueUnit], known: list[int]) -> None:
    found = originals(changed(*(at + 60 for at in AT)), units).differences(copies()).tolist()
    assert found == [60 if row in known else -1 for row in range(COUNT)]


def test_a_record_whose_file_of_entries_has_expired_has_no_original() -> None:
    found = originals(changed(*(at + 60 for at in AT)), first_unit=PER_FILE).differences(copies()).tolist()
    assert found == [-1, -1, 60, 60, 60]


def test_a_record_of_another_queue_is_no_original() -> None:
    assert originals(changed(AT[1] + 60), queue_id=4).differences(copies()).tolist() == [-1] * COUNT


@pytest.mark.parametrize(
    ("keys", "last", "uncopied", "behind"),
    [
        ("abcde", -1, (0, 5), [0, 1, 2, 3, 4]),
        ("abcde", 0, (1, 4), [1, 2, 3, 4]),
        ("abcde", 1, (2, 3), [2, 3, 4]),
        ("abcde", 3, (4, 1), [4]),
        ("abcde", 4, None, []),
        (["a", "b", "", " ", "e"], 1, (4, 1), [4]),
        (["a", "b", "c", "d", ""], 2, (3, 2), [3]),
        (["a", "b", "c", "d", ""], 3, None, []),
    ],
)
def test_messages_with_keys_after_the_last_copy_are_uncopied(
    keys: list[str], last: int, uncopied: tuple[int, int] | None, behind: list[int]
) -> None:
    log = log_of(*keys)
    found = originals(log.data, log.units, segment_size=1 << 16)
    assert found.uncopied(last) == uncopied
    records = [log.data[unit.log_offset : unit.log_offset + unit.size] for unit in log.units]
    assert list(found.records_behind(last)) == [records[row] for row in behind]


def test_a_message_that_the_log_no_longer_has_or_a_pre_blank_entry_is_not_uncopied() -> None:
    blank = QueueUnit(0, (1 << 31) - 1, 0)
    assert originals(units=[blank, *LOG.units[1:]]).uncopied(-1) == (1, 4)
    assert originals(log_start=2 * SIZE).uncopied(-1) == (2, 3)
    assert originals(changed(*(at + 4 for at in AT))).uncopied(-1) is None
    assert originals(units=[LOG.units[0], QueueUnit(0, 0, 0)]).uncopied(-1) == (0, 1)
    assert originals(units=[LOG.units[0], LOG.units[1], QueueUnit(0, 0, 0)]).uncopied(0) == (1, 1)
