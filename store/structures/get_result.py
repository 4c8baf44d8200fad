"""The result of a get, from a queue in files, in a database or of a compacted topic.

Source: GetMessageResult, GetMessageStatus (4.9.8).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from store.config import StoreConfig
from store.errors import DamagedRecord
from store.formats.message import StoredMessage
from store.formats.queue_unit import ExtUnit


class GetStatus(Enum):
    """GetMessageStatus of 4.9.8."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class CopyOfQueue(Protocol):
    """A queue whose consumers get a structure's copies of messages instead of the log's."""

    def get(
        self, offset: int, max_count: int, config: StoreConfig, message_filter: MessageFilter | None = None
    ) -> GetResult: ...


class CopiesOfQueues(Protocol):
    """The queues with copies in a structure."""

    def find(self, topic: str, queue_id: int) -> CopyOfQueue | None: ...


class MessageFilter(Protocol):
    """A filter of messages: by the queue unit alone, and by the message itself."""

    def matches_tags_code(self, tags_code: int, ext: ExtUnit | None = None) -> bool: ...

    def matches(self, message: StoredMessage) -> bool: ...


@dataclass(slots=True)
class GetResult:
    """The result of one get. Offsets are queue offsets; `size` is the bytes of the records."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[StoredMessage] = field(default_factory=list)
    size: int = 0
    message_count: int = 0
    """The number of messages in these records; they differ in a batch queue."""
    damaged: list[DamagedRecord] = field(default_factory=list)
    """Damaged records that the queue references; a broker would return their bytes."""
