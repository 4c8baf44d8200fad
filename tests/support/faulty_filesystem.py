"""FaultyFilesystem: a Filesystem whose Nth operation fails, to see that the state afterwards is before or after.

    for fs in failing_each_time(change):        runs `change` on a fresh store again and again; in run N the Nth
        check_state_after_failure(fs)           operation fails, until a run gets through without a failure

An operation is a call of a Filesystem method. One that is made of others (create_file) counts as its parts, so that a
failure can strike between them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from typing import Any

from store.errors import StoreIOError
from store.files.filesystem import Filesystem

MADE_OF_OTHERS = frozenset(
    {
        "copy_written",
        "create_file",
        "mtime_ns",
        "read_file",
        "remove_tree",
        "require_file",
        "require_folder",
        "sync_for_groups",
        "zero",
    }
)
ADVICE = frozenset({"finish_pace", "make_writable", "pace"})
"""Calls that use no device, and can't fail."""
MOST_OPERATIONS = 10_000


class FaultyFilesystem(Filesystem):
    """Fails the operation number `fail_at` (from 1), or every one for which `when(name, path)` is true.

    `operations` lists what was asked for, as (name, first argument)."""

    def __init__(
        self,
        fail_at: int | None = None,
        *,
        errno_code: int = errno.EIO,
        when: Callable[[str, Any], bool] | None = None,
    ) -> None:
        self.fail_at = fail_at
        self.errno_code = errno_code
        self.when = when
        self.operations: list[tuple[str, Any]] = []
        self.failed: tuple[str, Any] | None = None

    def count(self, name: str) -> int:
        return sum(1 for operation, _ in self.operations if operation == name)

    def before(self, name: str, argument: Any) -> None:
        self.operations.append((name, argument))
        due = len(self.operations) == self.fail_at or (self.when is not None and self.when(name, argument))
        if due:
            self.failed = (name, argument)
            error = OSError(self.errno_code, os.strerror(self.errno_code))
            raise StoreIOError.from_os(error, getattr(argument, "path", argument), name)


def _counted(name: str) -> Callable[..., Any]:
    real = getattr(Filesystem, name)

    def method(self: FaultyFilesystem, argument: Any, *rest: Any, **named: Any) -> Any:
        self.before(name, argument)
        return real(self, argument, *rest, **named)

    return method


for _name in dir(Filesystem):
    if not _name.startswith("_") and _name not in MADE_OF_OTHERS | ADVICE:
        setattr(FaultyFilesystem, _name, _counted(_name))


def failing_each_time(change: Callable[[FaultyFilesystem], None]) -> Iterator[FaultyFilesystem]:
    """Yield the file system of every run of `change` in which an operation failed."""
    for fail_at in range(1, MOST_OPERATIONS):
        fs = FaultyFilesystem(fail_at)
        try:
            change(fs)
        except StoreIOError:
            assert fs.failed is not None
        if fs.failed is None:
            return
        yield fs
    raise AssertionError("the change never gets through")
