"""Up to where a store is dispatched that a writer holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from store.files.store_reader import StoredFile, StoreReader
from store.formats.queue_unit import PRE_BLANK, UNIT
from store.verbs.check import writer


@pytest.mark.parametrize(
    ("queues", "horizon"),
    [
        ([], 0),
        ([[]], 0),
        ([[(300, 50, 0), (0, 0, 0)]], 300),
        ([[(300, 50, 0), PRE_BLANK]], 300),
        ([[(300, 50, 0), (400, 0, 0), (-1, 50, 0)]], 300),
        ([[(300, 50, 0), (400, 1, 0)]], 400),
        ([[(500, 50, 0), (300, 50, 0)]], 300),
        ([[(1 << 60, 50, 0), (300, 50, 0), (0, 0, 0)]], 300),
        ([[(0, 50, 0)]], 0),
        ([[(300, 50, 0)], [(500, 50, 0)], [(200, 50, 0)]], 500),
    ],
)
def test_a_store_is_dispatched_up_to_the_newest_unit_of_any_queue(
    queues: list[list[tuple[int, int, int]]], horizon: int
) -> None:
    data = {str(number): b"".join(UNIT.pack(*unit) for unit in units) for number, units in enumerate(queues)}
    listings: Any = [SimpleNamespace(files=[StoredFile(path, 0, 0, 0)]) for path in data]
    files: Any = SimpleNamespace(salvage_written=lambda path, *_: SimpleNamespace(buffer=memoryview(data[path])))
    assert writer.horizon_of(files, [*listings, SimpleNamespace(files=[])]) == horizon


def test_of_many_queues_the_newest_file_of_each_of_the_sixteen_written_to_last_is_read() -> None:
    read: list[str] = []

    def salvage_written(path: str, *_: int) -> Any:
        read.append(path)
        return SimpleNamespace(buffer=memoryview(UNIT.pack(int(path), 50, 0)))

    listings: Any = [
        SimpleNamespace(files=[StoredFile("9999", 0, 0, 0), StoredFile(str(number), 0, 0, number)])
        for number in range(30)
    ]
    files: Any = SimpleNamespace(salvage_written=salvage_written)
    assert writer.horizon_of(files, reversed(listings)) == 29
    assert sorted(map(int, read)) == [*range(14, 30)]


def test_the_horizon_is_from_before_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(writer, "sleep", slept.append)
    monkeypatch.setattr(writer, "horizon_of", lambda files, listings: len(slept))
    assert (writer.settled_horizon(StoreReader("/store"), []), slept) == (0, [writer.RUN_SECONDS])
