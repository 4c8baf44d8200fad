"""ServedStore: a store with a broker's services beside it, opened by open_store(…, services=…).

    schedule     delivers delayed messages                               schedule.py
    transactions writes op records, checks half messages                 transaction_service.py
    cleaning     deletes expired segments, queue and index files         store/engine/live/cleaning.py
    statistics   counts puts and gets, for runtime_info()                store/engine/stats
    always       held gets (long polling); SQL subscriptions            filter_manager.py
                 every ten minutes a check for missing files            store/engine/live/self_check.py
                 5.3: the checkpoint is written every second

A SLAVE delivers and checks nothing, as in the broker. At the stop services end before the store does.

Source: DefaultMessageStore.start, shutdown, getRuntimeInfo, AdminBrokerProcessor.prepareRuntimeInfo (4.9.8, 5.3.3).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from store.broker_line import LINE_4_9
from store.engine.live.cleaning import StoreCleaning
from store.engine.live.hold import ArrivalFilter, PullRequestHoldService
from store.engine.live.self_check import self_check_task
from store.engine.live.timetable import TimedTask, Timetable
from store.engine.services.filter_manager import ConsumerFilterManager
from store.engine.services.schedule import LevelBacklog, ScheduleMessageService
from store.engine.services.transaction_service import TransactionalMessageService
from store.engine.services.transactions import CHECK_GROUP
from store.engine.stats.broker_stats import RINGS, BrokerStatsManager
from store.engine.stats.store_stats import ROTATE_MS, SAMPLE_MS, StoreStatsService
from store.engine.writable_store import WritableStore
from store.errors import BadRequest
from store.formats.given import check_text
from store.formats.topics import SCHEDULE_TOPIC
from store.opened.arguments import checks_arguments
from store.structures.commitlog.bulk import MessageColumns
from store.structures.commitlog.put_result import PutResult, PutStatus

if TYPE_CHECKING:
    from store.engine.ha.link import Address
    from store.engine.ha.listener import Listener, ListenerState
    from store.engine.ha.master import SlaveState
    from store.engine.live.service import ServiceThread
    from store.engine.live.services import StoreServices
    from store.formats.message import Message
    from store.formats.run import Int64Array
    from store.opened.opened_store import OpenedStore
    from store.structures.commitlog.bulk import PutManyResult
    from store.structures.get_result import GetResult, MessageFilter

CHECKPOINT_MS = 1000
DEFAULT_GROUP = "RMQCTL"
SCHEDULE_GROUP = "SCHEDULE_CONSUMER"
_NOT_COUNTED = (PutStatus.SERVICE_NOT_AVAILABLE, PutStatus.OS_PAGECACHE_BUSY)
_STORED = (
    PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT, PutStatus.FLUSH_SLAVE_TIMEOUT, PutStatus.SLAVE_NOT_AVAILABLE,
)  # fmt: skip


class Service(StrEnum):
    """A service that a store may run."""

    SCHEDULE = "schedule"
    TRANSACTIONS = "transactions"
    CLEANING = "cleaning"
    STATISTICS = "statistics"


class ServedState(NamedTuple):
    """Backlog and peers of a served store; None if the service does not run."""

    push_to_slave_max_offset: int | None
    slaves: list[SlaveState]
    delay_levels: list[LevelBacklog]
    halves_in_doubt: int | None
    halves_given_up: int | None
    listeners: list[ListenerState]
    failed_services: list[str]
    retrying_services: list[str]


class ServedStore(WritableStore):
    """A writable store with `services`; they run until close()."""

    def __init__(self, opened: OpenedStore, base: StoreServices, services: Collection[str]) -> None:
        super().__init__(opened, base)
        self.services = named_services(services)
        self.statistics = StoreStatsService(
            opened.clock,
            transferred_name="getTransferredTps" if opened.line is not LINE_4_9 else "getTransferedTps",
        )
        self.broker_statistics = BrokerStatsManager(opened.clock, opened.line)
        self.cleaning = StoreCleaning(opened, base.flags, lambda: base.dispatched_to)
        self.filters = ConsumerFilterManager(opened, opened.clock)
        """The SQL subscriptions of consumer groups."""
        self._schedule: ScheduleMessageService | None = None
        self._transactions: TransactionalMessageService | None = None
        self._hold = PullRequestHoldService(self.max_offset)
        self._running: list[ServiceThread] = []
        self.listeners: list[Listener] = [base.ha.master.listener] if base.ha.master is not None else []
        """The HA port, and the listeners of programs that serve the store."""
        base.is_served = True

    def start_services(self) -> None:
        """Start the services; the store accepts messages already."""
        self.add_listener(self._hold)
        self._running = [self._hold, *(Timetable(tasks, self._clock) for tasks in self._tasks() if tasks)]
        if self.config.broker_role != "SLAVE":
            self._running += self._masters_services()
        for service in self._running:
            service.start()

    def _masters_services(self) -> list[ServiceThread]:
        running: list[ServiceThread] = []
        if Service.SCHEDULE in self.services:
            self._schedule = ScheduleMessageService(self, self._clock)
            self._schedule.on_delivered = self._note_delivered
            running.append(self._schedule)
        if Service.TRANSACTIONS in self.services:
            self._transactions = TransactionalMessageService(self, self._clock)
            self._transactions.get = partial(self.get, group=CHECK_GROUP)
            running.append(self._transactions)
        return running

    @property
    def transactions(self) -> TransactionalMessageService:
        """The service that prepares, commits and rolls back; BadRequest if it does not run.

        >>> import tempfile
        >>> from store import Message, open_store
        >>> with open_store(f"{tempfile.mkdtemp()}/store", read_only=False, services=["transactions"]) as store:
        ...     half = store.transactions.prepare(Message.of("Pay", "42", uniq_key="U1"), "payers")
        ...     store.transactions.commit(half.log_offset, "payers").status.name
        'PUT_OK'
        """
        if self._transactions is None:
            raise BadRequest("transactions need services=['transactions'], and a store that is no SLAVE")
        return self._transactions

    def _tasks(self) -> list[list[TimedTask]]:
        cleaning = self.cleaning.tasks() if Service.CLEANING in self.services else []
        statistics = _statistics_tasks(self.statistics, self.broker_statistics)
        always = [self.filters.task(), self_check_task(self.opened)]
        if self.opened.line is not LINE_4_9:
            task = TimedTask("writing the checkpoint", self.opened.checkpoint.flush, CHECKPOINT_MS, CHECKPOINT_MS)
            always.append(task)
        return [cleaning, statistics if Service.STATISTICS in self.services else [], always]

    def close(self) -> None:
        """End the services, then the store."""
        self.cleaning.stop()
        with contextlib.ExitStack() as at_end:
            at_end.callback(super().close)
            at_end.callback(self.filters.persist)
            for service in self._running:
                at_end.callback(service.stop)

    # Putting and getting, counted.

    def put(self, message: Message) -> PutResult:
        began_ms = self._clock()
        result = super().put(message)
        self._note_put(result, began_ms)
        return result

    def put_batch(self, messages: Sequence[Message]) -> PutResult:
        began_ms = self._clock()
        result = super().put_batch(messages)
        self._note_put(result, began_ms)
        return result

    def put_replayed(
        self, message: Message, *, as_stored: bool = True, store_timestamp_ms: int | None = None, waits: bool = True
    ) -> PutResult:
        began_ms = self._clock()
        result = super().put_replayed(message, as_stored=as_stored, store_timestamp_ms=store_timestamp_ms, waits=waits)
        self._note_put(result, began_ms)
        return result

    def put_many(self, messages: MessageColumns | Sequence[Message]) -> PutManyResult:
        began_ms = self._clock()
        columns = MessageColumns.of(messages)
        result = super().put_many(columns)
        self._note_many(columns, result, self._clock() - began_ms)
        return result

    def put_many_replayed(
        self, messages: MessageColumns, *, as_stored: bool = True, store_timestamps_ms: Int64Array | None = None
    ) -> PutManyResult:
        began_ms = self._clock()
        result = super().put_many_replayed(messages, as_stored=as_stored, store_timestamps_ms=store_timestamps_ms)
        self._note_many(messages, result, self._clock() - began_ms)
        return result

    def _note_many(self, messages: MessageColumns, result: PutManyResult, elapsed_ms: int) -> None:
        queue_ids = messages.numbers["queue_id"]
        counts, sizes = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        for row in np.flatnonzero(result.log_offsets >= 0).tolist():
            key = messages.topics[int(messages.topic_of[row])], int(queue_ids[row])
            counts[key] += 1
            sizes[key] += int(result.sizes[row])
        for (topic, queue_id), count in counts.items():
            self.statistics.note_put(topic, count, sizes[topic, queue_id], elapsed_ms)
            self.broker_statistics.note_put(topic, queue_id, count, sizes[topic, queue_id], elapsed_ms)

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        message_filter: MessageFilter | None = None,
        *,
        group: str = DEFAULT_GROUP,
    ) -> GetResult:
        """Make one broker call, counted for a consumer group."""
        check_text("group", group)
        began_ms = self._clock()
        result = super().get(topic, queue_id, offset, max_count, message_filter)
        elapsed_ms = self._clock() - began_ms
        count = len(result.messages)
        self.statistics.note_get(count, elapsed_ms)
        self.broker_statistics.note_get_latency(group, topic, queue_id, elapsed_ms)
        if count:
            self.broker_statistics.note_get(group, topic, queue_id, count, result.size)
            self._note_fall_behind(group, topic, queue_id, result)
        return result

    @checks_arguments
    def wait_for_message(
        self, topic: str, queue_id: int, offset: int, timeout_ms: int, message_filter: ArrivalFilter | None = None
    ) -> bool:
        """Wait for a message at `offset` or after it; False if the time is over or the store is closed."""
        return self._hold.hold(topic, queue_id, offset, timeout_ms, message_filter)

    @property
    def ha_address(self) -> Address | None:
        """The address where slaves get the log; None without one."""
        master = self._services.ha.master
        return master.address if master is not None else None

    @checks_arguments
    def limit_connections(self, count: int) -> None:
        """Let each listener have at most `count` connections."""
        for listener in self.listeners:
            listener.limits = replace(listener.limits, connections=count)

    def release_held(self) -> None:
        """Wake all held gets, and hold no later ones."""
        self._hold.release()

    @property
    def held_count(self) -> int:
        """The number of gets that wait for a message."""
        return self._hold.held_count

    @property
    def behind_bytes(self) -> int:
        """Bytes of the log that are not dispatched yet."""
        return self._services.behind_bytes

    def _note_put(self, result: PutResult, began_ms: int) -> None:
        elapsed_ms = self._clock() - began_ms
        message = result.message
        if result.status in _STORED and message is not None:
            self.statistics.note_put(message.topic, result.message_count, result.size, elapsed_ms)
            counted = result.message_count, result.size, elapsed_ms
            self.broker_statistics.note_put(message.topic, message.queue_id, *counted)
        elif result.status not in _NOT_COUNTED:
            self.statistics.note_failed_put(elapsed_ms)

    def _note_delivered(self, level: int, result: PutResult) -> None:
        """Count a delivery as a get of the delayed message (enableScheduleMessageStats)."""
        self.broker_statistics.note_get(
            SCHEDULE_GROUP, SCHEDULE_TOPIC, level - 1, result.message_count, result.size, of_broker=False
        )

    def _note_fall_behind(self, group: str, topic: str, queue_id: int, result: GetResult) -> None:
        last = result.messages[-1]
        behind_ms = self._clock() - last.store_timestamp_ms if result.next_offset < result.max_offset else 0
        behind_bytes = self._log.max_offset - last.log_offset - last.size
        self.broker_statistics.note_fall_behind(group, topic, queue_id, behind_bytes=behind_bytes, behind_ms=behind_ms)

    # Reporting.

    def runtime_info(self) -> dict[str, str]:
        """Return the store's part of the broker's runtime report, under the broker's names."""
        from store.engine.services.runtime_info import read_runtime_info

        offsets = self._schedule.offsets if self._schedule is not None else {}
        return self.statistics.runtime_info() | read_runtime_info(self.opened, self._services, offsets)

    def state(self) -> ServedState:
        """Return the store's slaves, delayed messages, halves and connections at this moment."""
        master, transactions = self._services.ha.master, self._transactions
        threads = self._services.threads + self._running
        return ServedState(
            master.push_to_slave_max_offset if master is not None else None,
            master.slaves() if master is not None else [],
            self._schedule.backlog() if self._schedule is not None else [],
            transactions.in_doubt_count if transactions is not None else None,
            transactions.given_up_count if transactions is not None else None,
            [listener.state() for listener in self.listeners],
            [type(one).__name__ for one in threads if one.failure is not None],
            [type(one).__name__ for one in threads if one.trouble is not None],
        )

    def describe_findings(self) -> list[str]:
        """Return findings of the store and of its services, as sentences for people."""
        timed = [finding for one in self._running if isinstance(one, Timetable) for finding in one.findings]
        delivered = self._schedule.findings if self._schedule is not None else []
        checked = self._transactions.findings if self._transactions is not None else []
        said = [finding for one in self._services.threads + self._running for finding in one.describe_findings()]
        listening = [finding for one in self.listeners for finding in one.describe_findings()]
        refused = [f"puts are refused: {self.flags.refusal}"] if self.flags.refusal else []
        return super().describe_findings() + timed + delivered + checked + said + listening + refused


def named_services(services: Collection[str]) -> frozenset[Service]:
    """Return services by their names; BadRequest for another name."""
    try:
        return frozenset(map(Service, services))
    except ValueError:
        unknown = sorted(set(services) - set(Service))
        raise BadRequest(f"services are {', '.join(Service)}, not {', '.join(unknown)}") from None


def _statistics_tasks(store: StoreStatsService, broker: BrokerStatsManager) -> list[TimedTask]:
    rings = [
        TimedTask(f"statistics of the {ring}", lambda ring=ring: broker.sample(ring), step_ms, step_ms)  # type: ignore[misc]
        for ring, (step_ms, _) in RINGS.items()
    ]
    return [
        TimedTask("sampling", store.sample, 0, SAMPLE_MS),
        TimedTask("latencies", store.rotate, ROTATE_MS, ROTATE_MS),
        *rings,
    ]
