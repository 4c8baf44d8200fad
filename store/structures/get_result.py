"""The answer to a get, of a queue in files, in a database or of a compacted topic.

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
    """A queue's messages as a structure keeps them for consumers, in place of the log's."""

    def get(
        self, offset: int, max_count: int, config: StoreConfig, message_filter: MessageFilter | None = None
    ) -> GetResult: ...


class CopiesOfQueues(Protocol):
    """The queues that a structure keeps copies of."""

    def find(self, topic: str, queue_id: int) -> CopyOfQueue | None: ...


class MessageFilter(Protocol):
    """Leaves messages out: by the queue unit alone, or by the message itself."""

    def matches_tags_code(self, tags_code: int, ext: ExtUnit | None = None) -> bool: ...

    def matches(self, message: StoredMessage) -> bool: ...


@dataclass(slots=True)
class GetResult:
    """One broker answer. Offsets are queue offsets; `size` is the bytes of the records."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[StoredMessage] = field(default_factory=list)
    size: int = 0
    message_count: int = 0
    """Of a batch queue: the messages in these records."""
    damaged: list[DamagedRecord] = field(default_factory=list)
    """Records that the queue points to but that cannot be read; a broker would hand out their bytes."""
