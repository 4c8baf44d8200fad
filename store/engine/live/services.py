"""StoreServices: the threads of a writable store, and their order at start and stop.

    start   a first check of the disk; dispatch, commit (transient pool), flush of the log, flush of the queues, disk
            check; then the abort marker; replication
    stop    replication, allocation, commit, the last dispatch, the flushes, checkpoint; then the abort marker is
            deleted, and the lock released

Source: DefaultMessageStore.start, shutdown (4.9.8).
"""

from __future__ import annotations

import contextlib
import os
import time

from store.dispatch.dispatcher import Dispatcher
from store.dispatch.fan_out import Handler
from store.engine.ha.link import Address
from store.engine.ha.service import HAService
from store.engine.live.arrivals import Arrivals
from store.engine.live.disk_check import DiskCheckService
from store.engine.live.flush import CommitRealTimeService, FlushConsumeQueueService, FlushRealTimeService
from store.engine.live.group_commit import GroupCommitService
from store.engine.live.reput import ReputMessageService, RetriedIndex, RetriedQueues
from store.engine.live.running_flags import RunningFlag, RunningFlags
from store.engine.live.service import ServiceThread
from store.errors import StoreClosed, StoreError
from store.files.allocate import AllocateMappedFileService
from store.files.lock import StoreLock
from store.opened.opened_store import OpenedStore
from store.structures.consumequeue.flush import flush_queues


