"""Descriptors, maps and folders that a call or an object leaves open: none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl.raw_records import RecordWriter
from store import Message, open_store
from store.engine.serving.place import connect_to, listen_at
from store.files import Filesystem, portable
from store.files.scratch import Scratch, remove_abandoned
from store.opened.opened_store import OpenedStore
from tests.support.stores import SMALL


def use_scratch(root: Path) -> None:
    with Scratch(root) as scratch:
        assert scratch.folder.is_dir()


def remove_scratch(root: Path) -> None:
    folder = root / "rmqctl-scratch-gone"
    folder.mkdir()
    remove_abandoned(root)
    assert not folder.exists()


def see_a_used_scratch(root: Path) -> None:
    with Scratch(root) as scratch:
        folder = scratch.folder
        remove_abandoned(folder.parent)
        assert folder.is_dir()


def read_a_start(root: Path) -> None:
    assert Filesystem().read_start(str(root / "file"), 3) == b"abc"


def read_ahead(root: Path) -> None:
    with (root / "file").open("rb") as file:
        assert portable.read_in(file.fileno(), 0, 3) in (0, 3)


def connect(root: Path) -> None:
    with listen_at(root / "socket", Filesystem()):
        connection = connect_to(root / "socket")
        assert connection is not None
        connection.close()


def write_records(root: Path) -> None:
    store: Any = SimpleNamespace(locate=lambda log_offset, size: (root / "file", log_offset))
    with (root / "out").open("wb") as out, RecordWriter(store, cast(Any, out)) as writer:
        writer.write(1, 2)
    assert (root / "out").read_bytes() == b"bc"


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


@pytest.mark.parametrize(
    "use",
    [use_scratch, remove_scratch, see_a_used_scratch, read_a_start, read_ahead, connect, write_records],
    ids=lambda use: use.__name__,
)
def test_no_descriptor_is_left_open(use: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    use(tmp_path)
    before = descriptors()
    for _ in range(3):
        use(tmp_path)
    assert descriptors() == before


def test_a_store_closes_its_log_queues_index_and_scratch_folder() -> None:
    closed: list[str] = []
    parts = {name: SimpleNamespace(close=lambda name=name: closed.append(name)) for name in ("log", "queues", "index")}
    for scratch in (None, SimpleNamespace(close=lambda: closed.append("scratch"))):
        OpenedStore.close(cast(Any, SimpleNamespace(**parts, scratch=scratch)))
    assert closed == ["log", "queues", "index", "log", "queues", "index", "scratch"]


def test_a_closed_store_holds_no_file_of_its_log(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", read_only=False, settings=SMALL) as store:
        store.put(Message.of("T", "hello"))
        assert str(tmp_path / "s" / "commitlog") in Path("/proc/self/maps").read_text()
    assert str(tmp_path / "s" / "commitlog") not in Path("/proc/self/maps").read_text()
