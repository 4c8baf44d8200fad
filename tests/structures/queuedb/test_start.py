"""What keeps a start from queues in a RocksDB, what it enters of the log's records, and where queues end then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store.broker_line import LINE_5_3, LINE_5_5, BrokerLine
from store.files.rocksdb_files import CURRENT
from store.structures.commitlog.start import Start
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE
from store.structures.queuedb import start
from store.structures.queuedb.keys import Place
from store.structures.queuedb.start import Reach, _Entered, _LightFaults, blockers
from tests.support.small_log import SmallLog


@pytest.mark.parametrize(
    ("number", "more", "ends"),
    [
        (0, 0, {"T": (0, 6), "U": (0, 6)}),
        (0, 1, {"T": (1, 6), "U": (0, 6)}),
        (11, 0, {"T": (6, 6), "U": (5, 6)}),
        (12, 0, {"T": (6, 6), "U": (6, 6)}),
        (13, 0, {"U": (6, 6)}),
        (13, 1, {}),
    ],
)
def test_records_are_entered_from_a_log_offset_on(number: int, more: int, ends: dict[str, tuple[int, int]]) -> None:
    log = SmallLog()
    for _ in range(7):
        log.put("T")
        log.put("U")
    entered = _Entered(log.units[number].log_offset + more)
    log.dispatch_to(entered)
    assert entered.ends == {(topic, 0): end for topic, end in ends.items()}


@pytest.mark.parametrize(("less", "count"), [(1, 2), (0, 1)])
def test_a_fault_in_light_queues_counts_behind_a_log_offset(less: int, count: int) -> None:
    log = SmallLog()
    places = [log.put("%LMQ%a", INNER_MULTI_DISPATCH="%LMQ%b", INNER_MULTI_QUEUE_OFFSET="x") for _ in range(2)]
    faults: list[int] = []
    log.dispatch_to(_LightFaults(faults, places[0] - less))
    assert faults == places[-count:]


@pytest.mark.parametrize(
    ("line", "folders", "wanted", "trapped"),
    [
        (LINE_5_5, "", None, False),
        (LINE_5_5, "c", None, False),
        (LINE_5_5, "r", None, False),
        (LINE_5_5, "cr", None, True),
        (LINE_5_5, "cr", True, True),
        (LINE_5_5, "", True, False),
        (LINE_5_5, "c", False, False),
        (LINE_5_5, "r", True, False),
        (LINE_5_5, "c", True, True),
        (LINE_5_5, "r", False, True),
        (LINE_5_3, "cr", None, False),
        (LINE_5_3, "c", True, False),
    ],
)
def test_a_5_5_broker_does_not_start_on_a_database_in_another_folder_than_it_is_set_to(
    line: BrokerLine, folders: str, wanted: bool | None, trapped: bool
) -> None:
    opened = SimpleNamespace(
        layout=SimpleNamespace(consumequeue=Path("c"), consumequeue_rocksdb=Path("r")),
        fs=SimpleNamespace(exists=lambda path: path.name == CURRENT and path.parent.name in folders),
        config=SimpleNamespace(use_separate_store_path_for_rocksdb_cq=wanted, queues_in_database=True),
        line=line,
    )
    assert [trap.code for trap in blockers(cast(Any, opened))] == ["queue-database-elsewhere"] * trapped


UNITS = {("T", 0): [(0, 0), (100, 1), (200, 2)], ("U", 3): [(300, 0)]}


def reach_of(entered: dict[tuple[str, int], tuple[int, int]]) -> Reach:
    def units(queue: tuple[str, int]) -> Any:
        rows = [(log_offset, 50, 0, 0, number, 1, -1, 0) for log_offset, number in UNITS.get(queue, [])]
        return np.array(rows, BATCH_UNIT_DTYPE)

    newest = {queue: Place(*found[-1]) for queue, found in UNITS.items()}
    oldest = {queue: Place(*found[0]) for queue, found in UNITS.items()}
    database = SimpleNamespace(units=units, newest=newest, oldest=oldest)
    ends = SimpleNamespace(ends=entered)
    return Reach(Start(0, ""), cast(Any, database), 350, False, 150, cast(Any, ends), 0, [], [], [])


@pytest.mark.parametrize(
    ("queue", "log_end", "following"),
    [
        (("T", 0), 1000, 3),
        (("T", 0), 201, 3),
        (("T", 0), 200, 2),
        (("T", 0), 1, 1),
        (("T", 0), 0, 0),
        (("U", 3), 1000, 8),
        (("V", 0), 1000, 0),
    ],
)
def test_a_queue_goes_on_after_its_entered_records_or_its_last_unit_in_the_log(
    queue: tuple[str, int], log_end: int, following: int
) -> None:
    found = reach_of({("U", 3): (6, 7)})
    assert found.next_offset(queue, log_end) == following
    lost = found._replace(database=None)
    assert lost.next_offset(queue, log_end) == (8 if queue == ("U", 3) else 0)
    assert (lost.queues(), lost.units_behind(0)) == ([], None)
    assert [len(one) for one in lost.entries(queue)] == [0, 0]


@pytest.mark.parametrize(
    ("log_end", "behind"),
    [
        (0, [("T", 0, [0, 1, 2], [0, 100, 200]), ("U", 3, [0], [300])]),
        (100, [("T", 0, [1, 2], [100, 200]), ("U", 3, [0], [300])]),
        (200, [("T", 0, [2], [200]), ("U", 3, [0], [300])]),
        (201, [("U", 3, [0], [300])]),
        (300, [("U", 3, [0], [300])]),
        (301, []),
    ],
)
def test_units_at_or_past_the_end_of_the_log_are_behind_it(log_end: int, behind: list[Any]) -> None:
    found = reach_of({}).units_behind(log_end)
    assert found is not None
    rows = [(*queue, numbers.tolist(), places.tolist(), set(sizes.tolist())) for queue, numbers, places, sizes in found]
    assert rows == [(*row, {50}) for row in behind]


def test_a_reader_has_all_units_of_a_queue_or_those_from_the_first_that_a_broker_finds() -> None:
    log_offsets, sizes = reach_of({}).entries(("T", 0))
    assert (log_offsets.tolist(), sizes.tolist()) == ([0, 100, 200], [50, 50, 50])
    assert reach_of({}).queues() == [("T", 0), ("U", 3)]


def test_the_first_fault_of_light_queues_and_every_reason_is_a_trap() -> None:
    found = reach_of({})._replace(faults=["no rocksdict"], light_faults=[7, 9])
    assert [trap.code for trap in found.traps()] == ["no-rocksdict", "light-queue-poison-rocksdb"]
    assert "of the record at 7;" in [trap.detail for trap in found.traps()][1]


@pytest.mark.parametrize(("end", "lower"), [(None, 50), (40, 40), (50, 50), (60, 50), (0, 0)])
def test_a_start_goes_by_the_lower_end_of_files_and_database(
    end: int | None, lower: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "_end_beside", lambda opened: end)
    assert start.end_beside(cast(Any, None), 50) == lower
