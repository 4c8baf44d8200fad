"""Findings on one batch queue: its files alone, and its units against the log's records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store.errors import DamagedRecord
from store.files.store_reader import StoredFile
from store.formats.message import INNER_BATCH
from store.formats.run import Run
from store.structures.batchqueue import check
from store.structures.batchqueue.check import _QueueCheck
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE, BatchUnitArray
from store.structures.findings import Finding
from tests.support.small_log import SmallLog

SIZE = 92
"""Two units."""


def units(*rows: tuple[int, int]) -> BatchUnitArray:
    """Units of (queue offset, message count), each at a log offset of 100 times its queue offset."""
    return np.array([(100 * at, 50, 0, 1, at, count, -1, 0) for at, count in rows], BATCH_UNIT_DTYPE)


def checked(*files: bytes, is_written_to: bool = False) -> _QueueCheck:
    """The check of a queue with these files; a file is as long as its bytes, and 92 bytes at least."""
    data = {f"q/{number}": one.ljust(SIZE, b"\0") for number, one in enumerate(files)}
    stored = [StoredFile(path, number, len(one), 0) for number, (path, one) in enumerate(data.items())]
    reader = SimpleNamespace(read_written=lambda path, size: data[path], name_of=lambda path: path)
    return _QueueCheck(cast(Any, reader), ("T", 3), stored, SIZE, is_written_to)


def rows(findings: Any) -> list[str]:
    found = list(findings)
    assert {(one.topic, one.queue_id) for one in found} <= {("T", 3)}
    return [f"{one.kind} {one.file} {one.offset} {one.detail}" for one in found]


ONE = units((0, 5)).tobytes()
TWO = units((0, 5), (5, 2)).tobytes()
NEXT = units((7, 1), (8, 3)).tobytes()
ALONE: dict[str, tuple[tuple[bytes, ...], list[str]]] = {
    "sound": ((TWO, NEXT), []),
    "a last file that is not full": ((TWO, units((7, 1)).tobytes()), []),
    "an empty last file": ((TWO, b""), []),
    "a first file that is not full": (
        (ONE, units((5, 1)).tobytes()), ["queue-gap q/0 0 no entry at byte 46, and files follow"]
    ),
    "an empty first file": ((b"", TWO), ["queue-gap q/0 0 no entry at byte 0, and files follow"]),
    "an empty file between two": (
        (TWO, b"", NEXT), ["queue-gap q/1 7 no entry at byte 0, and files follow"]
    ),
    "longer and shorter files": (
        (TWO + bytes(46), NEXT[:46].ljust(138, b"\0")),
        ["wrong-size q/0 0 138 bytes instead of 92; no broker starts with it",
         "queue-gap q/0 0 no entry at byte 92, and files follow",
         "wrong-size q/1 0 138 bytes instead of 92; no broker starts with it"],
    ),
    "a gap of one": (
        (units((0, 5), (6, 2)).tobytes(),), ["queue-gap q/0 5 queue offset 6 where 5 is next"]
    ),
    "an offset twice": (
        (units((0, 5), (4, 2)).tobytes(),), ["queue-duplicate q/0 5 queue offset 4 where 5 is next"]
    ),
    "a gap between two files": (
        (TWO, units((9, 1)).tobytes()), ["queue-gap q/1 7 queue offset 9 where 7 is next"]
    ),
    "a byte after the last entry": (
        (units((4, 5)).tobytes() + bytes(3) + b"\1",), ["unit-nowhere q/0 9 byte 49 is not 0, and no entry"]
    ),
    "bytes after two entries": (
        (units((3, 5), (8, 2)).tobytes() + b"\0\1\0\1",),
        ["wrong-size q/0 0 96 bytes instead of 92; no broker starts with it",
         "unit-nowhere q/0 10 byte 93 is not 0, and no entry"],
    ),
    "the last byte": (
        (ONE + bytes(45) + b"\1",), ["unit-nowhere q/0 5 byte 91 is not 0, and no entry"]
    ),
    "a byte in an empty first file": ((b"\0\1",), ["unit-nowhere q/0 0 byte 1 is not 0, and no entry"]),
    "a byte in an empty next file": ((TWO, b"\0\1"), ["unit-nowhere q/1 7 byte 1 is not 0, and no entry"]),
}  # fmt: skip


@pytest.mark.parametrize("case", ALONE)
def test_a_queue_alone_has_consecutive_offsets_in_files_of_one_length(case: str) -> None:
    files, findings = ALONE[case]
    assert rows(checked(*files).alone()) == findings


def test_a_gap_that_the_log_has_too_is_no_fault_of_the_queue() -> None:
    log = units((0, 5), (6, 2), (9, 1), (3, 1))
    found = checked(units((0, 5), (6, 1)).tobytes(), units((9, 1)).tobytes()).alone(check._gaps(log))
    assert rows(found) == [
        "missing-record q/0 5 queue offset 6 where 5 is next", "queue-gap q/1 7 queue offset 9 where 7 is next",
    ]  # fmt: skip
    assert check._gaps(log) == {(5, 6), (8, 9)}


def test_a_writer_may_have_written_a_part_of_an_entry() -> None:
    assert rows(checked(ONE + b"\1", is_written_to=True).alone()) == []


RECORDS = units((0, 5), (5, 2), (7, 1))
AGAINST: dict[str, tuple[BatchUnitArray, dict[str, int | None], list[str]]] = {
    "sound": (RECORDS, {}, []),
    "a record without an entry": (
        units((0, 5), (7, 1)), {}, ["missing-unit batchconsumequeue/T/3 5 the record at log offset 500 has no entry"]
    ),
    "the same up to the confirmed offset": (
        units((0, 5), (7, 1)), {"confirmed": 550},
        ["missing-unit batchconsumequeue/T/3 5 the record at log offset 500 has no entry"],
    ),
    "the same, a byte before it": (units((0, 5), (7, 1)), {"confirmed": 549}, []),
    "an entry of no record": (
        units((0, 5), (5, 2), (6, 1), (7, 1)), {}, ["unit-nowhere q/0 6 log offset 600 starts no record of this queue"]
    ),
    "the same at the log's start": (
        units((6, 1), (0, 5), (5, 2), (7, 1)), {"log_start": 600},
        ["unit-nowhere q/0 6 log offset 600 starts no record of this queue"],
    ),
    "the same before the log": (units((6, 1), (0, 5), (5, 2), (7, 1)), {"log_start": 601}, []),
    "the same before the horizon": (
        units((0, 5), (5, 2), (6, 1), (7, 1)), {"horizon": 601},
        ["unit-nowhere q/0 6 log offset 600 starts no record of this queue"],
    ),
    "the same at the horizon": (units((0, 5), (5, 2), (6, 1), (7, 1)), {"horizon": 600}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", AGAINST)
def test_records_have_their_units_and_units_their_records(case: str) -> None:
    found, given, findings = AGAINST[case]
    usual: dict[str, Any] = {"log_start": 0, "horizon": None, "confirmed": None}
    assert rows(checked(found.tobytes()).against(RECORDS, **usual | given)) == findings


@pytest.mark.parametrize("name", ["size", "tags_code", "store_timestamp_ms", "message_count", "compacted_offset"])
def test_a_unit_that_differs_is_named_with_both(name: str) -> None:
    found = RECORDS.copy()
    found[name][1] = 9
    detail = f"{found[1].item()} instead of {RECORDS[1].item()}"
    assert rows(checked(found.tobytes()).against(RECORDS, 0, None, None)) == [f"unit-differs q/0 5 {detail}"]


@pytest.mark.parametrize(
    ("topic", "kind", "is_owned"),
    [
        ("A", "missing-unit", True),
        ("B", "missing-record", True),
        ("B", "queue-leap", True),
        ("B", "queue-gap", False),
        ("A", "queue-shift", True),
        ("C", "missing-unit", False),
        ("A", "index", False),
        ("C", "index", False),
    ],
)
def test_findings_of_plain_queues_are_its_own_for_its_topics(
    topic: str, kind: str, is_owned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_topics", lambda store: frozenset("A"))
    monkeypatch.setattr(check, "_topics_of_backup", lambda files: frozenset("B"))
    owns = check.owned_by(cast(Any, SimpleNamespace(files=None)))
    assert owns(cast(Any, SimpleNamespace(topic=topic, kind=kind))) is is_owned


TYPES = (
    b'{"topicConfigTable":{"B":{"attributes":{"queue.type":"BatchCQ"}},"S":{"attributes":{"queue.type":"SimpleCQ"}}}}'
)


@pytest.mark.parametrize(
    ("is_alone", "table", "topics"),
    [(True, TYPES, {"B"}), (True, None, set()), (True, b"{", set()), (False, TYPES, set())],
)
def test_of_a_log_alone_the_table_of_topics_shows_the_batch_queues(
    is_alone: bool, table: bytes | None, topics: set[str]
) -> None:
    files: Any = SimpleNamespace(
        holds_log_alone=is_alone, exists=lambda path: table is not None, read=lambda path: table
    )
    assert check._topics_of_backup(files) == topics


@pytest.mark.parametrize(
    ("topic", "base", "count", "detail"),
    [
        ("T", "7", 2, None),
        ("T", "8", 2, "INNER_BASE and INNER_NUM say (8, 2), it is at queue offset 7 with 2"),
        ("T", "7", 3, "INNER_BASE and INNER_NUM say (7, 2), it is at queue offset 7 with 3"),
        # As a broker with queues in a RocksDB writes it.
        ("T", "", 2, None),
        ("T", "", 1, "INNER_BASE and INNER_NUM say (7, 2), it is at queue offset 7 with 1"),
        ("T", "x", 2, "INNER_BASE and INNER_NUM say None, it is at queue offset 7 with 2"),
        ("T", "7", DamagedRecord("torn", offset=5), str(DamagedRecord("torn", offset=5))),
        ("Other", "8", 2, None),
    ],
)
def test_a_record_of_a_batch_queue_has_the_messages_that_it_says(
    topic: str, base: str, count: int | DamagedRecord, detail: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(record: object) -> int:
        if isinstance(count, DamagedRecord):
            raise count
        return count

    monkeypatch.setattr(check, "count_inner", counted)
    log, runs = SmallLog(), list[Run]()
    log.put("Other", 3)
    place = log.put(topic, 3, queue_offset=7, sys_flag=INNER_BATCH, INNER_BASE=base, INNER_NUM="2")
    log.dispatch_to(cast(Any, SimpleNamespace(dispatch=runs.append)), start=0)
    found = list(check._Expected({"T"}, [], None).inner_findings(runs[0]))
    assert found == ([Finding("inner-batch", str(runs[0].path), place, "T", 3, detail=detail)] if detail else [])
