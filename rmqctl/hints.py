"""Hints for errors and findings of the engine, in words of the command line.

The engine knows no commands or options. Its errors, problems, traps and findings have a code and a subject; here is
the clause for each code that says what to do. advice.py has the commands to run.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store.errors import StoreIOError

HINTS = {
    "no-store": "give a store's root folder with --store (a broker's storePathRootDir)",
    "store-is-file": "give the store's root folder; check, dump, export, find, fingerprint, salvage, sql, "
    "timeline and usage take one segment file too",
    "unclean": "run `rmqctl recover --abnormal` first (with --dry-run to see what it does), or give --recover",
    "damaged-log": "`rmqctl doctor` says what to save first; `rmqctl recover`, and put and serve with --recover, "
    "truncate it as a broker's start does",
    "damaged-end": "the next put overwrites what is left of it: copy the segment first if that matters; then "
    "`rmqctl recover`, and put and serve with --recover, truncate the log as a broker's start does",
    "interrupted-change": "run `rmqctl undo {0}` first",
    "half-done-change": "the change is half done; mend the cause, then run `rmqctl undo {0}`",
    "unknown-change": "see `rmqctl quarantine list`",
    "changed-since": "--force restores the old files all the same, and moves what is in their place to quarantine",
    "empty-log": "mount or restore the log, or name its folder by storePathCommitLog; with --force-empty-log put, "
    "recover, rebuild and truncate-dirty start the store at offset 0 again",
    "odd-size": "give the broker's mappedFileSizeCommitLog by --broker-conf or --set: then its length is judged",
    "missing-segment": "bring the segment back first: a rebuild gives new queue offsets to the messages after the gap",
    "queue-file-size": "`rmqctl rebuild --queues --topic {0} --queue {1}` rebuilds the queue",
    "unclean-copy": "run `rmqctl recover --abnormal` on it first (with --dry-run to see what it does)",
    "segment-size": "give the size of the master's segments with --set mappedFileSizeCommitLog=N",
    "no-record": "the master's log is damaged there, its segments have another size (--set mappedFileSizeCommitLog=N), "
    "or this is not the HA port of a master; what was verified before is kept",
    "not-in-log": "--from-offset min begins at the first segment that the master has",
    "stray-unit": "run `rmqctl rebuild --queues --topic {0} --queue {1}`",
    "unit-outside": "`rmqctl check` shows whether a segment is missing; if none is, `rmqctl rebuild --queues` rebuilds "
    "the queues from the log",
    "entry-outside": "`rmqctl check` shows whether a segment is missing; if none is, `rmqctl rebuild --index` rebuilds "
    "the index from the log",
    "unreadable-page": "`rmqctl check` lists unreadable parts and the commands that mend them",
    "rocksdb-damaged": "`rmqctl rebuild --queues` rebuilds all queues from the log, "
    "`rmqctl rebuild message-database` index, timers and half messages",
    "no-index-database": "without --database index files and log are searched",
    "no-tags-in-index": "`rmqctl get TOPIC --tags TAGS` selects by tags",
    "rocksdb-queues": "start the store's broker for this; `rmqctl salvage --to NEWSTORE` makes a store with "
    "queue files, `rmqctl rebuild` a new RocksDB",
    "unknown-queues": "give the broker's storeType: `--set storeType=default` if it reads queue files, "
    "`--set storeType=defaultRocksDB` if it reads the RocksDB",
    "message-database": "start the store's broker for this; `rmqctl salvage --to NEWSTORE` makes a store of its log",
    "damage-in-front-of-the-end": "run `rmqctl salvage --to NEWSTORE`; `rmqctl check` lists the damage",
    "not-on-spark": "give --engine local",
    "unknown-group": "`rmqctl lag` lists the groups that have offsets",
    "no-transaction": "`rmqctl transaction show` lists transactions and their states",
    "not-served": "`rmqctl serve` serves one",
    "unknown-setting": "`rmqctl config settings` lists the names",
    "interrupted-change-elsewhere": "run `rmqctl undo {0} --quarantine {1}` first",
    "lost-quarantine": "bring its disk back, or run `rmqctl quarantine purge {0}` to give up the files in it",
    "two-sparks": "give --master or --remote, not both",
    "spark-connect-address": "give it as --remote {0}",
    "spark-log": "run again with --verbose for Spark's own log",
    "busy-remote": "try again later, or raise --remote-retries",
    "mixed-delays": "give the broker's messageDelayLevel by --broker-conf or --set",
    "lines-to-stdout": "give --as jsonl, without --partition-by",
    "no-backup": "`rmqctl backup create` makes one there",
    "unknown-backup": "`rmqctl backup list` shows the ids",
    "dledger-backup": "`rmqctl salvage --to NEWSTORE` makes a plain store of a member's folder",
    "damaged-backup-log": "`rmqctl salvage --store backup:{0} --to NEWSTORE --keep-offsets` saves what is before "
    "and after the damage",
    "same-names": "give another --salt",
    "no-bundle": "`rmqctl bundle` makes one; of another archive unpack the store first",
    "damaged-manifest": "choose another backup by @ID (`rmqctl backup list` shows them), or delete this file to give "
    "its backup up",
    "backup-damaged": "`rmqctl backup verify` lists every damaged file; another backup may be whole; `rmqctl salvage "
    "--store backup:FOLDER --to NEWSTORE` saves the rest",
    "scratch-place": "--scratch DIR names another folder for what is built",
    # Traps of a broker's start.
    "out-of-memory": "run `rmqctl recover`, which truncates the log there",
    "waits-for-segment": "bring it back; without it `rmqctl salvage --to NEWSTORE` keeps what is readable",
    "large-allocation": "run `rmqctl recover` first, or start with a larger heap",
    "light-queue-poison": "start once with enableMultiDispatch=false and stop cleanly",
    "delayed-at-once": "run `rmqctl recover`, which keeps the times",
    "index-keys": "run `rmqctl recover --keep-index`",
    "lost-index": "run `rmqctl rebuild --index`",
    "index-ahead": "run `rmqctl rebuild --index`",
    "light-queues-without-files": "run `rmqctl rebuild --queues` if the broker has enableMultiDispatch=true; "
    "else give it as false, and nothing is missing",
    "lost-queue": "run `rmqctl rebuild --queues --topic {0} --queue {1}`",
    "nameless-queue": "see where `rmqctl check` finds their records: no folder can have this topic's name",
    "light-queue-poison-rocksdb": "start once with enableLmq=false and stop cleanly",
    "compaction-files": "run `rmqctl rebuild compaction`",
    "timer-length": "run `rmqctl rebuild timer`, or move the file away",
    "timer-wheel-lost": "run `rmqctl rebuild timer`",
    "timer-check-lost": "run `rmqctl rebuild timer`",
    "timer-log-lost": "run `rmqctl rebuild timer`",
    "timer-again": "run `rmqctl rebuild timer`",
    "timeline-again": "run `rmqctl rebuild message-database`",
    "undeliverable-message": "once the messages before it are delivered, run `rmqctl rebuild delay-offsets`, "
    "which skips it",
    "queue-database-elsewhere": "set useSeparateStorePathForRocksdbCQ to true for a database in consumequeue_rocksdb, "
    "to false for one in consumequeue, and move a second one out of the store",
    "combined-settings": "name both kinds in combineCQLoadingCQTypes, and default in combineAssignOffsetCQType",
    "combined-database": "leave combineCQPreferCQType at the value of combineAssignOffsetCQType until `rmqctl check` "
    "finds both kinds of queues equal",
    "message-database-broken": "run `rmqctl rebuild message-database`",
    "half-messages-forgotten": "run `rmqctl recover`, which enters them",
    "message-database-behind": "run `rmqctl recover`, which enters them",
    "message-database-ahead": "run `rmqctl recover`, which removes entries of truncated records",
    "timers-asleep": "leave timerRocksDBEnable=true until they have fired",
    "accelerated-recovery": "leave enableAcceleratedRecovery=false on a store that 5.3 wrote, or that was edited",
    "table-in-database": "change it with mqadmin once the broker runs",
    "recovers-some-segments": "set commitLogRecoverMaxNum={0}, or run `rmqctl recover` after a crash",
    "tables-in-one-database": "list them with `rmqctl config show`, and make them with mqadmin once 5.3 runs",
    "wheel-in-snapshot": "run `rmqctl rebuild timer`",
    "timers-in-database": "expect them twice; only a consumer that remembers their keys can skip the second",
    "timers-unread": "run the newer broker until they have fired",
    "timer-deletes": "set appendTopicForTimerDeleteKey=true",
    "timer-deletes-by-key": "delete them again once the older broker runs",
    "half-messages-in-database": "end them before: `rmqctl transaction show --state in-doubt` lists them",
    "index-in-database": "run `rmqctl rebuild index` with --set indexFileWriteEnable=true",
    "queue-database-left": "move its files into consumequeue",
    "queue-database-stays": "leave useSeparateStorePathForRocksdbCQ=false",
    "timeline-unfired": "run `rmqctl recover`, which begins it at the first timer",
    "epochs-torn": "copy epochFileCheckpoint.bak over it, or remove it where the broker has no controller",
    "zero-queue-file": "run `rmqctl rebuild --queues --topic {0} --queue {1}`",
    "phantom-unit": "run `rmqctl rebuild --queues --topic {0} --queue {1}`",
    "queue-type": "set the attribute queue.type in topics.json to the type of the folder; only where topics.json is "
    "right, move the folder away and rebuild all queues",
    "topic-attribute": "set the attribute in topics.json, with the broker stopped",
    "dledger-queue-tails": "run `rmqctl recover`, which completes the queues and removes the abort marker",
    "dledger-no-dispatch": "run `rmqctl recover`, which completes the queues from the entries",
    "dledger-index-files": "move the member's index/ away: a start rebuilds it from the entries",
    "dledger-data-files": "bring the file back, or move the member's folder away and let it copy another's log",
    "dledger-uncommitted": "copy checkpoint.bak of the member's folder over its checkpoint",
    "several-dledgers": "name one, as --set dLegerSelfId=n0",
    "record-at-queue-end": "run `rmqctl recover`, which dispatches it",
    # Tables under config/.
    "rebuild-topics": "run `rmqctl rebuild topics`",
    "restore-topics": "copy {0} over it, or run `rmqctl rebuild topics`",
    "restore-table": "copy {0} over it",
    "write-table": "write a new one; no copy can be read",
    "remove-entry": "remove the entry",
    "compaction-record": "no command mends a copy: move the queue's folders in compactionLog and compactionCq out of "
    "the store; `rebuild compaction` then copies the messages that the commit log still has",
    "foreign-file": "move a foreign file out of the store",
}
"""The advice by code, as a clause. A command in it is between backquotes; {0} and {1} are parts of the subject."""


def hint_for(code: str, subject: Sequence[object] = ()) -> str:
    """Return the advice on a fault as a clause; empty if advice.py has all of it."""
    return HINTS.get(code, "").format(*subject)


def with_hint(text: str, code: str, subject: Sequence[object] = ()) -> str:
    """Return the text of a fault with the clause of its advice."""
    hint = hint_for(code, subject)
    return f"{text}; {hint}" if hint else text


def describe(error: BaseException) -> str:
    """Return the error as a sentence, with the advice for it."""
    from store.errors import NotAStore, StoreError, StoreIOError

    if not isinstance(error, StoreError):
        return str(error)
    is_elsewhere = isinstance(error, NotAStore) and error.code in (None, "no-store")
    if is_elsewhere and (meant := _meant_store(error.file)):
        return f"{str(error).partition('; ')[0]}; did you mean {meant}?"
    if isinstance(error, StoreIOError) and "folder" in error.reason and (file := _file_in_path(error)):
        is_of_a_store = any((folder / "commitlog").is_dir() for folder in file.parents)
        return f"{file}: a file, where a folder is expected; {'move it away' if is_of_a_store else 'name a folder'}"
    code = error.code
    if code is None and isinstance(error, StoreIOError) and error.file is not None:
        from store.opened import is_in_scratch

        code = "scratch-place" if is_in_scratch(error.file) else None
    return with_hint(str(error), code, error.subject) if code is not None else str(error)


def _file_in_path(error: StoreIOError) -> Path | None:
    """Return the file that the system refused as a folder."""
    if error.errno not in (errno.ENOTDIR, errno.EEXIST) or error.file is None:
        return None
    return next((one for one in (error.file, *error.file.parents) if one.is_file()), None)


def _meant_store(file: object) -> str:
    """Return the store around a folder, or in it, or the backup in it; empty without one."""
    place = Path(str(file)).absolute()
    if (place / "backups").is_dir() and (place / "log").is_dir():
        return f"backup:{place}"
    near = (place.parent, place.parent.parent, place / "store")
    return next((str(one) for one in near if (one / "commitlog").is_dir()), "")
