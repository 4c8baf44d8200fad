"""Recover a store with all consume queues in a database, without queue files (5.x).

    1. the log's end and the losses, as a broker's start finds them: the room of the database finds the walk's start
    2. a new database and a new index are built from the whole log, beside the old ones
    3. both have to end at the same log offset

After a shutdown, with queues that reach the log's end, database and index stay as they are.
If a log is damaged before the segments that a broker walks, step 2 finds an earlier end. The log is not truncated
there: the recovery is refused.
"""

from __future__ import annotations

from pathlib import Path

from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.end import END_OF_LOG, LogEnd
from store.structures.commitlog.start import is_abnormal
from store.verbs.rebuild.local import rebuild_locally
from store.verbs.rebuild.scope import RebuildReport, RebuildScope
from store.verbs.recover.differences import applying
from store.verbs.recover.from_rebuild import open_rebuilt
from store.verbs.recover.lost import LossCounter
from store.verbs.recover.recover import RecoveryReport, cut_log
from store.verbs.recover.rules import RecoveryRules
from store.verbs.recover.unseen import InDatabase
from store.verbs.recover.walk import Progress, walk


def foretell_on_database(
    opened: OpenedStore, mode: str, scratch: Path, progress: Progress | None = None, *, passes_damage: bool = False
) -> RecoveryReport:
    """Run step 1.

    DamagedFile for a database that does not open; with `passes_damage` it counts as unreadable.
    """
    abnormal = is_abnormal(opened, mode)
    room = next(opened.rooms_with("start", "reach"))
    reach = room.reach(opened, scratch, abnormal=abnormal, passes_damage=passes_damage)
    start, queue_end = reach.start.log_offset, reach.queue_end
    found = RecoveryReport("abnormal" if abnormal else "normal", reach.start.reason, LogEnd(0, 0))
    found.queue_end_before, found.has_unit_at_end, found.findings = queue_end, reach.has_unit_at_end, reach.faults
    found.entered_from = reach.entered_from
    if segments := opened.log.segments.files:
        losses = LossCounter(opened)
        found.end = walk(opened, max(start, segments[0].file_start), [*reach.handlers, losses], progress)
        cut_log(opened, found)
        losses.read_behind(found.behind, found.end)
        if (units := reach.units_behind(found.log_end)) is not None:
            losses.count_units(units, found.log_end, END_OF_LOG)
        found.lost = losses.report()
    found.traps = list(reach.traps())
    found.shown = InDatabase(reach, found.log_end) if not reach.faults else None
    return found


def recover_database(opened: OpenedStore, mode: str, progress: Progress | None = None) -> RecoveryReport:
    """Recover the log, and build the database and the index in the overlay if they do not match it.

    DamagedFile for a log that is damaged before its end. BadRequest without the package rocksdict.
    """
    assert opened.overlay is not None
    with Scratch() as scratch:
        found = foretell_on_database(opened, mode, scratch.folder, progress, passes_damage=True)
    if found.mode == "normal" and found.queue_end_before == found.log_end and not found.findings:
        return found
    found.remarks, found.findings = found.findings, []
    made = _build(opened)
    if made.log_end != found.log_end:
        room = next(opened.rooms_with("recover", "damage_in_front"))
        raise room.damage_in_front(opened.layout, made.stopped_by, made.log_end, found.log_end)
    found.is_rebuilt = True
    found.end.record_count, found.dispatched_count = made.record_count, made.record_count
    open_rebuilt(opened, opened.overlay.folder)
    keeps = found.mode == "abnormal"
    found.differences = applying(opened, found.end, found.queue_end_before, RecoveryRules(keep_index=keeps))
    return found


def _build(opened: OpenedStore) -> RebuildReport:
    """Build database and index in the overlay's folder."""
    assert opened.overlay is not None
    return rebuild_locally(
        StoreReader.of(opened.layout, opened.fs),
        opened.overlay.folder,
        opened.config,
        RebuildScope(index=opened.config.writes_index_files, with_tags=opened.line.indexes_tags),
        clock=opened.clock,
        fs=opened.fs,
        rules=opened.scan_rules(check_crc=opened.config.check_crc_on_recover),
    )
