"""A system without calls that Linux has: a store is written, recovered, checked and read all the same."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
from pathlib import Path

import pytest

from store import open_store
from store.files import descriptor, filesystem, lock_holder, mapping
from store.files.filesystem import Filesystem
from store.files.portable import lower_priority, processors, sync_data
from store.verbs.check.check import check
from tests.support.stores import SMALL, make_store, recover, stored_messages

MISSING = [
    "posix_fallocate",
    "fdatasync",
    "copy_file_range",
    "posix_fadvise",
    "SEEK_DATA",
    "SEEK_HOLE",
    "sched_getaffinity",
]


@pytest.fixture(params=[*MISSING, "all of them"])
def poorer_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Takes one call away, or all, and with them unnamed files, populated maps and /proc."""
    for name in MISSING if request.param == "all of them" else [request.param]:
        monkeypatch.delattr(os, name)
    if request.param == "all of them":
        monkeypatch.setattr(filesystem, "_O_TMPFILE", 0)
        for module in (descriptor, filesystem):
            monkeypatch.setattr(module, "O_NOATIME", 0)
        monkeypatch.setattr(mapping, "_MADV_POPULATE_READ", 9999)
        monkeypatch.setattr(lock_holder, "PROC", tmp_path / "no proc")


@pytest.mark.turns(2)
@pytest.mark.usefixtures("poorer_system")
def test_a_store_is_written_recovered_checked_and_read_without_it(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60)
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    recover(root, settings=SMALL, keep_index=True)
    assert list(check(root)) == []
    with open_store(root, settings=SMALL) as store:
        assert sum(len(messages) for messages in stored_messages(store).values()) == 60


def test_blocks_are_reserved_without_posix_fallocate_and_the_bytes_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, path = Filesystem(), tmp_path / "file"
    path.write_bytes(b"bytes that stay")
    monkeypatch.delattr(os, "posix_fallocate")
    fs.preallocate(fs.open_write(path), 6, 100_000)
    assert path.read_bytes() == b"bytes that stay".ljust(100_006, b"\0")
    assert path.stat().st_blocks * 512 >= 100_000


def test_without_fdatasync_the_devices_cache_is_flushed_where_that_can_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda number, command: asked.append(command))
    fs, path = Filesystem(), tmp_path / "file"
    path.touch()
    fs.fdatasync(fs.open_write(path))
    assert asked == [51]


def test_every_processor_counts_where_affinity_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert processors() == os.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processors() == 1


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 251), ("aarch64", 30), ("other", None)])
def test_the_priorities_of_processor_and_disk_become_the_lowest(
    machine: str, number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[int, ...]] = []

    class Library:
        def __init__(self, name: None) -> None: ...

        def syscall(self, *numbers: int) -> None:
            called.append(numbers)

    monkeypatch.setattr(os, "nice", lambda step: called.append((step,)))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(ctypes, "CDLL", Library)
    lower_priority()
    # ioprio_set(IOPRIO_WHO_PROCESS, this process, IOPRIO_CLASS_IDLE)
    assert called == [(19,), *([] if number is None else [(number, 1, 0, 3 << 13)])]


def test_data_is_made_durable_by_the_call_that_the_system_has(monkeypatch: pytest.MonkeyPatch) -> None:
    called = list[tuple[str, int]]()
    monkeypatch.setattr(os, "fdatasync", lambda number: called.append(("fdatasync", number)), raising=False)
    monkeypatch.setattr(os, "fsync", lambda number: called.append(("fsync", number)))
    sync_data(7)
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    sync_data(8)
    assert called == [("fdatasync", 7), ("fsync", 8)]
