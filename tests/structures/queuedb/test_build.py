"""The end of a database that is built again: its checkpoint, and the ends of queues whose messages have expired."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store.errors import DamagedFile
from store.structures.queuedb import build
from store.structures.queuedb.build import RocksdbQueues
from store.structures.queuedb.keys import Place

NEWEST = {("T", 0): Place(99, 7), ("T", 1): Place(100, 8), ("U", 0): Place(0, 9)}


def finished(
    monkeypatch: pytest.MonkeyPatch, end: int, horizon: int | None, log_start: int, *, is_lost: bool = False
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
    ("log_start", "kept"), [(0, {}), (1, {("T", 0): Place(0, 6)}), (100, {("T", 0): Place(99, 6)})]
)
def test_consumers_say_the_ends_that_a_lost_database_had(
    log_start: int, kept: dict[Any, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumed = {("T", 0): 7, ("T", 1): 8, ("U", 0): 9}
    monkeypatch.setattr(build, "consumed_ends", lambda folder, fs: consumed)
    monkeypatch.setattr(build, "topic_queues", lambda folder, fs: {("T", 0), ("V", 2), ("T", 1)})
    told = (
        "lost: of queues whose messages have all expired the ends are lost; "
        "T/0 goes on at 7, the largest offset of a consumer; U/0 goes on at 9, the largest offset of a consumer; "
        "1 queue of topics.json may have been one, and begin at 0: V/2"
    )
    assert finished(monkeypatch, 500, None, log_start, is_lost=True) == (500, kept, [told] if kept else [])


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
