"""A change on three plain files: what it does, what undoing it puts back, and what it never destroys."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store.change import change as changes
from store.change.actions import HASH_SIZE_LIMIT, Action, Patch, Publish, Remove, Workplace, replace_files
from store.change.change import Change
from store.change.quarantine import UndoReport, list_quarantine, purge, undo
from store.errors import BadRequest, ForeignFile, StoreIOError, WrongKind
from store.files.filesystem import Filesystem
from tests.support.snapshots import snapshot

FS = Filesystem()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the files removed, replaced and patched, each saying its name, and a staged one."""
    folder = tmp_path / "store"
    (folder / "config").mkdir(parents=True)
    for name in ("removed", "replaced", "patched", "staged"):
        (folder / "config" / name).write_text(name)
    return folder


def apply(root: Path) -> str:
    """Removes one file, replaces one, patches one and adds one; gives the id."""
    (root / "config" / "added.staged").write_text("added")
    actions: list[Action] = [
        Remove(root / "config" / "removed", "test"),
        Publish(root / "config" / "replaced", root / "config" / "staged", "test"),
        Patch(root / "config" / "patched", 1, b"\0\0", "test"),
        Publish(root / "config" / "below" / "added", root / "config" / "added.staged", "test"),
    ]
    change_id = Change("test", root, FS, actions).apply()
    assert change_id is not None
    return change_id


def texts(root: Path) -> dict[str, str]:
    config = root / "config"
    return {str(p.relative_to(config)): p.read_text() for p in config.rglob("*") if p.is_file()}


def set_aside(undone: UndoReport) -> dict[str, str]:
    return {path.name.partition("-")[2]: path.read_text() for path in undone.set_aside}


def test_a_change_does_what_its_actions_say(root: Path) -> None:
    apply(root)
    assert texts(root) == {"replaced": "staged", "patched": "p\0\0ched", "below/added": "added"}


def test_undoing_puts_back_files_bytes_times_and_folders(root: Path) -> None:
    before = snapshot(root, without=("config/staged",))
    assert undo(root, apply(root), fs=FS) == UndoReport(4, ())
    assert snapshot(root) == before


def test_a_file_in_the_place_of_a_removed_one_is_set_aside(root: Path) -> None:
    change_id = apply(root)
    (root / "config" / "removed").write_text("somebody else's")
    undone = undo(root, change_id, force=True, fs=FS)
    assert texts(root)["removed"] == "removed"
    assert set_aside(undone) == {"removed": "somebody else's"}


def test_files_that_were_written_to_since_they_were_published_are_set_aside(root: Path) -> None:
    change_id = apply(root)
    for name in ("replaced", "below/added"):
        (root / "config" / name).write_text(f"more in {name}")
    undone = undo(root, change_id, force=True, fs=FS)
    assert texts(root) == {name: name for name in ("removed", "replaced", "patched")}
    assert set_aside(undone) == {"replaced": "more in replaced", "added": "more in below/added"}


def test_bytes_that_were_written_over_a_patch_stay_and_nothing_is_undone(root: Path) -> None:
    change_id = apply(root)
    (root / "config" / "patched").write_text("new record")
    before = snapshot(root)
    with pytest.raises(BadRequest, match="would destroy the record"):
        undo(root, change_id, force=True, fs=FS)
    assert snapshot(root) == before
    assert [entry.state for entry in list_quarantine(root, fs=FS)] == ["applied"]


def test_a_patched_file_that_is_gone_does_not_keep_the_rest_from_being_undone(root: Path) -> None:
    change_id = apply(root)
    (root / "config" / "patched").unlink()
    undo(root, change_id, force=True, fs=FS)
    assert texts(root) == {name: name for name in ("removed", "replaced")}


def test_a_file_in_the_place_of_the_own_folder_is_named(root: Path) -> None:
    (root / ".rmqctl").write_text("x")
    with pytest.raises(ForeignFile, match="a file, where a folder is expected"):
        list_quarantine(root, fs=FS)


