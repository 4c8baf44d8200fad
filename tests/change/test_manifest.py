"""A manifest: what a change writes, and each entry that none could have written."""

from __future__ import annotations

import errno
import json
import time
from pathlib import Path
from typing import Any

import pytest

from store.change.actions import Action, Patch, Publish, Remove
from store.change.change import Change
from store.change.journal import ELSEWHERE, Journal
from store.change.manifest import MOST_IN_LINES, STATES, decode_manifest, encode_manifest
from store.change.quarantine import QuarantineEntry, list_quarantine, purge, undo
from store.errors import BadRequest, DamagedFile, StoreIOError, UnsupportedFormat
from store.files.filesystem import Filesystem
from store.layout import OWN_FOLDER
from tests.support.snapshots import snapshot

FS = Filesystem()
MOST_LONG = (1 << 63) - 1
LOOK = {"size": 1, "mtime_ns": 2}
REMOVE = {"kind": "remove", "path": "config/a", "original": LOOK, "kept_as": "files/000000-a"}
WRITE = {**REMOVE, "kind": "write", "original": None, "published": LOOK, "new_folders": 0}
PATCH = {"kind": "patch", "path": "index/a", "original": LOOK, "position": 0, "before": "00", "after": "ff"}
PATH = Path("/q/manifest.json")


def document(*actions: object, **changed: object) -> dict[str, Any]:
    return {"version": 2, "command": "c", "state": "applied", "time_ms": 5, "actions": list(actions), **changed}


def fault(written: dict[str, Any], elsewhere: list[Path] | None = None) -> str:
    """Why a manifest is not believed; empty for one that is."""
    try:
        found = decode_manifest(encode_manifest(written), PATH, elsewhere)
    except DamagedFile as error:
        return str(error.reason).removeprefix("not a manifest that rmqctl has written: ")
    return "" if found == written else f"read as {found}"


@pytest.mark.parametrize("state", STATES)
def test_a_manifest_is_read_back_as_it_was_written(state: str) -> None:
    assert fault(document(REMOVE, WRITE, PATCH, state=state)) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"state": "done"}, "unknown state 'done'"),
        ({"state": None}, "unknown state None"),
        ({"command": 5}, "no command"),
        ({"time_ms": "5"}, "no time"),
        ({"time_ms": -1}, "no time"),
        ({"time_ms": True}, "no time"),
        ({"time_ms": 0}, ""),
        ({"time_ms": MOST_LONG}, ""),
        ({"time_ms": MOST_LONG + 1}, "no time"),
        ({"actions": {}}, "no actions"),
    ],
)
def test_the_head_of_a_manifest_is_checked(changed: dict[str, object], said: str) -> None:
    assert fault({**document(), **changed}) == said


PATHS = [
    ("config/a", ""),
    ("abort", ""),
    ("timerwheel", ""),
    ("other/a", "the path 'other/a' is not one of the store's files"),
    ("", "the path '' is not one of the store's files"),
    ("config/../a", "the path 'config/../a' is not one of the store's files"),
    ("config/\0", "the path 'config/\\x00' is not one of the store's files"),
    ("/log/a", ""),
    ("/log", "the path '/log' is not one of the store's files"),
    ("/logs/a", "the path '/logs/a' is not one of the store's files"),
    (None, "the path None is not one of the store's files"),
]


@pytest.mark.parametrize(("path", "said"), PATHS)
def test_a_path_is_below_a_folder_of_the_store_or_of_its_log(path: str | None, said: str) -> None:
    entry = {**PATCH, "path": path}
    assert fault(document(entry), [Path("/none"), Path("/log")]) == (said and f"action 0: {said}")


def test_where_nothing_is_done_to_the_files_any_log_may_be_named() -> None:
    assert fault(document({**PATCH, "path": "/anywhere/a"})) == ""
    assert fault(document({**PATCH, "path": "/anywhere/a"}), []) != ""


