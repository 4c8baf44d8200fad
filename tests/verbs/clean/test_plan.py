"""Cleaning plans of whole stores: what goes together with the segments, and what goes without any."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from store import Message, open_store
from store.change.actions import Publish
from store.change.change import Change
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.verbs.check.check import check_files
from store.verbs.clean.plan import plan_cleaning
from tests.support.stores import SMALL, make_store, planning

FAR_FUTURE_MS = 4_000_000_000_000
AT_ANOTHER_HOUR = {"deleteWhen": f"{(time.localtime(FAR_FUTURE_MS // 1000).tm_hour + 1) % 24:02d}"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of several segments, each full of three queues' messages."""
    return make_store(tmp_path / "s", 400)


def plan(root: Path, *, apply: bool = False, settings: dict[str, Any] | None = None, **options: Any) -> Change:
    options = {"now_ms": FAR_FUTURE_MS, "reserved_hours": 0, "force": True, **options}
    if not options["force"]:
        del options["force"]
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
    change = plan(root, force=False, settings=settings)
    assert bool(removed(change, "commitlog")) == goes
    assert change.report.disk_used_percent == max(min(log, other), queues)


def removed(change: Change, folder: str) -> list[str]:
    paths = [str(action.path.relative_to(change.root)) for action in change.actions]  # type: ignore[attr-defined]
    return [path for path in paths if path.startswith(folder)]


def test_queue_and_index_files_go_with_the_segments_that_they_refer_to(root: Path) -> None:
    change = plan(root)
    segments = sorted((root / "commitlog").iterdir())
    assert removed(change, "commitlog") == [f"commitlog/{path.name}" for path in segments[:-1]][:10]
    log_start = int(segments[-1].name)
    assert [removed(change, folder) for folder in ("consumequeue", "index")] == before_the_log(root, log_start)


def before_the_log(root: Path, log_start: int) -> list[list[str]]:
    """The full queue files, and the index files but the newest, whose last log offset is before the log's start."""
    queue_files = sorted((root / "consumequeue").glob("*/*/*"))
    index_files = sorted((root / "index").iterdir())[:-1]
    last = {path: int.from_bytes(path.read_bytes()[-20:-12], "big") for path in queue_files}
    last |= {path: int.from_bytes(path.read_bytes()[24:32], "big") for path in index_files}
    gone = [
        [str(path.relative_to(root)) for path in paths if 0 < last[path] < log_start]
        for paths in (queue_files, index_files)
    ]
    assert all(gone)
    return gone


def test_a_cleaned_store_is_sound(root: Path) -> None:
    plan(root, apply=True)
    assert list(check_files(StoreReader(str(root)))) == []


def test_queue_and_index_files_before_the_log_go_without_a_trigger(root: Path) -> None:
    """The broker's service for them asks for no hour and no space, only whether the log begins later."""
    for path in sorted((root / "commitlog").iterdir())[:3]:
        path.unlink()
    change = plan(root, force=False, disk_used_percent=1, settings=AT_ANOTHER_HOUR)
    assert change.report.trigger == "none: not the hour, enough space, not requested by hand"
    assert removed(change, "commitlog") == []
    assert [removed(change, folder) for folder in ("consumequeue", "index")] == before_the_log(root, 3 * 16384)


def test_a_log_that_begins_at_0_lets_no_other_file_go(root: Path) -> None:
    assert plan(root, force=False, disk_used_percent=1, settings=AT_ANOTHER_HOUR).actions == []


@pytest.mark.parametrize(("percent", "goes"), [(75, False), (76, False), (85, False), (86, True), (100, True)])
def test_a_disk_above_the_forced_ratio_lets_fresh_segments_go(root: Path, percent: int, goes: bool) -> None:
    change = plan(root, force=False, reserved_hours=1_000_000, disk_used_percent=percent, settings=AT_ANOTHER_HOUR)
    assert bool(removed(change, "commitlog")) == goes
    assert change.report.disk_used_percent == percent


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