@pytest.mark.parametrize(
    ("size", "has_digest"), [(0, True), (1 << 20, True), (32 << 20, True), ((32 << 20) + 1, False), (64 << 20, False)]
)
def test_a_file_of_up_to_32_mib_has_a_digest_in_the_manifest(size: int, has_digest: bool, root: Path) -> None:
    path = root / "config" / "removed"
    os.truncate(path, size)
    entry = Workplace(root, root / ".rmqctl", FS).describe(0, Remove(path, "test"))
    assert entry["original"]["size"] == size
    assert ("sha256" in entry["original"]) is has_digest


@pytest.mark.parametrize(("size", "is_hashed"), [(0, True), (HASH_SIZE_LIMIT, True), (HASH_SIZE_LIMIT + 1, False)])
def test_files_up_to_32_mib_are_known_by_their_hash_too(size: int, is_hashed: bool, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(size)
    place = Workplace(tmp_path, tmp_path / "quarantine", Filesystem())
    original = place.describe(0, Remove(tmp_path / "file", "why"))["original"]
    assert (original["size"], "sha256" in original) == (size, is_hashed)
    assert HASH_SIZE_LIMIT == 32 << 20


def test_files_are_replaced_in_order_after_those_without_a_successor(tmp_path: Path) -> None:
    staged = {tmp_path / name: tmp_path / f"staged-{number}" for number, name in enumerate(("c", "a", "b"))}
    actions = replace_files([tmp_path / "z", tmp_path / "b", tmp_path / "y"], staged)
    assert [(one.verb, one.path.name) for one in actions] == [
        ("remove", "z"), ("remove", "y"), ("write", "a"), ("write", "b"), ("write", "c")
    ]  # fmt: skip


def staged_change(root: Path) -> Change:
    """A plan with a staged file."""
    change: Change = Change("test", root, FS, staging=root / "staging")
    change.publish_bytes(root / "config/made", b"made", "test")
    return change


def test_a_plan_has_a_row_for_each_action_with_its_bytes(root: Path) -> None:
    change = staged_change(root)
    change.actions += [
        Remove(root / "config/removed", "old"), Remove(root / "config/none", "gone"),
        Patch(root / "config/patched", 1, b"ab", "wrong"),
    ]  # fmt: skip
    assert [tuple(row.values()) for row in change.rows()] == [
        ("write", "config/made", 4, "test"), ("remove", "config/removed", 7, "old"),
        ("remove", "config/none", 0, "gone"), ("patch", "config/patched", 2, "wrong"),
    ]  # fmt: skip
    assert change.published == {root / "config/made": root / "staging/made"}
    assert [change.publishes_below(root / name) for name in ("config", "conf", "other")] == [True, False, False]


@pytest.mark.parametrize("end", ["applied", "empty", "closed", "block"])
def test_staged_files_go_with_the_plan(end: str, root: Path) -> None:
    closed: list[str] = []
    change = staged_change(root)
    change.until_closed.callback(closed.append, "closed")
    if end == "empty":
        change.actions.clear()
    if end == "block":
        with change:
            pass
    elif end == "closed":
        change.close()
    else:
        assert (change.apply() is None) == (end == "empty")
    assert ((root / "staging").exists(), change.staging, closed) == (False, None, ["closed"])
    assert (root / "config/made").exists() == (end == "applied")


def test_files_that_are_staged_in_a_scratch_folder_are_left_to_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "is_in_scratch", lambda folder: True)
    change = staged_change(root)
    change.close()
    assert (root / "staging/made").read_bytes() == b"made"


def test_a_plan_that_read_lost_pages_is_not_carried_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise StoreIOError("lost")

    monkeypatch.setattr(changes.lost_pages, "require_none", lost)
    with pytest.raises(StoreIOError, match="lost"):
        staged_change(root).apply()
    assert not (root / "config/made").exists()


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (StoreIOError("no"), "nothing was changed"),
        (StoreIOError("no", hint="free some space"), "free some space; nothing was changed"),
        (KeyboardInterrupt(), None),
    ],
)
def test_a_change_that_fails_leaves_nothing_of_itself(
    error: BaseException, hint: str | None, root: Path, tmp_path: Path
) -> None:
    def fail(action: Action) -> None:
        if action.verb == "write":
            raise error

    (tmp_path / "q").mkdir()
    change, before = staged_change(root), texts(root)
    change.actions.insert(0, Remove(root / "config/removed", "old"))
    with pytest.raises(type(error)) as failed:
        change.apply(quarantine=tmp_path / "q", on_action=fail)
    assert failed.value is error
    assert getattr(error, "hint", None) == hint
    assert (texts(root), list((tmp_path / "q").iterdir())) == (before, [])
    assert not (root / ".rmqctl").exists()