NO_LOOK, NO_KEPT, NO_BYTES = (
    "no size and time of the original",
    "is no place in the quarantine",
    "no position and bytes",
)
NO_PUBLISHED = "no size and time of the published file"
ENTRIES: list[tuple[object, str]] = [
    (REMOVE, ""),
    ("remove", "unknown kind"),
    ({**REMOVE, "kind": "move"}, "unknown kind"),
    ({**REMOVE, "original": None}, ""),
    ({**PATCH, "original": None}, NO_LOOK),
    ({name: REMOVE[name] for name in ("kind", "path", "kept_as")}, NO_LOOK),
    ({**REMOVE, "original": []}, NO_LOOK),
    ({**REMOVE, "original": {"size": 1}}, NO_LOOK),
    ({**REMOVE, "original": {"mtime_ns": 1}}, NO_LOOK),
    ({**REMOVE, "original": {"size": 0, "mtime_ns": 0}}, ""),
    ({**REMOVE, "original": {"size": -1, "mtime_ns": 0}}, NO_LOOK),
    ({**REMOVE, "original": {**LOOK, "sha256": "0" * 64}}, ""),
    ({**REMOVE, "original": {**LOOK, "sha256": "0" * 63}}, NO_LOOK),
    ({**REMOVE, "original": {**LOOK, "sha256": 5}}, NO_LOOK),
    ({**REMOVE, "kept_as": None}, f"None {NO_KEPT}"),
    ({**REMOVE, "kept_as": "files/000000-b"}, f"'files/000000-b' {NO_KEPT}"),
    ({**REMOVE, "kept_as": "files/00000-a"}, f"'files/00000-a' {NO_KEPT}"),
    ({**REMOVE, "kept_as": "later/000000-a"}, f"'later/000000-a' {NO_KEPT}"),
    ({**WRITE, "published": None}, NO_PUBLISHED),
    ({**WRITE, "published": {"size": 1}}, NO_PUBLISHED),
    ({**REMOVE, "published": None}, ""),
    ({**WRITE, "new_folders": -1}, "the number of new folders is none"),
    ({name: value for name, value in WRITE.items() if name != "new_folders"}, ""),
    ({**PATCH, "position": -1}, NO_BYTES),
    ({**PATCH, "before": "0"}, NO_BYTES),
    ({**PATCH, "before": "0000"}, NO_BYTES),
    ({**PATCH, "after": None}, NO_BYTES),
]


@pytest.mark.parametrize(("entry", "said"), ENTRIES)
def test_an_entry_that_no_change_could_have_written_is_refused_by_its_number(entry: object, said: str) -> None:
    assert fault(document(REMOVE, entry)) == (said and f"action 1: {said}")


def test_a_manifest_of_version_1_has_no_digest_and_one_of_version_2_is_its_own() -> None:
    written = json.loads(encode_manifest(document(version=1)))
    assert decode_manifest(json.dumps({**written, "digest": "x"}).encode(), PATH) == document(version=1)
    with pytest.raises(DamagedFile, match="its digest is another"):
        decode_manifest(json.dumps(document()).encode(), PATH)
    for version in (0, 3, "2", None):
        with pytest.raises(UnsupportedFormat, match=rf"a manifest of version {version!r}, known are 1 and 2"):
            decode_manifest(encode_manifest(document(version=version)), PATH)
    for data in (b"", b"{", b"[" * 100_000, b"\xff"):
        with pytest.raises(DamagedFile, match="not readable JSON"):
            decode_manifest(data, PATH)
    with pytest.raises(DamagedFile, match="not an object"):
        decode_manifest(b"[]", PATH)


@pytest.mark.parametrize(("count", "line_count"), [(MOST_IN_LINES, MOST_IN_LINES + 9), (MOST_IN_LINES + 1, 1)])
def test_a_manifest_of_many_actions_is_one_line(count: int, line_count: int) -> None:
    lines = encode_manifest(document(*range(count))).decode().split("\n")
    assert len(lines) == line_count
    assert line_count == 1 or lines[1].startswith(' "')


# Journals on a disk.


class OtherDisk(Filesystem):
    """A quarantine in a folder `kept` that is on a disk of its own."""

    def rename(self, source: Path, target: Path) -> None:
        if ("kept" in source.parts) != ("kept" in target.parts):
            raise StoreIOError("invalid cross-device link", file=source, errno=errno.EXDEV)
        super().rename(source, target)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    (folder / "config").mkdir(parents=True)
    for name in ("removed", "replaced", "patched"):
        (folder / "config" / name).write_text(name)
    return folder


def change_of(root: Path, fs: Filesystem = FS) -> Change:
    (root / "staged").write_text("staged")
    actions: list[Action] = [
        Remove(root / "config/removed", "old"),
        Publish(root / "config/replaced", root / "staged", "newer"),
        Patch(root / "config/patched", 1, b"xyz", "wrong"),
    ]
    return Change("some command", root, fs, actions)


def test_a_quarantine_on_another_disk_gives_back_files_with_their_times(root: Path, tmp_path: Path) -> None:
    before = snapshot(root, without=("staged",))
    times = {path.name: path.stat().st_mtime_ns for path in (root / "config").iterdir()}
    change_id = change_of(root, OtherDisk()).apply(quarantine=tmp_path / "kept")
    assert change_id is not None
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "kept" / change_id / "files").iterdir()}
    assert kept == {f"00000{number}-{name}": times[name] for number, name in enumerate(("removed", "replaced"))}
    assert undo(root, change_id, quarantine=tmp_path / "kept", fs=OtherDisk()).file_count == 3
    assert snapshot(root) == before


def test_the_rows_of_a_change_name_bytes_and_reasons(root: Path) -> None:
    assert change_of(root).rows() == [
        {"action": "remove", "file": "config/removed", "size_bytes": 7, "reason": "old"},
        {"action": "write", "file": "config/replaced", "size_bytes": 6, "reason": "newer"},
        {"action": "patch", "file": "config/patched", "size_bytes": 3, "reason": "wrong"},
    ]
    assert Change("c", root, FS, [Remove(root / "config/none", "")]).rows()[0]["size_bytes"] == 0


