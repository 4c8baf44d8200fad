"""rebuild in this process: scan the log, and dispatch it to the builders of queues and index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from store.config import StoreConfig
from store.dispatch.fan_out import FanOut, Handler
from store.files.durable import sync_tree
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.run import Run
from store.layout import StoreLayout
from store.opened.detect import find_other_queues
from store.reading.filter.subscription import make_bit_maps
from store.structures.commitlog.end import find_end
from store.structures.commitlog.scan import VERIFYING, ScanRules, written_after
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.consumequeue.other_queues import NO_OTHERS
from store.structures.index.index_service import IndexService
from store.structures.registry import names_of, rooms_with
from store.structures.tables.topics import Attributes, record_attributes
from store.verbs.rebuild.expired import keep_expired_ends
from store.verbs.rebuild.scope import RebuildReport, RebuildScope


class QueueDatabaseBuilder(Handler, Protocol):
    """A builder of a database of queues from runs of the log; `findings` are sentences for people."""

    findings: list[str]

    def finish(self, log_start: int) -> None:
        """Close the database."""


def rebuild_locally(
    files: StoreReader,
    staging: Path,
    config: StoreConfig,
    scope: RebuildScope,
    *,
    clock: Callable[[], int],
    fs: Filesystem | None = None,
    rules: ScanRules = VERIFYING,
    on_progress: Callable[[int, int], None] = lambda done_bytes, bytes_in_all: None,
) -> RebuildReport:
    """Build the scope's files under `staging`; the store behind `files` stays unchanged.

    The new files are not durable yet. The log ends at the first bytes that the `rules` reject. A record with a wrong
    log offset in its bytes is dispatched under its real log offset. Light queues are built if enableMultiDispatch is
    set.
    """
    fs = fs or Filesystem()
    files.check_is_store()
    layout, source = StoreLayout(staging), StoreLayout(Path(files.address), queue_settings=files.queue_settings)
    others = find_other_queues(source, config, fs) if files.is_local else NO_OTHERS
    queues = ConsumeQueueStore(layout, config, fs, writable=True, others=others)
    queues.wants = scope.wants
    queues.bit_maps = make_bit_maps(source, config, fs, clock()) if files.is_local else None
    index = IndexService(layout, config, fs, writable=True, clock=clock, with_tags=scope.with_tags)
    handlers: list[Handler] = [queues] if scope.queues and not config.queues_in_database else []
    database = _database(source, layout, config, scope, fs) if scope.queues else None
    handlers += [database] if database is not None else []
    segments = [StoredSegment(files, file) for file in files.segments()]
    start = segments[0].file_start if segments else 0
    total = written_after(segments, start)
    attributes: Attributes = {}
    with FanOut([*handlers, index] if scope.index else handlers) as builders:

        def on_run(run: Run) -> None:
            if (due := scope.due(run)).count:
                builders.dispatch(due)
                if not others.topics:
                    attributes.update(record_attributes(due))
            on_progress(run.end - start, total)

        end = find_end(segments, start, replace(rules, by_place=True), on_run)
    queues.close()
    index.close()
    faults = [] if config.queues_in_database else keep_expired_ends(files, staging, scope, fs)
    if database is not None:
        database.finish(start)
        faults += database.findings
    if scope.queues and not config.queues_in_database:
        faults = [*describe_lost(attributes), *faults]
    found = (*end.describe_unreadable(), *queues.describe_findings(), *faults)
    return RebuildReport(end.log_end, end.describe(), end.record_count, found, end.last_record)


def sync_rebuilt(layout: StoreLayout, fs: Filesystem) -> None:
    """Make rebuilt files durable without a Change; a Change syncs the files that it publishes."""
    for folder in (*layout.queue_parents, layout.index):
        sync_tree(folder, fs)


def describe_lost(attributes: Attributes) -> Iterator[str]:
    """Describe the attributes that the records of topics need, in a store with no topic of such queues."""
    for topic, needed in sorted(attributes.items()):
        told = ", ".join(f"{name}={value}" for name, value in needed.items())
        yield f"{topic}: its records need {told} in topics.json, or its queues are built as plain; rebuild topics first"


def _database(
    source: StoreLayout, staging: StoreLayout, config: StoreConfig, scope: RebuildScope, fs: Filesystem
) -> QueueDatabaseBuilder | None:
    """Return the builder of a database of queues, in place of queue files or beside them.

    None without one.
    """
    is_expected = config.queues_in_database or config.has_named_queues_in_database
    rooms = rooms_with(names_of(source, fs), "build", "builder", in_database=is_expected)
    built = (room.builder(source, staging, config, scope, fs) for room in rooms)
    return next((one for one in built if one is not None), None)
