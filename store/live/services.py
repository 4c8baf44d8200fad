"""StoreServices: the threads of a store that is written to, and the order in which they start and stop.

    start   dispatch, commit (transient pool), flush of the log, flush of the queues, disk check; then the abort marker
    stop    allocation, commit, the last dispatch, the flushes, checkpoint; then the abort marker goes, and the lock

Source: DefaultMessageStore.start, shutdown (4.9.8).
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from store.disk.allocate import AllocateMappedFileService
from store.disk.lock import StoreLock
from store.disk.transient_pool import TransientStorePool
from store.dispatch.dispatcher import Dispatcher, Handler, ReputMessageService
from store.errors import StoreClosed, StoreError
from store.live.commit_log import CommitRealTimeService
from store.live.flush_log import FlushRealTimeService
from store.live.flush_queues import FlushConsumeQueueService
from store.live.group_commit import GroupCommitService
from store.live.service import ServiceThread
from store.opened.opened_store import OpenedStore

DISK_CHECK_INTERVAL_MS = 10_000


class StoreServices:
    """The threads of a store that is written to, and the order in which they start and stop."""

    def __init__(
        self, opened: OpenedStore, lock: StoreLock, allocate: AllocateMappedFileService, pool: TransientStorePool | None
    ) -> None:
        config, files = opened.config, opened.log.segments
        self.refusal = "the broker role is SLAVE" if config.broker_role == "SLAVE" else ""
        """Why puts are refused, empty while they are not."""
        self._opened = opened
        self._lock = lock
        self._allocate = allocate
        self._pool = pool
        handlers: list[Handler] = [opened.queues, *([opened.index] if config.message_index_enable else [])]
        rules = opened.scan_rules(check_crc=False)
        self._reput = ReputMessageService(Dispatcher(opened.log, handlers, opened.log.max_offset, rules))
        self.group_commit = GroupCommitService(files, opened.checkpoint)
        self._flush_log = FlushRealTimeService(
            files,
            opened.checkpoint,
            interval_ms=config.flush_interval_commit_log,
            least_pages=config.flush_commit_log_least_pages,
            thorough_ms=config.flush_commit_log_thorough_interval,
            timed=config.flush_commit_log_timed,
        )
        self._commit_log = CommitRealTimeService(
            files,
            self._flush_log,
            interval_ms=config.commit_interval_commit_log,
            least_pages=config.commit_commit_log_least_pages,
            thorough_ms=config.commit_commit_log_thorough_interval,
        )
        self._flush_queues = FlushConsumeQueueService(
            lambda: opened.queues,
            opened.checkpoint,
            interval_ms=config.flush_interval_consume_queue,
            least_pages=config.flush_consume_queue_least_pages,
            thorough_ms=config.flush_consume_queue_thorough_interval,
        )
        self._disk_check = _DiskCheckService(self)
        self._running: list[Any] = []

    def check_disk(self) -> None:
        """Refuses puts while the log's partition is nearly full (CleanCommitLogService.isSpaceFull)."""
        config = self._opened.config
        used = self._opened.fs.used_ratio(self._opened.layout.commitlog)
        is_full = used > config.disk_space_warning_level_ratio / 100
        if config.broker_role != "SLAVE":
            self.refusal = self._failed() or (f"the disk is {used:.0%} full" if is_full else "")

    def _failed(self) -> str:
        """Which service has died, empty while all are well."""
        died = next((service for service in self._running if service.failure is not None), None)
        return f"{type(died).__name__} has failed" if died is not None else ""

    def start(self) -> None:
        """The broker's order, with the abort marker last."""
        is_sync = self._opened.config.flush_disk_type == "SYNC_FLUSH"
        self._running = [self._reput, self.group_commit if is_sync else self._flush_log, self._flush_queues]
        if self._pool is not None:
            self._running.insert(1, self._commit_log)
        self._running.append(self._disk_check)
        for service in self._running:
            service.on_failure = self._refuse_puts
        try:
            for service in self._running:
                service.start()
            self._opened.abort.create()
        except BaseException:
            # Whoever opened the store gets no object to close, so nobody else would end the threads.
            for service in self._running:
                service.stop()
            raise

    def _refuse_puts(self) -> None:
        """What is put after a service died would never be durable, or never be found."""
        self.refusal = self._failed()

    def catch_up(self) -> None:
        while self._reput.dispatcher.behind_bytes > 0 and self._reput.failure is None:
            time.sleep(0.001)
        self.raise_failure()

    def raise_failure(self) -> None:
        """StoreClosed, naming what a background service died of."""
        for service in self._running:
            if service.failure is not None:
                self.refusal = f"{type(service).__name__} has failed"
                if isinstance(service.failure, StoreError):
                    raise service.failure
                raise StoreClosed(f"{type(service).__name__} failed: {service.failure!r}") from service.failure

    def stop(self) -> None:
        """After this everything is durable; the abort marker goes only if that is true."""
        opened = self._opened
        self._allocate.stop()
        with contextlib.ExitStack() as at_end:
            at_end.callback(self._lock.release)
            # Bytes in lent buffers become readable by a commit, so that comes before the last dispatch.
            if self._pool is not None:
                self._commit_log.stop()
            self._reput.stop()
            for service in (self._disk_check, self._flush_log, self.group_commit, self._flush_queues):
                service.stop()
            self.raise_failure()
            while not opened.log.segments.flush(0):
                pass
            opened.index.flush()
            if opened.queues.last_store_timestamp_ms:
                opened.checkpoint.logics_ms = opened.queues.last_store_timestamp_ms
            if opened.log.segments.store_timestamp_ms:
                opened.checkpoint.physic_ms = opened.log.segments.store_timestamp_ms
            opened.checkpoint.flush()
            if self._reput.dispatcher.behind_bytes <= 0:
                opened.abort.remove()
        if self._pool is not None:
            self._pool.destroy()


class _DiskCheckService(ServiceThread):
    """Looks every ten seconds whether the disk has room for puts, and whether a service has died."""

    def __init__(self, services: StoreServices) -> None:
        super().__init__(DISK_CHECK_INTERVAL_MS)
        self._services = services

    def work(self) -> None:
        self._services.check_disk()
