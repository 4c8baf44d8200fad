"""TransactionalMessageService: the transactions of a live store.

    prepare     puts the half of a message
    commit      puts the message itself, and then the op record of its half
    rollback    puts the op record alone
    check       one pass (store.engine.services.transaction_check); saves H and O in config/consumerOffset.json
    metrics     5.3: open halves by topic (store.engine.services.transaction_metrics)

4.9 writes one op record for each half. 5.3 gathers halves: it writes a record once the text is longer than
transactionOpMsgMaxSize, or transactionOpBatchInterval after the last record. A kill loses the gathered text; the half
is then checked again, and its producer may commit it twice.

start() runs check passes and op records in a thread; stop() writes the gathered text.

A half whose producer can't be asked is put back with one check more, and discarded after transactionCheckMax checks: a
broker without a channel to the producer group only logs that.

Source: TransactionalMessageServiceImpl, TransactionalMessageCheckService, EndTransactionProcessor (4.9.8, 5.3.3);
TransactionalOpBatchService, MessageQueueOpContext (5.3.3); AbstractTransactionalMessageCheckListener.sendCheckMessage.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from store.broker_line import LINE_4_9
from store.engine.live.service import ServiceThread
from store.engine.services.transaction_check import CheckPass, CheckReport, CheckRules, Getter
from store.engine.services.transaction_messages import (
    CHECK_IMMUNITY,
    OFFSET_SEPARATOR,
    PRODUCER_GROUP,
    commit_message,
    half_message,
    op_body,
    op_message,
)
from store.engine.services.transaction_metrics import TransactionMetrics
from store.engine.services.transactions import CHECK_GROUP
from store.engine.writable_store import WritableStore
from store.errors import BadRequest
from store.formats.given import check_message, check_property
from store.formats.host import LOCALHOST, Host
from store.formats.java import parse_long
from store.formats.message import Message, StoredMessage
from store.formats.message_id import create_unique_key
from store.formats.properties import REAL_TOPIC
from store.formats.topics import HALF_TOPIC, OP_TOPIC
from store.opened.arguments import checks_arguments
from store.structures.commitlog.put_result import PutResult, PutStatus, illegal
from store.structures.commitlog.rewritten import queue_records
from store.structures.tables.consumer_offsets import read_consumer_offsets, write_consumer_offsets

ROUND_MS = 100
CHECK_INTERVAL_4_9_MS = 60_000
CHECK_INTERVAL_5_3_MS = 30_000
_STORED = (
    PutStatus.PUT_OK,
    PutStatus.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE,
)


class TransactionalMessageService(ServiceThread):
    """The transactions of `store`; `clock` returns milliseconds, `ask` gets each checked half."""

    def __init__(
        self,
        store: WritableStore,
        clock: Callable[[], int],
        *,
        ask: Callable[[StoredMessage], None] = lambda half: None,
        rules: CheckRules | None = None,
        host: Host = LOCALHOST,
    ) -> None:
        super().__init__(ROUND_MS)
        opened, config = store.opened, store.opened.config
        self._store, self._opened, self._clock, self._host = store, opened, clock, host
        self.ask = ask
        """Called with the copy of each half whose producer is to be asked."""
        self.get: Getter = store.get
        """Returns halves and op records to a pass."""
        self._rules = rules or CheckRules.of(config)
        self._gathers_ops = opened.line is not LINE_4_9
        usual_ms = CHECK_INTERVAL_5_3_MS if self._gathers_ops else CHECK_INTERVAL_4_9_MS
        self._check_interval_ms = config.transaction_check_interval or usual_ms
        self._op_interval_ms = config.transaction_op_batch_interval
        self._op_max_size = config.transaction_op_msg_max_size
        self.metrics = TransactionMetrics(opened, clock) if self._gathers_ops else None
        """Open halves by topic (5.3)."""
        self._metrics_interval_ms = config.transaction_metric_flush_interval
        self._checked_at = self._wrote_ops_at = self._wrote_metrics_at = clock()
        self._gathered: deque[str] = deque()
        self._gathered_size = 0
        self._ops_lock = threading.Lock()
        self._refused_ops: list[str] = []
        self.given_up_count = 0
        """Halves given up without an answer since the start; TRANS_CHECK_MAX_TIME_TOPIC has them."""
        self._in_doubt = self._find_in_doubt()
        """Queue offsets of halves without an op record that no check pass has passed."""

    def work(self) -> None:
        now_ms = self._clock()
        if now_ms - self._wrote_ops_at >= self._op_interval_ms:
            self.write_ops()
        if now_ms - self._checked_at >= self._check_interval_ms:
            self.check()
        if now_ms - self._wrote_metrics_at >= self._metrics_interval_ms:
            self._write_metrics()

    def last_work(self) -> None:
        while self._gathered:
            self.write_ops()
        self._write_metrics()

    # Transactions.

    def prepare(self, message: Message, producer_group: str) -> PutResult:
        """Put the half of `message`, with a unique key; pass its log offset to commit or rollback.

        BadRequest for a producer group or a topic that no property can hold.

        >>> import tempfile
        >>> from store import Message, open_store
        >>> with open_store(f"{tempfile.mkdtemp()}/store", read_only=False) as store:
        ...     service = TransactionalMessageService(store, lambda: 0)
        ...     half = service.prepare(Message.of("Pay", "42", uniq_key="U1"), "payers")
        ...     committed = service.commit(half.log_offset, "payers")
        ...     store.catch_up()
        ...     store.max_offset("Pay", 0), store.max_offset("RMQ_SYS_TRANS_HALF_TOPIC", 0)
        (1, 1)
        """
        check_message(message)
        check_property("topic", message.topic)
        check_property("producer_group", producer_group)
        if not producer_group:
            raise BadRequest("producer_group is empty")
        refused = self._opened.commit_log.rules.refuse_place(message.topic, message.queue_id)
        if refused:
            return illegal(refused)
        unique_key = create_unique_key(self._clock())
        result = self._store.put(half_message(message, producer_group, self._opened.line, unique_key))
        if result.status in _STORED:
            self._in_doubt.add(result.queue_offset)
            self._count(message.topic, 1)
        return result

    @checks_arguments
    def commit(self, half_log_offset: int, producer_group: str, *, is_answer: bool = False) -> PutResult:
        """Put the message of a half, and end the half; `is_answer` after a check of its producer.

        BadRequest if there is no such half, or it is of another producer group.
        """
        half = self._half(half_log_offset, producer_group, is_answer)
        message = commit_message(half, self._opened.line)
        result = self._store.put_replayed(message, as_stored=False, waits=False)
        if result.status in _STORED:
            self._end(half)
        return result

    @checks_arguments
    def rollback(self, half_log_offset: int, producer_group: str, *, is_answer: bool = False) -> None:
        """End a half; `is_answer` after a check of its producer. Raises like commit."""
        self._end(self._half(half_log_offset, producer_group, is_answer))

    def _end(self, half: StoredMessage) -> None:
        self._note_done(half.queue_offset)
        self._count(half.properties.get(REAL_TOPIC, ""), -1)

    def _count(self, topic: str, count: int) -> None:
        if self.metrics is not None:
            self.metrics.add(topic, count)

    def _write_metrics(self) -> None:
        self._wrote_metrics_at = self._clock()
        if self.metrics is not None:
            self.metrics.persist()

    @property
    def in_doubt_count(self) -> int:
        """Halves that are neither committed, rolled back nor given up."""
        return len(self._in_doubt)

    def _find_in_doubt(self) -> set[int]:
        """Return the halves from H on without an op record from O on."""
        queues, (half_from, op_from) = self._opened.queues, self._offsets()
        halves, ops = queues.find(HALF_TOPIC, 0), queues.find(OP_TOPIC, 0)
        found = set(range(max(half_from, halves.min_offset), halves.max_offset)) if halves is not None else set()
        for _, _, op in queue_records(self._opened.log, ops, op_from) if ops is not None and found else ():
            if op is not None:
                found.difference_update(_named_halves(op.body.decode("utf-8", "replace")))
        return found

    def _half(self, log_offset: int, producer_group: str, is_answer: bool) -> StoredMessage:
        """Return the half at `log_offset` (EndTransactionProcessor.checkPrepareMessage)."""
        half = self._store.lookup(log_offset)
        if half is None or half.topic != HALF_TOPIC:
            raise BadRequest("there is no half message", offset=log_offset)
        group = half.properties.get(PRODUCER_GROUP)
        if group != producer_group:
            raise BadRequest(f"the half is of the producer group {group}, not {producer_group}", offset=log_offset)
        if self._gathers_ops and not is_answer:
            self._refuse_late_end(half)
        return half

    def _refuse_late_end(self, half: StoredMessage) -> None:
        """Raise BadRequest if 5.3 refuses an end after the half's own immunity (rejectCommitOrRollback)."""
        text = half.properties.get(CHECK_IMMUNITY)
        if text is None:
            return
        seconds = parse_long(text)
        immunity_ms = seconds * 1000 if seconds is not None else self._rules.timeout_ms
        if self._clock() - half.born_timestamp_ms > max(immunity_ms, self._rules.timeout_ms):
            raise BadRequest("the half's immunity is over; only an answer to a check ends it", offset=half.log_offset)

    # Op records.

    def _note_done(self, half_offset: int) -> None:
        text = op_body(half_offset, self._opened.line)
        if not self._gathers_ops:
            self._put_op(text)
            return
        with self._ops_lock:
            self._gathered.append(text)
            self._gathered_size += len(text)
            is_full = self._gathered_size > self._op_max_size
        if is_full:
            self.write_ops()

    def write_ops(self) -> None:
        """Put one op record of the gathered halves, if there are any."""
        with self._ops_lock:
            body = ""
            while self._gathered and len(body) < self._op_max_size:
                body += self._gathered.popleft()
            self._gathered_size -= len(body)
            self._wrote_ops_at = self._clock()
        if body:
            self._put_op(body)

    def _put_op(self, body: str) -> None:
        message = op_message(body, self._host, self._clock(), self._opened.line)
        result = self._store.put_replayed(message, waits=False)
        if result.status in _STORED:
            self._in_doubt.difference_update(_named_halves(body))
        else:
            # The half stays in doubt, as in a broker.
            refusal = f"the op record {body} was refused: {result.status.value} {result.reason}"
            self._refused_ops.append(refusal.rstrip())

    @property
    def findings(self) -> list[str]:
        """Op records that were refused, as sentences for people."""
        return list(self._refused_ops)

    # Checks.

    def check(self) -> CheckReport:
        """Make one pass, and save H and O."""
        self._checked_at = self._clock()
        self._store.catch_up()
        half_from, op_from = self._offsets()
        report = CheckPass(
            self._store, self._clock, self._rules, half_from, op_from, self._ask, get=self.get, is_stopped=self._is_over
        ).run()
        self._in_doubt.difference_update([half for half in self._in_doubt.copy() if half < report.half_offset])
        waiting = map(self._store.lookup, report.put_back)
        self._in_doubt.update(copy.queue_offset for copy in waiting if copy is not None)
        self.given_up_count += len(report.discarded)
        for given_up in map(self._store.lookup, report.discarded):
            if given_up is not None:
                self._count(given_up.properties.get(REAL_TOPIC, ""), -1)
        if (report.half_offset, report.op_offset) != (half_from, op_from):
            self._save(report)
        return report

    def _ask(self, copy: StoredMessage) -> None:
        self._in_doubt.add(copy.queue_offset)
        self.ask(copy)

    def _offsets(self) -> tuple[int, int]:
        """Return H and O; by default a queue's first offset."""
        saved = read_consumer_offsets(self._opened.layout.config, self._opened.fs)
        half, op = (
            saved.get((topic, CHECK_GROUP), {}).get(0, self._store.min_offset(topic, 0))
            for topic in (HALF_TOPIC, OP_TOPIC)
        )
        return half, op

    def _save(self, report: CheckReport) -> None:
        opened = self._opened
        changes = {
            (HALF_TOPIC, CHECK_GROUP): {0: report.half_offset},
            (OP_TOPIC, CHECK_GROUP): {0: report.op_offset},
        }
        write_consumer_offsets(opened.layout.config, opened.fs, changes, opened.line, self._clock())


def _named_halves(op_text: str) -> set[int]:
    """Return the half queue offsets in an op record's body, in the form of either line."""
    return {half for half in map(parse_long, op_text.split(OFFSET_SEPARATOR)) if half is not None}
