"""Whether the segments hold every place that units and entries name."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import ENTRY_DTYPE
from store.formats.index_page import HEADER_SIZE
from store.formats.queue_unit import UNIT
from store.structures.consumequeue.survey import QueueFile
from store.structures.findings import (
    INDEX_ENTRY_NOWHERE,
    MISSING_RECORD,
    MISSING_SEGMENT,
    UNIT_NOWHERE,
    Finding,
)
from store.structures.index.survey import IndexFile
from store.verbs.check.coverage import (
    LogExtent,
    _entries_outside,
    _points_outside,
    outside_findings,
)
from tests.support.stores import make_store
from tests.verbs.check.stores import SIZE, findings, records


def segments(*places: tuple[int, int]) -> list[StoredFile]:
    return [StoredFile(f"commitlog/{start:020d}", start, size, 0) for start, size in places]


def missed(log: LogExtent, *offsets: int) -> list[int]:
    return [offset for offset in offsets if log.misses(np.array([offset]))[0]]


PLACES = (0, 99, 100, 199, 200, 299, 300, 399, 400)


@pytest.mark.parametrize(
    ("held", "horizon", "start", "missing"),
    [
        ([(100, 100), (300, 100)], None, 100, [200, 299, 400]),
        ([(100, 100), (300, 100)], 299, 100, [200]),
        ([(100, 100), (300, 100)], 400, 100, [200, 299]),
        ([], None, 0, [*PLACES]),
        ([], 300, 0, [0, 99, 100, 199, 200, 299]),
    ],
)
def test_offsets_in_no_segment_are_missed_but_for_expired_ones_and_a_writers(
    held: list[tuple[int, int]], horizon: int | None, start: int, missing: list[int]
) -> None:
    log = LogExtent(segments(*held), horizon)
    assert (log.start, missed(log, *PLACES)) == (start, missing)


@pytest.mark.parametrize(
    ("held", "low", "high", "may"),
    [
        ([(0, 100), (100, 100)], 0, 199, False),
        ([(0, 100), (100, 100)], 0, 200, True),
        ([(0, 100), (101, 100)], 0, 50, True),
        ([(100, 100)], 0, 150, False),
    ],
)
def test_a_range_inside_an_unbroken_run_misses_nothing(
    held: list[tuple[int, int]], low: int, high: int, may: bool
) -> None:
    assert LogExtent(segments(*held)).may_miss(np.array([low]), np.array([high])).tolist() == [may]


@pytest.mark.parametrize(("low", "high", "reads"), [(0, -1, False), (0, 0, True), (5, 5, True), (0, 9, True)])
def test_a_file_without_an_entry_is_not_read_for_places_that_are_gone(low: int, high: int, reads: bool) -> None:
    read: list[str] = []

    def salvage(path: str) -> SimpleNamespace:
        read.append(path)
        return SimpleNamespace(buffer=memoryview(bytes(HEADER_SIZE)))

    file = IndexFile("index/1", HEADER_SIZE, 0, 0, low, high, True, True, 0, 0, False)
    files = cast(Any, SimpleNamespace(salvage=salvage))
    assert list(outside_findings(files, [file], LogExtent([]))) == []
    assert bool(read) is reads


def test_a_unit_of_the_first_record_of_a_log_that_is_gone_is_found(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 1)
    (root / "commitlog" / f"{0:020d}").unlink()
    assert findings(root, UNIT_NOWHERE) == [
        Finding(UNIT_NOWHERE, f"consumequeue/T/0/{0:020d}", 0, "T", 0, detail="points to 0, where no segment is")
    ]


def test_units_and_entries_of_a_segment_that_is_gone_are_counted_file_by_file(root: Path) -> None:
    lost = range(SIZE, 2 * SIZE)
    stored = records(root)
    expected = []
    for path in sorted(root.glob("consumequeue/T/*/*")):
        units = [one[0] for one in UNIT.iter_unpack(path.read_bytes())]
        rows = [number for number, place in enumerate(units) if place in lost]
        if rows:
            detail = f"points to {units[rows[0]]}, where no segment is"
            number = int(path.name) // 20 + rows[0]
            name, queue_id = str(path.relative_to(root)), int(path.parent.name)
            expected.append(Finding(UNIT_NOWHERE, name, number, "T", queue_id, len(rows), detail))
    for path in sorted(root.glob("index/*")):
        data = path.read_bytes()[240:]
        places = [int.from_bytes(data[at + 4 : at + 12], "big") for at in range(0, len(data), 20)]
        rows = [number for number, place in enumerate(places) if place in lost]
        if rows:
            detail = f"points to {places[rows[0]]}, where no segment is"
            name = str(path.relative_to(root))
            expected.append(Finding(INDEX_ENTRY_NOWHERE, name, rows[0], count=len(rows), detail=detail))
    (root / "commitlog" / f"{SIZE:020d}").unlink()
    assert sum(one.count for one in expected[:3]) >= 3
    found = findings(root)
    assert [one for one in found if one.kind in (UNIT_NOWHERE, INDEX_ENTRY_NOWHERE)] == expected
    assert {one.kind for one in found} == {UNIT_NOWHERE, INDEX_ENTRY_NOWHERE, MISSING_SEGMENT, MISSING_RECORD}
    assert stored[-1].log_offset > 2 * SIZE


@pytest.mark.parametrize(
    ("live", "row", "count"),
    [((0, 3), 0, 3), ((1, 3), 1, 2), ((1, 2), 1, 1), ((3, 3), 3, 1)],
)
def test_the_live_units_of_a_file_are_looked_up_alone(
    live: tuple[int, int], row: int, count: int, tmp_path: Path
) -> None:
    """Where no segment is left; the unit of row 2 is not written."""
    rows = [(50, 10, 0), (60, 10, 0), (70, 0, 0), (80, 10, 0), (90, 10, 0)]
    (tmp_path / "1").write_bytes(b"".join(UNIT.pack(*one) for one in rows))
    file = QueueFile("T", 3, "1", 400, 100, *live, 50, 90, rises=True)
    (found,) = outside_findings(StoreReader(str(tmp_path)), [file], LogExtent([]))
    detail = f"points to {50 + 10 * row}, where no segment is"
    assert found == Finding(UNIT_NOWHERE, f"{tmp_path}/1", 20 + row, "T", 3, count, detail)


@pytest.mark.parametrize(
    ("places", "first", "count"),
    [([0, 10, 50], 0, 0), ([0, 100, 50], 1, 1), ([900, 10, 200, 99, 101], 2, 2)],
)
def test_entries_outside_of_the_log_are_one_finding_with_the_first(
    places: list[int], first: int, count: int, tmp_path: Path
) -> None:
    """The log has the offsets 0 to 99; entry 0 is unused."""
    page = np.zeros(len(places), ENTRY_DTYPE)
    page["log_offset"] = places
    (tmp_path / "1").write_bytes(bytes(HEADER_SIZE) + page.tobytes())
    file = SimpleNamespace(path="1", slot_count=0, count=len(places))
    log = LogExtent([StoredFile("commitlog/0", 0, 100, 0)])
    found = list(_entries_outside(StoreReader(str(tmp_path)), cast(Any, file), log))
    assert [(one.kind, one.offset, one.count) for one in found] == (
        [(INDEX_ENTRY_NOWHERE, first, count)] if count else []
    )
    assert [one.detail for one in found] == ([_points_outside(places[first])] if count else [])
