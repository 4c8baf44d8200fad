"""Transactions and filters of a served store, called through its control socket.

The methods are those of TransactionalMessageService and ConsumerFilterManager in the owner's process.
"""

from __future__ import annotations

from collections.abc import Callable

from store.engine.serving.frames import Frame, pack_messages
from store.formats.message import Message
from store.structures.commitlog.put_result import PutResult, PutStatus

Call = Callable[..., Frame]
"""Sends a head, and an attachment if there is one; returns the answer."""
PutRow = tuple[str, int, int, int, int, str]
"""A put's result in a frame's head: status, log offset, size, queue offset, store time, reason."""


class RemoteTransactions:
    """The transactions of a served store; BadRequest if its service does not run."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def prepare(self, message: Message, producer_group: str) -> PutResult:
        """Put the half of `message`; pass its log offset to commit or rollback."""
        rows, attachment = pack_messages([message])
        head = {"call": "prepare", "messages": rows, "producer_group": producer_group}
        return read_put_row(self._call(head, attachment).head["result"], message)

    def commit(self, half_log_offset: int, producer_group: str, *, is_answer: bool = False) -> PutResult:
        """Put the message of a half, and end the half; `is_answer` after a check of its producer."""
        return read_put_row(self._end("commit", half_log_offset, producer_group, is_answer).head["result"], None)

    def rollback(self, half_log_offset: int, producer_group: str, *, is_answer: bool = False) -> None:
        """End a half; `is_answer` after a check of its producer."""
        self._end("rollback", half_log_offset, producer_group, is_answer)

    def _end(self, name: str, half_log_offset: int, producer_group: str, is_answer: bool) -> Frame:
        head = {"call": name, "half_log_offset": half_log_offset, "producer_group": producer_group}
        return self._call({**head, "is_answer": is_answer})


class RemoteFilters:
    """The SQL subscriptions of a served store."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def register(self, group: str, topic: str, expression: str, client_version: int | None = None) -> bool:
        """Register a subscription, and return whether it was accepted; BadRequest if it does not compile."""
        head = {"call": "register", "group": group, "topic": topic, "expression": expression}
        return bool(self._call({**head, "client_version": client_version}).head["is_taken"])

    def unregister(self, group: str) -> None:
        """Mark the filters of a group as dead; their bits are set as before."""
        self._call({"call": "unregister", "group": group})


def put_row(result: PutResult) -> PutRow:
    """Return a put's result for a frame's head."""
    return (
        result.status.value, result.log_offset, result.size, result.queue_offset, result.store_timestamp_ms,
        result.reason,
    )  # fmt: skip


def read_put_row(row: PutRow, message: Message | None) -> PutResult:
    """Return the result that a head holds."""
    status, log_offset, size, queue_offset, store_ms, reason = row
    return PutResult(PutStatus(status), log_offset, size, queue_offset, store_ms, 1, reason, message)
