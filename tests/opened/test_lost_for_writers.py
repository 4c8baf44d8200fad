"""A writer goes on at the right queue offsets when a part of the store is lost, and refuses a log that is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store import open_store
from store.errors import NotAStore
from tests.cli.running import rmqctl
from tests.opened.test_missing_parts import COUNT, LOST, QUEUES
from tests.support.snapshots import contents, snapshot
from tests.support.stores import SMALL, make_store, recover, stored_messages, text_message

OF_QUEUES = [name for name in LOST if "index" not in name and "part of" not in name]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", COUNT, queues=QUEUES)


@pytest.mark.parametrize("lost", OF_QUEUES)
def test_a_put_goes_on_at_the_right_queue_offset(lost: str, root: Path) -> None:
    LOST[lost](root)
    with open_store(root, read_only=False) as store:
        for queue_id in range(QUEUES):
            assert store.put(text_message(COUNT, queue_id=queue_id)).queue_offset == COUNT // QUEUES
    with open_store(root) as store:
        offsets = {place: [offset for offset, _ in found] for place, found in stored_messages(store).items()}
        assert store.notes == []
    assert offsets == {("T", queue_id): list(range(COUNT // QUEUES + 1)) for queue_id in range(QUEUES)}


@pytest.mark.parametrize("mode", ["normal", "abnormal"])
@pytest.mark.parametrize("lost", OF_QUEUES)
def test_a_recovery_brings_lost_queue_files_back_byte_for_byte(lost: str, mode: str, root: Path) -> None:
    before = contents(root / "consumequeue")
    LOST[lost](root)
    recover(root, mode=mode, settings=SMALL)
    assert contents(root / "consumequeue") == before


@pytest.mark.parametrize("words", [["put", "T", "x"], ["recover", "--yes"], ["rebuild", "--yes"]], ids=lambda w: w[0])
def test_an_empty_log_beside_filled_queues_is_refused_unless_forced(words: list[str], root: Path) -> None:
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").mkdir()
    before = snapshot(root, without=("lock",))
    refused = rmqctl(*words, store=root)
    assert refused.code == 4
    assert f"{QUEUES} queues" in refused.err
    assert "--force-empty-log" in refused.err
    assert snapshot(root, without=("lock",)) == before
    assert rmqctl(*words, "--force-empty-log", store=root).code == 0


@pytest.mark.parametrize("words", [["truncate-dirty", "--yes"], ["checkpoint", "rewrite", "--yes"]])
def test_what_rests_on_the_log_refuses_an_empty_one_beside_filled_queues(words: list[str], root: Path) -> None:
    shutil.rmtree(root / "commitlog")
    before = snapshot(root, without=("lock",))
    assert rmqctl(*words, store=root).code == 4
    assert snapshot(root, without=("lock",)) == before


def test_a_reader_is_told_that_the_log_is_empty_beside_filled_queues(root: Path) -> None:
    shutil.rmtree(root / "commitlog")
    run = rmqctl("get", "T", store=root)
    assert run.code == 1
    assert f"the commit log is empty, but consumequeue/ holds files of {QUEUES} queues" in run.err


def test_the_library_names_the_queues_beside_an_empty_log(root: Path) -> None:
    shutil.rmtree(root / "commitlog")
    with pytest.raises(NotAStore, match="files of 3 queues"):
        open_store(root, read_only=False)


def test_a_size_that_nothing_tells_is_named(root: Path) -> None:
    LOST["all that is derived"](root)
    run = rmqctl("recover", "--dry-run", store=root)
    assert "mappedFileSizeConsumeQueue=6000000 is assumed" in run.err
    told = rmqctl("--set", "mappedFileSizeConsumeQueue=400", "recover", "--dry-run", store=root)
    assert "mappedFileSizeConsumeQueue" not in told.err
    assert "maxIndexNum=20000000 is assumed" in told.err
