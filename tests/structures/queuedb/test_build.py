"""The end of a database that is built again: its checkpoint, and the ends of queues whose messages have expired."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store.errors import DamagedFile
from store.formats.message import RECORD_MIN_SIZE
from store.structures.consumequeue import lost_ends
from store.structures.queuedb import build
from store.structures.queuedb.build import RocksdbQueues
from store.structures.queuedb.keys import Place

NEWEST = {("T", 0): Place(99, 7), ("T", 1): Place(100, 8), ("U", 0): Place(0, 9)}


def finished(
    monkeypatch: pytest.MonkeyPatch,
    end: int,
    horizon: int | None,
    log_start: int,
    *,
    is_lost: bool = False,
    is_alone: bool = False,
) -> tuple[int | None, dict[Any, Place], list[str]]:
    """The new database's checkpoint, the kept ends, and the findings; all queues but U are in scope."""

    def open_database(*arguments: object) -> Any:
        if is_lost:
            raise DamagedFile("lost")
        return SimpleNamespace(newest=NEWEST)

    monkeypatch.setattr(build, "open_database", open_database)
    found: list[Any] = []
    queues = object.__new__(RocksdbQueues)
    for name, value in {
        "_old": Path(), "_config_folder": Path(), "_fs": None, "_end": end, "_horizon": horizon, "findings": [],
        "_is_alone": is_alone,
        "_scope": SimpleNamespace(wants=lambda queue: queue[0] == "T"),
        "_writer": SimpleNamespace(keep_ends=found.append, finish=found.append, queues={("T", 1)}),
    }.items():  # fmt: skip
        setattr(queues, name, value)
    queues.finish(log_start)
    kept, checkpoint = found
    return checkpoint, kept, queues.findings


@pytest.mark.parametrize(
    ("end", "horizon", "checkpoint"), [(-1, None, None), (0, None, 0), (500, None, 500), (500, 0, None), (-1, 0, None)]
)
def test_a_database_of_the_whole_log_has_a_checkpoint(
    end: int, horizon: int | None, checkpoint: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert finished(monkeypatch, end, horizon, 0) == (checkpoint, {}, [])


@pytest.mark.parametrize(
    ("log_start", "kept"),
    [(0, []), (99, []), (100, [("T", 0)]), (101, [("T", 0), ("T", 1)])],
)
def test_a_queue_whose_newest_record_is_before_the_log_keeps_its_end(
    log_start: int, kept: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert finished(monkeypatch, 500, None, log_start)[1] == {queue: NEWEST[queue] for queue in kept}


@pytest.mark.parametrize(
    ("log_start", "kept"),
    [
        (0, None),
        # No room for seven records before the log.
        (7 * RECORD_MIN_SIZE - 1, {}),
        (7 * RECORD_MIN_SIZE, {("T", 0): Place(7 * RECORD_MIN_SIZE - 1, 6)}),
    ],
)
def test_consumers_say_the_ends_that_a_lost_database_had(
    log_start: int, kept: dict[Any, Place] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumed = {("T", 0): 7, ("T", 1): 8, ("U", 0): 9}
    monkeypatch.setattr(lost_ends, "known_ends", lambda folder, fs: consumed)
    monkeypatch.setattr(build, "topic_queues", lambda folder, fs: {("T", 0), ("V", 2), ("T", 1)})
    told = "lost: of queues whose messages have all expired the ends are lost; "
    if kept:
        told += "T/0 goes on at 7, the largest offset of a consumer; "
        told += "1 queue of topics.json may have been one, and begin at 0: V/2"
    else:
        told += "2 queues of topics.json may have been one, and begin at 0: T/0, V/2"
    found = [] if kept is None else [told]
    assert finished(monkeypatch, 500, None, log_start, is_lost=True) == (500, kept or {}, found)


@pytest.mark.parametrize(("is_alone", "is_kept"), [(True, True), (False, False)])
def test_consumers_say_the_end_of_a_queue_that_a_sound_database_lacks(
    is_alone: bool, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_ends, "known_ends", lambda folder, fs: {("T", 0): 70, ("T", 1): 80, ("T", 2): 7})
    log_start = 100 * RECORD_MIN_SIZE
    said = (
        "T, queue 2: its entries are lost, and its messages have expired; it goes on at 7, the largest offset of a "
        "consumer"
    )
    kept = {queue: NEWEST[queue] for queue in (("T", 0), ("T", 1))}
    lost = {("T", 2): Place(log_start - 1, 6)} if is_kept else {}
    found = finished(monkeypatch, 500, None, log_start, is_alone=is_alone)
    assert found == (500, kept | lost, [said] if is_kept else [])


@pytest.mark.parametrize(
    ("horizon", "put", "end"),
    [
        (None, [("T", [0, 100, 200])], 300),
        (300, [("T", [0, 100, 200])], 300),
        (200, [("T", [0, 100])], 300),
        (101, [("T", [0, 100])], 300),
        (100, [("T", [0])], 300),
    ],
)
def test_queues_in_scope_get_the_units_before_the_place_that_dispatch_had_reached(
    horizon: int | None, put: list[Any], end: int
) -> None:
    units = np.array([(0,), (100,), (200,)], [("log_offset", np.int64)])
    made = SimpleNamespace(end=end, light=SimpleNamespace(faults=[7]), parts=[(("T", 0), units), (("U", 0), units)])
    found: list[Any] = []
    queues = object.__new__(RocksdbQueues)
    for name, value in {
        "_maker": SimpleNamespace(units_of=lambda run: made), "_end": -1, "_horizon": horizon, "light_faults": [1],
        "_scope": SimpleNamespace(wants=lambda queue: queue[0] == "T"),
        "_writer": SimpleNamespace(
            put_units=lambda queue, units: found.append((queue[0], units["log_offset"].tolist()))
        ),
    }.items():  # fmt: skip
        setattr(queues, name, value)
    queues.dispatch(cast(Any, None))
    assert (found, queues._end, queues.light_faults) == (put, end, [1, 7])
