"""The sentence about the process that holds a lock, and the lines of /proc/locks."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.files import lock_holder
from store.files.filesystem import Filesystem
from store.files.lock_holder import LockHolder, find_lock_holder


@pytest.mark.parametrize(
    ("holder", "text"),
    [
        (LockHolder(0, ""), "another process"),
        (LockHolder(0, "java"), "another process"),
        (LockHolder(7, ""), "process 7"),
        (LockHolder(7, "java -jar"), "process 7 (java -jar)"),
        (LockHolder(7, "a" * 200), f"process 7 ({'a' * 200})"),
        (LockHolder(7, "a" * 120 + "b" * 81), f"process 7 ({'a' * 120} … {'b' * 77})"),
    ],
)
def test_a_holder_is_described_by_its_number_and_command(holder: LockHolder, text: str) -> None:
    assert holder.describe() == text
    assert len(text) <= len("process 7 ()") + 200


@pytest.mark.parametrize(
    ("found", "kind", "holder"),
    [
        (None, "POSIX", None),
        (4711, "POSIX", LockHolder(4711, "java -jar x")),
        (12, "POSIX", LockHolder(12, "")),
        (0, "POSIX", LockHolder(4711, "java -jar x")),
        (0, "OFDLCK", LockHolder(4711, "java -jar x")),
        (0, "FLOCK", LockHolder(0, "")),
    ],
)
def test_a_holder_without_a_number_is_looked_up_by_device_and_inode(
    found: int | None, kind: str, holder: LockHolder | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, proc = tmp_path / "lock", tmp_path / "proc"
    assert find_lock_holder(lock, Filesystem(), proc) is None
    lock.touch()
    status = lock.stat()
    major, minor = status.st_dev >> 8 & 0xFFF, status.st_dev & 0xFF | status.st_dev >> 12 & 0xFFF00
    lines = [
        f"1: {kind}  ADVISORY  WRITE 99 {major:02x}:{minor:02x}:{status.st_ino + 1} 0 0",
        f"2: {kind}  ADVISORY  WRITE 98 {major:02x}:{minor + 1:02x}:{status.st_ino} 0 0",
        f"3: {kind}  ADVISORY  READ  97 {major:02x}:{minor:02x}:{status.st_ino} 0 0",
        f"4: {kind}  ADVISORY  WRITE -1 {major:02x}:{minor:02x}:{status.st_ino} 0 0",
        f"5: {kind}  ADVISORY  WRITE 4711 {major:02x}:{minor:02x}:{status.st_ino} 0 0",
    ]
    (proc / "4711").mkdir(parents=True)
    (proc / "locks").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (proc / "4711/cmdline").write_bytes(b"java\0-jar\0\0x\0")
    monkeypatch.setattr(lock_holder, "holding_process", lambda path, fs: found)
    assert find_lock_holder(lock, Filesystem(), proc) == holder


@pytest.mark.parametrize(
    ("major", "minor"), [(0, 0), (8, 1), (0xFF, 0xFF), (0x100, 0x100), (0xFFF, 0xFFFFF), (0xABC, 0x12344)]
)
def test_a_device_has_12_bits_of_its_major_and_20_of_its_minor_number(
    major: int, minor: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status: Any = SimpleNamespace(st_dev=os.makedev(major, minor), st_ino=7)
    monkeypatch.setattr(Filesystem, "stat", lambda fs, path: status)
    (tmp_path / "locks").write_text(f"1: POSIX  ADVISORY  WRITE 4711 {major:02x}:{minor:02x}:7 0 0\n")
    assert list(lock_holder._listed_holders(tmp_path / "lock", Filesystem(), tmp_path)) == [4711]
