"""Recover a store whose consume queues are in a RocksDB (5.x, storeType=defaultRocksDB).

    1. the log's end and the losses, as a broker's start finds them (store.verbs.recover.rocksdb_start)
    2. a new database and a new index are built from the whole log, beside the old ones
    3. both have to end at the same log offset

After a shutdown, with queues that reach the log's end, database and index stay as they are.
A log that is damaged in front of the segments that a broker walks would end earlier for step 2. It is not cut there:
the recovery is refused.
"""

from __future__ import annotations

from store.errors import DamagedFile
from store.files.scratch import Scratch
from store.opened.opened_store import OpenedStore
from store.verbs.rebuild.local import rebuild_locally
from store.verbs.rebuild.scope import RebuildReport, RebuildScope
from store.verbs.recover.differences import applying
from store.verbs.recover.from_rebuild import open_rebuilt
from store.verbs.recover.recover import RecoveryReport
from store.verbs.recover.rocksdb_start import foretell_rocksdb_start
from store.verbs.recover.rules import RecoveryRules
from store.verbs.recover.walk import Progress


def recover_rocksdb(opened: OpenedStore, mode: str, progress: Progress | None = None) -> RecoveryReport:
    """Recover the log, and build the database and the index in the overlay where they are behind.

    DamagedFile for a log that is damaged in front of its end. BadRequest without the package rocksdict.
    """
    assert opened.overlay is not None
    with Scratch() as scratch:
        found = foretell_rocksdb_start(opened, mode, scratch.folder, progress, passes_damage=True)
    if found.mode == "normal" and found.queue_end_before == found.log_end and not found.findings:
        return found
    found.remarks, found.findings = found.findings, []
    made = _build(opened)
    if made.log_end != found.log_end:
        raise DamagedFile(
            f"{made.stopped_by}; the log goes on to {found.log_end}, and the RocksDB can't be built past the damage",
            file=opened.layout.commitlog,
            offset=made.log_end,
            code="damage-in-front-of-the-end",
        )
    found.is_rebuilt = True
    found.end.record_count, found.dispatched_count = made.record_count, made.record_count
    open_rebuilt(opened, opened.overlay.folder)
    keeps = found.mode == "abnormal"
    found.differences = applying(opened, found.end, found.queue_end_before, RecoveryRules(keep_index=keeps), delayed=0)
    return found


def _build(opened: OpenedStore) -> RebuildReport:
    """Build database and index in the overlay's folder."""
    assert opened.overlay is not None
    return rebuild_locally(
        str(opened.layout.root),
        opened.overlay.folder,
        opened.config,
        RebuildScope(index=opened.config.message_index_enable, with_tags=opened.line.indexes_tags),
        clock=opened.clock,
        fs=opened.fs,
        commitlogs=opened.layout.commitlogs_elsewhere,
        rules=opened.scan_rules(check_crc=opened.config.check_crc_on_recover),
    )
