"""A store's state as info reads it off the files, in the states that stores come in."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from rmqctl.advice import command_for
from store.broker_line import LINE_4_9
from store.errors import NotAStore, StoreError
from store.files.filesystem import Filesystem
from store.files.lock import StoreLock
from store.formats.checkpoint_page import decode_checkpoint
from store.formats.index_page import IndexHeader
from store.formats.queue_unit import QueueUnit
from store.formats.run import Run
from store.layout import StoreLayout
from store.opened.detect import make_layout
from store.structures.commitlog.scan import Step
from store.structures.registry import WHOLLY_UNREADABLE, Present
from store.verbs import info
from store.verbs.info import IndexInfo, LogInfo, StoreInfo, _behind_problems, _state_problems, look_at_store
from store.verbs.lost_parts import Problem
from store.verbs.queue_ends import QueueEnd
from tests.cli.running import rmqctl
from tests.conftest import CopyOf
from tests.support.five_stores import copy_of_five, five, fivefive
from tests.support.golden import CLEAN, CRASHED, WITH_ANSWERS, copy_store, golden
from tests.support.logs import record
from tests.support.missing_parts import LOST
from tests.support.processes import next_line, running
from tests.support.snapshots import snapshot
from tests.support.stores import make_store
from tests.verbs.backup.backups import back_up


def look(root: Path) -> StoreInfo:
    return look_at_store(make_layout(root, {}), {}, Filesystem())


def next_command(info: StoreInfo) -> str:
    return command_for(info.problems[0].code, info.problems[0].subject)


def problems(root: Path) -> set[str]:
    return {problem.what for problem in look(root).problems}


@pytest.mark.parametrize("name", CLEAN)
def test_ends_are_those_that_the_broker_reports(name: str) -> None:
    ((_, answer),) = golden(name).asked("queues")
    info = look(golden(name).store)
    found = [(one.topic, one.queue_id, one.min_offset, one.max_offset, one.end) for one in info.queues if one.end >= 0]
    said = [tuple(queue.values()) for queue in answer["queues"] if queue["max"]]
    assert found == said
    assert (info.log.min_offset, info.log.end) == (answer["minPhyOffset"], answer["maxPhyOffset"])
    assert info.problems == []


@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_the_line_is_told_with_its_sign(name: str) -> None:
    info = look(golden(name).store)
    assert info.line.name == golden(name).compat
    assert bool(info.traces) == (info.line.name == "5.3")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("dledger-n0/data", "DLedger commit log"),
        ("batchconsumequeue/BatchA/0", "set of batch consume queues"),
        ("compaction/compactionLog/T/0", "compacted topics"),
        ("consumequeue_r", "newer than 5.5"),
        ("kvStore", "kvStore"),
        ("consumequeue/%LMQ%a/0", "light queues"),
        ("somewhere", "unknown"),
        ("timerlog", "timer messages"),
    ],
)
def test_structures_of_5_are_named(tmp_path: Path, folder: str, name: str) -> None:
    root = make_store(tmp_path / "store", 5)
    (root / folder).mkdir(parents=True)
    assert name in [one.name for one in look(root).structures]


@pytest.mark.parametrize("command", ["info", "doctor"])
def test_files_of_a_newer_broker_are_in_the_first_line(command: str, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 5)
    (root / "consumequeue_r").mkdir()
    text = " ".join(rmqctl(command, store=root).out.split("\n\n")[0].split())
    assert "a store of a broker newer than 5.5 (consumequeue_r)" in text
    assert "sound" not in text


def test_a_rocksdb_that_does_not_open_is_a_problem(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 5)
    shutil.rmtree(root / "consumequeue")
    (root / "consumequeue").mkdir()
    (root / "consumequeue/CURRENT").write_text("MANIFEST-000001\n")
    info = look(root)
    assert "RocksDB with the consume queues" in [one.name for one in info.structures]
    assert [one.what for one in info.problems] == ["unreadable"]
    assert info.log.last_ms > 0


def test_folders_of_queues_that_a_database_has_are_no_lost_files(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    root = copy_of_five("rocksdb", tmp_path)
    before = look(root)
    for queue in (one for one in before.queues if not one.topic.startswith("%LMQ%")):
        (root / "consumequeue" / queue.topic / str(queue.queue_id)).mkdir(parents=True)
    after = look(root)
    assert (after.queues, after.structures, after.problems) == (before.queues, before.structures, [])


def test_a_folder_of_a_dledger_broker_alone_is_shown(tmp_path: Path) -> None:
    segment = tmp_path / "dledger-n0/data/00000000000000000000"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(bytes(64))
    assert (look(tmp_path).log.segment_count, look(tmp_path).structures[0].name) == (1, "DLedger commit log")


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda root: shutil.rmtree(root / "consumequeue"), {"no queues"}),
        (lambda root: shutil.rmtree(root / "index"), {"no index"}),
        (lambda root: (root / "checkpoint").unlink(), {"no checkpoint"}),
        (lambda root: (root / "abort").touch(), {"not shut down"}),
        (lambda root: os.truncate(root / "commitlog/00000000000000000000", 9), {"wrong-size"}),
        (lambda root: (root / "commitlog/00000000000000016384").unlink(), {"missing-segment"}),
        (lambda root: (root / "commitlog/notes.txt").touch(), {"foreign file"}),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, damage: Callable[[Path], None], found: set[str]) -> None:
    root = make_store(tmp_path / "store", 300)
    assert problems(root) == set()
    damage(root)
    assert found <= problems(root)


@pytest.mark.parametrize(("setting", "found"), [({}, {"no index"}), ({"messageIndexEnable": "false"}, set())])
def test_an_index_that_no_broker_writes_is_not_missed(
    setting: dict[str, object], found: set[str], tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 5)
    shutil.rmtree(root / "index")
    info = look_at_store(make_layout(root, {}), setting, Filesystem())
    assert {one.what for one in info.problems} == found


def test_queues_that_are_behind_the_log_are_named(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10, queues=1)
    queue = root / "consumequeue/T/0/00000000000000000000"
    queue.write_bytes(queue.read_bytes()[:180].ljust(400, b"\0"))
    assert problems(root) == {"queues incomplete"}


def test_a_damaged_tail_is_named_with_its_place(copy_of: CopyOf) -> None:
    _, root = copy_of("torn")
    (damage,) = [one for one in look(root).problems if one.what == "damage"]
    assert "00000000000000131072, offset 528" in damage.detail


def test_a_config_table_that_a_broker_would_lose_is_named(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 3)
    (root / "config").mkdir()
    (root / "config/topics.json").write_bytes(b"\0" * 20)
    (problem,) = look(root).problems
    assert (problem.what, command_for(problem.code)) == ("config", "config check")


def test_the_owner_of_the_lock_is_named_with_its_command(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 3)
    script = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, 2, 1); print(flush=True); input()"
    with running([sys.executable, "-c", script, str(root / "lock")]) as owner:
        next_line(owner)
        holder = look(root).holder
    assert holder is not None
    assert holder.process_id == owner.pid
    assert "fcntl" in holder.command


def test_looking_keeps_the_lock_of_this_process(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 3)
    script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1)"
    with StoreLock(root / "lock", Filesystem()):
        holder = look(root).holder
        assert holder is not None
        assert holder.process_id == os.getpid()
        other = subprocess.run([sys.executable, "-c", script, str(root / "lock")], capture_output=True, check=False)
        assert b"BlockingIOError" in other.stderr


def test_a_broken_part_keeps_no_other_from_being_shown(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 5)
    shutil.rmtree(root / "index")
    (root / "index").write_text("not a folder")
    info = look(root)
    assert info.message_count == 5
    assert "unreadable" in {one.what for one in info.problems}


def test_a_folder_without_any_of_a_brokers_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(NotAStore):
        look(tmp_path)
    with pytest.raises(NotAStore):
        look(tmp_path / "none")


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_it_fits_on_one_screen_and_writes_nothing(name: str, copy_of: CopyOf) -> None:
    _, root = copy_of(name)
    before = snapshot(root)
    run = rmqctl("info", store=root, terminal=True)
    assert run.code == (1 if name in CRASHED else 0), run.err
    assert len(run.out.splitlines()) <= 22
    assert max(map(len, run.out.splitlines())) <= 80
    assert rmqctl("info", "--format", "json", store=root).code == run.code
    assert snapshot(root) == before


@pytest.mark.turns(3)
def test_the_log_is_not_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_store(tmp_path / "store", 20_000, mappedFileSizeCommitLog=1 << 24, mappedFileSizeConsumeQueue=200_000)
    walk, walked = info.walk_slice, list[int]()

    def counting(*given: Any, **named: Any) -> Iterator[Step]:
        for step in walk(*given, **named):
            walked.append(step.count if isinstance(step, Run) else 0)
            yield step

    monkeypatch.setattr(info, "walk_slice", counting)
    assert look(root).message_count == 20_000
    assert 0 < sum(walked) < 10_000


LOST_NAMES = {
    "a queue's folder": "lost queue",
    "a topic's folder": "no queues",
    "consumequeue": "no queues",
    "a queue's first file": "lost queue file",
    "a queue's middle file": "lost queue file",
    "a queue's last file": "lost queue file",
    "the index": "no index",
    "the first index file": "lost index file",
    "a middle index file": "lost index file",
    "the last index file": "lost index file",
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("lost", LOST_NAMES)
def test_info_names_each_lost_part_and_the_command_that_shows_its_rebuild(lost: str, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 240, queues=3)
    assert rmqctl("info", store=root).code == 0
    LOST[lost](root)
    run = rmqctl("--format", "json", "info", store=root)
    assert run.code == 1
    assert [problem["what"] for problem in run.json["problems"]] == [LOST_NAMES[lost]]
    assert run.json["problems"][0]["command"].startswith("rebuild --")


def test_info_names_lost_extension_files(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60, enableConsumeQueueExt=True, mappedFileSizeConsumeQueueExt=200)
    shutil.rmtree(root / "consumequeue_ext")
    run = rmqctl("--format", "json", "info", store=root)
    assert {problem["what"] for problem in run.json["problems"]} == {"lost extension"}


def test_info_of_a_crashed_store_takes_what_is_not_dispatched_yet_for_no_loss(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 240, queues=1)
    (root / "abort").touch()
    sorted((root / "index").iterdir())[-1].unlink()
    run = rmqctl("--format", "json", "info", store=root)
    assert "lost queue file" not in {problem["what"] for problem in run.json["problems"]}


@pytest.mark.parametrize("more", [0, 1])
def test_info_says_that_a_long_log_was_not_read(more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_store(tmp_path / "store", 60)
    size = sum(path.stat().st_size for path in (root / "commitlog").iterdir())
    monkeypatch.setattr("store.verbs.info.WALKED_BYTES", size - more)
    shutil.rmtree(root / "consumequeue/T/1")
    run = rmqctl("info", store=root)
    assert (run.code, "the log was not read for lost files" in run.err) == (1 - more, more == 1)


@pytest.mark.parametrize(("ratio", "percent"), [(0.0, 0), (0.004, 0), (0.506, 51), (1.0, 100)])
def test_the_used_part_of_the_partition_is_in_percent(
    ratio: float, percent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Filesystem, "used_ratio", lambda *_: ratio)
    assert look(golden("normal").store).used_percent == percent


NO_QUEUES = Problem("no queues", "no consume queue has an entry", code="no-queues")
AHEAD = Problem("queues ahead", "a queue reaches 101, the log ends at 100", code="queues-ahead")
INCOMPLETE = Problem("queues incomplete", "the log ends at 100, the queues at 90", code="queues-behind")
UNWRITTEN = Problem("queues incomplete", "the log ends at 100, and no queue has an entry", code="queues-behind")
NO_INDEX = Problem("no index", "there is no index file; nothing can be found by key", code="no-index")
NO_CHECKPOINT = Problem("no checkpoint", "a recovery would scan the whole log", code="no-checkpoint")
NO_LOG = Problem("no log", "there is no segment in commitlog/", code="no-log")


@pytest.mark.parametrize(
    ("changed", "live", "closed"),
    [
        ({}, [], []),
        ({"reach": -1}, [NO_QUEUES], [NO_QUEUES]),
        ({"reach": -1, "first_ms": -1}, [NO_QUEUES], [NO_QUEUES]),
        ({"reach": -1, "last_ms": -1, "first_ms": 0}, [NO_QUEUES], [NO_QUEUES]),
        ({"reach": -1, "first_ms": -1, "last_ms": -1}, [], []),
        ({"reach": -1, "are_queues_read": False}, [], []),
        ({"reach": -1, "database": True}, [NO_QUEUES], [NO_QUEUES]),
        ({"reach": -1, "database": True, "abort_ms": 0, "unqueued": 1}, [], [UNWRITTEN]),
        ({"reach": -1, "abort_ms": 0, "unqueued": 1}, [NO_QUEUES], [NO_QUEUES]),
        ({"reach": 0}, [], []),
        ({"reach": 90, "unqueued": 1}, [], [INCOMPLETE]),
        ({"reach": 90, "unqueued": 0}, [], []),
        ({"reach": 101}, [AHEAD], [AHEAD]),
        ({"index": 0}, [], [NO_INDEX]),
        ({"index": 0, "first_ms": -1, "last_ms": -1}, [], []),
        ({"index": 0, "has_index": False}, [], []),
        ({"checkpoint_ms": -1}, [NO_CHECKPOINT], [NO_CHECKPOINT]),
        ({"checkpoint_ms": 0}, [], []),
        ({"begin": -1}, [NO_LOG], [NO_LOG]),
    ],
)
def test_what_is_missing_or_behind_is_a_problem_which_a_live_store_may_still_write(
    changed: dict[str, Any], live: list[Problem], closed: list[Problem], tmp_path: Path
) -> None:
    told: dict[str, Any] = {
        "reach": 100, "unqueued": 0, "index": 1, "begin": 0, "first_ms": 5, "last_ms": 5, "checkpoint_ms": 5,
        "are_queues_read": True, "has_index": True, "database": False, "abort_ms": -1, **changed,
    }  # fmt: skip
    found = StoreInfo(make_layout(tmp_path, {}), LINE_4_9, [], [], {})
    found.structures = [Present("queues", "consumequeue", "", holds_queues=told["database"])]
    found.abort_ms = told["abort_ms"]
    found.log = LogInfo(1, 1000, told["begin"], 100, told["first_ms"], told["last_ms"], told["unqueued"])
    found.queues = [QueueEnd("T", 0, 0, 1, 0, told["reach"])]
    found.index = IndexInfo(told["index"])
    found.checkpoint_ms, found.are_queues_read = told["checkpoint_ms"], told["are_queues_read"]
    for holder, expected in ((object(), live), (None, closed)):
        found.holder = holder  # type: ignore[assignment]
        assert list(_behind_problems(found, has_index=told["has_index"])) == expected


@pytest.mark.parametrize(
    ("abort_ms", "is_held", "found"),
    [(-1, False, []), (0, False, ["not-shut-down"]), (5, False, ["not-shut-down"]), (-1, True, []), (0, True, [])],
)
def test_an_abort_marker_counts_while_nobody_holds_the_lock(
    abort_ms: int, is_held: bool, found: list[str], tmp_path: Path
) -> None:
    state = StoreInfo(make_layout(tmp_path, {}), LINE_4_9, [], [], {}, abort_ms=abort_ms)
    state.holder = cast(Any, object()) if is_held else None
    assert [one.code for one in _state_problems(state)] == found


@pytest.mark.parametrize(
    ("newest", "damaged", "end", "last", "unqueued"),
    [
        (0, None, 3, 2, 2),
        (2, None, 3, 2, 0),
        (2.05, None, 3, 2, 0),
        (1, 2, 2, 1, 0),
        (0, 0, 0, None, 0),
        (2, 2, 2, 1, 0),
        (1, 1, 1, 0, 0),
        (16384 / len(record(b"T")), None, 3, 2, 0),
    ],
)
def test_the_tail_of_the_log_is_walked_from_the_newest_entry_or_from_the_segments_start(
    newest: float, damaged: int | None, end: int, last: int | None, unqueued: int, tmp_path: Path
) -> None:
    """Three records, of which one may be damaged, and an entry of one, or of a few bytes into one."""
    records: list[bytes] = []
    for number in range(3):
        data = record(b"T", position=sum(map(len, records)), store_timestamp_ms=1000 + number, queue_offset=number)
        records.append(data[:-1] + b"\xff" + data[-1:] if number == damaged else data)
    size = len(records[0])
    entry = QueueUnit(round(newest * size), size, 0)
    for name, data in (("commitlog", b"".join(records)), ("consumequeue/T/0", entry.encode())):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / f"{0:020d}").write_bytes(data.ljust(20 if name != "commitlog" else 16384, b"\0"))
    found = look(tmp_path)
    assert (found.log.end, found.log.last_ms) == (end * size, -1 if last is None else 1000 + last)
    assert found.log.first_ms == (-1 if damaged == 0 else 1000)
    assert found.log.unqueued_count == unqueued
    assert [one.code for one in found.problems].count("damage") == (damaged is not None)


@pytest.mark.parametrize(
    ("begin", "is_written"),
    [(b"", False), (b"\1", True), (bytes(7) + b"\1", True), (bytes(8) + b"\1", False)],
)
def test_a_segment_is_written_where_one_of_its_first_8_bytes_is(begin: bytes, is_written: bool, tmp_path: Path) -> None:
    first = record(b"T", position=16384)
    (tmp_path / "commitlog").mkdir()
    for number, data in ((16384, first), (32768, begin)):
        (tmp_path / f"commitlog/{number:020d}").write_bytes(data.ljust(16384, b"\0"))
    found = look(tmp_path).log
    assert (found.segment_count, found.size_bytes, found.min_offset) == (2, 32768, 16384)
    assert found.end == (32768 if is_written else 16384 + len(first))


@pytest.mark.parametrize(("numbers", "min_offset"), [((), -1), ((0,), 0), ((16384, 32768), 16384)])
def test_a_log_without_a_record_ends_at_its_first_segment(
    numbers: tuple[int, ...], min_offset: int, tmp_path: Path
) -> None:
    (tmp_path / "commitlog").mkdir()
    for number in numbers:
        (tmp_path / f"commitlog/{number:020d}").write_bytes(bytes(16384))
    found = look(tmp_path).log
    assert found == LogInfo(len(numbers), 16384 * len(numbers), min_offset, min_offset)


def test_the_abort_marker_has_its_time_in_whole_milliseconds(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert look(tmp_path).abort_ms == -1
    (tmp_path / "abort").touch()
    os.utime(tmp_path / "abort", ns=(0, 1_700_000_000_123_999_999))
    assert look(tmp_path).abort_ms == 1_700_000_000_123


def test_messages_and_topics_are_counted_over_all_queues(tmp_path: Path) -> None:
    state = StoreInfo(make_layout(tmp_path, {}), LINE_4_9, [], [], {})
    assert (state.message_count, state.topic_count, state.queues_built_to) == (0, 0, -1)
    state.queues = [QueueEnd("T", 0, 3, 10, 0, 500), QueueEnd("T", 1, 0, 1, 0, 300), QueueEnd("U", 0, 5, 5, -1, -1)]
    assert (state.message_count, state.topic_count, state.queues_built_to) == (8, 2, 500)


def test_entries_before_the_first_segment_have_expired(tmp_path: Path) -> None:
    first = record(b"T", position=16384, queue_offset=2)
    entries = [QueueUnit(at, len(first), 0).encode() for at in (16000, 16383, 16384)]
    for name, number, data in (("commitlog", 16384, first), ("consumequeue/T/0", 0, b"".join(entries))):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / f"{number:020d}").write_bytes(data.ljust(16384 if name == "commitlog" else 400, b"\0"))
    [queue] = look(tmp_path).queues
    assert (queue.min_offset, queue.max_offset) == (2, 3)


@pytest.mark.parametrize(
    ("code", "found"),
    [(None, "unreadable"), ("other-code", "unreadable"), *((code, code) for code in WHOLLY_UNREADABLE)],
)
def test_a_part_that_can_not_be_read_is_one_problem_with_the_code_of_a_structure(
    code: str | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("no", code=code)

    for name in ("queue_ends", "infer_settings"):
        monkeypatch.setattr(info, name, refuse)
    (tmp_path / "commitlog").mkdir()
    assert look(tmp_path).problems[-1] == Problem("unreadable", "no", code=found)
    assert [one.what for one in look(tmp_path).problems].count("unreadable") == 1


def test_a_backup_of_the_log_alone_lacks_neither_queues_nor_an_index(tmp_path: Path) -> None:
    back_up(make_store(tmp_path / "store", 3), tmp_path / "backups")
    run = rmqctl("--format", "json", "info", store=f"backup:{tmp_path / 'backups'}")
    assert (run.code, run.json["problems"]) == (0, [])


def small_store(root: Path, *records: bytes, entries: tuple[QueueUnit, ...] = ()) -> None:
    """Write a log of these records, and a queue T/0 of these entries."""
    queue = b"".join(entry.encode() for entry in entries)
    for name, data, size in (("commitlog", b"".join(records), 16384), ("consumequeue/T/0", queue, 400)):
        if data:
            (root / name).mkdir(parents=True)
            (root / name / f"{0:020d}").write_bytes(data.ljust(size, b"\0"))


@pytest.mark.parametrize(
    ("abort_ms", "is_held", "is_lost"), [(None, False, True), (0, False, False), (5, False, False), (None, True, False)]
)
def test_a_record_past_the_queues_without_one_is_lost_to_a_closed_store_alone(
    abort_ms: int | None, is_held: bool, is_lost: bool, tmp_path: Path
) -> None:
    first = record(b"T")
    small_store(tmp_path, first, record(b"U", position=len(first)), entries=(QueueUnit(0, len(first), 0),))
    if abort_ms is not None:
        (tmp_path / "abort").touch()
        os.utime(tmp_path / "abort", ns=(0, abort_ms * 1_000_000))
    with StoreLock(tmp_path / "lock", Filesystem()) if is_held else nullcontext():
        found = look(tmp_path)
    assert (found.is_walked, "lost queue" in [one.what for one in found.problems]) == (True, is_lost)


def test_half_messages_and_what_is_rolled_back_have_no_entry(tmp_path: Path) -> None:
    size = len(record(b"T"))
    small_store(tmp_path, *(record(b"T", position=at * size, sys_flag=4 * at) for at in range(4)))
    assert look(tmp_path).log.unqueued_count == 2


def test_the_checkpoint_is_read_from_its_begin_and_tables_that_a_broker_loads_are_listed(tmp_path: Path) -> None:
    checkpoint = struct.pack(">qqq", 5_000_000, 6_000_000, 7_000_000).ljust(4096, b"\0")
    (tmp_path / "checkpoint").write_bytes(checkpoint)
    (tmp_path / "config").mkdir()
    for name, text in (("topics.json", "{}"), ("subscriptionGroup.json", "\0")):
        (tmp_path / "config" / name).write_text(text)
    found = look(tmp_path)
    assert found.checkpoint_ms == decode_checkpoint(checkpoint).min_timestamp_ms
    assert found.config_files == ["topics.json"]
    assert [one.code for one in found.problems if one.what == "config"] == ["config-table"]


@pytest.mark.parametrize(
    ("numbers", "last_size", "code"),
    [((0, 32768), 16384, "missing-segment"), ((0, 16384), 16384, None), ((0, 16384, 32768), 100, "wrong-size")],
)
def test_a_missing_segment_has_advice_of_its_own(
    numbers: tuple[int, ...], last_size: int, code: str | None, tmp_path: Path
) -> None:
    (tmp_path / "commitlog").mkdir()
    for number in numbers:
        size = last_size if number == numbers[-1] else 16384
        (tmp_path / f"commitlog/{number:020d}").write_bytes(record(b"T", position=number)[:size].ljust(size, b"\0"))
    codes = [one.code for one in look(tmp_path).problems]
    assert [one for one in codes if one in ("missing-segment", "wrong-size")] == ([code] if code else [])


@pytest.mark.parametrize(("ends", "built_to"), [((), -1), ((300,), 300), ((300, 200), 300), ((200, 300), 300)])
def test_the_index_is_built_to_the_newest_record_of_all_its_files(
    ends: tuple[int, ...], built_to: int, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 5)
    shutil.rmtree(root / "index")
    (root / "index").mkdir()
    empty = 900
    for number, end in enumerate((*ends, empty)):
        header = IndexHeader(1, 1, 0, end, 1, 1 if end == empty else 2).encode()
        (root / f"index/{20261128000000000 + number}").write_bytes(header.ljust(8192, b"\0"))
    found = look(root).index
    assert (found.file_count, found.built_to) == (len(ends) + 1, built_to)


@pytest.mark.leaves_damage
def test_a_log_that_begins_with_damage_has_no_first_time(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 5)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as segment:
        segment.write(b"damaged!")
    found = rmqctl("-f", "json", "info", store=root).json
    assert (found["first_ms"], found["min_log_offset"]) == (None, 0)


@pytest.mark.parametrize(
    ("name", "count", "told"),
    [
        ("rocksdb", 182, "; nothing is missing"),
        ("rocksdb-aborted", 127, ", and 56 of the newest segment with no entry on the disk yet; 2 problems"),
    ],
)
def test_entries_in_the_memory_of_a_killed_broker_are_not_taken_for_none(name: str, count: int, told: str) -> None:
    pytest.importorskip("rocksdict")
    verdict = rmqctl("info", store=five(name) / "store").out.split("\n")[0]
    assert verdict == f"a 5.3 store, {count} messages in the queues of 5 topics{told}"


def test_without_their_database_the_settings_tell_that_entries_may_be_in_memory(tmp_path: Path) -> None:
    root = copy_store(fivefive("rocksdbcq-separate") / "store", tmp_path / "store")
    shutil.rmtree(root / "consumequeue_rocksdb")
    settings = {"storeType": "defaultRocksDB", "useSeparateStorePathForRocksdbCQ": "true"}
    counts = [look_at_store(StoreLayout(root), settings, Filesystem()).unflushed_count]
    (root / "abort").touch()
    counts.append(look_at_store(StoreLayout(root), settings, Filesystem()).unflushed_count)
    assert counts == [0, 29]
