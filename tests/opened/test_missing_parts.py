"""A store that has lost a part of its queues or its index is read as the whole store is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from store import open_store
from tests.cli.running import rmqctl
from tests.support.missing_parts import COUNT, LOST, QUEUES
from tests.support.quickly import one_of
from tests.support.snapshots import snapshot
from tests.support.stores import SMALL, make_store, stored_messages


@pytest.fixture(scope="module", params=[False, True], ids=["closed", "crashed"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    root = make_store(tmp_path_factory.mktemp("whole") / "store", COUNT, queues=QUEUES)
    if request.param:
        (root / "abort").touch()
    return root, answers(root)


def answers(root: Path) -> dict[str, Any]:
    """What every reading method says, each in a view of its own so that none helps another."""
    found: dict[str, Any] = {}
    for queue_id in range(QUEUES):
        with open_store(root, settings=SMALL) as store:
            messages = [store.get("T", queue_id, offset) for offset in (0, 1, 20, 79, 80, 81)]
            found[f"get {queue_id}"] = [(one.status, one.next_offset, one.messages) for one in messages]
        with open_store(root, settings=SMALL) as store:
            found[f"offsets {queue_id}"] = store.min_offset("T", queue_id), store.max_offset("T", queue_id)
    for key in ("all", "k0", "k7", f"k{COUNT - 1}", "U100", "no key"):
        with open_store(root, settings=SMALL) as store:
            found[f"query {key}"] = store.query("T", key, 64).messages
    with open_store(root, settings=SMALL) as store:
        found["queues"] = [(one.topic, one.queue_id, one.min_offset, one.max_offset) for one in store.queues()]
    with open_store(root, settings=SMALL) as store:
        found["all"] = stored_messages(store)
    return found


@pytest.mark.parametrize("lost", one_of(9, LOST))
def test_a_store_without_a_part_gives_the_answers_of_the_whole(
    lost: str, whole: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    root = shutil.copytree(whole[0], tmp_path / "store")
    LOST[lost](root)
    before = snapshot(root)
    found = answers(root)
    assert [name for name in whole[1] if found[name] != whole[1][name]] == []
    assert snapshot(root) == before


@pytest.mark.parametrize("lost", ["a queue's folder", "a queue's last file", "a queue's middle file"])
def test_a_reader_is_told_what_was_built(lost: str, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT, queues=QUEUES)
    LOST[lost](root)
    told: list[str] = []
    with open_store(root, note=told.append) as store:
        store.get("T", 1, 0)
        assert store.notes == told
    assert any("T, queue 1" in note and "built from the log" in note for note in told)
    with open_store(root) as store:
        store.get("T", 0, 0)
        assert store.notes == []


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "name",
    [
        "consumequeue/.DS_Store",
        "consumequeue/T/notes",
        "consumequeue/T/1/x.bak",
        "index/.DS_Store",
        "index/old/20260101",
    ],
)
def test_reading_goes_on_beside_a_foreign_name(name: str, whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    root = shutil.copytree(whole[0], tmp_path / "store")
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("not the broker's")
    assert answers(root) == whole[1]


@pytest.mark.parametrize("lost", ["a queue's folder", "a topic's folder", "consumequeue"])
def test_get_waits_for_the_log_before_it_speaks_of_queues_that_are_not_there(lost: str, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT, queues=QUEUES)
    LOST[lost](root)
    run = rmqctl("get", "T", "--queue", 1, store=root)
    assert run.code == 0
    assert "T, queue 1: 80 entries are missing, and built from the log" in run.err
    assert "has no queue" not in run.err
    assert "no topic" not in run.err
    unknown = rmqctl("get", "T", "--queue", 7, store=root)
    assert "T has no queue 7; it has 0, 1, 2" in unknown.err
