"""A store may come from anywhere: whatever lies in it, nothing outside of it is written, moved or deleted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store.change.actions import Publish, Remove
from store.change.change import Change
from store.change.manifest import encode_manifest
from store.change.quarantine import interrupted_change, list_quarantine, purge, undo
from store.change.workspace import staging_folder
from store.errors import BadRequest, DamagedFile, ForeignFile, StoreError, StoreIOError, UnsupportedFormat
from store.files.filesystem import Filesystem
from tests.support.snapshots import snapshot

FS = Filesystem()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "file").write_text("old")
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that is none of the store's business."""
    folder = tmp_path / "outside"
    (folder / "below").mkdir(parents=True)
    (folder / "file").write_text("precious")
    (folder / "below" / "file").write_text("precious")
    return folder


def apply(root: Path, quarantine: Path | None = None) -> str:
    (root / "new").write_text("new")
    publish = Publish(root / "config" / "file", root / "new", "test")
    change_id = Change("test", root, FS, [publish]).apply(quarantine=quarantine)
    assert change_id is not None
    return change_id


def manifest(root: Path, change_id: str) -> Path:
    return root / ".rmqctl" / "quarantine" / change_id / "manifest.json"


def forge(root: Path, change_id: str, edit: Callable[[dict[str, Any]], object]) -> None:
    """Changes a manifest and gives it the digest that belongs to it."""
    path = manifest(root, change_id)
    document = json.loads(path.read_bytes())
    del document["digest"]
    edit(document)
    path.write_bytes(encode_manifest(document))


# Links.


def link_quarantine(root: Path, outside: Path) -> None:
    (root / ".rmqctl").mkdir()
    (root / ".rmqctl" / "quarantine").symlink_to(outside)


def link_own_folder(root: Path, outside: Path) -> None:
    (root / ".rmqctl").symlink_to(outside)


def link_staging(root: Path, outside: Path) -> None:
    (root / ".rmqctl").mkdir()
    (root / ".rmqctl" / "staging").symlink_to(outside)


def link_config(root: Path, outside: Path) -> None:
    (root / "consumequeue" / "T").mkdir(parents=True)
    (root / "consumequeue" / "T" / "0").symlink_to(outside)


@pytest.mark.parametrize("link", [link_quarantine, link_own_folder, link_staging, link_config])
def test_no_change_follows_a_link(link: Callable[[Path, Path], None], root: Path, outside: Path) -> None:
    link(root, outside)
    before = snapshot(outside)
    staging = staging_folder(root, "test")
    change = Change("test", root, FS, staging=staging)

    def carry_out() -> None:
        change.publish_bytes(root / "config" / "file", b"new", "test")
        change.actions.append(Remove(root / "consumequeue" / "T" / "0" / "file", "test"))
        change.apply()

    with pytest.raises(StoreError):
        carry_out()
    assert snapshot(outside) == before
    assert (root / "config" / "file").read_text() == "old"


@pytest.mark.parametrize("link", [link_quarantine, link_own_folder])
def test_neither_listing_nor_purging_follows_a_link(
    link: Callable[[Path, Path], None], root: Path, outside: Path
) -> None:
    (outside / "below" / "manifest.json").write_text("{}")
    link(root, outside)
    before = snapshot(outside)
    for action in (lambda: list_quarantine(root, fs=FS), lambda: purge(root, fs=FS)):
        with pytest.raises(ForeignFile, match="a link"):
            action()
    assert snapshot(outside) == before


def test_purging_removes_a_link_in_a_change_and_not_its_target(root: Path, outside: Path) -> None:
    change_id, before = apply(root), snapshot(outside)
    (manifest(root, change_id).parent / "files" / "link").symlink_to(outside)
    purge(root, fs=FS)
    assert not manifest(root, change_id).parent.exists()
    assert snapshot(outside) == before


def test_a_linked_change_is_none(root: Path, outside: Path) -> None:
    change_id = apply(root)
    folder = manifest(root, change_id).parent
    folder.rename(outside / "change")
    folder.symlink_to(outside / "change")
    assert list_quarantine(root, fs=FS) == []
    with pytest.raises(ForeignFile, match="a link"):
        undo(root, change_id, fs=FS)
    assert (root / "config" / "file").read_text() == "new"


def test_a_kept_file_that_is_a_link_is_not_put_back(root: Path, outside: Path) -> None:
    change_id = apply(root)
    kept = min((manifest(root, change_id).parent / "files").iterdir())
    kept.unlink()
    kept.symlink_to(outside / "file")
    with pytest.raises((DamagedFile, ForeignFile)):
        undo(root, change_id, force=True, fs=FS)
    assert (outside / "file").read_text() == "precious"


