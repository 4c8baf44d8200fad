"""A change's journal: what is durable before what, and what is left of a change that did not begin."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.change.actions import Action, Patch, Remove
from store.change.journal import ELSEWHERE, Journal, store_look
from store.change.workspace import OWN_FOLDER
from store.errors import BadRequest, ForeignFile, StoreIOError
from store.files.filesystem import Filesystem

FS = Filesystem()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("config/one", "index/two", "abort"):
        path = tmp_path / "store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "store"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders and files that are synced, by their last two names, and the files that are moved."""
    calls: list[str] = []

    def told(what: str, path: Path) -> None:
        calls.append(f"{what} {path.parent.name}/{path.name}")

    rename = Filesystem.rename
    monkeypatch.setattr("store.change.journal.sync_folders", lambda folders, fs: [told("sync", one) for one in folders])
    monkeypatch.setattr(Filesystem, "fsync_folder", lambda fs, folder: told("sync", folder))
    monkeypatch.setattr(Filesystem, "fsync", lambda fs, file: told("sync", file.path))
    monkeypatch.setattr(
        Filesystem, "rename", lambda fs, source, target: told("move", source) or rename(fs, source, target)
    )
    return calls


def start(root: Path, quarantine: Path, *paths: str) -> tuple[Journal, list[Action]]:
    planned: list[Action] = [Remove(root / path, "r") for path in paths]
    return Journal.start(root, quarantine, planned, FS, command="test it", facts={"n": 1}), planned


def test_names_are_durable_before_the_abort_marker_goes_and_before_the_change_is_applied(
    root: Path, synced: list[str]
) -> None:
    quarantine = root / OWN_FOLDER / "quarantine"
    journal, planned = start(root, quarantine, "config/one", "abort")
    own = f"quarantine/{journal.id}"
    saved = [f"sync {journal.id}/manifest.json.new", f"move {journal.id}/manifest.json.new", f"sync {own}"]
    assert synced == [*saved, f"sync {OWN_FOLDER}/quarantine", f"sync store/{OWN_FOLDER}",
                      f"sync {root.parent.name}/store"]  # fmt: skip
    assert (journal.id.endswith("-test-it"), journal.state, len(journal.entries)) == (True, "applying", 2)
    synced.clear()
    for action, entry in zip(planned, journal.entries, strict=True):
        journal.perform(action, entry)
    kept = [f"sync {own}", f"sync {journal.id}/files"]
    names = ["sync store/config", f"sync {root.parent.name}/store"]
    assert synced == ["move config/one", *kept, *names, "move store/abort"]
    synced.clear()
    journal.finish()
    assert synced == [*kept, f"sync {root.parent.name}/store", *saved]
    assert Journal.load(root, journal.id, quarantine, FS).state == "applied"


def test_a_file_is_back_durably_before_its_kept_name_goes(root: Path, synced: list[str]) -> None:
    journal, planned = start(root, root / OWN_FOLDER / "quarantine", "config/one", "index/two")
    for action, entry in zip(planned, journal.entries, strict=True):
        journal.perform(action, entry)
    (root / "index/two").write_text("later")
    journal.finish()
    synced.clear()
    assert journal.take_back() == 2
    kept = f"{journal.id}/files"
    moves = ["move index/two", "move files/000001-two", "move files/000000-one"]
    names = ["sync store/index", "sync store/config", f"sync {root.parent.name}/store"]
    assert synced == [
        *moves, f"sync quarantine/{journal.id}", f"sync {journal.id}/later", *names, f"sync {kept}",
    ]  # fmt: skip
    assert [(root / name).read_text() for name in ("config/one", "index/two")] == ["config/one", "index/two"]


def test_a_change_that_cannot_be_noted_leaves_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(journal: Journal) -> None:
        announce(journal)
        raise StoreIOError("no")

    announce = Journal.announce
    monkeypatch.setattr(Journal, "announce", fail)
    (tmp_path / "q").mkdir()
    with pytest.raises(StoreIOError, match="no"):
        start(root, tmp_path / "q", "config/one")
    assert (list((tmp_path / "q").iterdir()), (root / OWN_FOLDER).exists()) == ([], False)


def test_a_quarantine_elsewhere_is_noted_durably_until_the_change_is_whole(
    root: Path, tmp_path: Path, synced: list[str]
) -> None:
    (tmp_path / "q").mkdir()
    journal, planned = start(root, tmp_path / "q", "config/one")
    note = root / OWN_FOLDER / ELSEWHERE
    assert note.read_text() == str(journal.folder)
    assert synced[-3:] == [
        f"sync {OWN_FOLDER}/{ELSEWHERE}",
        f"sync store/{OWN_FOLDER}",
        f"sync {root.parent.name}/store",
    ]
    journal.perform(planned[0], journal.entries[0])
    journal.finish()
    assert (synced[-1], (root / OWN_FOLDER).exists()) == (f"sync store/{OWN_FOLDER}", False)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "none"])
