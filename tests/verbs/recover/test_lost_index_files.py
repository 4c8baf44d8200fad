"""An index that has lost files or parts of them is built again by recover, truncate-dirty and put."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from store import check, open_store
from store.formats.run import Run
from store.structures.commitlog.resync import runs_between
from tests.cli.running import rmqctl
from tests.runs.differential import Reference
from tests.support.golden import Golden, copy_store, golden
from tests.support.missing_parts import COUNT, LOST, QUEUES
from tests.support.refstore import COMMAND, needs_refstore
from tests.support.simulating import simulate
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
    assert [row.difference for row in change.report.differs_from_broker] == ["lost-index"]


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


@pytest.mark.parametrize("part", ["the index", "the last index file"])
def test_after_a_crash_the_checkpoint_promises_what_the_index_files_hold(
    part: str, whole: Path, tmp_path: Path
) -> None:
    root = lose(part, whole, tmp_path)
    (root / "abort").touch()
    larger = SMALL | {"maxIndexNum": 10 * COUNT}
    recover(root, settings=larger)
    assert list(check(root)) == []


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
    assert "an index file was lost, and the index is rebuilt" in run.err
    assert rmqctl("check", store=root).code == 0


@pytest.mark.turns(2)
@pytest.mark.parametrize("mode", ["normal", "abnormal"])
@pytest.mark.parametrize("part", PARTS)
def test_after_recover_the_checkpoint_promises_no_more_than_the_new_files_hold(
    part: str, mode: str, whole: Path, tmp_path: Path
) -> None:
    """Where no file tells their size, the new ones are larger and not full."""
    root = lose(part, whole, tmp_path)
    recover(root, mode=mode, settings={**SMALL, "maxIndexNum": 1000} if part == "the index" else SMALL)
    assert list(check(root)) == []


def keyless_store(root: Path) -> Path:
    with open_store(root, settings=SMALL, read_only=False) as store:
        message = dataclasses.replace(text_message(10), properties=b"")
        assert all(store.put(message).is_ok for _ in range(200))
    return root


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The stretches of log that are read for keys; short logs are remembered too."""
    found: list[tuple[int, int]] = []

    def noted(segments: Any, start: int, stop: int, **options: Any) -> Iterator[Run]:
        if start < stop:
            found.append((start, stop))
        return runs_between(segments, start, stop, **options)

    monkeypatch.setattr("store.opened.opened_store.runs_between", noted)
    monkeypatch.setattr("store.opened.verified.WORTH_REMEMBERING_BYTES", 0)
    return found


def test_a_log_without_keys_is_walked_for_a_lost_index_once(walked: list[tuple[int, int]], tmp_path: Path) -> None:
    root = keyless_store(tmp_path / "store")
    ends = []
    for _ in range(3):
        walked.clear()
        with open_store(root, settings=SMALL, read_only=False) as store:
            ends.append((walked[:], store.max_log_offset))
            assert store.put(dataclasses.replace(text_message(10), properties=b"")).is_ok
    assert ends[0][0] == [(0, ends[0][1])]
    assert [read for read, _ in ends[1:]] == [[(before, end)] for (_, before), (_, end) in pairwise(ends)]


@pytest.mark.turns(2)
@pytest.mark.parametrize("part", PARTS)
def test_what_was_verified_hides_no_index_file_that_is_lost_since(
    part: str, walked: list[tuple[int, int]], whole: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    with open_store(root, settings=SMALL, read_only=False):
        assert (root / ".rmqctl/verified.json").exists()
    LOST[part](root)
    recover(root, settings=SMALL)
    assert index_bytes(root) == index_bytes(whole)


def shortened(archive: Golden, place: int, size: int, root: Path) -> tuple[Path, list[bytes]]:
    """A golden store with a short index file, and the index files that a broker makes of them."""
    copy_store(archive.store, root)
    path = sorted((root / "index").iterdir())[place]
    whole = path.stat().st_size
    os.truncate(path, size)
    return root, [data.ljust(whole, b"\0") for data in index_bytes(root)]


SHORT = [0, 20, 41, 3000, 22039]


@pytest.mark.turns(2)
@pytest.mark.parametrize("size", SHORT)
@pytest.mark.parametrize("name", ["normal", "normal5"])
def test_as_a_broker_a_short_index_file_gets_its_full_size(name: str, size: int, tmp_path: Path) -> None:
    archive = golden(name)
    root, expected = shortened(archive, 0, size, tmp_path / "store")
    recover(root, settings=archive.settings, compat=archive.compat, as_broker=True)
    assert index_bytes(root) == expected


@needs_refstore
@pytest.mark.parametrize("size", SHORT)
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("name", ["normal", "aborted", "normal5"])
def test_the_real_store_makes_the_same_of_short_index_files(name: str, place: int, size: int, tmp_path: Path) -> None:
    archive = golden(name)
    root, _ = shortened(archive, place, size, tmp_path / "store")
    ours = copy_store(root, tmp_path / "ours")
    assert Reference([COMMAND], archive.compat).load(root, archive, "abort")["loadOk"]
    recover(ours, settings=archive.settings, compat=archive.compat, as_broker=True)
    assert sorted(index_bytes(ours)) == sorted(index_bytes(root))


@pytest.mark.parametrize("size", [2100, 3000, 22039])
def test_a_short_only_index_file_is_built_anew_where_no_setting_tells_its_slots(size: int, tmp_path: Path) -> None:
    """Keys that were put by guessed slots would be found by no broker."""
    root, _ = shortened(golden("ipv6"), 0, size, tmp_path / "store")
    with open_store(golden("ipv6").store) as store, open_store(root) as short:
        expected = store.query("TopicA", "all", 64).messages
        assert len(expected) == 64
        assert short.query("TopicA", "all", 64).messages == expected
    with open_store(root, read_only=False) as store:
        assert store.put(text_message(0)).is_ok
        assert store.notes == [
            "a part of an index file was lost, and the index is rebuilt: 638 keys are built from the log"
        ]
    assert list(check(root)) == []


@pytest.mark.turns(2)
@pytest.mark.parametrize("mode", ["normal", "abnormal"])
@pytest.mark.parametrize("part", PARTS)
def test_simulate_says_what_recover_builds(part: str, mode: str, whole: Path, tmp_path: Path) -> None:
    root = lose(part, whole, tmp_path)
    is_noticed = mode == "normal" or part != "the last index file"
    traps = simulate(root, mode=mode, **SMALL).traps
    assert [trap.code for trap in traps] == ["lost-index"] * is_noticed
    change, _ = recover(root, settings=SMALL, mode=mode)
    assert [row.difference for row in change.report.differs_from_broker] == ["lost-index"] * is_noticed
