"""Every error of the engine, grouped by operation.

An error has the file, the offset in it, the reason and a hint for the user:

    commitlog/00000000000000000000, offset 245: bad body CRC

    StoreError
      opening   NotAStore, UnsupportedFormat, StoreLocked, UncleanStore
      reading   DamagedFile, WrongFileSize, ForeignFile, DamagedRecord
      writing   StoreIOError, StoreClosed
      asking    BadRequest, WrongKind
      copying   LinkLost, ReplicationError, Diverged
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


def quoted(text: str, most: int = 60) -> str:
    """Return a user's text in quotes for a message; cut after `most` characters."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}…"


def shown(value: object) -> str:
    """Return a value of any kind for a message; cut after 40 characters."""
    # Python refuses to format a number of more than 4300 digits.
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


class StoreError(Exception):
    """The root of the tree.

    reason  what is wrong, one clause without a full stop
    file    the file or folder with the fault
    offset  the byte position in that file, or the log offset if the file is the whole log
    hint    advice for the user
    code    the key of advice that needs a command; rmqctl adds the command
    subject the object of that advice, such as the id of a change
    """

    def __init__(
        self,
        reason: str,
        *,
        file: str | os.PathLike[str] | None = None,
        offset: int | None = None,
        hint: str | None = None,
        code: str | None = None,
        subject: tuple[object, ...] = (),
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.file = Path(file) if file is not None else None
        # Path would turn s3:// into s3:/.
        self._name = os.fspath(file) if file is not None else ""
        self.offset = offset
        self.hint = hint
        self.code = code
        self.subject = subject

    def __str__(self) -> str:
        where = self._name
        if self.offset is not None:
            where += f"{', ' if where else ''}offset {self.offset}"
        text = f"{where}: {self.reason}" if where else self.reason
        return f"{text}; {self.hint}" if self.hint else text


# Opening a store.


class NotAStore(StoreError):
    """The folder is absent, is a file, or has no part of a broker's store."""

    @classmethod
    def absent(cls, address: str | os.PathLike[str]) -> NotAStore:
        """Return the error for a missing folder."""
        return cls("no such folder", file=address, code="no-store")

    @classmethod
    def empty(cls, address: str | os.PathLike[str]) -> NotAStore:
        """Return the error for a folder without any part of a store."""
        return cls("not a store: no commit log, queues or checkpoint are in it", file=address, code="no-store")

    @classmethod
    def for_file(cls, address: str | os.PathLike[str]) -> NotAStore:
        """Return the error for a file where a store's folder is expected."""
        return cls("a file, where a store's folder is expected", file=address, code="store-is-file")


class UnsupportedFormat(StoreError):
    """The store uses a structure that this engine does not read, or does not change."""


class StoreLocked(StoreError):
    """A live broker or another rmqctl holds the `lock` byte."""


class UncleanStore(StoreError):
    """The last owner did not shut down, or the log is damaged: recovery must run first."""


# Reading a store.


class DamagedFile(StoreError):
    """A file's content contradicts its format."""


class WrongFileSize(DamagedFile):
    """A preallocated file whose length is not the configured size; a broker refuses to start on it."""

    @classmethod
    def of(cls, size: int, expected: int, file: str | os.PathLike[str]) -> WrongFileSize:
        """Return the error for a file of `size` bytes."""
        return cls(
            f"the file has {size} bytes instead of {expected}",
            file=file,
            hint="give the right file size, or save what it holds and move it away"
            if size
            else "move it away or give the right file size",
        )


class ForeignFile(DamagedFile):
    """A name that no broker writes, in a folder where a broker expects only its own files."""


class DamagedRecord(DamagedFile):
    """A commit-log record whose bytes contradict each other; `record_count` is the number of records."""

    record_count = 1


# Writing a store.


class StoreIOError(StoreError):
    """The operating system refused: no space, no permission, read-only file system, I/O error."""

    def __init__(
        self,
        reason: str,
        *,
        file: str | os.PathLike[str] | None = None,
        offset: int | None = None,
        hint: str | None = None,
        code: str | None = None,
        subject: tuple[object, ...] = (),
        errno: int | None = None,
    ) -> None:
        super().__init__(reason, file=file, offset=offset, hint=hint, code=code, subject=subject)
        self.errno = errno

    @classmethod
    def from_os(cls, error: OSError, file: str | os.PathLike[str] | None = None, doing: str = "") -> StoreIOError:
        """Add to an operating system's error the file and the action (`doing`, as in "map")."""
        reason = (error.strerror or str(error)).lower()
        if doing:
            reason = f"cannot {doing}: {reason}"
        return cls(reason, file=file or error.filename, hint=_OS_HINTS.get(error.errno or 0), errno=error.errno)


def is_passing(error: BaseException) -> bool:
    """Return whether too many open files refused a call: nothing is half done, a retry may succeed."""
    return isinstance(error, StoreIOError) and error.errno in (errno.EMFILE, errno.ENFILE)


def is_no_space(error: BaseException) -> bool:
    """Return whether a call failed for a full disk or quota; deleting files helps."""
    return isinstance(error, StoreIOError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


_OS_HINTS = {
    errno.ENOSPC: "free some space and run the command again",
    errno.EDQUOT: "the quota is used up; free some space and run the command again",
    errno.EACCES: "run as the broker's user, or as one who may access the file",
    errno.EPERM: "run as the broker's user, or as one who may access the file",
    errno.EROFS: "the file system is mounted read-only; only reading commands work on it",
    errno.EIO: "the device reports an error; copy what can be read before anything else",
    errno.ENOMEM: "free some memory, or raise the limit of the address space (ulimit -v)",
    errno.EFBIG: "raise the limit of the size of files (ulimit -f)",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


class StoreClosed(StoreError):
    """An operation on a store that was closed, or whose background service failed."""


# Asking something of a store.


class BadRequest(StoreError):
    """An invalid request: a filter that does not parse, a negative offset, a contradiction."""


class WrongKind(BadRequest, TypeError):
    """A value of a wrong kind: text for a number, None for a topic."""


# Copying a log from another machine.


class LinkLost(StoreIOError):
    """The connection to the other machine failed, ended or stalled; a new connection may work."""


class ReplicationError(StoreError):
    """The other end of a replication link sends bytes that no master sends."""


class Diverged(StoreError):
    """Two logs hold different bytes at the same log offset."""
