"""Cleaning plans of whole stores: what goes together with the segments, and what goes without any."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from store.change.change import Change
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.verbs.check.check import check_files
from store.verbs.clean.plan import plan_cleaning
from tests.support.stores import make_store, planning

FAR_FUTURE_MS = 4_000_000_000_000
AT_ANOTHER_HOUR = {"deleteWhen": f"{(time.localtime(FAR_FUTURE_MS // 1000).tm_hour + 1) % 24:02d}"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of several segments, each full of three queues' messages."""
    return make_store(tmp_path / "s", 400)


def plan(root: Path, *, apply: bool = False, settings: dict[str, Any] | None = None, **options: Any) -> Change:
    options = {"now_ms": FAR_FUTURE_MS, "reserved_hours": 0, "force": True, **options}
    with planning(root, settings=settings) as opened:
        change = plan_cleaning(opened, **options)
        if apply:
            change.apply()
        return change


@pytest.mark.parametrize(("percent", "taken"), [(5, 10), (-1, 10), (150, 95), (75, None)])
def test_a_ratio_that_a_broker_takes_as_another_is_said(root: Path, percent: int, taken: int | None) -> None:
    remarks = plan(root, settings={"diskMaxUsedSpaceRatio": percent}).remarks
    said = [f"diskMaxUsedSpaceRatio={percent} is taken as {taken}, as a broker does"]
    assert remarks == (said if taken is not None else [])


@pytest.mark.parametrize(
    ("log", "other", "queues", "goes"), [(90, 90, 10, True), (90, 10, 10, False), (10, 90, 90, True)]
)
def test_of_several_folders_of_the_log_the_emptiest_counts(
    log: int, other: int, queues: int, goes: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = {"commitlog": log, "other": other, "consumequeue": queues}
    (root / "other").mkdir()
    monkeypatch.setattr(Filesystem, "used_ratio", lambda fs, folder: used[folder.name] / 100)
    settings = {"storePathCommitLog": f"{root}/commitlog,{root}/other", **AT_ANOTHER_HOUR}
    assert bool(removed(plan(root, force=False, settings=settings), "commitlog")) == goes


def removed(change: Change, folder: str) -> list[str]:
    paths = [str(action.path.relative_to(change.root)) for action in change.actions]  # type: ignore[attr-defined]
    return [path for path in paths if path.startswith(folder)]


def test_queue_and_index_files_go_with_the_segments_that_they_refer_to(root: Path) -> None:
    change = plan(root)
    segments = sorted((root / "commitlog").iterdir())
    assert removed(change, "commitlog") == [f"commitlog/{path.name}" for path in segments[:-1]][:10]
    assert removed(change, "consumequeue/T/0")
    assert removed(change, "index")
    last = sorted((root / "consumequeue/T/0").iterdir())[-1]
    assert f"consumequeue/T/0/{last.name}" not in removed(change, "consumequeue")


def test_a_cleaned_store_is_sound(root: Path) -> None:
    plan(root, apply=True)
    assert list(check_files(StoreReader(str(root)))) == []


def test_queue_and_index_files_before_the_log_go_without_a_trigger(root: Path) -> None:
    """The broker's service for them asks for no hour and no space, only whether the log begins later."""
    for path in sorted((root / "commitlog").iterdir())[:3]:
        path.unlink()
    change = plan(root, force=False, disk_used_percent=1, settings=AT_ANOTHER_HOUR)
    assert change.facts["trigger"].startswith("none")
    assert removed(change, "commitlog") == []
    assert removed(change, "consumequeue/T/0")
    assert removed(change, "index")


def test_a_log_that_begins_at_0_lets_no_other_file_go(root: Path) -> None:
    assert plan(root, force=False, disk_used_percent=1, settings=AT_ANOTHER_HOUR).actions == []


@pytest.mark.parametrize(("percent", "goes"), [(75, False), (76, False), (85, False), (86, True), (100, True)])
def test_a_disk_above_the_forced_ratio_lets_fresh_segments_go(root: Path, percent: int, goes: bool) -> None:
    change = plan(root, force=False, reserved_hours=1_000_000, disk_used_percent=percent, settings=AT_ANOTHER_HOUR)
    assert bool(removed(change, "commitlog")) == goes
    assert change.facts["disk_used_percent"] == percent


@pytest.mark.parametrize(("log", "queues", "goes"), [(0.86, 0.1, True), (0.80, 0.99, False), (0.1, 0.86, True)])
def test_the_queues_partition_forces_only_where_the_logs_is_no_reason(
    root: Path, log: float, queues: float, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = {"commitlog": log, "consumequeue": queues}
    monkeypatch.setattr(Filesystem, "used_ratio", lambda _, folder: used[folder.name])
    change = plan(root, force=False, reserved_hours=1_000_000, settings=AT_ANOTHER_HOUR)
    assert bool(removed(change, "commitlog")) == goes


def test_extension_files_before_the_first_kept_unit_go(tmp_path: Path) -> None:
    settings = {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 200}
    root = make_store(tmp_path / "s", 400, queues=1, **settings)
    before = sorted((root / "consumequeue_ext/T/0").iterdir())
    change = plan(root, apply=True)
    gone = removed(change, "consumequeue_ext")
    assert gone == [f"consumequeue_ext/T/0/{path.name}" for path in before[: len(gone)]]
    assert 0 < len(gone) < len(before)
    assert list(check_files(StoreReader(str(root)))) == []


@pytest.mark.parametrize("passes", [1, 2, 5])
def test_a_checkpoint_is_not_ahead_of_what_expired(tmp_path: Path, passes: int) -> None:
    root = make_store(tmp_path / "s", 600, queues=1, maxIndexNum=1100)
    plan(root, apply=True, passes=passes)
    assert list(check_files(StoreReader(str(root)))) == []
