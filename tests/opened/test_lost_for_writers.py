"""A writer goes on at the right queue offsets when a part of the store is lost, and refuses a log that is gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from store import open_store
from store.errors import NotAStore
from tests.cli.running import rmqctl
from tests.support.missing_parts import COUNT, LOST, QUEUES
from tests.support.snapshots import contents, snapshot
from tests.support.stores import SMALL, make_store, recover, stored_messages, text_message

OF_QUEUES = [name for name in LOST if "index" not in name and "part of" not in name]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", COUNT, queues=QUEUES)


@pytest.mark.turns(2)
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


@pytest.mark.turns(3)
@pytest.mark.parametrize("mode", ["normal", "abnormal"])
@pytest.mark.parametrize("lost", OF_QUEUES)
def test_a_recovery_brings_lost_queue_files_back_byte_for_byte(lost: str, mode: str, root: Path) -> None:
    before = contents(root / "consumequeue")
    LOST[lost](root)
    recover(root, mode=mode, settings=SMALL)
    assert contents(root / "consumequeue") == before


FORCED = [["put", "T", "x"], ["recover", "--yes"], ["rebuild", "--yes"], ["truncate-dirty", "--yes"]]


@pytest.mark.turns(2)
@pytest.mark.parametrize("has_folder", [True, False])
@pytest.mark.parametrize("words", FORCED, ids=lambda words: words[0])
def test_an_empty_log_beside_filled_queues_is_refused_unless_forced(
    words: list[str], has_folder: bool, root: Path
) -> None:
    shutil.rmtree(root / "commitlog")
    if has_folder:
        (root / "commitlog").mkdir()
    before = snapshot(root, without=("lock",))
    refused = rmqctl(*words, store=root)
    assert refused.code == 4
    assert f"{QUEUES} queues" in refused.err
    assert "--force-empty-log" in refused.err
    assert snapshot(root, without=("lock",)) == before
    forced = rmqctl(*words, "--force-empty-log", store=root)
    assert f"{COUNT} messages" in forced.out + forced.err
    assert forced.code == (1 if words[0] == "put" else 0)
    assert rmqctl("check", store=root).code == 0


def test_a_simulated_start_on_an_empty_log_loses_what_its_queues_show(root: Path) -> None:
    shutil.rmtree(root / "commitlog")
    run = rmqctl("simulate", store=root)
    assert run.code == 1
    assert f"loses {COUNT} messages" in run.out


def test_a_torn_checkpoint_of_an_empty_store_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "checkpoint").write_bytes(b"torn")
    assert rmqctl("checkpoint", "rewrite", "--yes", store=tmp_path).code == 0
    assert rmqctl("check", store=tmp_path).code == 0


def test_a_rebuilt_index_is_promised_no_more_than_it_holds(root: Path) -> None:
    shutil.rmtree(root / "index")
    # One file of the default size holds all keys, and is not full.
    assert rmqctl("rebuild", "--index", "--yes", store=root).code == 0
    assert rmqctl("check", store=root).code == 0


def test_a_rebuild_that_ends_at_damage_says_so_in_its_exit_code(root: Path) -> None:
    with min((root / "commitlog").iterdir()).open("r+b") as segment:
        segment.seek(100)
        segment.write(b"damaged")
    run = rmqctl("rebuild", "--queues", "--dry-run", store=root)
    assert run.code == 1
    assert "built up to log offset" in run.err


def test_recover_says_how_to_keep_the_keys_that_it_gives_up(root: Path) -> None:
    (root / "abort").touch()
    (root / "checkpoint").write_bytes(bytes(4096))
    notes = {words: rmqctl("recover", *words, "--dry-run", store=root).err for words in ((), ("--keep-index",))}
    kept = rmqctl("recover", "--dry-run", "--format", "json", store=root)
    lost = json.loads(kept.out)["lost_index_keys"]
    assert ("--keep-index rebuilds them" in notes[()]) == bool(lost)
    assert "rebuilds them" not in notes["--keep-index",]


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


@pytest.mark.parametrize("words", [("recover", "--dry-run"), ("rebuild", "--dry-run"), ("salvage", "--to")])
def test_a_size_that_nothing_tells_is_named(words: tuple[str, ...], root: Path, tmp_path: Path) -> None:
    LOST["all that is derived"](root)
    targets = [tmp_path / "one", tmp_path / "other"] if words[0] == "salvage" else ["--dry-run"] * 2
    run = rmqctl(*words, *targets[:1], store=root)
    assert "mappedFileSizeConsumeQueue=6000000 is assumed" in run.err
    told = rmqctl("--set", "mappedFileSizeConsumeQueue=400", *words, *targets[1:], store=root)
    assert "mappedFileSizeConsumeQueue" not in told.err
    assert "maxIndexNum=20000000 is assumed" in told.err


def test_a_rebuild_of_one_kind_names_no_size_of_the_other(root: Path) -> None:
    LOST["all that is derived"](root)
    texts = [rmqctl("rebuild", kind, "--dry-run", store=root).err for kind in ("--queues", "--index")]
    assert ["mappedFileSizeConsumeQueue=" in text for text in texts] == [True, False]
    assert ["maxIndexNum=" in text for text in texts] == [False, True]
