"""A restored store is durable, its log last; what a restore reports, and where it ends a damaged log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from store.errors import BadRequest, DamagedFile
from store.files.backup_files import BackupFiles
from store.files.filesystem import Filesystem
from store.formats.checkpoint_page import CheckpointPage
from store.opened.checkpoint import StoreCheckpoint
from store.structures.epochs.files import Epoch, EpochFile, encode_epochs
from store.verbs.backup.queue_ends import BackedEnd
from store.verbs.backup.restore import RestoreOptions, RestoreReport, _split_ends, restore_backup
from store.verbs.salvage.config_tables import BroughtFile
from tests.support.stores import make_store
from tests.support.watched_disk import WatchedDisk, disk_over
from tests.verbs.backup.backups import back_up, findings_of, restore
from tests.verbs.rebuild.stores import expired_store

BEGAN_MS, SEGMENT = 1_700_000_000_000, 16384


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[WatchedDisk]:
    (tmp_path / "disk").mkdir()
    disk = disk_over(tmp_path / "disk")
    yield disk
    disk.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store whose first queue has expired, with tables and epochs."""
    root = expired_store(tmp_path / "store")
    (root / "config").mkdir()
    (root / "compaction/T/0").mkdir(parents=True)
    (root / "compaction/T/0/segment").write_text("kept")
    (root / "config/consumerOffset.json").write_text('{"offsetTable":{"T@readers":{0:30}}}')
    for name in ("epochFileCheckpoint", "epochFileCheckpoint.bak"):
        (root / name).write_bytes(encode_epochs([Epoch(1, 0), Epoch(2, 20_000), Epoch(3, 30_000)]))
    return root


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_restored_store_is_durable(is_damaged: bool, store: Path, disk: WatchedDisk, tmp_path: Path) -> None:
    if is_damaged:
        with (store / "commitlog/00000000000000032768").open("r+b") as file:
            file.seek(300)
            file.write(b"\xff")
    back_up(store, tmp_path / "backups")
    root, before_the_log = tmp_path / "disk/a/new", list[list[str]]()

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        if name == "rename" and argument.name == "commitlog":
            before_the_log.append([one for one in disk.unsynced() if ".rmqctl" not in one])

    disk.look = look
    restore(tmp_path / "backups", root, fs=disk, **({} if is_damaged else {"log_offset": 29_906}))
    assert StoreCheckpoint.load(root / "checkpoint", disk).physic_ms > 0
    assert (root / "consumequeue/Old/0").exists()
    assert [one.epoch for one in EpochFile(root, disk).entries] == [1, 2, 3] if is_damaged else [1, 2]
    assert (before_the_log, disk.unsynced()) == ([[]], [])


MOMENTS = [
    # the log offset asked for; the log's end in the new store, its records and its segments
    (0, (0, 0, [0])),
    (370, (370, 2, [0])),
    (16_384, (16_249, 87, [0])),
    (16_571, (16_571, 88, [0, SEGMENT])),
    (18_628, (18_628, 99, [0, SEGMENT])),
    (None, (18_815, 100, [0, SEGMENT])),
]


@pytest.mark.parametrize(("moment", "made"), MOMENTS)
def test_a_new_store_has_the_log_up_to_the_moment_and_zeros_behind(
    moment: int | None, made: tuple[int, int, list[int]], tmp_path: Path
) -> None:
    root, (log_end, count, starts) = make_store(tmp_path / "store", 100), made
    back_up(root, tmp_path / "backups")
    report = restore(tmp_path / "backups", tmp_path / "new", **({} if moment is None else {"log_offset": moment}))
    tables = [BroughtFile("config/topics.json", "the queues", "1 topic added or widened")] if count else []
    last_ms = BEGAN_MS + 1000 * count if count else 0
    remarks = [] if count else ["the backup's first record is not before the moment: the new store has no records"]
    assert report == RestoreReport(0, log_end, count, last_ms, 0, tables, [], remarks=remarks)
    whole = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    for path, start in zip(sorted((tmp_path / "new/commitlog").iterdir()), starts, strict=True):
        assert (path.name, path.read_bytes()) == (f"{start:020d}", whole[start:log_end][:SEGMENT].ljust(SEGMENT, b"\0"))
    page = StoreCheckpoint.load(tmp_path / "new/checkpoint", Filesystem()).page
    assert page == CheckpointPage(physic_ms=last_ms, logics_ms=last_ms)
    assert findings_of(tmp_path / "new") == []


