"""The exit codes of the process; only this module maps errors of the engine to them.
0    done, nothing wrong found
1    done, with findings: damage, a message that was not found, a put that was refused
2    wrong usage, contradicting options, a change that needs --yes
3    the store is locked by a live broker or another rmqctl
4    a missing path, not a store, unreadable, or an unsupported format
5    an I/O error: no space, no permission, a read-only file system
6    a plan was answered with no: it was not carried out
70   a defect in rmqctl itself
130  interrupted; the store is consistent
"""

from __future__ import annotations

import errno

OK = 0
FINDINGS = 1
USAGE = 2
LOCKED = 3
NOT_READABLE = 4
IO_ERROR = 5
DECLINED = 6
DEFECT = 70
INTERRUPTED = 130
MISSING = (errno.ENOENT, errno.ENOTDIR)
"""Error numbers of a missing path; it has the same exit code in every option."""


def exit_code_of(error: BaseException) -> int:
    """Return the exit code for an error that ended a command."""
    from store import errors

    if isinstance(error, errors.StoreIOError | OSError) and error.errno in MISSING:
        return NOT_READABLE
    by_class: list[tuple[type[BaseException], int]] = [
        (errors.StoreLocked, LOCKED),
        (errors.BadRequest, USAGE),
        (errors.StoreIOError, IO_ERROR),
        (errors.StoreClosed, IO_ERROR),
        (errors.StoreError, NOT_READABLE),
        (KeyboardInterrupt, INTERRUPTED),
        (OSError, IO_ERROR),
    ]
    return next((code for kind, code in by_class if isinstance(error, kind)), DEFECT)
