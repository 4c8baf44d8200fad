"""clean-expired, truncate-dirty and checkpoint show answer for a store with a lost part as for the whole one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from store import check, open_store
from store.structures.findings import LOST_INDEX, STALE_TAIL
from tests.cli.running import rmqctl
from tests.support.missing_parts import COUNT, LOST, QUEUES
from tests.support.stores import SMALL, make_store, recover, stored_messages, text_message

OF_QUEUES = [name for name in LOST if "index" not in name and "part of" not in name]
SIZES = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
CLEAN = ["clean-expired", "--force", "--reserved-hours", "0", "--now", "2099-01-01"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_store(tmp_path_factory.mktemp("whole") / "store", COUNT, queues=QUEUES)
    (root / "config").mkdir()
    offsets = {"T@group": {str(queue_id): 5 for queue_id in range(QUEUES)}}
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    return root


def copy(whole: Path, tmp_path: Path, name: str = "store") -> Path:
    return shutil.copytree(whole, tmp_path / name)


def kinds(root: Path) -> set[str]:
    return {finding.kind for finding in check(root)}


def answer(root: Path, *words: object) -> Any:
    run = rmqctl(*SIZES, *words, "--format", "json", store=root)
    assert run.code == 0, run.err
    return run.json


@pytest.mark.turns(3)
@pytest.mark.parametrize("lost", LOST)
def test_checkpoint_show_answers_as_for_the_whole_store(lost: str, whole: Path, tmp_path: Path) -> None:
    root = copy(whole, tmp_path)
    expected = answer(root, "checkpoint", "show")
    LOST[lost](root)
    assert answer(root, "checkpoint", "show") == expected


def test_checkpoint_show_says_what_it_built(whole: Path, tmp_path: Path) -> None:
    root = copy(whole, tmp_path)
    LOST["consumequeue"](root)
    assert "T, queue 1: 80 entries are lost, and rebuilt from the log" in rmqctl("checkpoint", "show", store=root).err


def test_checkpoint_show_builds_nothing_of_a_whole_store(whole: Path) -> None:
    assert rmqctl("checkpoint", "show", store=whole).err == ""


@pytest.mark.turns(3)
@pytest.mark.parametrize("lost", OF_QUEUES)
def test_clean_expired_names_the_same_unconsumed_messages(lost: str, whole: Path, tmp_path: Path) -> None:
    root = copy(whole, tmp_path)
    expected = answer(root, *CLEAN, "--dry-run")
    assert expected["unconsumed"]
    LOST[lost](root)
    found = answer(root, *CLEAN, "--dry-run")
    assert found["unconsumed"] == expected["unconsumed"]
    assert found["lost"] == expected["lost"]


@pytest.mark.turns(3)
@pytest.mark.parametrize("lost", OF_QUEUES)
def test_queue_offsets_go_on_after_clean_expired_of_a_store_with_lost_queues(
    lost: str, whole: Path, tmp_path: Path
) -> None:
    root, twin = copy(whole, tmp_path), copy(whole, tmp_path, "twin")
    LOST[lost](root)
    for one in (root, twin):
        answer(one, *CLEAN, "--yes")
    with open_store(root) as store, open_store(twin) as expected:
        assert stored_messages(store) == stored_messages(expected)
        assert store.queues() == expected.queues()
    assert kinds(root) - {LOST_INDEX} == set()
    with open_store(root, read_only=False) as writer:
        for queue_id in range(QUEUES):
            assert writer.put(text_message(COUNT, queue_id=queue_id)).queue_offset == COUNT // QUEUES


def test_a_queue_whose_messages_all_expire_keeps_its_next_queue_offset(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as store:
        for number in range(7):
            store.put(text_message(number, queue_id=9))
        for number in range(COUNT):
            store.put(text_message(number))
    shutil.rmtree(root / "consumequeue/T/9")
    answer(root, *CLEAN, "--yes")
    assert rmqctl("check", store=root).code == 0
    with open_store(root, read_only=False) as store:
        assert store.put(text_message(0, queue_id=9)).queue_offset == 7


@pytest.mark.turns(6)
@pytest.mark.parametrize("lost", OF_QUEUES)
@pytest.mark.parametrize("cut", [(), ("--offset", "16571")], ids=["at the valid end", "at an offset"])
def test_truncate_dirty_builds_what_is_lost_and_cuts_it_as_well(
    lost: str, cut: tuple[str, ...], whole: Path, tmp_path: Path
) -> None:
    root, twin = copy(whole, tmp_path), copy(whole, tmp_path, "twin")
    LOST[lost](root)
    found, expected = (answer(one, "truncate-dirty", *cut, "--yes") for one in (root, twin))
    assert found["lost"] == expected["lost"]
    assert found["log_end"] == expected["log_end"]
    with open_store(root) as store, open_store(twin) as reader:
        assert stored_messages(store) == stored_messages(reader)
        assert store.notes == []
    assert kinds(root) == kinds(twin)


@pytest.mark.turns(2)
@pytest.mark.parametrize("lost", ["the index", "all that is derived"])
@pytest.mark.parametrize(
    "words",
    [
        ("recover", "--normal"),
        ("recover", "--abnormal"),
        ("truncate-dirty",),
        ("truncate-dirty", "--offset", "16571"),
    ],
    ids=" ".join,
)
def test_an_index_of_which_every_file_is_lost_is_built_again(
    lost: str, words: tuple[str, ...], whole: Path, tmp_path: Path
) -> None:
    root = copy(whole, tmp_path)
    (root / "abort").touch()
    LOST[lost](root)
    assert rmqctl(*SIZES, *words, "--yes", store=root).code == 0
    assert kinds(root) - {STALE_TAIL} == set()
    recover(root, settings=SMALL)
    assert recover(root, settings=SMALL)[0].rows() == []


@pytest.mark.turns(2)
@pytest.mark.parametrize("words", [["recover", "--yes"], ["put", "T", "x"], ["truncate-dirty", "--yes"]])
def test_a_changing_command_names_the_command_that_mends_a_queue_file_of_a_wrong_size(
    words: list[str], whole: Path, tmp_path: Path
) -> None:
    root = copy(whole, tmp_path)
    LOST["a part of a queue file"](root)
    refused = rmqctl(*words, store=root)
    assert refused.code == 4
    assert "`rmqctl rebuild --queues --topic T --queue 1` rebuilds the queue" in refused.err
    assert rmqctl("rebuild", "--queues", "--topic", "T", "--queue", 1, "--yes", store=root).code == 0
    assert rmqctl(*words, store=root).code == 0