def test_the_facts_have_the_reasons_the_settings_and_a_verdict_for_every_segment(root: Path) -> None:
    segments = sorted((root / "commitlog").iterdir())
    for path in segments:
        os.utime(path, ns=(FAR_FUTURE_MS * 1_000_000,) * 2)
    settings = {"deleteFileBatchMax": 1, **AT_ANOTHER_HOUR}
    change = plan(root, disk_used_percent=75.06, settings=settings)
    files = [change.root / path for path in removed(change, "")]
    assert removed(change, "commitlog") == [f"commitlog/{segments[0].name}"]
    rules = [
        ["delete", "modified 0.0 hours ago, kept for 0"],
        ["keep", "at most 1 file in 1 pass"],
        *[["keep", f"an older segment is kept ({segments[1].name})"] for _ in segments[3:]],
        ["keep", "the last segment is never deleted"],
    ]
    found = asdict(change.report)
    assert found == found | {
        "trigger": "the partition of the commit log is 75% full, more than 75%, requested by hand",
        "disk_used_percent": 75.1,
        "reserved_hours": 0,
        "freed_bytes": sum(path.stat().st_size for path in files),
        "verdicts": [
            {"file": f"commitlog/{path.name}", "verdict": verdict, "rule": rule, "mtime_ms": FAR_FUTURE_MS,
             "size_bytes": SMALL["mappedFileSizeCommitLog"]}
            for path, (verdict, rule) in zip(segments, rules, strict=True)
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reserved_hours": -1}, "reserved_hours is less than 0: -1"),
        ({"passes": 0}, "passes is less than 1: 0"),
    ],
)
def test_fewer_than_no_hours_and_fewer_than_one_pass_are_refused(
    options: dict[str, int], message: str, root: Path
) -> None:
    with pytest.raises(BadRequest, match=f"^{message}$"):
        plan(root, **options)


@pytest.mark.parametrize(("passes", "count"), [({}, 2), ({"passes": 1}, 2), ({"passes": 2}, 4)])
def test_a_plan_is_of_one_pass_unless_more_are_asked_for(passes: dict[str, int], count: int, root: Path) -> None:
    assert len(removed(plan(root, settings={"deleteFileBatchMax": 2}, **passes), "commitlog")) == count


@pytest.mark.parametrize(
    ("free", "count", "remarks"),
    [
        (16_384, 1, []),
        (16_385, 2, []),
        (999_999, 4, ["65,536 of the 999,999 bytes requested can be deleted"]),
    ],
)
def test_segments_go_until_enough_bytes_are_free(free: int, count: int, remarks: list[str], root: Path) -> None:
    change = plan(root, force=False, reserved_hours=None, now_ms=0, free_bytes=free, settings={"deleteFileBatchMax": 1})
    assert (len(removed(change, "commitlog")), change.remarks) == (count, remarks)
    assert change.report.trigger == f"{free:,} bytes requested by hand"


def test_the_lost_messages_of_a_topic_are_those_of_the_group_that_is_farthest_back(root: Path) -> None:
    with open_store(root) as store:
        sizes = [len(m.raw) for queue_id in range(3) for m in store.messages("T", queue_id) if m.log_offset < 16384]
    (root / "config").mkdir()
    table = {"T@far": {"0": 0, "1": 0, "2": 0}, "T@near": {"0": 0, "1": 1000, "2": 1000}, "Other@far": {"0": 0}}
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    change = plan(root, settings={"deleteFileBatchMax": 1})
    assert change.lost == {"T": len(sizes)}
    lost = {"messages": len(sizes), "bytes": sum(sizes), "intact": len(sizes), "units_cut": len(sizes)}
    none = {"damaged": 0, "unreadable": 0, "index_keys": 0, "delayed": 0}
    found = asdict(change.report)
    assert found == found | {f"lost_{name}": count for name, count in {**lost, **none}.items()}


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("lost", "expired", "published"),
    [
        ("consumequeue/T/2", 0, []),
        ("consumequeue/T/2", 1, ["consumequeue/T/2"]),
        ("consumequeue/T/9", 1, []),
        ("consumequeue", 1, [f"consumequeue/T/{number}" for number in (0, 1, 2, 9)]),
    ],
)
def test_a_queue_without_a_folder_is_built_when_one_of_its_records_expires(
    lost: str, expired: int, published: list[str], root: Path
) -> None:
    with open_store(root, read_only=False) as store:
        for queue_id in (9, 0):
            assert store.put(Message("T", b"the newest is of a queue with a folder", queue_id)).is_ok
    shutil.rmtree(root / lost)
    change = plan(root, force=bool(expired), disk_used_percent=1, settings={"deleteFileBatchMax": 1, **AT_ANOTHER_HOUR})
    paths = {action.path.relative_to(root) for action in change.actions if isinstance(action, Publish)}
    assert sorted({str(path.parent) for path in paths}) == published
    built = [remark.split(" are lost")[0] for remark in change.remarks if "built from the log" in remark]
    assert len(built) == len(published)