def test_a_change_with_its_quarantine_elsewhere_is_undone_and_leaves_no_note(root: Path, tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    change_id = staged_change(root).apply(quarantine=tmp_path / "q")
    assert change_id is not None
    assert undo(root, change_id, quarantine=tmp_path / "q") == UndoReport(1, ())
    assert not (root / ".rmqctl").exists()
    with pytest.raises(BadRequest, match=f"{change_id} was undone already"):
        undo(root, change_id, quarantine=tmp_path / "q")
    with pytest.raises(BadRequest, match="no quarantined change a, b"):
        purge(root, ["b", change_id, "a"], quarantine=tmp_path / "q", fs=FS)
    assert purge(root, [change_id], quarantine=tmp_path / "q", fs=FS) == 0
    assert list((tmp_path / "q").iterdir()) == []


CALLS: dict[str, Callable[..., object]] = {"undo": undo, "list": list_quarantine, "purge": purge}
PATHS = ((5, "{} is not a path: 5"), (b"x", "{} is not a path: b'x'"))
NO_FS = ((5, "fs is not a Filesystem, but int"), ("x", "fs is not a Filesystem, but str"))
WRONG: list[tuple[str, str, object, str]] = [
    *((call, "root", value, reason.format("root"))
      for call in CALLS for value, reason in (*PATHS, (None, "{} is not a path: None"))),
    *((call, "quarantine", value, reason.format("quarantine")) for call in CALLS for value, reason in PATHS),
    *((call, "fs", value, reason) for call in CALLS for value, reason in NO_FS),
    *((call, "fs", None, "fs is not a Filesystem, but NoneType") for call in ("list", "purge")),
    ("undo", "change_id", None, "change_id is not text: None"), ("undo", "change_id", 5, "change_id is not text: 5"),
    ("undo", "change_id", b"x", "change_id is not text: b'x'"),
    ("undo", "force", 1, "force is neither true nor false: 1"),
    ("undo", "force", None, "force is neither true nor false: None"),
    ("undo", "elsewhere", None, "elsewhere is not a Sequence, but NoneType"),
    ("undo", "elsewhere", "/log", "elsewhere is not a Sequence, but str"),
    ("undo", "elsewhere", [5], "one of elsewhere is not a path: 5"),
    ("purge", "change_ids", 5, "change_ids is not a collection of names, but int"),
    ("purge", "change_ids", "ab", "change_ids is not a collection of names, but str"),
    ("purge", "change_ids", b"", "change_ids is not a collection of names, but bytes"),
    ("purge", "change_ids", {}, "change_ids is not a collection of names, but dict"),
    ("purge", "change_ids", [None], "one of change_ids is not text: None"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "name", "value", "reason"), WRONG)
def test_a_wrong_kind_of_argument_is_refused_by_its_name_and_changes_nothing(
    call: str, name: str, value: object, reason: str, root: Path
) -> None:
    change_id = apply(root)
    given: dict[str, Any] = {"root": root, "fs": FS, **({"change_id": change_id} if call == "undo" else {})}
    before = snapshot(root)
    with pytest.raises(WrongKind) as refused:
        CALLS[call](**{**given, name: value})
    assert (str(refused.value), snapshot(root)) == (reason, before)


@pytest.mark.parametrize("name", ["root", "quarantine", "change_id"])
def test_a_lone_surrogate_in_an_argument_is_refused(name: str, root: Path) -> None:
    given: dict[str, Any] = {"root": root, "change_id": apply(root), name: "\ud800"}
    with pytest.raises(BadRequest, match=rf"^a lone surrogate in {name}: '\\ud800'"):
        undo(**given)


def test_paths_may_be_texts(root: Path) -> None:
    change_id, kept = apply(root), str(root / ".rmqctl" / "quarantine")
    assert [one.id for one in list_quarantine(str(root), quarantine=kept, fs=FS)] == [change_id]
    assert undo(str(root), change_id, quarantine=kept, elsewhere=[str(root / "log")]) == UndoReport(4, ())
    assert purge(str(root), [change_id], quarantine=kept, fs=FS) == 0
