"""The result of a put: its status and the message's offsets."""

from enum import Enum
from typing import NamedTuple

from store.errors import StoreIOError
from store.formats.message import Message
from store.formats.message_id import encode_message_id


class PutStatus(Enum):
    """PutMessageStatus of 4.9.8."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    CREATE_MAPEDFILE_FAILED = "CREATE_MAPEDFILE_FAILED"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    OS_PAGECACHE_BUSY = "OS_PAGECACHE_BUSY"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"


class PutResult(NamedTuple):
    """The result of one put.

    Offsets are -1 and size is 0 if nothing was stored.
    For a batch the offsets are those of its first message, `size` and `message_count` cover the whole batch.
    """

    status: PutStatus
    log_offset: int = -1
    size: int = 0
    queue_offset: int = -1
    store_timestamp_ms: int = 0
    message_count: int = 1
    reason: str = ""
    message: Message | None = None
    log_offsets: tuple[int, ...] = ()

    @property
    def is_ok(self) -> bool:
        return self.status is PutStatus.PUT_OK

    @property
    def msg_id(self) -> str:
        """Message ids, comma-separated for a batch; empty if nothing was stored."""
        if self.log_offset < 0 or self.message is None:
            return ""
        offsets = self.log_offsets or (self.log_offset,)
        return ",".join(encode_message_id(self.message.store_host, offset) for offset in offsets)


def illegal(reason: str) -> PutResult:
    """Return the refusal of a message that no broker would store."""
    return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=reason)


def no_segment(error: StoreIOError) -> PutResult:
    """Return the refusal of a message because the next segment could not be created."""
    return PutResult(PutStatus.CREATE_MAPEDFILE_FAILED, reason=str(error))
