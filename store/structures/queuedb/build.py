"""Build consume queues of a RocksDB from the log: a new database beside the old one.

If every queue is rebuilt, the old database gives only the ends of queues whose messages have all expired. Its damage
affects no other queue. A queue that it has not, or all if it is unreadable, goes on as a queue whose files are lost
(consumequeue/lost_ends.py); topics.json has the queues that may have existed.
If some queues are rebuilt, the other queues and the checkpoint are copied. The log is then read up to that checkpoint,
as a broker dispatches from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from store.config import StoreConfig
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.rocksdb_files import has_queue_database, is_rocksdb_file, queue_database
from store.files.scratch import Scratch
from store.formats.run import Run
from store.formats.wording import amount
from store.layout import StoreLayout
from store.structures.consumequeue.lost_ends import CONSUMERS_END, describe_lost_end, lost_ends
from store.structures.queuedb.database import QueueDatabase, open_database, require_binding
from store.structures.queuedb.keys import Place
from store.structures.queuedb.units import UnitMaker
from store.structures.queuedb.writer import DatabaseWriter
from store.structures.tables.topics import topic_queues

if TYPE_CHECKING:
    from store.verbs.rebuild.scope import Queue, RebuildScope


def builder(
    source: StoreLayout, staging: StoreLayout, config: StoreConfig, scope: RebuildScope, fs: Filesystem
) -> RocksdbQueues | None:
    """Return the builder of the RocksDB, also of a lost one or one beside files; None without one."""
    is_expected = config.queues_in_database or config.has_named_queues_in_database
    is_there = is_expected or has_queue_database(source, fs)
    return RocksdbQueues(source, staging, config, scope, fs) if is_there else None


def replaced_files(layout: StoreLayout, staging: StoreLayout, fs: Filesystem) -> list[Path]:
    """Return the files of the store's RocksDB that a staged database replaces; none without one."""
    return files_of(layout, fs) if has_queue_database(staging, fs) else []


def files_of(layout: StoreLayout, fs: Filesystem) -> list[Path]:
    """Return RocksDB's files in the folder of a store's queues."""
    entries = fs.list_folder(queue_database(layout, fs))
    return [entry.path for entry in entries if entry.is_file and is_rocksdb_file(entry.path.name)]


class RocksdbQueues:
    """A new RocksDB from runs of the log: call `dispatch` for each run, then `finish`.

    light_faults  log offsets of records with invalid queue offsets of light queues; they get no unit there
    findings      sentences on ends of queues that the old database could not give
    """

    def __init__(
        self, source: StoreLayout, staging: StoreLayout, config: StoreConfig, scope: RebuildScope, fs: Filesystem
    ) -> None:
        self._old, self._config_folder, self._scope, self._fs = queue_database(source, fs), source.config, scope, fs
        self._maker = UnitMaker(config.delay_levels_ms)
        # An error must show the store's folder, not the staging folder.
        require_binding(self._old)
        self._writer = DatabaseWriter(staging.root / self._old.name, fs)
        self._end, self._horizon, self._is_alone = -1, None, config.queues_in_database
        self.light_faults: list[int] = []
        self.findings: list[str] = []
        if scope.is_narrow:
            with Scratch() as scratch:
                self._horizon = self._take_over(open_database(self._old, scratch.folder, fs))

    def dispatch(self, run: Run) -> None:
        """Write the units of a run that belong to queues in scope."""
        found = self._maker.units_of(run)
        self._end = max(self._end, found.end)
        self.light_faults += found.light.faults
        for queue, units in found.parts:
            if self._horizon is not None:
                units = units[units["log_offset"] < self._horizon]
            if self._scope.wants(queue):
                self._writer.put_units(queue, units)

    def finish(self, log_start: int) -> None:
        """Close the new database; its checkpoint is the end of the newest record with a unit.

        A queue whose newest record is before `log_start` keeps its end.
        """
        try:
            with Scratch() as scratch:
                newest, fault = open_database(self._old, scratch.folder, self._fs).newest, None
        except StoreError as error:
            newest, fault = {}, error
        if log_start > 0 and (self._is_alone or fault is not None):
            # Beside queue files, the database may have begun later.
            newest = newest | self._lost_ends(log_start, newest, fault)
        expired = {queue: place for queue, place in newest.items() if place.log_offset < log_start}
        self._writer.keep_ends({queue: expired[queue] for queue in expired if self._scope.wants(queue)})
        is_whole = self._horizon is None and self._end >= 0
        self._writer.finish(self._end if is_whole else None)

    def _lost_ends(self, log_start: int, known: Collection[Queue], fault: StoreError | None) -> dict[Queue, Place]:
        """Return where the queues go on that neither the old database nor the log has, and note them.

        known  the queues of the old database; `fault` is why it was not opened
        """
        ends = {
            queue: offset
            for queue, offset in lost_ends(self._config_folder, log_start, self._fs).items()
            if self._scope.wants(queue) and queue not in known and queue not in self._writer.queues
        }
        if fault is None:
            self.findings += [describe_lost_end(queue, offset, "entries") for queue, offset in ends.items()]
        else:
            self.findings += self._describe_damage(fault, ends)
        # No record is read there: the log offset only shows that the newest message has expired.
        return {queue: Place(log_start - 1, offset - 1) for queue, offset in ends.items()}

    def _describe_damage(self, fault: StoreError, ends: Mapping[Queue, int]) -> list[str]:
        """Return a sentence on the ends that a damaged database loses; none without such a queue."""
        unknown = sorted(topic_queues(self._config_folder, self._fs) - self._writer.queues - ends.keys())
        said = [f"{topic}/{queue_id} {CONSUMERS_END.format(end)}" for (topic, queue_id), end in ends.items()]
        if unknown:
            names = ", ".join(f"{topic}/{queue_id}" for topic, queue_id in unknown)
            said.append(f"{amount(len(unknown), 'queue')} of topics.json may have been one, and begin at 0: {names}")
        told = "of queues whose messages have all expired the ends are lost"
        return ["; ".join([f"{fault}: {told}", *said])] if said else []

    def _take_over(self, database: QueueDatabase) -> int:
        """Copy the queues out of scope; return the old database's checkpoint."""
        self._writer.keep(database, {queue for queue in database.newest if self._scope.wants(queue)})
        return database.checkpoint
