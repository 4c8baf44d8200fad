"""What a reader of a store's files takes for a segment, an index file, a queue's file."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from store.errors import ForeignFile, NotAStore, WrongFileSize
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.layout import StoreLayout, segment_name


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three files of five bytes named for 100, 200 and 1000, and what is none, in each folder of such files."""
    for folder in ("commitlog", "consumequeue/T/0"):
        (tmp_path / folder).mkdir(parents=True)
        for number in (1000, 200, 100):
            path = tmp_path / folder / segment_name(number)
            path.write_bytes(b"12345")
            os.utime(path, ns=(0, (number + 1) * 1_000_000 - 1))
        (tmp_path / folder / segment_name(300)).mkdir()
        (tmp_path / folder / "other").touch()
    (tmp_path / "commitlog" / segment_name(400)).touch()
    return tmp_path


def test_segments_are_the_files_with_bytes_of_a_segments_name_by_number(root: Path) -> None:
    reader = StoreReader(str(root))
    assert reader.segments() == [
        StoredFile(f"commitlog/{segment_name(number)}", number, 5, number) for number in (100, 200, 1000)
    ]


def test_a_queues_files_are_those_of_a_segments_name_by_number(root: Path) -> None:
    reader = StoreReader(str(root))
    assert reader.queue_files("T", 0) == [
        StoredFile(f"consumequeue/T/0/{segment_name(number)}", number, 5, number) for number in (100, 200, 1000)
    ]
    assert reader.queue_files("T", 1) == []


FOREIGN = {"folder": "a folder among the segments", "fifo": "a FIFO among the segments",
           "other": "not the name of a segment"}  # fmt: skip


def test_what_is_no_segment_is_named_with_its_fault(root: Path) -> None:
    os.mkfifo(root / "commitlog" / segment_name(500))
    found = StoreReader(str(root)).foreign_in_commitlog()
    assert [(entry.path.name, fault) for entry, fault in found] == [
        (segment_name(300), FOREIGN["folder"]),
        (segment_name(500), FOREIGN["fifo"]),
        ("other", FOREIGN["other"]),
    ]


def test_queues_are_the_folders_of_a_number_in_those_of_topics(root: Path) -> None:
    for name in ("T/3", "T/no", "S/1"):
        (root / "consumequeue" / name).mkdir(parents=True)
    (root / "consumequeue" / "T" / "4").touch()
    assert StoreReader(str(root)).queues() == [("S", 1), ("T", 0), ("T", 3)]


def test_one_file_is_found_by_its_path_and_a_folder_is_none(root: Path) -> None:
    reader = StoreReader(str(root))
    path = f"commitlog/{segment_name(200)}"
    assert reader.file_at(path) == StoredFile(path, -1, 5, 200)
    assert [reader.file_at(name) for name in ("commitlog", "absent")] == [None, None]


def test_links_that_work_are_named_and_others_are_not(root: Path) -> None:
    segments = root / "commitlog"
    (segments / segment_name(100)).rename(root / "elsewhere")
    (segments / segment_name(100)).symlink_to(root / "elsewhere")
    (segments / segment_name(600)).symlink_to(root / "nowhere")
    (segments / "folder").symlink_to(root / "config")
    (root / "config").mkdir()
    (root / "index").symlink_to(root / "config")
    (root / "checkpoint").symlink_to(root / "nowhere")
    assert StoreReader(str(root)).links() == [f"commitlog/{segment_name(100)}", "index"]


@pytest.mark.parametrize(
    ("names", "refused_as"),
    [
        (["commitlog/"], None),
        (["index/"], None),
        (["consumequeue/"], None),
        (["commitlog/", "index/", "consumequeue/", "checkpoint"], None),
        (["commitlog"], NotAStore),
        (["commitlog", "index/"], NotAStore),
        (["config/"], NotAStore),
        ([], NotAStore),
        (["commitlog/", "index"], ForeignFile),
        (["commitlog/", "consumequeue"], ForeignFile),
        (["commitlog/", "checkpoint/"], ForeignFile),
    ],
)
def test_a_store_has_a_log_or_what_is_left_of_it_and_each_name_is_a_folder_or_a_file(
    names: list[str], refused_as: type[Exception] | None, tmp_path: Path
) -> None:
    for name in names:
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).touch()
    reader = StoreReader(str(tmp_path))
    if refused_as is None:
        reader.check_is_store()
    else:
        with pytest.raises(refused_as):
            reader.check_is_store()


@pytest.mark.parametrize(
    ("name", "is_accepted"),
    [("commitlog", True), ("index", True), ("checkpoint", True), ("config", True), ("other", False), (None, False)],
)
def test_a_folder_with_any_file_of_a_broker_may_be_a_store(name: str | None, is_accepted: bool, tmp_path: Path) -> None:
    if name is not None:
        (tmp_path / name).mkdir()
    reader = StoreReader(str(tmp_path))
    if is_accepted:
        reader.check_has_broker_files()
    else:
        with pytest.raises(NotAStore, match="no commit log, queues or checkpoint are in it"):
            reader.check_has_broker_files()


def test_a_segment_of_another_size_is_refused(root: Path) -> None:
    StoreReader(str(root)).check_segment_sizes(5)
    (root / "commitlog" / segment_name(200)).write_bytes(b"1234")
    with pytest.raises(WrongFileSize, match=segment_name(200)):
        StoreReader(str(root)).check_segment_sizes(5)


def test_one_segment_is_a_store_of_it_alone(root: Path) -> None:
    file = root / "commitlog" / segment_name(200)
    reader = StoreReader(str(file), segment_start=4096)
    name = segment_name(4096)
    assert reader.segments() == [StoredFile(f"commitlog/{name}", 4096, 5, 200)]
    assert (reader.is_segment, reader.links(), reader.queues(), reader.index_files()) == (True, [], [], [])
    assert bytes(reader.read(f"commitlog/{name}")) == b"12345"
    assert [reader.exists(path) for path in ("", "commitlog", f"commitlog/{name}", "index", "checkpoint")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert reader.name_of(f"commitlog/{name}") == str(file)
    folders = [reader._place.look_at(path) for path in ("", "commitlog")]
    assert [(one.is_folder, one.is_file) for one in folders if one is not None] == [(True, False)] * 2


def test_a_segment_is_in_the_first_of_the_logs_folders_that_has_it(root: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    (folders[1] / segment_name(100)).write_bytes(b"second")
    (folders[0] / segment_name(200)).write_bytes(b"first")
    reader = StoreReader(str(root), commitlogs=folders)
    found = [(file.number, bytes(reader.read(file.path))) for file in reader.segments()]
    assert found == [(100, b"second"), (200, b"first")]
    assert reader.name_of(f"commitlog/{segment_name(100)}") == str(folders[1] / segment_name(100))
    assert not reader.exists(f"commitlog/{segment_name(1000)}")
    assert bytes(reader.read(f"consumequeue/T/0/{segment_name(100)}")) == b"12345"


def test_a_reader_of_a_layout_keeps_its_folders_and_settings_in_another_process(root: Path, tmp_path: Path) -> None:
    (root / "commitlog").rename(elsewhere := tmp_path / "elsewhere")
    layout = StoreLayout(root, (elsewhere,), queue_settings=(("storeType", "default"),))
    for reader in (made := StoreReader.of(layout, Filesystem()), pickle.loads(pickle.dumps(made))):
        assert (reader.queue_settings, len(reader.segments())) == ((("storeType", "default"),), 3)