class StoreServices:
    """The services of `opened`; they release its `lock` at the stop."""

    def __init__(
        self,
        opened: OpenedStore,
        lock: StoreLock,
        allocate: AllocateMappedFileService,
        *,
        listen: Address | None = None,
        master: Address | None = None,
    ) -> None:
        config, segments, checkpoint = opened.config, opened.log.segments, opened.checkpoint
        self._role_refusal = "the broker role is SLAVE" if config.broker_role == "SLAVE" else ""
        self.refusal = self._role_refusal
        """Why puts are refused, empty while they are not."""
        self.flags = RunningFlags(self._note_refusal)
        self.is_served = False
        """Whether the store runs a broker's services: as a broker's, it then keeps its abort marker at the stop while
        a flag refuses puts. Another store is not to look crashed for one put that a full disk refused."""
        self._opened = opened
        self._lock = lock
        self._allocate = allocate
        self._pool = allocate.transient_pool
        self._queues = RetriedQueues(opened.queues, flags=self.flags)
        indexes = [RetriedIndex(opened.index, flags=self.flags)] if config.writes_index_files else []
        self.arrivals = Arrivals(opened)
        handlers: list[Handler] = [self._queues, *indexes, self.arrivals]
        rules = opened.scan_rules(check_crc=False)
        self._reput = ReputMessageService(
            Dispatcher(opened.log, handlers, opened.log.max_offset, rules), self.arrivals.tell
        )
        self.group_commit = GroupCommitService(segments, checkpoint)
        self._flush_log = FlushRealTimeService(segments, checkpoint, config)
        self._commit_log = CommitRealTimeService(segments, self._flush_log, config)
        self._flush_queues = FlushConsumeQueueService(opened.queues.awake, checkpoint, config)
        self._disk_check = DiskCheckService(self.check_disk)
        self._running: list[ServiceThread] = []
        self.ha = HAService(opened.commit_log, config, opened.line, listen, master)

    @property
    def woken_by_puts(self) -> ServiceThread | None:
        """The service that a put wakes when it does not wait for the disk (CommitLog.handleDiskFlush).

        None if flushes come by time only.
        """
        config = self._opened.config
        if config.puts_wait_for_disk:
            return self.group_commit
        if self._pool is not None:
            return self._commit_log
        return None if config.flush_commit_log_timed else self._flush_log

    def check_disk(self) -> None:
        """Refuse puts while the log's partition is nearly full; of several, the emptiest counts.

        Folders above diskSpaceCleanForciblyRatio get no new segment (CleanCommitLogService.isSpaceFull).
        """
        config, opened = self._opened.config, self._opened
        ratios = {folder: opened.fs.used_ratio(folder) for folder in opened.layout.writable_commitlogs}
        above = config.disk_space_clean_forcibly_ratio / 100
        opened.log.segments.folders.full = frozenset(folder for folder, used in ratios.items() if used > above)
        used = min(ratios.values())
        limit = config.disk_space_warning_level_ratio
        if used > limit / 100:
            self.flags.set(RunningFlag.DISK_FULL, describe_full(used, limit))
        else:
            self.flags.clear(RunningFlag.DISK_FULL)

    def _note_refusal(self) -> None:
        """Update `refusal` after a change of a flag, or of a service's health."""
        self.refusal = self._role_refusal or self._failed() or self.flags.refusal

    def _failed(self) -> str:
        """Return a clause about the failed service; empty while all run."""
        failed = next((service for service in self._running if service.failure is not None), None)
        return f"{type(failed).__name__} has failed" if failed is not None else ""

    def start(self) -> None:
        """Start in the broker's order, with the abort marker last."""
        self.check_disk()
        self._running = [
            self._reput,
            *([self._commit_log] if self._pool is not None else []),
            self.group_commit if self._opened.config.puts_wait_for_disk else self._flush_log,
            self._flush_queues,
            self._disk_check,
        ]
        for service in self._running:
            # Without the service, messages would never be durable, or never be found.
            service.on_failure = self._note_refusal
        try:
            for service in self._running:
                service.start()
            self._opened.abort.create(os.getpid() if self._opened.line.marks_process else None)
            self.ha.start()
        except BaseException:
            # The caller gets no store to close, so no other code would end the threads.
            for service in self._running:
                service.stop()
            raise

    def catch_up(self) -> None:
        """Wait until everything put so far is dispatched; raise a service's failure."""
        while self._reput.dispatcher.behind_bytes > 0 and self._reput.failure is None:
            if self._reput.trouble is not None:
                raise self._reput.trouble.with_traceback(None)
            time.sleep(0.001)
        self.raise_failure()

    @property
    def dispatched_to(self) -> int:
        """The log offset where queues and index end."""
        return self._reput.dispatcher.log_offset

    @property
    def threads(self) -> list[ServiceThread]:
        """The services that were started."""
        return list(self._running)

    @property
    def notes(self) -> list[str]:
        """Remarks on the services, for people: memory that could not be locked."""
        return [self._pool.note] if self._pool is not None and self._pool.note is not None else []

    @property
    def free_buffer_count(self) -> int:
        """The number of free buffers in the transient pool; 0 without a pool."""
        return self._pool.available_count if self._pool is not None else 0

    @property
    def behind_bytes(self) -> int:
        """Bytes of the log that are not dispatched yet."""
        return self._reput.dispatcher.behind_bytes

    def describe_findings(self) -> list[str]:
        """Describe dispatch's damage and disorder, for people."""
        return (
            self.ha.describe_findings()
            + self._reput.dispatcher.describe_findings()
            + self._opened.queues.describe_findings()
            + self._queues.describe_findings()
            + self.arrivals.findings
        )

    def raise_failure(self) -> None:
        """Raise StoreClosed with the failure of a background service."""
        for service in self._running:
            if service.failure is not None:
                if isinstance(service.failure, StoreError):
                    # Each raise lengthens an error's traceback, and each refused put raises this one.
                    raise service.failure.with_traceback(service.failed_at)
                raise StoreClosed(f"{type(service).__name__} failed: {service.failure!r}") from service.failure

    def stop(self) -> None:
        """Make everything durable; only then delete the abort marker."""
        with contextlib.ExitStack() as at_end:
            at_end.callback(self._lock.release)
            self.ha.stop()
            self._allocate.stop()
            # Bytes in buffers from the transient pool become readable by a commit, so it precedes the last dispatch.
            if self._pool is not None:
                self._commit_log.stop()
            self._queues.stop()
            self._reput.stop()
            for service in (self._disk_check, self._flush_log, self.group_commit, self._flush_queues):
                service.stop()
            self.raise_failure()
            self._flush_everything()
            # After the services: a file that can't be deleted must not prevent their end.
            self._allocate.delete_unused()
            if self._reput.dispatcher.behind_bytes <= 0 and (self.flags.is_writeable or not self.is_served):
                self._opened.abort.remove()
        if self._pool is not None:
            self._pool.destroy()

    def flush(self) -> int:
        """Flush log, queues, index and checkpoint, and return the durable end of the log."""
        segments = self._opened.log.segments
        end = segments.max_wrote_offset
        while self._pool is not None and segments.committed_where < end:
            self.raise_failure()
            self._commit_log.wakeup()
            time.sleep(0.001)
        self._flush_everything()
        return segments.flushed_where

    def _flush_everything(self) -> None:
        opened = self._opened
        flush_queues(opened.queues.awake())
        while not opened.log.segments.flush(0):
            pass
        opened.index.flush()
        if opened.queues.last_store_timestamp_ms:
            opened.checkpoint.logics_ms = opened.queues.last_store_timestamp_ms
            if opened.line.marks_flushed_record:
                opened.checkpoint.logics_log_offset = opened.queues.last_record
        if opened.log.segments.store_timestamp_ms:
            opened.checkpoint.physic_ms = opened.log.segments.store_timestamp_ms
        opened.checkpoint.flush()


def describe_full(used: float, limit_percent: int) -> str:
    """Describe why a nearly full disk refuses puts."""
    return f"the disk is {used:.0%} full, diskSpaceWarningLevelRatio is {limit_percent}"
