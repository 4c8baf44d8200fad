"""An index that has lost files or parts of them is built again by recover, truncate-dirty and put."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from store import check, open_store
from tests.cli.running import rmqctl
from tests.opened.test_missing_parts import COUNT, LOST, QUEUES
from tests.support.stores import SMALL, make_store, recover, text_message, truncate

PARTS = [name for name in LOST if "index" in name]
# What a crash makes of the newest file is not known from the others: a broker takes its last record once more.
OLDER_FILES = [name for name in PARTS if name not in ("the index", "the last index file")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("whole") / "store", COUNT, queues=QUEUES)


def lose(part: str, whole: Path, tmp_path: Path) -> Path:
    root = shutil.copytree(whole, tmp_path / "store")
    LOST[part](root)
    return root


def index_bytes(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


@pytest.mark.parametrize("part", PARTS)
def test_recover_brings_the_index_back_byte_for_byte(part: str, whole: Path, tmp_path: Path) -> None:
    root = lose(part, whole, tmp_path)
    change, _ = recover(root, settings=SMALL)
    assert index_bytes(root) == index_bytes(whole)
    assert any("keys are built from the log" in remark for remark in change.remarks)
    assert [row["difference"] for row in change.facts["differs_from_broker"]] == ["lost-index"]


@pytest.mark.parametrize("part", PARTS)
def test_truncate_dirty_brings_the_index_back_byte_for_byte(part: str, whole: Path, tmp_path: Path) -> None:
    root = lose(part, whole, tmp_path)
    truncate(root, settings=SMALL)
    assert index_bytes(root) == index_bytes(whole)


@pytest.mark.parametrize("part", PARTS)
def test_put_brings_the_index_back_and_says_so(part: str, whole: Path, tmp_path: Path) -> None:
    root = lose(part, whole, tmp_path)
    with open_store(root, settings=SMALL, read_only=False) as store:
        assert store.put(text_message(COUNT)).is_ok
        assert any("lost" in note and "built from the log" in note for note in store.notes)
    assert list(check(root)) == []


@pytest.mark.parametrize("part", OLDER_FILES)
def test_after_a_crash_the_files_before_the_unflushed_ones_are_missed(part: str, whole: Path, tmp_path: Path) -> None:
    root = lose(part, whole, tmp_path)
    (root / "abort").touch()
    recover(root, settings=SMALL, keep_index=True)
    assert index_bytes(root) == index_bytes(whole)


def test_a_whole_index_stays_as_it_is(whole: Path, tmp_path: Path) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    change, _ = recover(root, settings=SMALL)
    assert change.is_empty


def test_expired_records_are_no_lost_index_file(whole: Path, tmp_path: Path) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    sorted((root / "commitlog").iterdir())[0].unlink()
    sorted((root / "index").iterdir())[0].unlink()
    change, _ = recover(root, settings=SMALL)
    assert not any("index" in remark for remark in change.remarks)


def test_records_without_keys_are_no_lost_index_file(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    with open_store(root, settings=SMALL, read_only=False) as store:
        message = dataclasses.replace(text_message(10), properties=b"")
        assert all(store.put(message).is_ok for _ in range(50))
    change, _ = recover(root, settings=SMALL)
    assert change.is_empty


def test_the_command_says_what_was_lost(whole: Path, tmp_path: Path) -> None:
    root = lose("a middle index file", whole, tmp_path)
    run = rmqctl("recover", "--yes", store=root)
    assert "an index file was lost, and the index is built anew" in run.err
    assert rmqctl("check", store=root).code == 0
