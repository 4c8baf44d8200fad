"""The tuples that the append kernel reads: a queue's cell, and the hosts of a message."""

from __future__ import annotations

from dataclasses import replace

import pytest

from store import Message
from store.formats.host import Host
from store.formats.message import BORN_HOST_IPV6, STORE_HOST_IPV6
from store.structures.commitlog.put_queue import NO_TAIL, PutHosts, PutQueue


@pytest.mark.parametrize(("topic", "size"), [("T", 92), ("x" * 127, 218), ("x" * 128, 220), ("é", 93)])
def test_a_queue_has_the_bytes_of_its_records_without_body_and_properties(topic: str, size: int) -> None:
    queue = PutQueue.of(topic)
    assert (queue.topic, queue.base_size, queue.queue_offset) == (topic.encode(), size, 0)
    for offset in (7, -1, (1 << 63) - 1):
        queue.move_to(offset)
        assert (queue.queue_offset, bytes(queue.end)) == (offset, offset.to_bytes(8, "big", signed=True))


LONG = Host(bytes(16), 5)


@pytest.mark.parametrize(
    ("hosts", "flags", "extra"),
    [
        ({}, 0, 0),
        ({"born_host": LONG}, BORN_HOST_IPV6, 12),
        ({"store_host": LONG}, STORE_HOST_IPV6, 12),
        ({"born_host": LONG, "store_host": LONG}, BORN_HOST_IPV6 | STORE_HOST_IPV6, 24),
    ],
)
def test_hosts_are_encoded_once_with_their_flags_and_their_further_bytes(
    hosts: dict[str, Host], flags: int, extra: int
) -> None:
    message = replace(Message("T"), **hosts)  # type: ignore[arg-type]
    found = PutHosts.of(message)
    encoded = message.born_host.encode() + message.store_host.encode()
    assert found == (message.born_host, message.store_host, encoded, flags, extra)


def test_before_the_first_message_a_segment_has_no_room() -> None:
    assert (len(NO_TAIL.buffer), NO_TAIL.file_start, NO_TAIL.limit_position) == (0, 0, 0)