@pytest.mark.parametrize("name", ["fifo", "/dev/null"])
def test_fifos_and_devices_do_not_block(root: Path, name: str) -> None:
    os.mkfifo(root / "fifo")
    for action in (FS.open_read, FS.open_write, FS.read_file):
        with pytest.raises(ForeignFile, match="where a file is expected"):
            action(root / name)


def test_no_write_follows_a_link(root: Path, outside: Path) -> None:
    (root / "checkpoint").symlink_to(outside / "file")
    with pytest.raises(ForeignFile, match="a link"):
        FS.open_write(root / "checkpoint")


# Manifests.


@pytest.mark.parametrize(
    "path",
    [
        "../outside/file",
        "config/../../outside/file",
        "/etc/passwd",
        "{outside}/file",
        ".rmqctl/x",
        "",
        "lock",
        "unknown",
        7,
    ],
)
def test_a_path_that_is_not_the_stores_is_refused(path: object, root: Path, outside: Path) -> None:
    change_id, before = apply(root), snapshot(outside)
    named = path.replace("{outside}", str(outside)) if isinstance(path, str) else path
    forge(root, change_id, lambda document: document["actions"][0].update(path=named))
    with pytest.raises(DamagedFile, match="not one of the store's files"):
        undo(root, change_id, force=True, fs=FS)
    assert snapshot(outside) == before
    assert (root / "config" / "file").read_text() == "new"


def test_a_commit_log_elsewhere_is_the_stores_own(root: Path, outside: Path) -> None:
    change_id = Change("test", root, FS, [Remove(outside / "file", "test")]).apply()
    assert change_id is not None
    assert len(list_quarantine(root, fs=FS)) == 1
    with pytest.raises(DamagedFile):
        undo(root, change_id, fs=FS)
    undo(root, change_id, fs=FS, elsewhere=[outside])
    assert (outside / "file").read_text() == "precious"


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (lambda d: d.update(version=9), UnsupportedFormat),
        (lambda d: d.update(state="odd"), DamagedFile),
        (lambda d: d.pop("command"), DamagedFile),
        (lambda d: d.update(time_ms=-1), DamagedFile),
        (lambda d: d.update(actions={}), DamagedFile),
        (lambda d: d["actions"].append([]), DamagedFile),
        (lambda d: d["actions"][0].update(kind="chmod"), DamagedFile),
        (lambda d: d["actions"][0].update(kept_as="../../../outside/file"), DamagedFile),
        (lambda d: d["actions"][0].update(kept_as="files/000000-other"), DamagedFile),
        (lambda d: d["actions"][0].update(original={"size": "3"}), DamagedFile),
        (lambda d: d["actions"][0]["original"].update(sha256="0" * 64), DamagedFile),
        (lambda d: d["actions"][0].pop("published"), DamagedFile),
        (lambda d: d["actions"][0].update(kind="patch", before="00", after="0"), DamagedFile),
    ],
)
def test_a_manifest_of_another_shape_is_refused(
    edit: Callable[[dict[str, Any]], object], error: type[StoreError], root: Path
) -> None:
    change_id = apply(root)
    forge(root, change_id, edit)
    with pytest.raises(error):
        undo(root, change_id, force=True, fs=FS)
    assert (root / "config" / "file").read_text() == "new"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_manifest_that_is_no_object_is_refused(data: bytes, root: Path) -> None:
    change_id = apply(root)
    manifest(root, change_id).write_bytes(data)
    with pytest.raises(DamagedFile, match="not a manifest"):
        list_quarantine(root, fs=FS)


def test_a_manifest_that_was_edited_is_refused(root: Path) -> None:
    change_id = apply(root)
    path = manifest(root, change_id)
    path.write_text(path.read_text().replace('"applied"', '"applying"'))
    with pytest.raises(DamagedFile, match="digest"):
        undo(root, change_id, fs=FS)


# A quarantine elsewhere.


@pytest.mark.parametrize("name", ["commitlog", "consumequeue/T", "index/x", "config"])
def test_a_quarantine_among_the_stores_files_is_refused(name: str, root: Path) -> None:
    with pytest.raises(BadRequest, match="among the store's own files"):
        apply(root, root / name)
    assert (root / "config" / "file").read_text() == "old"


def test_a_quarantine_below_the_root_does_not_count_as_a_change_of_the_store(root: Path) -> None:
    change_id = apply(root, root / "kept")
    undo(root, change_id, quarantine=root / "kept", fs=FS)
    assert (root / "config" / "file").read_text() == "old"


def test_a_lost_quarantine_can_be_given_up(root: Path, tmp_path: Path) -> None:
    (root / ".rmqctl").mkdir()
    (root / ".rmqctl" / "change-elsewhere").write_text(str(tmp_path / "unmounted" / "20260101T000000.000-test"))
    with pytest.raises(StoreIOError, match="its quarantine is not there"):
        interrupted_change(root, FS)
    purge(root, ["20260101T000000.000-test"], fs=FS)
    assert interrupted_change(root, FS) is None
