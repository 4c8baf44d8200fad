"""Queue, hosts and segment of an append, as tuples for the kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MemberDescriptorType
from typing import NamedTuple

from store.files.filesystem import Filesystem
from store.files.mapped_file import MappedFile
from store.formats.host import Host
from store.formats.message import MAX_TOPIC_SIZE_V1, RECORD_MIN_SIZE, Message, host_flags, record_size
from store.kernels.put import FILE_FIELDS, MESSAGE_FIELDS
from store.structures.commitlog.tail_pages import TailPages

_LONG_SIZE = 8


class PutQueue(NamedTuple):
    """One queue of the log: its topic in UTF-8, and the queue offset of its next message.

    base_size  bytes of a record of this topic without body and properties, with IPv4 hosts
    end        the next queue offset as a long of 8 bytes; the append kernel raises it
    """

    topic: bytes
    base_size: int
    end: bytearray

    @classmethod
    def of(cls, topic: str) -> PutQueue:
        encoded = topic.encode("utf-8", "surrogatepass")
        base_size = record_size(0, len(encoded), 0, v2=len(encoded) > MAX_TOPIC_SIZE_V1)
        return cls(encoded, base_size, bytearray(_LONG_SIZE))

    @property
    def queue_offset(self) -> int:
        """The next queue offset."""
        return int.from_bytes(self.end, "big", signed=True)

    def move_to(self, queue_offset: int) -> None:
        """Set the next queue offset."""
        self.end[:] = queue_offset.to_bytes(_LONG_SIZE, "big", signed=True)


class PutHosts(NamedTuple):
    """Born and store host, encoded as in a record; most messages of a log share them."""

    born: Host
    stored: Host
    encoded: bytes
    flags: int
    extra_size: int

    @classmethod
    def of(cls, message: Message) -> PutHosts:
        born, stored = message.born_host, message.store_host
        flags = host_flags(born, stored)
        extra_size = record_size(0, 0, 0, flags) - RECORD_MIN_SIZE
        return cls(born, stored, born.encode() + stored.encode(), flags, extra_size)


class PutTail(NamedTuple):
    """The segment that takes messages, and its views and positions for the kernel."""

    file: MappedFile
    buffer: memoryview
    file_start: int
    wrote: bytearray
    limit: bytearray

    @classmethod
    def of(cls, file: MappedFile, buffer: memoryview, pages: TailPages) -> PutTail:
        return cls(file, buffer, file.file_start, file.wrote_cell, pages.limit)

    @property
    def limit_position(self) -> int:
        """The value of `limit`."""
        return int.from_bytes(self.limit, "big")


_NO_FILE = MappedFile(Path(), 0, 0, Filesystem(), writable=False)
NO_PAGES = TailPages(_NO_FILE, flushes_by_time=False)
NO_TAIL = PutTail.of(_NO_FILE, memoryview(bytearray()), NO_PAGES)
"""Before the first message: a segment without room."""


MESSAGE_SLOTS = tuple(getattr(Message, name) for name in MESSAGE_FIELDS)
FILE_SLOTS = tuple(getattr(MappedFile, name) for name in FILE_FIELDS)


class PutParts(NamedTuple):
    """The arguments of put_message: the log's queues by topic and id, and parts shared by usual puts.

    clock  None for the system clock
    message_slots, file_slots  descriptors of the fields that the kernel reads
    """

    queues: dict[tuple[str, int], PutQueue]
    hosts: PutHosts
    tail: PutTail
    gate: bytearray
    clock: Callable[[], int] | None
    max_body: int
    max_record: int
    message_slots: tuple[MemberDescriptorType, ...] = MESSAGE_SLOTS
    file_slots: tuple[MemberDescriptorType, ...] = FILE_SLOTS
