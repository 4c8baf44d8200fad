"""Recover the RocksDB of a store that writes its queues twice (5.x, rocksdbCQDoubleWriteEnable).

    1. log and file queues are recovered as in every store; a broker reads the files
    2. after a crash, or if its end differs from that of the files, the RocksDB is rebuilt in the overlay

A broker's start opens this RocksDB unchanged: units past the log's end stay, and units lost in a crash are never
written again.

Source: RocksDBMessageStore.loadAndStartConsumerServiceOnly, RocksDBConsumeQueueStore.load (5.3.3).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from store.change.actions import Action, replace_files
from store.errors import DamagedFile
from store.files.rocksdb_files import has_queue_database, has_rocksdb_queues, queue_database
from store.files.scratch import Scratch
from store.layout import StoreLayout
from store.structures.commitlog.end import find_end
from store.structures.queuedb.build import RocksdbQueues, files_of
from store.structures.queuedb.database import open_database

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore
    from store.verbs.rebuild.scope import RebuildScope
    from store.verbs.recover.recover import RecoveryReport


DIFFERENCE = "double-write"


def folder(opened: OpenedStore) -> Path:
    """Return the folder of the RocksDB, even if it is lost."""
    return queue_database(opened.layout, opened.fs)


def can_build(opened: OpenedStore) -> bool:
    """Return whether the RocksDB can be built.

    It can if a setting puts queues in a database, or if queue files are beside it.
    """
    return opened.config.queues_in_database or not has_rocksdb_queues(opened.layout, opened.fs)


def follow(opened: OpenedStore, found: RecoveryReport, scope: RebuildScope) -> list[Action]:
    """Rebuild the RocksDB if it may differ from the recovered log; return the actions.

    No actions if recovery has already recovered the database instead of queue files. A RocksDB that a broker does not
    write any more is rebuilt only if it reaches past a truncated log. A lost one is rebuilt if it alone has the light
    queues. DamagedFile for a log with damage before its end. BadRequest without the package rocksdict.
    """
    is_cut = found.mode == "truncate"
    is_recovered = opened.config.queues_in_database and not is_cut
    is_there = has_queue_database(opened.layout, opened.fs)
    if is_recovered or not (is_there or opened.config.has_named_queues_in_database):
        return []
    is_left = opened.config.rocksdb_cq_double_write_enable is False
    if is_there and (found.mode != "abnormal" or is_left):
        queue_end = found.log_end if is_cut else max(opened.queues.built_to, 0)
        if _reaches(opened, queue_end, is_left=is_left):
            return []
    assert opened.overlay is not None
    staging = StoreLayout(opened.overlay.folder)
    queues = RocksdbQueues(opened.layout, staging, opened.config, scope, opened.fs)
    segments = opened.log.segments.files
    start = segments[0].file_start if segments else 0
    rules = opened.scan_rules(check_crc=opened.config.check_crc_on_recover)
    end = find_end(segments, start, replace(rules, by_place=True), queues.dispatch, stop=found.log_end)
    queues.finish(start)
    found.findings += queues.findings
    if segments and end.log_end != found.log_end:
        raise damage_in_front(opened.layout, end.describe(), end.log_end, found.log_end)
    place = opened.layout.root / queue_database(staging, opened.fs).name
    staged = {place / path.name: path for path in files_of(staging, opened.fs)}
    return replace_files(files_of(opened.layout, opened.fs) if is_there else [], staged)


def damage_in_front(layout: StoreLayout, stopped_by: str, at: int, log_end: int) -> DamagedFile:
    """Return the error for a log that is damaged at `at`, before its end."""
    return DamagedFile(
        f"{stopped_by}; the log goes on to {log_end}, and the RocksDB can't be built past the damage",
        file=layout.commitlog,
        offset=at,
        code="damage-in-front-of-the-end",
    )


def _reaches(opened: OpenedStore, queue_end: int, *, is_left: bool) -> bool:
    """Return whether the RocksDB is readable, and its checkpoint is the end of the file queues.

    is_left  the checkpoint may be lower
    """
    with Scratch() as scratch:
        try:
            database = open_database(queue_database(opened.layout, opened.fs), scratch.folder, opened.fs)
        except DamagedFile:
            return False
        newest = max((place.log_offset for place in database.newest.values()), default=-1)
        return newest < database.checkpoint <= queue_end and (is_left or database.checkpoint == queue_end)
