"""PutQueue: everything that an append to one queue needs, found by one look-up."""

from __future__ import annotations

from store.formats.message import MAX_TOPIC_SIZE_V1, RECORD_MIN_SIZE, Message, host_flags, record_size

_LONG_SIZE = 8


class PutQueue:
    """One queue of the log: its topic in UTF-8, and the queue offset that its next message gets.

    end        that offset as a long of 8 bytes, which the kernel that appends moves on
    base_size  bytes of a record of this topic without body and properties, with IPv4 hosts
    """

    __slots__ = ("base_size", "end", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic.encode("utf-8", "surrogatepass")
        self.base_size = record_size(0, len(self.topic), 0, v2=len(self.topic) > MAX_TOPIC_SIZE_V1)
        self.end = bytearray(_LONG_SIZE)

    @property
    def queue_offset(self) -> int:
        """The next queue offset."""
        return int.from_bytes(self.end, "big", signed=True)

    @queue_offset.setter
    def queue_offset(self, queue_offset: int) -> None:
        self.end[:] = queue_offset.to_bytes(_LONG_SIZE, "big", signed=True)


class PutHosts:
    """Born and store host as a record has them; most messages of a log share them."""

    __slots__ = ("born", "encoded", "extra_size", "flags", "stored")

    def __init__(self, message: Message) -> None:
        self.born, self.stored = message.born_host, message.store_host
        self.encoded = self.born.encode() + self.stored.encode()
        self.flags = host_flags(self.born, self.stored)
        self.extra_size = record_size(0, 0, 0, self.flags) - RECORD_MIN_SIZE
