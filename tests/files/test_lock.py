"""The lock byte keeps other processes out; the abort marker tells how the last one ended."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from store.errors import StoreIOError, StoreLocked
from store.files.filesystem import Filesystem
from store.files.lock import AbortMarker, StoreLock, is_locked
from store.files.lock_holder import LockHolder, find_lock_holder
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.processes import next_line, running

# What a Java broker does: FileChannel.tryLock(0, 1, false).
TRY_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    print("taken", flush=True)
    sys.stdin.read()
except OSError:
    print("refused", flush=True)
"""


def other_process(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TRY_LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def answer_of(process: subprocess.Popen[str]) -> str:
    try:
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    return out.strip()


def test_another_process_is_refused_while_the_lock_is_held_and_let_in_after(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with StoreLock(path, Filesystem()):
        assert answer_of(other_process(path)) == "refused"
    assert answer_of(other_process(path)) == "taken"


def test_the_holder_is_named_when_another_process_has_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(b"lock")
    with running([sys.executable, "-c", TRY_LOCK, str(path)]) as holder:
        assert next_line(holder).strip() == "taken"
        with pytest.raises(StoreLocked, match=f"process {holder.pid}"):
            StoreLock(path, Filesystem()).acquire()
    StoreLock(path, Filesystem()).acquire()


@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="the system has no locks without a process")
def test_a_holder_without_a_number_holds_the_lock_all_the_same(tmp_path: Path) -> None:
    # As one in another container: the kernel gives no process for it.
    path, fs = tmp_path / "lock", Filesystem()
    path.write_bytes(b"lock")
    with path.open("r+b") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        assert is_locked(path, fs)
        assert find_lock_holder(path, fs) == LockHolder(0, "")
        with pytest.raises(StoreLocked, match="another process"):
            StoreLock(path, fs).acquire()
    assert not is_locked(path, fs)


def test_a_lock_that_is_dropped_without_a_release_is_held_by_nobody(tmp_path: Path) -> None:
    path, fs = tmp_path / "lock", Filesystem()
    StoreLock(path, fs).acquire()
    assert not is_locked(path, fs)
    with StoreLock(path, fs):
        assert is_locked(path, fs)


def test_the_list_of_all_locks_is_not_read_where_nobody_holds_this_one(tmp_path: Path) -> None:
    # The kernel waits for all processors before it gives the list.
    path, fs = tmp_path / "lock", FaultyFilesystem()
    path.write_bytes(b"lock")
    assert find_lock_holder(path, fs, tmp_path) is None
    assert ("open_read", tmp_path / "locks") not in fs.operations


def test_a_second_lock_in_the_same_process_is_refused_and_does_not_drop_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = StoreLock(path, Filesystem())
    first.acquire()
    with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
        StoreLock(path, Filesystem()).acquire()
    assert answer_of(other_process(path)) == "refused"
    first.release()
    with StoreLock(path, Filesystem()):
        pass


@pytest.mark.parametrize("before", [b"something longer", b"locks", b"lock", b"loc", b""])
def test_the_lock_file_holds_what_a_broker_writes(before: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(before)
    with StoreLock(path, Filesystem()):
        pass
    assert path.read_bytes() == b"lock"


def test_a_lock_that_can_not_be_created_is_an_error_of_the_disk(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path / "absent" / "lock", Filesystem())
    with pytest.raises(StoreIOError, match="no such file"):
        lock.acquire()
    assert lock._descriptor is None
    lock.release()


def test_a_failure_while_writing_the_content_can_be_followed_by_another_try(tmp_path: Path) -> None:
    fs = FaultyFilesystem(when=lambda name, _: name == "write")
    lock = StoreLock(tmp_path / "lock", fs)
    with pytest.raises(StoreIOError):
        lock.acquire()
    assert lock._descriptor is None
    fs.when = None
    with lock:
        assert (tmp_path / "lock").read_bytes() == b"lock"


def test_the_abort_marker_is_empty_durable_and_can_be_there_already(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    marker = AbortMarker(tmp_path / "abort", fs)
    assert not marker.exists()
    marker.create()
    marker.create()
    assert (tmp_path / "abort").read_bytes() == b""
    assert fs.count("fsync_folder") == 2
    marker.remove()
    marker.remove()
    assert not marker.exists()


@pytest.mark.parametrize("before", ["", "1", "123456789"])
def test_a_marker_has_the_process_id_and_its_copy_what_it_had_before(before: str, tmp_path: Path) -> None:
    (tmp_path / "abort").write_text(before)
    (tmp_path / "abort.bak").write_text("something longer")
    AbortMarker(tmp_path / "abort", Filesystem()).create(4711)
    assert [(tmp_path / name).read_text() for name in ("abort", "abort.bak")] == ["4711", before]


@pytest.mark.parametrize("size", [199, 200, 201, 5000])
def test_a_long_command_is_shown_with_its_beginning_and_its_end(size: int) -> None:
    command = "java " + "x" * (size - 11) + "Broker"
    shown = LockHolder(7, command).describe().removeprefix("process 7 (").removesuffix(")")
    whole = command[:120] + " … " + command[-77:]
    assert shown == (command if size <= 200 else whole)
    assert len(shown) == min(size, 200)


@pytest.mark.parametrize(
    ("before", "process_id", "after"),
    [
        (None, None, {"abort": b""}),
        (b"", None, {"abort": b""}),
        (b"12", None, {"abort": b"12"}),
        (None, 4711, {"abort": b"4711", "abort.bak": b""}),
        (b"", 4711, {"abort": b"4711", "abort.bak": b""}),
        (b"123456", 4711, {"abort": b"4711", "abort.bak": b"123456"}),
    ],
)
def test_a_marker_with_a_process_keeps_the_content_before_beside_it(
    before: bytes | None, process_id: int | None, after: dict[str, bytes], tmp_path: Path
) -> None:
    if before is not None:
        (tmp_path / "abort").write_bytes(before)
    AbortMarker(tmp_path / "abort", Filesystem()).create(process_id)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == after
