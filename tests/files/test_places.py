"""A place outside of this machine's files: what it lists, writes, deletes, and says where nothing is."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem

from store.errors import NotAStore, StoreIOError
from store.files.places import RemotePlace


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemotePlace:
    """The folder `bucket/store` with a log of two segments and a checkpoint, as a remote store."""
    (tmp_path / "bucket" / "store" / "commitlog").mkdir(parents=True)
    for name in ("commitlog/1", "commitlog/0", "checkpoint"):
        (tmp_path / "bucket" / "store" / name).write_bytes(name.encode())
    monkeypatch.chdir(tmp_path)
    return RemotePlace("s3://bucket/store", LocalFileSystem(), "bucket/store")


def test_a_tree_is_listed_below_its_root_with_folders_and_files(bucket: RemotePlace) -> None:
    found = {name: (entry.is_folder, entry.size) for name, entry in bucket.list_tree().items()}
    assert found == {
        "commitlog": (True, 0),
        "commitlog/0": (False, 11),
        "commitlog/1": (False, 11),
        "checkpoint": (False, 10),
    }
    assert [(one.path, one.is_folder) for one in bucket.list_below("")] == [
        ("/checkpoint", False),
        ("/commitlog", True),
        ("/commitlog/0", False),
        ("/commitlog/1", False),
    ]
    assert (bucket.list_folders(""), bucket.list_folders("commitlog")) == (["commitlog"], [])


def test_a_listed_file_has_the_whole_milliseconds_of_its_time(bucket: RemotePlace) -> None:
    os.utime(Path("bucket/store/checkpoint"), ns=(0, 1_700_000_000_123_999_000))
    assert bucket.list_below("")[0].mtime_ms == 1_700_000_000_123


def test_a_file_is_written_whole_and_deleted(bucket: RemotePlace) -> None:
    bucket.write("commitlog/2", lambda: [b"12", b"345"])
    assert bytes(bucket.map("commitlog/2", 1, 3).buffer) == b"234"
    assert list(bucket.written_ranges("commitlog/2", 4)) == [(4, 5)]
    assert list(bucket.written_ranges("commitlog/2", 5)) == []
    bucket.delete("commitlog/2")
    assert bucket.look_at("commitlog/2") is None
    with pytest.raises(StoreIOError, match="cannot delete"):
        bucket.delete("commitlog/2")


@pytest.mark.parametrize(
    ("root", "has_bucket", "says"),
    [
        ("bucket/none", True, "the bucket is there, and has nothing below none"),
        ("nowhere/store", False, "no bucket or container is called nowhere"),
        ("nowhere", False, "no bucket or container is called nowhere"),
    ],
)
def test_what_is_missing_is_the_bucket_or_what_is_below_it(
    root: str, has_bucket: bool, says: str, bucket: RemotePlace
) -> None:
    place = RemotePlace("s3://there", LocalFileSystem(), root)
    assert says in str(place.absent())
    if has_bucket:
        place.require_bucket()
    else:
        with pytest.raises(NotAStore, match=re.escape(says)):
            place.require_bucket()
