"""Where a RocksDB with queues is, and which names are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.files.rocksdb_copy import _copy, remove_own_files
from store.files.rocksdb_files import has_queue_database, has_rocksdb_queues, is_rocksdb_file, queue_database
from store.layout import StoreLayout

FS = Filesystem()


@pytest.mark.parametrize(
    ("name", "is_own"),
    [
        ("CURRENT", True), ("IDENTITY", True), ("LOCK", True), ("LOG", True), ("LOG.old.123", True), ("LOG.old", True),
        ("MANIFEST-000005", True), ("OPTIONS-000007", True), ("000001.log", True), ("000001.sst", True),
        ("1.dbtmp", True), ("LOG2", False), ("MANIFEST-", False), ("x.sst", False), ("000001.txt", False),
        ("TopicA", False), ("CURRENT.x", False), ("", False),
    ],
)  # fmt: skip
def test_names_of_rocksdb_are_known(name: str, is_own: bool) -> None:
    assert is_rocksdb_file(name) is is_own


@pytest.mark.parametrize(
    ("paths", "folder", "has", "is_read"),
    [
        ([], "consumequeue", False, False),
        (["consumequeue/CURRENT"], "consumequeue", True, True),
        (["consumequeue/IDENTITY"], "consumequeue", True, True),
        (["consumequeue/CURRENT/0/"], "consumequeue", False, False),
        (["consumequeue/LOCK"], "consumequeue", False, False),
        (["consumequeue_r/CURRENT"], "consumequeue_r", True, True),
        (["consumequeue_r/"], "consumequeue_r", False, False),
        (["consumequeue_r/", "consumequeue/CURRENT"], "consumequeue", True, True),
        (["consumequeue_r/CURRENT", "consumequeue/CURRENT"], "consumequeue_r", True, True),
        (["consumequeue/CURRENT", "consumequeue/T/0/00000000000000000000"], "consumequeue", True, False),
        (["consumequeue/CURRENT", "consumequeue/T/0/x"], "consumequeue", True, True),
    ],
)
def test_the_separate_folder_counts_where_it_is_the_only_one_or_has_a_database(
    paths: list[str], folder: str, has: bool, is_read: bool, tmp_path: Path
) -> None:
    layout = StoreLayout(tmp_path)
    names = {"consumequeue": layout.consumequeue, "consumequeue_r": layout.consumequeue_rocksdb}
    for path in paths:
        first, _, rest = path.partition("/")
        place = names[first] / rest
        (place if path.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
        if not path.endswith("/"):
            place.write_bytes(b"x" * 20)
    assert queue_database(layout, FS) == names[folder]
    assert (has_queue_database(layout, FS), has_rocksdb_queues(layout, FS)) == (has, is_read)


def test_the_settings_of_rocksdict_and_text_logs_are_removed(tmp_path: Path) -> None:
    for name in ("CURRENT", "LOG", "LOG.old.1", "LOG2", "000001.log", "rocksdict-config.json"):
        (tmp_path / name).touch()
    remove_own_files(tmp_path, FS)
    assert FS.list_names(tmp_path) == ["000001.log", "CURRENT", "LOG2"]


@pytest.mark.parametrize("fetches", [False, True])
def test_a_copy_has_links_to_tables_unless_they_are_fetched(
    fetches: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, copy = tmp_path / "folder", tmp_path / "copy"
    (folder / "sub").mkdir(parents=True)
    for name in ("CURRENT", "LOCK", "000001.sst"):
        (folder / name).write_text(name)
    monkeypatch.setattr(Filesystem, "fetches", fetches)
    _copy(folder, copy, FS)
    assert {one.name: one.is_symlink() for one in copy.iterdir()} == {"CURRENT": False, "000001.sst": not fetches}
    assert (copy / "000001.sst").read_text() == "000001.sst"
