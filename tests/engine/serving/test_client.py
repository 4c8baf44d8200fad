"""What the client asks of the owner, without one: whole requests, ranges of numbers, and frames of many messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store import Message
from store.engine.serving import client as clients
from store.engine.serving.client import StoreClient
from store.engine.serving.frames import Frame
from store.errors import BadRequest
from store.reading.stores import END_OF_TIME_MS

HIGHEST = (1 << 63) - 1


def client_of(**answer: Any) -> tuple[Any, list[dict[str, Any]]]:
    """A client without a connection, and the heads of its requests."""
    asked: list[dict[str, Any]] = []
    client: Any = object.__new__(StoreClient)
    client._call = lambda head, attachment=b"": asked.append(head) or Frame(answer, b"")
    return client, asked


QUERY = {"call": "query", "topic": "T", "key": "k", "max_count": 32, "begin_ms": 0, "end_ms": END_OF_TIME_MS,
         "verify": True, "by_tags": False, "in_database": False}  # fmt: skip
GET = {"call": "get", "topic": "T", "queue_id": 3, "offset": 4, "max_count": 32, "filter": None}
FOUND = {"status": "FOUND", "next_offset": 1, "min_offset": 2, "max_offset": 3, "size": 4, "message_count": 5}
UPDATED = {"index_files": 1, "last_update_timestamp_ms": 2, "last_update_log_offset": 3, "is_limited": False}
WAIT = {"call": "wait", "topic": "T", "queue_id": 3, "offset": 4, "timeout_ms": 5, "filter": None}


@pytest.mark.parametrize(
    ("call", "head"),
    [
        (lambda client: client.get("T", 3, 4), GET),
        (lambda client: client.get("T", 3, 4, 5, group="G"), {**GET, "max_count": 5, "group": "G"}),
        (lambda client: client.query("T", "k"), QUERY),
        (lambda client: client.query("T", "k", by_tags=True, in_database=True, verify=False),
         {**QUERY, "by_tags": True, "in_database": True, "verify": False}),
        (lambda client: client.wait_for_message("T", 3, 4, 5), WAIT),
        (lambda client: client.lookup(7), {"call": "lookup", "log_offset": 7}),
        (lambda client: client.offset_by_time("T", 3, 9),
         {"call": "offset_by_time", "topic": "T", "queue_id": 3, "time_ms": 9}),
        (lambda client: client.queue_ids("T"), {"call": "queues", "topic": "T"}),
        (lambda client: client.min_offset("T", 3), {"call": "offsets", "topic": "T", "queue_id": 3}),
        (lambda client: client.stats(), {"call": "stats", "ring": "minute"}),
    ],
)  # fmt: skip
def test_each_method_asks_with_all_its_arguments(call: Callable[[Any], object], head: dict[str, Any]) -> None:
    client, asked = client_of(
        **FOUND, **UPDATED, damaged=[], sizes=[], has_come=True, is_found=False, offset=5, queue_ids=[1]
    )
    call(client)
    assert asked == [head]


@pytest.mark.parametrize(
    "call",
    [
        lambda client, number: client.wait_for_message("T", 3, number, 5),
        lambda client, number: client.wait_for_message("T", 3, 4, number),
        lambda client, number: client.lookup(number),
        lambda client, number: client.offset_by_time("T", 3, number),
        lambda client, number: client.get("T", 3, number),
    ],
)
def test_numbers_have_sixty_four_bits(call: Callable[[Any, int], object]) -> None:
    client, asked = client_of(**FOUND, damaged=[], sizes=[], has_come=True, is_found=False, offset=5)
    call(client, HIGHEST)
    with pytest.raises(BadRequest, match="does not fit in 64 bits"):
        call(client, HIGHEST + 1)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("sizes", "frames"),
    [
        ([], []),
        ([5], [1]),
        ([9, 0], [2]),
        ([9, 1, 3], [2, 1]),
        ([10, 3, 3], [1, 2]),
        ([3, 3, 3, 3, 3], [4, 1]),
        ([50, 50], [1, 1]),
    ],
)
def test_messages_go_in_frames_of_some_bytes(
    sizes: list[int], frames: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MOST_PUT_BYTES", 10)
    sent: list[int] = []
    client, _ = client_of()
    client._put = lambda messages, options: sent.append(len(messages)) or [*messages]
    messages = [Message("T", bytes(size // 2), properties=bytes(size - size // 2)) for size in sizes]
    assert (client.put_all(messages), sent) == (messages, frames)


@pytest.mark.parametrize(
    ("hello", "is_taken"), [(None, False), ({}, False), ({"process_id": 8}, False), ({"process_id": 7}, True)]
)
def test_a_connection_is_made_again_to_the_same_process(
    hello: dict[str, int] | None, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[object, Any]] = []
    monkeypatch.setattr(clients, "connect_to", lambda path: "again")
    monkeypatch.setattr(clients, "send_frame", lambda connection, frame: sent.append((connection, frame.head)))
    monkeypatch.setattr(clients, "receive_frame", lambda connection: Frame(hello) if hello is not None else None)
    client, _ = client_of()
    closed: list[bool] = []
    client.path, client.process_id = "socket", 7
    client._connection = type("Old", (), {"close": lambda self: closed.append(True)})()
    if is_taken:
        client._connect_again()
    else:
        with pytest.raises(ConnectionError, match="another process serves the store"):
            client._connect_again()
    assert (closed, client._connection, sent) == ([True], "again", [("again", {"call": "hello"})])


class Connection:
    """Refuses what is sent, and has these bytes from before."""

    def __init__(self, waiting: bytes) -> None:
        self._waiting = waiting

    def recv(self, size: int, flags: int) -> bytes:
        return self._waiting[:size]


@pytest.mark.parametrize(("waiting", "connects"), [(b"", True), (b"reason", False)])
def test_a_request_is_sent_again_unless_the_owner_has_sent_a_reason(
    waiting: bytes, connects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def send(connection: object, frame: object) -> None:
        calls.append((connection, frame))
        if connection is old:
            raise BrokenPipeError

    old, request = Connection(waiting), Frame({})
    monkeypatch.setattr(clients, "send_frame", send)
    client, _ = client_of()
    client._connection = old
    client._connect_again = lambda: setattr(client, "_connection", "again")
    client._send(request)
    assert calls == [(old, request), *[("again", request)] * connects]


@pytest.mark.parametrize(("held", "timeout_s", "has_ended"), [(0, 0.0, True), (2, 60.0, True), (1 << 30, -1.0, False)])
def test_a_stop_waits_for_the_lock(
    held: int, timeout_s: float, has_ended: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looks: list[Path] = []
    monkeypatch.setattr("store.files.lock.is_locked", lambda path, fs: looks.append(path) or len(looks) <= held)
    monkeypatch.setattr(clients, "STOP_POLL_S", 0)
    client, asked = client_of()
    client.path = tmp_path / ".rmqctl" / "socket"
    assert (client.stop(timeout_s), asked) == (has_ended, [{"call": "stop"}])
    assert looks == [tmp_path / "lock"] * (held + 1 if has_ended else 1)