@pytest.mark.parametrize(("line", "is_there"), [("4.9", False), ("5.3", True), ("5.5", True)])
def test_a_new_store_of_5_x_has_the_empty_file_of_a_clean_stop(line: str, is_there: bool, tmp_path: Path) -> None:
    made = replace(back_up(make_store(tmp_path / "store", 3), tmp_path / "b"), line=line)
    restore_backup(BackupFiles(str(tmp_path / "b")), made, tmp_path / "new", Filesystem(), clock=lambda: 1)
    left = [one.stat().st_size for one in tmp_path.glob("new/abort*")]
    assert left == ([0] if is_there else [])


@pytest.mark.parametrize("compresses", [False, True])
def test_the_bytes_that_are_read_are_counted(compresses: bool, tmp_path: Path) -> None:
    made = back_up(make_store(tmp_path / "store", 100), tmp_path / "b", compresses=compresses)
    files, counted = BackupFiles(str(tmp_path / "b")), list[tuple[int, int]]()
    restore_backup(
        files,
        made,
        tmp_path / "new",
        Filesystem(),
        clock=lambda: 1,
        options=RestoreOptions(on_progress=lambda *done: counted.append(done)),
    )
    in_all = 16384 + 2431 + 94 + 4096
    assert counted == [(16384, in_all), (16384 + 2431, in_all), (16384 + 2431 + 94, in_all)]


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    back_up(make_store(tmp_path / "store", 10), tmp_path / "backups")
    (tmp_path / "new").mkdir()
    assert restore(tmp_path / "backups", tmp_path / "new").record_count == 10
    before = sorted(tmp_path.joinpath("new").rglob("*"))
    with pytest.raises(BadRequest, match="the folder is not empty"):
        restore(tmp_path / "backups", tmp_path / "new")
    assert sorted(tmp_path.joinpath("new").rglob("*")) == before


HINT = "give it as a setting if the broker uses another"
NO_QUEUES = f"no queue file shows their size: mappedFileSizeConsumeQueue=6000000 is assumed; {HINT}"
NO_INDEX = f"no index file shows their size: maxHashSlotNum=5000000, maxIndexNum=20000000 is assumed; {HINT}"


@pytest.mark.parametrize(
    ("kept", "settings", "remarks"),
    [
        (("consumequeue", "index"), {}, []),
        (("index",), {}, [NO_QUEUES]),
        (("consumequeue",), {"maxHashSlotNum": "8", "maxIndexNum": 20}, []),
        ((), {}, [NO_QUEUES, NO_INDEX]),
    ],
)
def test_sizes_that_the_store_did_not_show_are_named_by_backup_and_restore(
    kept: tuple[str, ...], settings: dict[str, object], remarks: list[str], store: Path, tmp_path: Path
) -> None:
    for name in {"consumequeue", "index"} - {*kept}:
        shutil.rmtree(store / name)
    told: list[str] = []
    back_up(store, tmp_path / "backups", settings=settings, remark=told.append)
    assert told == remarks
    made = restore(tmp_path / "backups", tmp_path / "new")
    assert made.remarks == remarks
    sizes = {"mappedFileSizeConsumeQueue": 6000000, "maxHashSlotNum": 8, "maxIndexNum": 20}
    assert restore(tmp_path / "backups", tmp_path / "other", settings=sizes).remarks == []


@pytest.mark.parametrize("is_last", [True, False])
def test_damage_ends_the_log_in_its_last_segment_and_is_refused_before(is_last: bool, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300)
    with (root / f"commitlog/{SEGMENT:020d}").open("r+b") as file:
        file.seek(287)
        file.write(b"\xff")
    for start in (2 * SEGMENT, 3 * SEGMENT) if is_last else ():
        (root / f"commitlog/{start:020d}").unlink()
    back_up(root, tmp_path / "backups")
    if is_last:
        report = restore(tmp_path / "backups", tmp_path / "new")
        assert (report.log_end, report.record_count, report.last_store_timestamp_ms) == (16_571, 88, BEGAN_MS + 88_000)
        return
    with pytest.raises(DamagedFile, match="bytes before its end") as caught:
        restore(tmp_path / "backups", tmp_path / "new")
    assert (str(caught.value.file), caught.value.offset) == (f"commitlog/{SEGMENT:020d}", 187)


def test_an_expired_queue_of_another_type_is_named_with_the_queue_offset_that_it_loses() -> None:
    ends = [BackedEnd(topic, 0, 3, 7, newest, newest + 9) for topic, newest in (("B", 99), ("B", 100), ("T", 99))]
    empty = BackedEnd("B", 1, 0, 0, -1, -1)
    assert _split_ends([*ends, empty], {"B"}, 100) == (
        [ends[2]],
        ["B/0: its messages have expired, and its next one gets queue offset 0 instead of 7"],
    )
