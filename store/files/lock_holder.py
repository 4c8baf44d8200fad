"""The holder of a store's lock: its process id and command line.

    1. F_GETLK returns the holder's process id; a holder in another container has none here
    2. /proc/locks lists every lock by device and inode. It is read only for such a holder, as the kernel first waits
       for all processors
    3. /proc/PID/cmdline is the command, if this user may read it

Source: proc_locks(5), fcntl(2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.lock import holding_process

PROC = Path("/proc")
MOST_BYTES = 1 << 20
# 1: POSIX  ADVISORY  WRITE 4711 08:01:131 0 0
_LOCK_LINE = re.compile(rb"^\d+: (?:POSIX|OFDLCK)\s+ADVISORY\s+WRITE\s+(-?\d+)\s+([0-9a-f]+):([0-9a-f]+):(\d+)\s", re.M)


MOST_SHOWN, SHOWN_BEGIN = 200, 120
"""Characters of a command in a sentence; a broker's has thousands, and its class is at the end."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A process that holds the lock.

    An unknown `process_id` is 0, an unknown `command` empty.
    """

    process_id: int
    command: str

    def describe(self) -> str:
        """Return the holder as a clause for people."""
        if not self.process_id:
            return "another process"
        command = self.command
        if len(command) > MOST_SHOWN:
            command = f"{command[:SHOWN_BEGIN]} … {command[SHOWN_BEGIN + 3 - MOST_SHOWN :]}"
        return f"process {self.process_id}" + (f" ({command})" if command else "")


def find_lock_holder(path: Path, fs: Filesystem, proc: Path = PROC) -> LockHolder | None:
    """Return the holder of the lock file at `path`, None without one.

    This locks and writes nothing.
    """
    if not fs.exists(path):
        return None
    found = holding_process(path, fs)
    if found is None:
        return None
    found = found or max(_listed_holders(path, fs, proc), default=0)
    return LockHolder(max(found, 0), _command_of(found, fs, proc) if found > 0 else "")


def _listed_holders(path: Path, fs: Filesystem, proc: Path) -> Iterator[int]:
    status = fs.stat(path)
    device = (status.st_dev >> 8 & 0xFFF, status.st_dev & 0xFF | status.st_dev >> 12 & 0xFFF00)
    for process, major, minor, inode in _LOCK_LINE.findall(_read(proc / "locks", fs)):
        if int(inode) == status.st_ino and (int(major, 16), int(minor, 16)) == device:
            yield int(process)


def _command_of(process_id: int, fs: Filesystem, proc: Path) -> str:
    words = _read(proc / str(process_id) / "cmdline", fs).split(b"\0")
    return " ".join(word.decode("utf-8", "replace") for word in words if word)


def _read(path: Path, fs: Filesystem) -> bytes:
    """Return a file of /proc; empty if it is missing or not readable for this user."""
    try:
        # These files have no length.
        return fs.read(fs.open_read(path), 0, MOST_BYTES)
    except StoreIOError:
        return b""
