"""A store with a transaction service, and a producer that answers it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from store import Message, StoredMessage, open_store
from store.engine.services.transaction_check import CheckReport
from store.engine.services.transaction_service import TransactionalMessageService
from store.engine.services.transactions import review_transactions
from store.files.filesystem import Filesystem
from store.structures.commitlog.put_result import PutResult
from store.structures.tables.consumer_offsets import read_consumer_offsets
from tests.engine.services.stores import OP_TOPIC
from tests.support.stores import SMALL, Clock

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
SECOND = 1000
TIMEOUT = 6 * SECOND


class Transactions:
    """An open store with its service and a clock that a test moves."""

    def __init__(self, root: Path, line: str, settings: dict[str, int]) -> None:
        self.clock = Clock()
        self.store = open_store(root, read_only=False, settings=SMALL | settings, clock=self.clock, compat=line)
        self.asked: list[StoredMessage] = []
        self.service = TransactionalMessageService(self.store, self.clock, ask=self.asked.append)

    def message(self, key: str, **given: Any) -> Message:
        return Message.of("Pay", f"body of {key}", uniq_key=key, flag=7, **given)

    def prepare(self, key: str, **properties: str) -> PutResult:
        message = self.message(key, properties=properties, born_timestamp_ms=self.clock.now_ms)
        return self.service.prepare(message, "PG")

    def check(self, after_ms: int = TIMEOUT + 1) -> CheckReport:
        self.store.catch_up()
        self.clock.now_ms += after_ms
        return self.service.check()

    def offsets(self) -> tuple[int | None, int | None]:
        found = read_consumer_offsets(self.store.layout.config, Filesystem())
        half, op = (found.get((topic, "CID_RMQ_SYS_TRANS"), {}).get(0) for topic in (HALF_TOPIC, OP_TOPIC))
        return half, op

    def ops(self) -> list[bytes]:
        self.store.catch_up()
        return [one.body for one in self.store.messages(OP_TOPIC, 0, must_exist=False)]

    def states(self) -> dict[str | None, str]:
        self.store.catch_up()
        return {one.uniq_key: one.state.value for one in review_transactions(self.store.opened).transactions}


@contextmanager
def transactions(root: Path, line: str = "4.9", **settings: int) -> Iterator[Transactions]:
    made = Transactions(root, line, settings)
    with made.store:
        yield made
