"""The queues of a database, and those beside files: which of the two gives a queue, and its end on disk."""

from __future__ import annotations

from pathlib import Path
from threading import RLock
from types import SimpleNamespace
from typing import Any

import pytest

from store.files.filesystem import Filesystem
from store.formats.run import Stretch
from store.layout import StoreLayout
from store.opened.database_view import CombinedQueueView, DatabaseQueueView
from store.opened.queue_view import QueueView
from store.structures.queuedb import view as queuedb_view

LIGHT = "%LMQ%a"


def view_of(kind: type[DatabaseQueueView], root: Path, database: object) -> Any:
    """A view whose database is opened: this one, or None for one that cannot be read."""
    view = object.__new__(kind)
    view._layout, view._fs, view._queues = StoreLayout(root), Filesystem(), {}
    view._builder = SimpleNamespace(met={"Met": {1}}, met_from=700)  # type: ignore[assignment]
    view._database, view._is_opened, view._view_lock, view._log = database, True, RLock(), Stretch(0, 900)
    return view


DATABASE = SimpleNamespace(checkpoint=700, newest={("T", 0): None, ("T", 2): None, (LIGHT, 0): None})


def test_a_database_of_which_no_file_is_left_is_still_one(tmp_path: Path) -> None:
    assert view_of(DatabaseQueueView, tmp_path, None)._room is queuedb_view


@pytest.mark.parametrize(("database", "end"), [(DATABASE, 700), (None, -1)])
def test_a_database_has_the_units_before_its_checkpoint(database: object, end: int, tmp_path: Path) -> None:
    assert view_of(DatabaseQueueView, tmp_path, database).end_on_disk("T", 0) == end


def test_a_database_lists_its_queues_and_those_that_the_log_has(tmp_path: Path) -> None:
    view = view_of(DatabaseQueueView, tmp_path, DATABASE)
    assert view.topics() == [LIGHT, "Met", "T"]
    assert [view.queue_ids(topic) for topic in ("T", "Met", "Other")] == [[0, 2], [1], []]
    assert list(view._keys_on_disk()) == [("T", 0), ("T", 2), (LIGHT, 0)]
    assert list(view_of(DatabaseQueueView, tmp_path, None)._keys_on_disk()) == []


@pytest.mark.parametrize(("met_from", "read"), [(900, [700]), (701, [700]), (700, [])])
def test_queues_that_a_database_may_lack_are_looked_for_behind_its_checkpoint(
    met_from: int, read: list[int], tmp_path: Path
) -> None:
    view, found = view_of(DatabaseQueueView, tmp_path, DATABASE), []
    view._builder = SimpleNamespace(met={}, met_from=met_from, newest_records=found.append)
    assert view.queue_ids("T") == [0, 2]
    assert found == read


@pytest.mark.parametrize("has_files", [False, True])
@pytest.mark.parametrize("topic", ["T", LIGHT])
def test_a_light_queue_without_files_is_that_of_the_database(topic: str, has_files: bool, tmp_path: Path) -> None:
    view = view_of(CombinedQueueView, tmp_path, DATABASE)
    if has_files:
        view._layout.queue_folder(topic, 0).mkdir(parents=True)
    is_databases = topic == LIGHT and not has_files
    assert view._view_of((topic, 0)) is (DatabaseQueueView if is_databases else QueueView)
    assert view._alone == ({(LIGHT, 0)} if topic == "T" or not has_files else set())


def test_a_database_that_cannot_be_read_has_no_queue_alone(tmp_path: Path) -> None:
    view = view_of(CombinedQueueView, tmp_path, None)
    assert (view._alone, view._view_of((LIGHT, 0))) == (set(), QueueView)


def test_topics_and_ids_of_both_come_once_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(CombinedQueueView, tmp_path, None)
    view.__dict__["_alone"] = {("%LMQ%b", 0), ("%LMQ%a", 3), ("%LMQ%a", 1)}
    monkeypatch.setattr(QueueView, "topics", lambda self: ["T", "%LMQ%a"])
    monkeypatch.setattr(QueueView, "queue_ids", lambda self, topic: [2, 1])
    monkeypatch.setattr(QueueView, "_keys_on_disk", lambda self: iter([("T", 0)]))
    assert view.topics() == ["%LMQ%a", "%LMQ%b", "T"]
    assert [view.queue_ids(topic) for topic in ("T", "%LMQ%a")] == [[1, 2], [1, 2, 3]]
    assert list(view._keys_on_disk()) == [("T", 0), ("%LMQ%a", 1), ("%LMQ%a", 3), ("%LMQ%b", 0)]


def test_damage_is_described_in_the_logs_order(monkeypatch: pytest.MonkeyPatch) -> None:
    damages = {at: SimpleNamespace(describe=lambda at=at: f"damage at {at}") for at in (70, 5, 600)}
    view = object.__new__(QueueView)
    view._builder = SimpleNamespace(damages=damages)  # type: ignore[assignment]
    monkeypatch.setattr(QueueView.__mro__[1], "describe_findings", lambda self: ["others"])
    passed = [f"passed over while queues were built from the log: damage at {at}" for at in (5, 70, 600)]
    assert view.describe_findings() == [*passed, "others"]
