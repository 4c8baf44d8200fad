"""backup prune keeps what a kept backup needs, and compares backups file by file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store.errors import DamagedFile
from store.files.filesystem import Filesystem
from store.verbs.backup.folder import BackupFolder
from store.verbs.backup.prune import FileDifference, PrunePlan, added_bytes, differences, plan_prune
from tests.support.stores import Clock, make_store
from tests.verbs.backup.backups import back_up, faults_in, put_more, restore, stored

NOW_MS, DAY_MS = 1_700_000_000_000, 86_400_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("made")
    root = make_store(made / "store", 100)
    for day in range(5):
        back_up(root, made / "backups", clock=Clock(NOW_MS - (4 - day) * DAY_MS))
        put_more(root, 40, 1000 * day)
    return made


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> BackupFolder:
    """Backups of five days, the last one of today; the store grew by 40 messages a day."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return BackupFolder(tmp_path / "backups", Filesystem())


RULES = [
    (None, None, 5),
    (1, None, 1),
    (3, None, 3),
    (9, None, 5),
    (None, 0, 1),
    (None, 1, 2),
    (None, 1.5, 2),
    (None, 100, 5),
    (2, 3, 4),
    (4, 1, 4),
]


@pytest.mark.parametrize(("keep_last", "keep_days", "kept"), RULES)
def test_the_rules_keep_backups_and_the_files_they_need(
    keep_last: int | None, keep_days: float | None, kept: int, folder: BackupFolder
) -> None:
    before = {one.id: one for one in folder.manifests()}
    plan = plan_prune(folder, NOW_MS, keep_last=keep_last, keep_days=keep_days)
    assert (len(plan.kept), len(plan.backups)) == (kept, 5 - kept)
    assert sorted([*plan.backups, *plan.kept]) == sorted(before)
    plan.apply(folder)
    assert [one.id for one in folder.manifests()] == list(plan.kept) == sorted(before)[5 - kept :]
    assert stored(folder.root) == {one.stored for backup in plan.kept for one in before[backup].files}
    assert faults_in(folder.root) == []


@pytest.mark.parametrize(("keep_last", "keep_days"), [(0, None), (None, 9.5), (0, 9.5)])
def test_the_newest_backup_is_kept_however_old_it_is(
    keep_last: int | None, keep_days: float | None, folder: BackupFolder
) -> None:
    newest = folder.manifests()[-1].id
    plan = plan_prune(folder, NOW_MS + 10 * DAY_MS, keep_last=keep_last, keep_days=keep_days)
    assert plan.kept == (newest,)


@pytest.mark.parametrize("lost", ["nothing", "a file", "a byte"])
def test_the_newest_backup_that_has_all_its_files_is_kept(lost: str, folder: BackupFolder) -> None:
    *_, before, newest = folder.manifests()
    file = folder.root / newest.segments[-1].stored
    if lost == "a file":
        file.unlink()
    elif lost == "a byte":
        file.write_bytes(file.read_bytes()[:-1])
    plan = plan_prune(folder, NOW_MS, keep_last=1, keep_days=None)
    kept, incomplete = ((newest.id,), ()) if lost == "nothing" else ((before.id, newest.id), (newest.id,))
    assert (plan.kept, plan.incomplete) == (kept, incomplete)


def test_backups_without_a_whole_one_are_kept_by_the_rules_alone(folder: BackupFolder) -> None:
    manifests = folder.manifests()
    (folder.root / manifests[0].segments[0].stored).unlink()
    plan = plan_prune(folder, NOW_MS, keep_last=2, keep_days=None)
    assert plan.kept == plan.incomplete == tuple(one.id for one in manifests[-2:])


@pytest.mark.parametrize(
    ("backups", "files", "is_empty", "freed"),
    [((), {}, True, 0), (("a",), {}, False, 0), ((), {"x": 3, "y": 4}, False, 7)],
)
def test_a_plan_is_empty_without_backups_and_files(
    backups: tuple[str, ...], files: dict[str, int], is_empty: bool, freed: int
) -> None:
    plan = PrunePlan((), backups, files)
    assert (plan.is_empty, plan.freed_bytes) == (is_empty, freed)


def test_a_kept_backup_is_restored_after_a_prune(folder: BackupFolder, tmp_path: Path) -> None:
    plan_prune(folder, NOW_MS, keep_last=1, keep_days=None).apply(folder)
    assert restore(folder.root, tmp_path / "new").record_count == 260


def test_files_of_an_unfinished_backup_are_kept_for_the_next_one(folder: BackupFolder) -> None:
    newest = folder.manifests()[-1]
    folder.note(newest.segments[0])
    (folder.root / f"backups/{newest.id}.json").unlink()
    plan = plan_prune(folder, NOW_MS, keep_last=None, keep_days=None)
    assert newest.segments[0].stored not in plan.files
    assert newest.segments[-1].stored in plan.files


def test_nothing_is_pruned_beside_a_damaged_manifest(folder: BackupFolder) -> None:
    (folder.root / "backups/20200101T000000.000.json").write_text("{}")
    with pytest.raises(DamagedFile):
        plan_prune(folder, NOW_MS, keep_last=1, keep_days=None)


def test_bytes_count_for_the_first_backup_that_has_them(folder: BackupFolder) -> None:
    manifests = folder.manifests()
    added = added_bytes(manifests)
    assert sum(added.values()) == sum(folder.stored_files().values())
    assert added[manifests[0].id] == sum(one.stored_size for one in manifests[0].files)
    assert added_bytes(manifests[::-1])[manifests[-1].id] == sum(one.stored_size for one in manifests[-1].files)


def test_two_backups_differ_in_the_files_that_changed(folder: BackupFolder) -> None:
    first, *_, last = folder.manifests()
    before, after = ({one.path: one.size for one in side.files} for side in (first, last))
    segments = [f"commitlog/{start:020d}" for start in (16384, 32768, 49152)]
    assert differences(first, last) == [
        FileDifference("checkpoint", "differs", 4096, 4096),
        FileDifference(segments[0], "differs", before[segments[0]], 16384),
        FileDifference(segments[1], "added", None, 16384),
        FileDifference(segments[2], "added", None, after[segments[2]]),
        FileDifference("queue-ends.json", "differs", before["queue-ends.json"], after["queue-ends.json"]),
    ]
    assert [one.difference for one in differences(last, first)].count("missing") == 2
    assert differences(last, last) == []
