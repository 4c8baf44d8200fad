"""Build consume queues of a RocksDB from the log: a new database beside the old one.

With every queue wanted, only the ends of queues whose messages have all expired are taken over from the old database,
so its damage matters to no other queue. With some, the other queues and the checkpoint are taken over, and the log is
read up to that checkpoint: a broker dispatches from there.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from store.config import StoreConfig
from store.disk.filesystem import Filesystem
from store.errors import StoreError
from store.five.rocksdb.database import QueueDatabase, open_database, require_binding
from store.five.rocksdb.units import UnitMaker
from store.five.rocksdb.writer import DatabaseWriter
from store.formats.run import Run
from store.opened.scratch import Scratch
from store.rebuild.scope import RebuildScope


class RocksdbQueues:
    """Take runs of the log, then `finish`.

    light_faults  log offsets of records whose queue offsets in light queues are no numbers; they get no unit there
    """

    def __init__(self, old: Path, folder: Path, config: StoreConfig, scope: RebuildScope, fs: Filesystem) -> None:
        self._old, self._scope, self._fs = old, scope, fs
        self._maker = UnitMaker(config.delay_levels_ms, enable_lmq=config.enable_lmq)
        # An error is about the store's folder, and not about where the new one is staged.
        require_binding(old)
        self._writer = DatabaseWriter(folder, fs)
        self._end, self._horizon = -1, None
        self.light_faults: list[int] = []
        if scope.is_narrow:
            with Scratch() as scratch:
                self._horizon = self._take_over(open_database(old, scratch.folder, fs))

    def dispatch(self, run: Run) -> None:
        """Writes the units of the wanted queues."""
        found = self._maker.units_of(run)
        self._end = max(self._end, found.end)
        self.light_faults += found.light.faults
        for queue, units in found.parts:
            if self._horizon is not None:
                units = units[units["log_offset"] < self._horizon]
            if self._scope.wants(queue):
                self._writer.put_units(queue, units)

    def finish(self, log_start: int) -> None:
        """Closes the new database; its checkpoint is the end of the newest record with a unit.

        A queue whose newest record is before `log_start` keeps its end.
        """
        with contextlib.suppress(StoreError), Scratch() as scratch:
            newest = open_database(self._old, scratch.folder, self._fs).newest
            expired = {queue: place for queue, place in newest.items() if place.log_offset < log_start}
            self._writer.keep_ends({queue: expired[queue] for queue in expired if self._scope.wants(queue)})
        is_whole = self._horizon is None and self._end >= 0
        self._writer.finish(self._end if is_whole else None)

    def _take_over(self, database: QueueDatabase) -> int:
        """Copies the other queues; gives the log offset that the database was built to."""
        self._writer.keep(database, {queue for queue in database.newest if self._scope.wants(queue)})
        return database.checkpoint