def test_an_unknown_change_is_refused_and_one_behind_a_link_too(name: str, root: Path, tmp_path: Path) -> None:
    quarantine = root / OWN_FOLDER / "quarantine"
    journal, _ = start(root, quarantine, "config/one")
    with pytest.raises(BadRequest, match=f"no quarantined change {name}"):
        Journal.load(root, name, quarantine, FS)
    journal.folder.rename(tmp_path / "moved")
    journal.folder.symlink_to(tmp_path / "moved")
    with pytest.raises(ForeignFile, match="a link among the folders of the store"):
        Journal.load(root, journal.id, quarantine, FS)


@pytest.mark.parametrize("given", [".", "q"])
def test_a_quarantine_is_noted_and_guarded_by_its_whole_path(
    given: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "q").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    journal, _ = start(root, Path(given), "config/one")
    assert (root / OWN_FOLDER / ELSEWHERE).read_text() == str(Path(given).absolute() / journal.id)
    journal.folder.rename(tmp_path / "moved")
    journal.folder.symlink_to(tmp_path / "moved")
    with pytest.raises(ForeignFile, match="a link among the folders of the store"):
        Journal.load(root, journal.id, Path(given), FS)


@pytest.mark.parametrize(
    ("state", "found", "is_refused"),
    [("applying", b"ab5", False), ("applied", b"ab5", True), ("applied", b"abc", False), ("applying", b"xb5", True)],
)
def test_bytes_over_a_patch_keep_a_change_from_being_undone(
    state: str, found: bytes, is_refused: bool, root: Path
) -> None:
    (root / "checkpoint").write_bytes(b"012345")
    planned: list[Action] = [Patch(root / "checkpoint", 3, b"abc", "r")]
    journal = Journal.start(root, root / OWN_FOLDER / "quarantine", planned, FS, command="c", facts={})
    journal.mark(state)
    (root / "checkpoint").write_bytes(b"012" + found)
    if is_refused:
        with pytest.raises(BadRequest, match="the log was written on since") as refused:
            journal.require_patches_untouched()
        error = refused.value
        assert (error.file, error.offset) == (root / "checkpoint", 3)
        assert error.hint == f"what the change took away is in {journal.folder / 'files'}"
    else:
        journal.require_patches_untouched()


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (None, None),
        ({"a": [1, 2], "b": [1, 2]}, None),
        ({"a": [1, 3], "b": [1, 2]}, "(a)"),
        ({"a": [1, 3]}, "(a and more)"),
        ({"b": [1, 2]}, "(a)"),
        ({"a": [1, 2], "b": [1, 2], "c": [1, 2]}, "(c)"),
    ],
)
def test_a_store_that_has_changed_since_is_refused_with_the_first_name(
    after: dict[str, list[int]] | None, told: str | None, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.change.journal.store_look", lambda *given: {"b": [1, 2], "a": [1, 2]})
    journal = Journal(root, root / "q/x", {"after": after} if after is not None else {}, FS)
    if told is None:
        journal.require_unchanged()
        return
    with pytest.raises(BadRequest) as refused:
        journal.require_unchanged()
    assert (refused.value.reason, refused.value.code) == (f"the store has changed since x {told}", "changed-since")


def test_a_look_at_a_store_leaves_out_what_is_rmqctls_own(root: Path) -> None:
    for name in ("lock", "q/kept", f"{OWN_FOLDER}/x", f"config/{OWN_FOLDER}/y", "config/lock"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    found = store_look(root, FS, root / "q")
    assert sorted(found) == ["abort", "config/lock", "config/one", "index/two"]
    status = (root / "config/one").stat()
    assert found["config/one"] == [status.st_size, status.st_mtime_ns]


def test_two_changes_of_one_moment_have_folders_of_their_own(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Any = SimpleNamespace(time_ns=lambda: 1_700_000_000_123_999_999, strftime=lambda form, now: "STAMP",
                                 localtime=lambda seconds: seconds)  # fmt: skip
    monkeypatch.setattr("store.change.journal.time", clock)
    made = [start(root, root / OWN_FOLDER / "quarantine", "config/one")[0] for _ in range(2)]
    assert [(one.id, one.time_ms) for one in made] == [
        ("STAMP.123-test-it", 1_700_000_000_123), ("STAMP.124-test-it", 1_700_000_000_124),
    ]  # fmt: skip
