"""Pop messages of a real 5.x broker, as its gRPC clients do through a proxy, and acknowledge them.

Source: PopMessageRequestHeader, AckMessageRequestHeader, ExtraInfoUtil (5.5.0).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from store.engine.ha.link import Address
from store.engine.remoting.connection import Connection
from store.formats.message import StoredMessage, decode_record

POP_MESSAGE, ACK_MESSAGE = 200050, 200051
FIRST = "0"
"""ConsumeInitMode.MIN: a new group begins at the first message."""


def pop(port: int, group: str, topic: str, count: int, invisible_ms: int) -> list[tuple[StoredMessage, dict[str, str]]]:
    """At most `count` messages, one a request: each with the arguments of its acknowledgement."""
    with Connection(Address("127.0.0.1", port)) as connection:
        return [*_pop(connection, group, topic, count, invisible_ms)]


def _pop(
    connection: Connection, group: str, topic: str, count: int, invisible_ms: int
) -> Iterator[tuple[StoredMessage, dict[str, str]]]:
    who = {"consumerGroup": group, "topic": topic, "queueId": "-1"}
    times = {"invisibleTime": str(invisible_ms), "pollTime": "0", "initMode": FIRST}
    for _ in range(count):
        answer = connection.ask(
            POP_MESSAGE, {**who, **times, "maxMsgNums": "1", "bornTime": str(int(time.time() * 1000))}
        )
        if not answer.body:
            return
        found, fields = decode_record(answer.body), answer.fields
        offset = str(found.queue_offset)
        words = [offset, *(fields[name] for name in ("popTime", "invisibleTime", "reviveQid")), "0", "broker-a"]
        extra = " ".join([*words, str(found.queue_id), offset])
        yield found, {**who, "queueId": str(found.queue_id), "extraInfo": extra, "offset": offset}


def acknowledge(port: int, acknowledgements: list[dict[str, str]]) -> None:
    """Acknowledge popped messages; AssertionError if the broker refuses one."""
    with Connection(Address("127.0.0.1", port)) as connection:
        for fields in acknowledgements:
            assert (connection.ask(ACK_MESSAGE, fields).code, fields) == (0, fields)
