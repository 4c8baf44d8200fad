"""Recovery of a store of which only the log is trusted, with queues and index built by somebody else: by Spark.

    1. the checkpoint's times are forgotten, so the recovery is one from the first segment on
    2. `rebuild` walks the whole log, fills the staging folder with queues and index, and says where the log ends
    3. they are opened there in place of the store's own
    4. this process walks from the last record that has a unit to the log's end: that gives the last store times and
       what ended the log, and shows that both see the same log

The result is, byte for byte, that of an abnormal recovery of the same store without consumequeue/ and index/ and with
a checkpoint of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from store.commitlog.scan import ScanRules
from store.config import StoreConfig
from store.consumequeue.consume_queue_store import ConsumeQueueStore
from store.errors import StoreIOError
from store.index.index_service import IndexService
from store.layout import StoreLayout
from store.rebuild import RebuildScope, Rebuilt
from store.recovery import Recovered, end_log, follow, scan_rules
from store.salvage import count_lost
from store.store_parts import StoreParts

Rebuild = Callable[[Path, StoreConfig, RebuildScope, ScanRules], Rebuilt]
"""Builds the scope's files under a folder; what is a record, and where the log ends, is said by the rules."""


def recover_by_rebuild(parts: StoreParts, rebuild: Rebuild) -> Recovered:
    """Steps 1 to 4 on parts with an overlay; their queues and index are the rebuilt ones afterwards."""
    assert parts.overlay is not None
    parts.checkpoint.physic_ms = parts.checkpoint.logics_ms = parts.checkpoint.index_ms = 0
    rules = scan_rules(parts, check_crc=parts.config.check_crc_on_recover)
    scope = RebuildScope(index=parts.config.message_index_enable)
    made = rebuild(parts.overlay.folder, _config_of_recovery(parts), scope, rules)
    queue_end_before = parts.queues.recover()
    _open_rebuilt(parts, parts.overlay.folder)
    segments = parts.log.files.files
    start = segments[0].file_start if segments else 0
    found = Recovered("abnormal", start, "queues and index are built anew from the whole log")
    follow(parts, found, _last_queued_record(parts, start), [parts.queues], rules)
    if found.log_end != made.log_end:
        raise StoreIOError(
            f"the log ends at {made.log_end} for those who rebuilt it, and at {found.log_end} for this process",
            file=parts.layout.commitlog,
            hint="does a broker write to it, or is another folder mounted there on the executors?",
        )
    found.queue_end_before = queue_end_before
    found.record_count, found.walked_bytes = made.record_count, made.log_end - start
    if segments:
        end_log(parts, found)
        found.lost = count_lost(found.behind, found.log_end, parts.fs)
    return found


def _config_of_recovery(parts: StoreParts) -> StoreConfig:
    """4.9.8 recovers before it knows its delay levels; see ConsumeQueueStore.without_delay_levels."""
    return replace(parts.config, message_delay_level="") if parts.compat.startswith("4") else parts.config


def _open_rebuilt(parts: StoreParts, folder: Path) -> None:
    """Puts the rebuilt queues and index, read-only, in the place of the store's own."""
    parts.queues.close()
    parts.index.close()
    layout = StoreLayout(folder)
    parts.queues = ConsumeQueueStore(layout, parts.config, parts.fs, writable=False)
    parts.queues.load(parts.compat)
    parts.queues.recover()
    parts.index = IndexService(layout, parts.config, parts.fs, writable=False, clock=parts.clock)
    parts.index.load()
    for full in parts.index.files[:-1]:
        parts.checkpoint.index_ms = full.header.end_timestamp_ms


def _last_queued_record(parts: StoreParts, start: int) -> int:
    """Log offset of the last record that has a unit; the log's `start` when none has one."""
    units = (queue.unit(queue.max_offset - 1) for queue in parts.queues if queue.max_offset)
    return max((unit.log_offset for unit in units if unit is not None), default=start)