def test_a_change_publishes_below_the_folders_of_its_new_files_alone(root: Path) -> None:
    change = change_of(root)
    assert [change.publishes_below(root / name) for name in ("config", "index", "config/replaced")] == [
        True, False, False,
    ]  # fmt: skip
    assert not Change("c", root, FS, [Remove(root / "config/removed", "")]).publishes_below(root / "config")


def test_a_change_is_listed_by_time_and_command_with_what_it_keeps(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_007_000_000)
    stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime(1_700_000_000))
    change_id = change_of(root).apply()
    assert change_id == f"{stamp}.007-some-command"
    entry = QuarantineEntry(change_id, "some command", "applied", 1_700_000_000_007, 2, len("removed" + "replaced"))
    assert list_quarantine(root, fs=FS) == [entry]
    (root / "config/removed").write_text("again")
    second = Change("some command", root, FS, [Remove(root / "config/removed", "")]).apply()
    assert second == f"{stamp}.008-some-command"
    assert [one.id for one in list_quarantine(root, fs=FS)] == [change_id, second]
    assert purge(root, [second], fs=FS) == len("again")
    assert list_quarantine(root, fs=FS) == [entry]
    assert purge(root, fs=FS) == entry.size


def test_a_change_that_nothing_is_kept_of_leaves_no_quarantine(root: Path) -> None:
    assert change_of(root).apply(keep=False) is None
    assert list_quarantine(root, fs=FS) == []
    assert Change("c", root, FS).apply() is None


def test_a_change_that_cannot_begin_leaves_nothing_in_the_store(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, before = change_of(root), snapshot(root)
    monkeypatch.setattr("store.change.journal.Journal.mark", lambda *_: pytest.fail("it had begun"))

    def refuse(folder: Path) -> None:
        if folder == root:
            raise StoreIOError("input/output error", file=folder)

    monkeypatch.setattr(change.fs, "fsync_folder", refuse)
    with pytest.raises(StoreIOError, match="input/output error"):
        change.apply(quarantine=tmp_path / "kept")
    assert snapshot(root) == before
    assert not list((tmp_path / "kept").iterdir())


@pytest.mark.parametrize("also", [1, 2])
def test_a_store_that_has_changed_since_names_the_first_file(root: Path, also: int) -> None:
    change_id = change_of(root).apply()
    assert change_id is not None
    for name in ("b", "a")[-also:]:
        (root / "config" / name).write_text("")
    said = f"the store has changed since {change_id} (config/a{' and more' if also > 1 else ''})"
    with pytest.raises(BadRequest) as caught:
        undo(root, change_id, fs=FS)
    assert caught.value.reason == said


def test_a_change_is_undone_once(root: Path) -> None:
    change_id = change_of(root).apply()
    assert change_id is not None
    undo(root, change_id, fs=FS)
    with pytest.raises(BadRequest, match=f"{change_id} was undone already"):
        undo(root, change_id, fs=FS)


@pytest.mark.parametrize("wrong", [".", "..", "a/b", "none"])
def test_an_unknown_change_is_refused(root: Path, wrong: str) -> None:
    with pytest.raises(BadRequest, match=f"no quarantined change {wrong}"):
        undo(root, wrong, fs=FS)


def test_a_kept_file_that_is_another_is_not_put_back(root: Path) -> None:
    change_id = change_of(root).apply()
    assert change_id is not None
    kept = root / ".rmqctl/quarantine" / change_id / "files/000000-removed"
    for text in ("REMOVED", "longer than it was"):
        kept.write_text(text)
        with pytest.raises(DamagedFile, match="the kept file differs from the one that was removed"):
            undo(root, change_id, fs=FS, force=True)


def test_files_aside_get_names_of_their_own(root: Path) -> None:
    change_id = change_of(root).apply()
    assert change_id is not None
    later = root / ".rmqctl/quarantine" / change_id / "later"
    later.mkdir()
    (later / "000000-removed").write_text("first")
    (root / "config/removed").write_text("second")
    undo(root, change_id, fs=FS, force=True)
    assert {path.name: path.read_text() for path in later.iterdir()} == {
        "000000-removed": "first",
        "000000-removed+": "second",
    }


def test_a_store_has_a_note_of_a_quarantine_elsewhere_until_its_change_is_whole(tmp_path: Path) -> None:
    root, folder = tmp_path / "store", tmp_path / "elsewhere" / "q1"
    journal = Journal(root, folder, {"state": "applying"}, FS)
    journal.announce()
    note = root / OWN_FOLDER / ELSEWHERE
    assert note.read_bytes() == str(folder).encode()
    journal.retract()
    assert not note.exists()
