"""Advice on an error of the engine, in words of the command line.

The engine knows no commands and options. Its errors carry a code and what the code is about; here is the hint.
"""

from __future__ import annotations

HINTS = {
    "no-store": "give the store's root folder with --store",
    "unclean": "run `rmqctl recover --abnormal` first (with --dry-run to see what it does), or give --recover",
    "interrupted-change": "run `rmqctl undo {0}` first",
    "half-done-change": "the change is half done; run `rmqctl undo {0}` when the cause is mended",
    "unknown-change": "see `rmqctl quarantine list`",
    "changed-since": "--force puts the old files back all the same, and keeps in the quarantine what is in their place",
    "empty-log": "mount or restore the log; with --force-empty-log the store starts at offset 0 again",
    "unclean-copy": "run `rmqctl recover --abnormal` on it first",
    "segment-size": "give the size of the master's segments with --set mappedFileSizeCommitLog=N",
    "no-record": "the master's log is damaged there, its segments have another size (--set mappedFileSizeCommitLog=N), "
    "or this is not the HA port of a master; what was proved before is kept",
    "not-in-log": "--from-offset min begins at the first segment that the master has",
    "not-on-spark": "give --engine local",
    "unknown-setting": "`rmqctl config settings` lists the names",
}


def describe(error: BaseException) -> str:
    """Writes the error as a sentence, with the user's way out."""
    from store.errors import StoreError

    if not isinstance(error, StoreError) or error.code is None:
        return str(error)
    return f"{error}; {HINTS[error.code].format(*error.subject)}"
