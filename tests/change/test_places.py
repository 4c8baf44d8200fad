"""A change and its undo, from inside the store's folder and by every way to name it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqctl.commands import COMMANDS
from store.change.actions import Remove
from store.change.change import Change
from store.change.workspace import relative_name
from store.errors import DamagedFile
from store.files.filesystem import Filesystem
from store.structures.messagedb.keys import INDEX, VALUE_SIZES
from tests.cli.running import rmqctl
from tests.runs import whole_changes
from tests.runs.whole_changes import files_of
from tests.support.five_stores import change_database, fivefive
from tests.support.golden import copy_store
from tests.support.quickly import one_of
from tests.support.snapshots import contents
from tests.support.stores import make_store

Make = Callable[[Path], Path]
IN_DOUBT = "FA7E2D0D6E4D12FECF5B56814F2B5D41"
"""The key of a transaction of the archive services."""


def crashed(folder: Path) -> Path:
    """A store with a damaged body in its last segment, and a checkpoint that promises too much."""
    root = make_store(folder / "store", 200)
    (root / "abort").touch()
    last = max((root / "commitlog").iterdir())
    data = bytearray(last.read_bytes())
    data[100] ^= 1
    last.write_bytes(data)
    (root / "checkpoint").write_bytes((1 << 62).to_bytes(8, "big") * 3 + bytes(4096 - 24))
    return root


def case(name: str) -> Make:
    return whole_changes.CASES[name].make


def consumed(folder: Path) -> Path:
    """A store whose group `billing` is at 2 in a queue."""
    root = make_store(folder / "store", 30)
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text('{"offsetTable": {"T@billing": {"0": 2}}}')
    return root


def with_a_torn_entry(folder: Path) -> Path:
    """A store of 5.5 whose message database has an entry that is none."""
    pytest.importorskip("rocksdict")
    root = copy_store(fivefive("index") / "store", folder / "store")
    change_database(root, {INDEX: {b"torn": bytes(VALUE_SIZES[INDEX])}})
    return root


LINES: dict[str, Make] = {
    "recover": crashed,
    "rebuild": crashed,
    "truncate-dirty": crashed,
    "checkpoint rewrite": crashed,
    "clean-expired --force --now 1900000000000": crashed,
    "rebuild timer": case("timer rebuild"),
    "rebuild compaction": case("compaction mend"),
    "rebuild delay-offsets": case("delay rewrite-offsets"),
    "rebuild topics": case("config rebuild-topics"),
    "rebuild message-database": with_a_torn_entry,
    f"transaction resolve {IN_DOUBT} --commit": case("transaction commit"),
    "config reset-offsets billing --topic T --to first": consumed,
}
PLACES: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "inside of it": lambda root: (root, Path()),
    "a folder of it": lambda root: (root / "commitlog", Path("..")),
    "relative": lambda root: (root.parent, Path(root.name)),
    "absolute": lambda root: (root / "commitlog", root),
    "a link": lambda root: (root.parent, Path("link")),
}


def test_every_command_that_keeps_what_it_removes_is_among_the_lines() -> None:
    changing = {one.path for one in COMMANDS if "no_quarantine" in inspect.signature(one.load()[0]).parameters}
    named = {max((path for path in changing if f"{line} ".startswith(f"{path} ")), key=len) for line in LINES}
    assert named == changing


@pytest.mark.parametrize(("line", "place"), one_of(13, LINES, PLACES))
def test_a_change_is_undone_wherever_the_store_is_named_from(
    line: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = LINES[line](tmp_path)
    (root.parent / "link").symlink_to(root)
    folder, named = PLACES[place](root)
    monkeypatch.chdir(folder)
    before = files_of(root)
    run = rmqctl("--format", "json", *line.split(), "--yes", store=named)
    assert run.code == (1 if line == "rebuild" else 0), run.err
    assert files_of(root) != before
    assert rmqctl("undo", run.json["change_id"], store=named).code == 0
    assert files_of(root) == before


@pytest.mark.turns(2)
@pytest.mark.parametrize("quarantine", ["kept", "../kept", "../link/.rmqctl/quarantine"])
def test_a_quarantine_is_named_from_anywhere(quarantine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = crashed(tmp_path)
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(root)
    before = files_of(root)
    run = rmqctl("--format", "json", "recover", "--yes", "--quarantine", quarantine, store=tmp_path / "link")
    assert rmqctl("undo", run.json["change_id"], "--quarantine", quarantine, store=tmp_path / "link").code == 0
    left = {name: state for name, state in files_of(root).items() if not name.startswith("kept/")}
    assert left == before


def test_a_log_elsewhere_is_named_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, log = crashed(tmp_path), tmp_path / "log"
    (root / "commitlog").rename(log)
    (tmp_path / "link").symlink_to(log)
    monkeypatch.chdir(root)
    before = files_of(root), files_of(log)
    run = rmqctl("--format", "json", "--set", "storePathCommitLog=../link", "recover", "--yes", store=Path())
    assert run.code == 0, run.err
    undone = rmqctl("--set", "storePathCommitLog=../log", "undo", run.json["change_id"], store=Path())
    assert undone.code == 0, undone.err
    assert (files_of(root), files_of(log)) == before


def test_a_rebuild_without_quarantine_from_outside_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashed(tmp_path)
    monkeypatch.chdir(tmp_path)
    run = rmqctl("--format", "json", "rebuild", "--yes", "--no-quarantine", store=Path("store"))
    assert (run.code, run.json["applied"], run.json["change_id"]) == (1, True, None)
    assert "nothing was done" not in run.err


def test_a_change_that_could_not_be_undone_is_not_begun(tmp_path: Path) -> None:
    root = crashed(tmp_path)
    before = contents(tmp_path)
    change = Change("recover", root, Filesystem(), [Remove(root / "abort", ""), Remove(root / "other/file", "")])
    with pytest.raises(DamagedFile, match="action 1: the path 'other/file' is not one of the store's files"):
        change.apply()
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("path", "name"), [("/s", "."), ("/s/abort", "abort"), ("/s/a/b", "a/b"), ("/sa", "/sa"), ("/other/s", "/other/s")]
)
def test_a_path_is_named_from_the_store_on(path: str, name: str) -> None:
    assert relative_name(Path("/s"), Path(path)) == name
