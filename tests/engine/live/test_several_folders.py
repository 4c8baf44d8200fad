"""A commit log over several folders: where segments are created, what is loaded, what a full folder changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store import open_store
from store.errors import BadRequest, ForeignFile, StoreIOError
from store.files.filesystem import Filesystem
from store.files.segment_folders import SegmentFolders
from store.layout import segment_name
from tests.cli.running import rmqctl
from tests.support.devices import FullDisk
from tests.support.stores import SMALL, Clock, text_message

SIZE = SMALL["mappedFileSizeCommitLog"]
COUNT = 300


def paths(*names: str) -> tuple[Path, ...]:
    return tuple(Path(name) for name in names)


@pytest.mark.parametrize(
    ("writable", "read_only", "full", "segment", "folder"),
    [
        (("/a", "/b"), (), (), 0, "/a"),
        (("/a", "/b"), (), (), 1, "/b"),
        (("/b", "/a"), (), (), 0, "/a"),
        (("/a", "/b", "/c"), (), (), 5, "/c"),
        (("/a", "/b", "/c"), ("/b",), (), 1, "/c"),
        (("/a", "/b"), (), ("/a",), 0, "/b"),
        (("/a", "/b"), (), ("/a", "/b"), 1, "/b"),
        (("/a", " /b"), (), (), 0, " /b"),
    ],
)
def test_the_folder_of_a_new_segment(
    writable: tuple[str, ...], read_only: tuple[str, ...], full: tuple[str, ...], segment: int, folder: str
) -> None:
    folders = SegmentFolders(paths(*writable), paths(*read_only), SIZE)
    folders.full = frozenset(paths(*full))
    assert folders.folder_of(segment * SIZE) == Path(folder)


def test_without_a_writable_folder_no_segment_is_created() -> None:
    with pytest.raises(StoreIOError):
        SegmentFolders(paths("/a"), paths("/a"), SIZE).folder_of(0)


def settings(tmp_path: Path, *names: str, read_only: str = "") -> dict[str, Any]:
    found = {**SMALL, "storePathCommitLog": ",".join(str(tmp_path / name) for name in names)}
    return {**found, "readOnlyCommitLogStorePaths": str(tmp_path / read_only)} if read_only else found


def put(tmp_path: Path, count: int = COUNT, *, fs: Filesystem | None = None, **given: Any) -> None:
    with open_store(tmp_path / "store", settings=given, read_only=False, clock=Clock(), fs=fs) as store:
        for number in range(count):
            assert store.put(text_message(number, body_size=400)).is_ok


def segments(folder: Path) -> list[int]:
    return sorted(int(path.name) // SIZE for path in folder.iterdir())


def bodies(tmp_path: Path, **given: Any) -> list[bytes]:
    with open_store(tmp_path / "store", settings=given) as store:
        found: list[bytes] = []
        while (result := store.get("T", 0, len(found), 32)).messages:
            found += [message.body for message in result.messages]
        return found


def all_bodies(count: int = COUNT) -> list[bytes]:
    return [text_message(number, body_size=400).body for number in range(count)]


def test_segments_go_to_the_folders_in_turn_and_are_read_as_one_log(tmp_path: Path) -> None:
    given = settings(tmp_path, "a", "b")
    put(tmp_path, **given)
    even, odd = segments(tmp_path / "a"), segments(tmp_path / "b")
    assert even == list(range(0, 2 * len(even), 2))
    assert odd == list(range(1, 2 * len(odd), 2))
    assert bodies(tmp_path, **given) == all_bodies()


def test_a_full_folder_gets_no_segment_while_another_has_room(tmp_path: Path) -> None:
    fs = FullDisk(lambda folder: 0.99 if folder.name == "a" else 0.1)
    put(tmp_path, fs=fs, **settings(tmp_path, "a", "b"))
    assert segments(tmp_path / "a") == []
    assert len(segments(tmp_path / "b")) > 5


def test_a_read_only_folder_is_read_and_gets_no_segment(tmp_path: Path) -> None:
    put(tmp_path, COUNT // 2, **settings(tmp_path, "a", "b"))
    before = segments(tmp_path / "a")
    given = settings(tmp_path, "b", "c", read_only="a")
    with open_store(tmp_path / "store", settings=given, read_only=False, clock=Clock()) as store:
        for number in range(COUNT // 2, COUNT):
            assert store.put(text_message(number, body_size=400)).is_ok
    assert segments(tmp_path / "a") == before
    assert bodies(tmp_path, **given) == all_bodies()


def test_a_name_in_two_folders_is_refused(tmp_path: Path) -> None:
    given = settings(tmp_path, "a", "b")
    put(tmp_path, **given)
    (tmp_path / "b" / segment_name(0)).write_bytes(bytes(SIZE))
    with pytest.raises(ForeignFile, match="the same name is in"):
        open_store(tmp_path / "store", settings=given)


def test_an_empty_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="empty name"):
        open_store(tmp_path / "store", settings={"storePathCommitLog": "/a,,/b"}, read_only=False)


@pytest.mark.parametrize("command", [("recover", "--abnormal", "--yes"), ("truncate-dirty", "--yes")])
def test_commands_that_change_work_over_all_folders(tmp_path: Path, command: tuple[str, ...]) -> None:
    given = settings(tmp_path, "a", "b")
    put(tmp_path, **given)
    last = max(
        (tmp_path / name / segment_name(n * SIZE) for name in "ab" for n in segments(tmp_path / name)), key=_name
    )
    with last.open("r+b") as file:
        file.seek(900)
        file.write(bytes(SIZE - 900))
    (tmp_path / "store" / "abort").touch()
    words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    run = rmqctl(*words, *command, store=tmp_path / "store")
    assert run.code == 0, run.err
    (tmp_path / "store" / "abort").unlink(missing_ok=True)
    left = bodies(tmp_path, **given)
    assert left == all_bodies(len(left))
    assert COUNT - 40 < len(left) < COUNT


def _name(path: Path) -> str:
    return path.name


def test_a_log_in_one_folder_elsewhere_ignores_read_only_folders(tmp_path: Path) -> None:
    given = {**SMALL, "storePathCommitLog": str(tmp_path / "a"), "readOnlyCommitLogStorePaths": str(tmp_path / "c")}
    put(tmp_path, **given)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "foreign").touch()
    assert bodies(tmp_path, **given) == all_bodies()
