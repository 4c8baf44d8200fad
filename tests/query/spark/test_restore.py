"""backup restore on Spark: the store that a restore in this process makes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from store.errors import StoreError
from store.files.backup_files import BackupFiles
from store.files.filesystem import Filesystem
from store.query.spark.restore import RestoreTasks
from store.verbs.backup.moment import Moment
from store.verbs.backup.restore import RestoreOptions, RestoreReport, restore_backup
from store.verbs.backup.segments import SegmentWriter
from store.verbs.backup.selection import EVERYTHING, Selection
from tests.support.stores import make_store
from tests.verbs.backup.backups import back_up

NOW_MS = 1_900_000_000_000


def restore(spark: Any, backups: Path, root: Path, selection: Selection) -> tuple[RestoreReport, dict[str, bytes]]:
    """Restore; gives the report, and the bytes of all files, of index files in order without their names."""
    files = BackupFiles(str(backups))
    cluster = RestoreTasks(spark, NOW_MS) if spark is not None else None
    report = restore_backup(
        files,
        files.find(None),
        root,
        Filesystem(),
        selection=selection,
        clock=lambda: NOW_MS,
        options=RestoreOptions(cluster=cluster),
    )
    found = sorted(one for one in root.rglob("*") if one.is_file())
    names = [f"index {found.index(one)}" if one.parent.name == "index" else str(one.relative_to(root)) for one in found]
    return report, {name: one.read_bytes() for name, one in zip(names, found, strict=True)}


@pytest.mark.turns(2)
@pytest.mark.spark
@pytest.mark.parametrize("compresses", [False, True])
def test_tasks_write_the_store_that_this_process_writes(spark: Any, tmp_path: Path, compresses: bool) -> None:
    end = back_up(make_store(tmp_path / "store", 300), tmp_path / "backups", compresses=compresses).log_end
    for number, selection in enumerate((EVERYTHING, Selection(Moment(log_offset=18815)), Selection(bump=3))):
        here = restore(None, tmp_path / "backups", tmp_path / f"here{number}", selection)
        there = restore(spark, tmp_path / "backups", tmp_path / f"there{number}", selection)
        assert there == here
        assert there[0].log_end >= (18815 if selection.moment.log_offset else end)


@pytest.mark.spark
def test_a_damaged_segment_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    made = back_up(make_store(tmp_path / "store", 300), tmp_path / "backups")
    stored = tmp_path / "backups" / made.segments[1].stored
    stored.write_bytes(b"x" + stored.read_bytes()[1:])
    with pytest.raises(StoreError, match="its bytes have another SHA-256"):
        restore(spark, tmp_path / "backups", tmp_path / "new", EVERYTHING)
    assert not (tmp_path / "new").exists()


def test_a_task_that_is_tried_again_writes_the_segment_again(tmp_path: Path) -> None:
    made = back_up(make_store(tmp_path / "store", 20), tmp_path / "backups")
    writer = SegmentWriter(str(tmp_path / "backups"), tmp_path, made.segment_size, made.log_end)
    (tmp_path / "00000000000000000000").write_bytes(b"half")
    assert [writer(made.segments) for _ in range(2)] == [made.log_end] * 2
    whole = (tmp_path / "store/commitlog/00000000000000000000").read_bytes()
    assert (tmp_path / "00000000000000000000").read_bytes() == whole
    cut = replace(writer, log_end=1000)
    cut(made.segments)
    assert (tmp_path / "00000000000000000000").read_bytes() == whole[:1000] + bytes(len(whole) - 1000)
