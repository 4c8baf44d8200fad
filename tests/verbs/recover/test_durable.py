"""What is promised is durable at that moment: a simulated disk names everything that a power cut could still change.

`tests/runs/every_sync.py` takes one sync away after another, and lets these tests fail.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import open_store
from store.change.actions import Patch, Publish, Remove
from store.change.change import Change
from store.change.quarantine import purge, undo
from store.engine.ha.link import Address
from store.engine.ha.log_copy import LogCopy
from store.engine.ha.receive import ReceiveOptions, Receiver
from store.engine.ha.slave_log import SlaveLog
from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.lock import AbortMarker
from store.files.mapped_file import MappedFile
from store.files.mapped_file_queue import MappedFileQueue
from store.formats.queue_unit import QueueUnit
from store.layout import StoreLayout
from store.opened.checkpoint import StoreCheckpoint
from store.query.spark.pieces import UnitPiece
from store.query.spark.writers import IndexKeys, QueueFile, WholeQueue
from store.structures.epochs.files import Epoch, EpochFile
from store.structures.tables.config_file import write_config_file
from store.verbs.rebuild.plan import plan_rebuild
from store.verbs.salvage.new_store import Salvaged, write_new_store
from store.verbs.salvage.salvage import SalvageReport, salvage_runs
from store.verbs.salvage.sources import config_of
from tests.mutants import ROOT
from tests.runs import every_sync
from tests.runs.power_cuts import FAR_FUTURE_MS, SMALLER, WORKS, Promises, Work
from tests.runs.whole_changes import CASES
from tests.support.stores import SMALL, Clock, make_store, text_message
from tests.support.watched_disk import Look, WatchedDisk, disk_over
from tests.verbs.rebuild.stores import expired_store


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[WatchedDisk]:
    (tmp_path / "disk").mkdir()
    disk = WatchedDisk(tmp_path / "disk", tmp_path / "cuts")
    yield disk
    disk.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "disk/store"


def made_durably(folder: Path, disk: WatchedDisk) -> None:
    disk.make_folder(folder)
    disk.fsync_folder(folder.parent)


SELDOM = {"flushIntervalCommitLog": 60_000, "flushIntervalConsumeQueue": 60_000}
"""No service flushes by itself."""


def spare(root: Path) -> str:
    """The segment made ahead, which holds no message."""
    return f"commitlog/{max(path.name for path in (root / 'commitlog').iterdir())}"


# Put, services and shutdown.


def test_a_put_with_sync_flush_is_durable_when_it_is_acknowledged(root: Path, disk: WatchedDisk) -> None:
    settings = {**SMALLER, "flushDiskType": "SYNC_FLUSH"}
    with open_store(root, settings=settings, read_only=False, clock=Clock(), fs=disk) as store:
        for number in range(60):
            assert store.put(text_message(number)).is_ok
            log = [name for name in disk.pending(spare(root)) if not name.startswith(("consumequeue", "index"))]
            assert [name for name in log if name != "checkpoint"] == []
        assert len(list((root / "commitlog").iterdir())) > 3


def test_a_segment_has_its_length_before_its_name(root: Path, disk: WatchedDisk) -> None:
    lengths = []

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        if name == "publish" and argument.path.parent.name == "commitlog":
            lengths.append(len(disk._file_of(argument).synced))

    disk.look = look
    with open_store(root, settings=SMALLER, read_only=False, clock=Clock(), fs=disk) as store:
        for number in range(90):
            store.put(text_message(number))
    assert len(lengths) > 3
    assert set(lengths) == {4096}


@pytest.mark.parametrize(("folder", "size"), [("commitlog", 4096), ("consumequeue", 400)])
def test_a_file_is_not_made_before_the_one_in_front_of_it_is_durable(
    folder: str, size: int, root: Path, disk: WatchedDisk
) -> None:
    made = 0

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        nonlocal made
        before = argument.path if name == "publish" and argument.path.relative_to(root).parts[0] == folder else None
        while before is not None and before != max(before.parent.iterdir(), default=before):
            before, made = max(before.parent.iterdir()), made + 1
            assert len(disk._names.synced[before].synced) == size  # type: ignore[union-attr]

    disk.look = look
    with open_store(root, settings={**SMALLER, **SELDOM}, read_only=False, clock=Clock(), fs=disk) as store:
        for number in range(90):
            store.put(text_message(number))
    assert made >= 2


def test_a_flushed_store_is_durable(root: Path, disk: WatchedDisk) -> None:
    settings = {**SMALL, **SELDOM}
    with open_store(root, settings=settings, read_only=False, clock=Clock(), fs=disk, services=()) as store:
        for number in range(150):
            store.put(text_message(number, queue_id=number % 2))
        while sum(queue.max_offset for queue in store.queues()) < 150:
            pass
        store.flush()
        assert disk.pending(spare(root)) == []
        assert StoreCheckpoint.load(root / "checkpoint", disk).physic_ms > 0


def test_the_abort_marker_goes_when_everything_else_is_durable(root: Path, disk: WatchedDisk) -> None:
    found = []

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        if name == "unlink" and argument == root / "abort":
            found.append([name for name in disk.pending() if (root / name).exists()])

    disk.look = look
    settings = {**SMALL, **SELDOM, "enableConsumeQueueExt": True}
    with open_store(root, settings=settings, read_only=False, clock=Clock(), fs=disk) as store:
        for number in range(200):
            store.put(text_message(number))
    assert found == [[]]
    assert [name for name in disk.pending() if (root / name).exists() or name == "abort"] == []


def test_a_checkpoint_promises_only_index_files_that_are_durable(root: Path, disk: WatchedDisk) -> None:
    found: list[str] = []

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        if name == "write" and argument.path.name == "checkpoint" and (root / "index").exists():
            full = [f"store/index/{path.name}" for path in sorted((root / "index").iterdir())[:-1]]
            found.extend(name for name in disk.unsynced() if name in full)

    with open_store(root, settings=SMALL, read_only=False, clock=Clock(), fs=disk) as store:
        disk.look = look
        for number in range(40):
            store.put(text_message(number))
        deadline = time.monotonic() + 10
        while not any(name.startswith("fdatasync") and name.endswith("checkpoint") for name in disk.operations):
            assert time.monotonic() < deadline, "no full index file moves the checkpoint"
        disk.look = None
    assert found == []


@pytest.mark.parametrize("process_id", [None, 17])
def test_an_abort_marker_is_durable_when_it_was_made(process_id: int | None, root: Path, disk: WatchedDisk) -> None:
    made_durably(root, disk)
    marker = AbortMarker(root / "abort", disk)
    marker.create(process_id)
    assert disk.pending() == []
    marker.remove()
    assert disk.pending("abort.bak") == []


def test_a_checkpoint_is_durable_when_it_is_flushed(root: Path, disk: WatchedDisk) -> None:
    made_durably(root, disk)
    checkpoint = StoreCheckpoint.load(root / "checkpoint", disk)
    checkpoint.flush()
    assert disk.pending() == []
    checkpoint.note_full_index(7)
    assert disk.pending() == []
    assert StoreCheckpoint.load(root / "checkpoint", disk).index_ms == 7


def test_a_flushed_file_is_durable_with_its_folders(root: Path, disk: WatchedDisk) -> None:
    files = MappedFileQueue(root / "a/b", 400, disk, writable=True)
    for _ in range(3):
        files.last_file().append(bytes([1]) * 400)
        files.flush(0)
        assert disk.unsynced() == []


def test_a_warmed_file_is_durable(root: Path, disk: WatchedDisk) -> None:
    made_durably(root, disk)
    MappedFile.create(root / f"{0:020d}", 0, 8192, disk).warm()
    disk.fsync_folder(root)
    assert disk.pending() == []


# Changes.


def first_touch(root: Path, found: list[list[str]]) -> Look:
    """Notes what is not durable when a change first touches a file of the store."""

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        path = getattr(argument, "path", argument)
        if name in ("rename", "unlink", "write") and path.is_relative_to(root) and not found:
            parts = path.relative_to(root).parts
            is_own = parts[0] in (".rmqctl", "lock", "abort", "abort.bak")
            if not is_own or (name == "rename" and "staging" in parts):
                found.append(disk.unsynced())

    return look


def worked(folder: Path, name: str) -> tuple[list[list[str]], WatchedDisk]:
    """A work of the power cuts: what was not durable at its first touch, and the disk afterwards."""
    work = Work(folder / "disk/store", Filesystem(), Promises(), random.Random(1))
    (folder / "disk").mkdir()
    work.put(20, "SYNC_FLUSH")
    work.disk = disk = disk_over(folder / "disk")
    found: list[list[str]] = []
    if name != "checkpoint rewrite":
        disk.look = first_touch(work.root, found)
    WORKS[name](work)
    disk.look = None
    return found, disk


@pytest.mark.parametrize("name", ["recover", "rebuild", "truncate", "clean", "undo", "checkpoint rewrite", "purge"])
def test_a_command_is_durable_when_it_ends(name: str, tmp_path: Path) -> None:
    found, disk = worked(tmp_path, name)
    assert disk.pending(*[".rmqctl/quarantine"] * (name == "purge")) == []
    for names in found:
        kept = [one for one in names if not one.startswith("store/.rmqctl/staging")]
        assert [one for one in kept if one.startswith("store/.rmqctl")] == []
    disk.close()


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", CASES)
def test_a_change_of_a_brokers_store_is_durable_when_it_ends(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    root = CASES[name].make(folder)
    disk = disk_over(folder)
    CASES[name].apply(root, disk)
    inside = [one.removeprefix(f"{root.relative_to(folder)}/") for one in disk.unsynced()]
    assert [one for one in inside if not one.startswith(".rmqctl/staging")] == []
    disk.close()


class Elsewhere(WatchedDisk):
    """A disk on which nothing can be renamed into the quarantine: that is on another."""

    def rename(self, source: Path, target: Path) -> None:
        if source.is_relative_to(self._root / "store") and not target.is_relative_to(self._root / "store"):
            raise StoreIOError.from_os(OSError(errno.EXDEV, "another disk"), source, "rename")
        super().rename(source, target)


def test_a_file_is_whole_in_another_disks_quarantine_before_it_goes(tmp_path: Path) -> None:
    root, place = tmp_path / "disk/store", tmp_path / "disk/elsewhere"
    make_store(root, 20)
    (root / "abort").touch()
    disk = Elsewhere(tmp_path / "disk", tmp_path / "cuts")
    found: list[list[str]] = []

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        if name == "unlink" and argument == root / "checkpoint":
            found.append(disk.pending())

    disk.look = look
    change = Change("test", root, disk, [Remove(root / "checkpoint", "test")])
    change_id = change.apply(quarantine=place)
    assert found == [[]]
    assert disk.pending() == [".rmqctl"]
    disk.look = None
    assert change_id is not None
    undo(root, change_id, quarantine=place, fs=disk)
    assert disk.pending() == [".rmqctl"]
    disk.close()


def test_a_patch_and_its_undoing_are_durable(tmp_path: Path) -> None:
    root = make_store(tmp_path / "disk/store", 20)
    disk = disk_over(tmp_path / "disk")
    change_id = Change("test", root, disk, [Patch(root / "checkpoint", 0, bytes(8), "test")]).apply()
    assert disk.pending() == []
    assert change_id is not None
    undo(root, change_id, fs=disk)
    assert disk.pending() == []
    disk.close()


def test_the_new_name_of_what_is_taken_away_or_brought_back_is_durable_before_the_old_one_goes(tmp_path: Path) -> None:
    root = make_store(tmp_path / "disk/store", 60)
    names = sorted((root / "commitlog").iterdir())
    disk = disk_over(tmp_path / "disk")
    order: list[str] = []
    disk.look = lambda disk, name, argument: order.append(argument.name) if name == "fsync_folder" else None
    change_id = Change("test", root, disk, [Remove(path, "test") for path in names]).apply()
    assert order.index("files") < order.index("commitlog")
    order.clear()
    assert change_id is not None
    undo(root, change_id, fs=disk)
    assert order.index("commitlog") < order.index("files")
    disk.close()


def test_what_a_plan_rests_on_and_publishes_is_durable_before_the_first_action(tmp_path: Path) -> None:
    root = make_store(tmp_path / "disk/store", 20)
    disk = disk_over(tmp_path / "disk")
    segment, staged = min((root / "commitlog").iterdir()), root / ".rmqctl/staging/t/new"
    disk.write(disk.open_write(segment), 100, b"read by the plan")
    disk.make_folder(staged.parent)
    disk.write(disk.open_new(staged), 0, b"published")
    found: list[list[str]] = []
    disk.look = first_touch(root, found)
    change = Change("test", root, disk, [Publish(root / "config/x", staged, "test")], sync_paths=[segment])
    change.apply()
    assert f"store/{segment.relative_to(root)}" not in found[0]
    assert [name for name in found[0] if name.startswith("store/.rmqctl") and "staging" not in name] == []
    assert disk._files[(root / "config/x").stat().st_ino].synced == b"published"
    assert disk.pending() == []
    disk.close()


def test_a_purged_change_can_not_be_undone_in_part(tmp_path: Path) -> None:
    root = make_store(tmp_path / "disk/store", 60)
    change_id = Change("test", root, Filesystem(), [Remove(min((root / "commitlog").iterdir()), "test")]).apply()
    assert change_id is not None
    disk = disk_over(tmp_path / "disk")
    manifest = f"store/.rmqctl/quarantine/{change_id}/manifest.json"

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        if name == "unlink" and argument.parent.name == "files":
            assert manifest not in {str(path.relative_to(tmp_path / "disk")) for path in disk._names.synced}

    disk.look = look
    assert purge(root, [change_id], fs=disk) > 0
    disk.close()


# Files of a controller, tables, copies, rebuilt and salvaged stores.


def test_an_epoch_is_durable_when_it_is_noted(root: Path, disk: WatchedDisk) -> None:
    made_durably(root, disk)
    epochs = EpochFile(root, disk)
    for number in range(1, 4):
        epochs.note(Epoch(number, number * 100))
        assert disk.pending() == []


def test_a_table_is_durable_when_it_is_written(root: Path, disk: WatchedDisk) -> None:
    made_durably(root, disk)
    for number in range(3):
        write_config_file(root / "config", "delayOffset.json", b"%d" % number, disk)
        assert disk.pending() == []


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_a_copied_log_is_durable_up_to_where_it_says(line: str, root: Path, disk: WatchedDisk) -> None:
    copy = LogCopy(root, {"mappedFileSizeCommitLog": 4096}, disk, compat=line)
    for part in range(6):
        copy.append(copy.end, memoryview(b"x" * 2048))
        names = [name for name in disk.pending("lock") if name != f"commitlog/{part // 2 * 4096:020d}"]
        assert names == []
    copy.sync()
    assert disk.pending("lock") == []
    copy.append(copy.end, memoryview(b"y" * 2048))
    copy.close()
    assert (root / "checkpoint").exists() == (line == "5.3")
    assert disk.pending("lock") == []


def test_a_copys_new_segment_has_its_length_before_its_name(root: Path, disk: WatchedDisk) -> None:
    copy = LogCopy(root, {"mappedFileSizeCommitLog": 4096}, disk)
    copy.append(0, memoryview(b"x" * 100))
    assert len(disk._file_of(copy._segment(0)).synced) == 4096
    copy.close()


def test_a_copy_that_goes_on_makes_durable_what_it_found(tmp_path: Path) -> None:
    root = make_store(tmp_path / "disk/store", 20)
    disk = disk_over(tmp_path / "disk")
    segment = max((root / "commitlog").iterdir())
    disk.write(disk.open_write(segment), 100, b"x")
    copy = LogCopy(root, {"mappedFileSizeCommitLog": 16384}, disk)
    assert disk.pending("lock") == []
    disk.write(disk.open_write(segment), 0, bytes(512))
    disk.fdatasync(disk.open_write(segment))
    copy.require_same(int(segment.name), memoryview(b"x" * 512))
    assert disk.pending("lock") == []
    copy.close()
    disk.close()


def test_what_was_received_is_durable_however_a_connection_ends(
    root: Path, disk: WatchedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = LogCopy(root, {"mappedFileSizeCommitLog": 4096}, disk)
    receiver = Receiver(Address("nobody", 1), copy, ReceiveOptions())
    monkeypatch.setattr(receiver, "_one_connection", lambda: copy.append(0, memoryview(b"x" * 100)))
    receiver.run()
    assert disk.pending("lock") == []
    copy.close()


def test_a_slaves_log_is_durable_up_to_where_it_says(root: Path, disk: WatchedDisk) -> None:
    with open_store(root, settings={**SMALL, **SELDOM}, read_only=False, clock=Clock(), fs=disk) as store:
        log = SlaveLog(store.opened.log)
        log.append(0, memoryview(b"x" * 100))
        log.sync()
        assert store.opened.log.segments.flushed_where == log.durable == 100


def test_rebuilt_files_are_durable_though_a_queue_has_many(tmp_path: Path) -> None:
    root = make_store(tmp_path / "disk/store", 150)
    shutil.rmtree(root / "consumequeue")
    disk = disk_over(tmp_path / "disk")
    with plan_rebuild(root, settings=SMALL, fs=disk) as change:
        change.apply()
    assert len(list((root / "consumequeue/T/0").iterdir())) > 2
    assert disk.pending() == []
    disk.close()


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_a_salvaged_store_is_durable(keep_offsets: bool, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    source, disk = make_store(tmp_path / "source", 150), disk_over(tmp_path / "disk")
    for name in ("brokerIdentity", "compaction/T/0", "config/plugin", "config/consumerOffset.json"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("{}")
    config = config_of(source, {}, Filesystem())

    def walk() -> Any:
        return salvage_runs(source, Filesystem(), SalvageReport(), delay_levels_ms=config.delay_levels_ms)

    root, layout = tmp_path / "disk/a/new", StoreLayout(source)
    before_the_log: list[list[str]] = []

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        if name == "rename" and argument.name == "commitlog":
            before_the_log.append([one for one in disk.unsynced() if ".rmqctl" not in one])

    disk.look = look
    contents, clock = Salvaged(walk), lambda: FAR_FUTURE_MS
    write_new_store(contents, root, config, disk, keep_offsets=keep_offsets, clock=clock, source=layout)
    assert len(list((root / "commitlog").iterdir())) > 1
    assert StoreCheckpoint.load(root / "checkpoint", disk).physic_ms > 0
    assert all((root / name).exists() for name in ("brokerIdentity", "compaction/T/0", "config/plugin"))
    assert (before_the_log, disk.unsynced()) == ([[]], [])
    disk.close()


def test_ends_of_expired_queues_are_durable(tmp_path: Path) -> None:
    root = expired_store(tmp_path / "disk/store")
    end, disk = root / "consumequeue/Old/0/00000000000000000400", disk_over(tmp_path / "disk")
    before = end.read_bytes()
    with plan_rebuild(root, settings=SMALL, fs=disk) as change:
        assert end in change.published
        change.apply()
    assert (end.read_bytes(), disk.pending()) == (before, [])
    disk.close()


def test_what_a_task_of_a_rebuild_writes_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(Filesystem, "fdatasync", lambda fs, descriptor: synced.append(descriptor.path.name))
    queue = ("T", 0)
    QueueFile(tmp_path / "file", 0, 400, 400, ()).write()
    (tmp_path / "units").write_bytes(b"".join(QueueUnit(at * 100, 100, 0).encode() for at in range(45)))
    piece = UnitPiece(str(tmp_path / "units"), 0, 45, 0, 44, 100, 4500, True)
    assert WholeQueue(tmp_path / "queue", queue, 400, (piece,)).write() == 3
    IndexKeys(tmp_path / f"{1:017d}", 50, 100, (), 0, 0, True).write()
    assert set(synced) == {"file", *(f"{at:020d}" for at in (0, 400, 800)), f"{1:017d}"}


def test_a_sync_reaches_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda number, name=name: asked.append(name))
    fs = Filesystem()
    file = fs.open_new(tmp_path / "file")
    fs.fdatasync(file)
    fs.fsync(file)
    fs.fsync_folder(tmp_path)
    monkeypatch.delattr(os, "fdatasync")
    fs.fdatasync(file)
    assert asked == ["fdatasync", "fsync", "fsync", "fsync"]


def test_every_sync_has_a_test() -> None:
    held = every_sync.held()
    assert sorted(held) == sorted(sync.name for sync in every_sync.syncs())
    for test in set(held.values()):
        file, _, name = test.partition("::")
        assert f"def {name.split('[')[0]}" in (ROOT / file).read_text(encoding="utf-8")
