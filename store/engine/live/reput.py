"""ReputMessageService: the thread that keeps a writable store's queues and index up with its log.

    every millisecond    dispatch new records, then call `after_dispatch`
    stop                 dispatch the rest

As in the broker, a write to a consume queue is tried QUEUE_TRIES times, a second apart. The creation of an index file
is tried INDEX_TRIES times. Then the bit in RunningFlags is set, and the store refuses puts. On a full disk the run is
tried again until there is space; after any other error the service ends. The broker continues instead, and messages
without units or entries are not found before the next recovery.

Source: DefaultMessageStore.ReputMessageService, ConsumeQueue.putMessagePositionInfoWrapper,
IndexService.retryGetAndCreateIndexFile (4.9.8).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from store.dispatch.dispatcher import Dispatcher
from store.engine.live.running_flags import RunningFlag, RunningFlags
from store.engine.live.service import ServiceThread
from store.errors import StoreIOError
from store.formats.run import Int64Array, Run
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.index.index_service import IndexService
from store.structures.index.keys import Keys

POLL_INTERVAL_MS = 1
# A pause after work lets a burst of puts gather, so that dispatch slows them little.
GATHER_INTERVAL_S = 0.002
QUEUE_TRIES = 30
QUEUE_RETRY_S = 1.0
INDEX_TRIES = 3
INDEX_RETRY_S = 1.0


class ReputMessageService(ServiceThread):
    """Calls `dispatcher` while there are records to dispatch; stops at its first failure.

    after_dispatch  called with the log offset up to which every handler is done; later runs are dispatched again
    """

    outlasts_full_disk = True

    def __init__(self, dispatcher: Dispatcher, after_dispatch: Callable[[int], None] = lambda log_offset: None) -> None:
        super().__init__(POLL_INTERVAL_MS)
        self.dispatcher = dispatcher
        self._after_dispatch = after_dispatch
        self._pause = threading.Event()

    def stop(self) -> None:
        self._pause.set()
        super().stop()

    def work(self) -> None:
        if self.failure is None and self.dispatcher.behind_bytes > 0:
            try:
                count = self.dispatcher.catch_up()
            finally:
                self._after_dispatch(self.dispatcher.log_offset)
            if count:
                self._pause.wait(GATHER_INTERVAL_S)

    def last_work(self) -> None:
        while self.failure is None and self.dispatcher.behind_bytes > 0 and self.dispatcher.catch_up():
            pass


class RetriedQueues:
    """The consume queues as a handler that tries a run again if the disk refuses it.

    A second dispatch of a run leaves the first units as they are.
    """

    def __init__(
        self, queues: ConsumeQueueStore, retry_seconds: float = QUEUE_RETRY_S, *, flags: RunningFlags | None = None
    ) -> None:
        self._queues = queues
        self._flags = flags or RunningFlags()
        self._retry_seconds = retry_seconds
        self._is_refused = False
        self._stopping = threading.Event()
        self._trouble: StoreIOError | None = None

    def stop(self) -> None:
        """Make the next failure final, so that a store can be closed while its disk refuses."""
        self._stopping.set()

    @property
    def delay_levels_ms(self) -> Int64Array:
        """The delay of each level."""
        return self._queues.delay_levels_ms

    def dispatch(self, run: Run) -> None:
        self._try_again(lambda: self._queues.dispatch(run))

    def put_units(self, run: Run, codes: Int64Array) -> None:
        """Append a run's units, whose tags codes are given."""
        # The queues may write into the array: addresses of extension units.
        self._try_again(lambda: self._queues.put_units(run, codes.copy()))

    def _try_again(self, work: Callable[[], None]) -> None:
        for attempt in range(1, QUEUE_TRIES + 1):
            try:
                work()
                self._note_success()
                return
            except StoreIOError as error:
                self._trouble = error
                if attempt == QUEUE_TRIES or self._stopping.is_set():
                    self._is_refused = True
                    self._flags.set(RunningFlag.WRITE_LOGICS_QUEUE_ERROR, f"a queue cannot be written: {error}")
                    raise
                self._stopping.wait(self._retry_seconds)

    def describe_findings(self) -> list[str]:
        """Return why the last run is tried again, as a sentence for people."""
        trouble = self._trouble
        return [f"a queue cannot be written, and is tried again: {trouble}"] if trouble is not None else []

    def _note_success(self) -> None:
        self._trouble = None
        if self._is_refused:
            self._is_refused = False
            self._flags.clear(RunningFlag.WRITE_LOGICS_QUEUE_ERROR)


class RetriedIndex:
    """The index as a handler that tries again to create a file."""

    def __init__(
        self, index: IndexService, retry_seconds: float = INDEX_RETRY_S, *, flags: RunningFlags | None = None
    ) -> None:
        self._index = index
        self._flags = flags or RunningFlags()
        self._is_refused = False
        index.creation_pauses_s = (retry_seconds,) * (INDEX_TRIES - 1)

    def dispatch(self, run: Run) -> None:
        with self._noting():
            self._index.dispatch(run)

    def put_keys(self, run: Run, keys: Keys) -> None:
        """Put hashed keys of a run."""
        with self._noting():
            self._index.put_keys(run, keys)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Set the index's bit if the disk refuses a run, and clear it after a later success."""
        try:
            yield
            if self._is_refused:
                self._is_refused = False
                self._flags.clear(RunningFlag.WRITE_INDEX_FILE_ERROR)
        except StoreIOError as error:
            self._is_refused = True
            self._flags.set(RunningFlag.WRITE_INDEX_FILE_ERROR, f"the index cannot be written: {error}")
            raise
