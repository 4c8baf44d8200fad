"""check beside a writer: what the writer is just doing is no finding, and damage before it still is one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from store import MessageStore, WritableStore, open_store
from store.files.store_reader import StoreReader
from store.formats.queue_unit import UNIT_SIZE
from store.structures.findings import BAD_CRC
from store.structures.index.index_service import IndexService
from store.verbs.check.check import check_files
from store.verbs.check.options import Progress
from tests.support.stores import SMALL, make_store, text_message
from tests.support.threads import end_threads


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[MessageStore]:
    """A store of 60 messages that is open for writing."""
    root = make_store(tmp_path / "s", 60)
    with open_store(root, settings=SMALL, read_only=False) as store:
        yield store


def check_it(tmp_path: Path, progress: Progress | None = None) -> list[str]:
    return [finding.kind for finding in check_files(StoreReader(str(tmp_path / "s")), progress=progress)]


def test_a_check_beside_a_writer_names_the_log_offset_up_to_which_it_looks(
    writer: MessageStore, tmp_path: Path
) -> None:
    progress = Progress()
    assert check_it(tmp_path, progress) == []
    assert progress.horizon is not None
    assert 0 < progress.horizon < writer.max_log_offset


@pytest.mark.turns(3)
def test_puts_during_checks_are_no_findings(writer: MessageStore, tmp_path: Path) -> None:
    stop = threading.Event()

    def put() -> None:
        number = 60
        while not stop.wait(0.002):
            assert writer.put(text_message(number, queue_id=number % 5)).is_ok  # type: ignore[attr-defined]
            number += 1

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    try:
        assert [check_it(tmp_path) for _ in range(10)] == [[]] * 10
    finally:
        stop.set()
        end_threads(thread)


def test_a_run_that_has_not_filled_all_its_queues_yet_is_no_finding(
    writer: MessageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(writer, WritableStore)
    for number in range(60, 66):
        assert writer.put(text_message(number, queue_id=number % 3)).is_ok
    writer.catch_up()
    path = sorted((tmp_path / "s/consumequeue/T/0").iterdir())[-1]
    filled = path.read_bytes()
    # The newest unit of queue 2 is there, and queue 0 lacks its last.
    path.write_bytes(filled[:UNIT_SIZE] + bytes(len(filled) - UNIT_SIZE))
    monkeypatch.setattr("store.verbs.check.writer.sleep", lambda seconds: path.write_bytes(filled))
    assert check_it(tmp_path) == []


@pytest.mark.leaves_damage
def test_damage_is_found_beside_a_writer(writer: MessageStore, tmp_path: Path) -> None:
    segment = tmp_path / "s" / "commitlog" / f"{0:020d}"
    with segment.open("r+b") as file:
        file.seek(90)
        file.write(b"\xff\xfe")
    assert check_it(tmp_path) == [BAD_CRC]


def test_without_a_writer_the_whole_log_is_checked(tmp_path: Path) -> None:
    make_store(tmp_path / "s", 60)
    progress = Progress()
    assert (check_it(tmp_path, progress), progress.horizon) == ([], None)


@pytest.mark.leaves_damage  # an index that gets no entries
def test_entries_that_the_writer_has_still_to_put_are_no_finding(
    writer: WritableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IndexService, "dispatch", lambda *_: None)
    for number in range(60, 80):
        assert writer.put(text_message(number)).is_ok
    writer.catch_up()
    assert check_it(tmp_path) == []
