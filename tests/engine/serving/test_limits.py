"""The limits of frames and of a client's puts, and each value that goes through a frame, without a socket."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from store import BadRequest, Message, StoreClosed, StoreError
from store.engine.serving import client as clients
from store.engine.serving.client import StoreClient
from store.engine.serving.filters import describe_filter, read_filter
from store.engine.serving.frames import (
    MOST_ATTACHED_BYTES,
    MOST_HEAD_BYTES,
    SIZES,
    Frame,
    encode_frame,
    pack_messages,
    parse_frame,
    receive_frame,
    receive_parts,
    split_records,
    unpack_messages,
)
from store.engine.serving.server import describe_error
from store.errors import DamagedRecord, StoreIOError
from store.formats.host import Host
from store.reading.filter.keys import KeyExpression
from store.reading.filter.sql92 import compile_sql
from store.reading.filter.tags import TagExpression
from store.structures.commitlog.put_result import PutResult, PutStatus


class Wire:
    """A connection that gives these bytes in pieces, and keeps what is sent."""

    def __init__(self, data: bytes = b"", piece: int = 1 << 20) -> None:
        self.data, self.sent, self.asked, self._piece = data, b"", list[int](), piece

    def recv(self, size: int, _flags: int = 0) -> bytes:
        self.asked.append(size)
        piece, self.data = self.data[: min(size, self._piece)], self.data[min(size, self._piece) :]
        return piece

    def sendall(self, data: bytes) -> None:
        self.sent += data


def wire(data: bytes = b"", piece: int = 1 << 20) -> Any:
    return cast(socket.socket, Wire(data, piece))


@pytest.mark.parametrize(
    ("head", "attached", "is_taken"),
    [
        (MOST_HEAD_BYTES, 0, True),
        (MOST_HEAD_BYTES + 1, 0, False),
        (0, MOST_ATTACHED_BYTES, True),
        (0, MOST_ATTACHED_BYTES + 1, False),
    ],
)
def test_a_frame_has_at_most_16_mib_of_head_and_1_gib_attached(head: int, attached: int, is_taken: bool) -> None:
    assert (MOST_HEAD_BYTES, MOST_ATTACHED_BYTES) == (16_777_216, 1_073_741_824)
    connection = wire(SIZES.pack(head, attached))
    if is_taken:
        # The connection ends before the bytes that the sizes promise.
        assert receive_parts(connection) is None
        assert connection.asked[1:] == [1 << 20]
    else:
        with pytest.raises(StoreClosed, match=f"a frame of {head} and {attached} bytes is too large"):
            receive_parts(connection)


@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 20])
def test_a_frame_is_put_together_from_pieces(piece: int) -> None:
    frame = encode_frame(Frame({"call": "x", "n": 1}, b"attached"))
    assert frame[:8] == b"\0\0\0\x12\0\0\0\x08"
    connection = wire(frame + frame[:5], piece)
    assert receive_frame(connection) == Frame({"call": "x", "n": 1}, b"attached")
    assert receive_frame(connection) is None


@pytest.mark.parametrize("missing", [1, 8, 9, 26])
def test_a_frame_that_is_cut_is_none(missing: int) -> None:
    frame = encode_frame(Frame({"call": "x", "n": 1}, b"attached"))
    assert receive_frame(wire(frame[:-missing])) is None


@pytest.mark.parametrize("head", [b"", b"[]", b"1", b"{", b"\xff", b"[" * 100_000])
def test_a_head_is_a_json_object(head: bytes) -> None:
    with pytest.raises(BadRequest, match="the head of a frame is no JSON"):
        parse_frame(head, b"")


HOSTS = Host.parse("10.0.0.1:1"), Host.parse("10.0.0.2:2")
MESSAGES = [
    Message("T", b"body", 1, b"k\1v\2", 3, 4, 5, *HOSTS, 6, 7),
    Message("U", b"", 0, b"", 0, 0, 1),
    Message("V", b"x", 2, b"", 0, 0, 1),
]


def test_messages_go_through_a_frame_with_every_field() -> None:
    rows, attachment = pack_messages(MESSAGES)
    assert rows[0] == ["T", 1, 4, 4, 3, 4, 5, "10.0.0.1:1", "10.0.0.2:2", 6, 7]
    assert attachment == b"bodyk\1v\2x"
    assert unpack_messages(rows, attachment) == MESSAGES


@pytest.mark.parametrize("attachment", [b"bodyk\1v\2", b"bodyk\1v\2xy"])
def test_the_attachment_has_the_bytes_that_the_messages_say(attachment: bytes) -> None:
    with pytest.raises(BadRequest, match=f"the messages have 9 bytes, the attachment {len(attachment)}"):
        unpack_messages(pack_messages(MESSAGES)[0], attachment)


@pytest.mark.parametrize(("place", "name"), [(2, "the size of a body"), (3, "the size of properties")])
def test_a_size_is_not_negative(place: int, name: str) -> None:
    rows, attachment = pack_messages(MESSAGES)
    rows[1][place] = -1
    with pytest.raises(BadRequest, match=name):
        unpack_messages(rows, attachment)


def test_records_are_split_by_their_sizes() -> None:
    assert [bytes(one) for one in split_records([2, 0, 3], b"abcde")] == [b"ab", b"", b"cde"]
    assert split_records([], b"") == []


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (None, None),
        (TagExpression("a || b"), {"tags": "a || b"}),
        (KeyExpression("k"), {"key": "k"}),
        (compile_sql("a > 5"), {"sql": "a > 5"}),
    ],
)
def test_a_filter_is_named_by_its_text(wanted: Any, said: dict[str, str] | None) -> None:
    assert describe_filter(wanted) == said
    again = read_filter(said)
    assert (type(again), describe_filter(again)) == (type(wanted), said)


def test_another_filter_has_no_text() -> None:
    with pytest.raises(BadRequest, match="a filter for a served store is"):
        describe_filter(object())


# A client: what it sends, and how it splits puts.


class Owner:
    """Answers calls: a put with a result for each message, hello, and what is set for others."""

    def __init__(self) -> None:
        self.heads: list[Any] = []
        self.answers: dict[str, Frame] = {}

    def __call__(self, head: dict[str, Any], attachment: bytes = b"") -> Frame:
        self.heads.append(head)
        if head["call"] == "put":
            return Frame({"results": [["PUT_OK", 1, 2, 3, 4, ""] for _ in head["messages"]]})
        return self.answers[head["call"]]


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> Owner:
    answers = Owner()
    answers.answers["hello"] = Frame({"process_id": 1, "line": "4.9", "services": [], "delay_level_count": 18})
    monkeypatch.setattr(StoreClient, "_call", lambda client, head, attachment=b"": answers(head, attachment))
    return answers


@pytest.mark.parametrize(
    ("sizes", "frames"),
    [
        ([], []),
        ([1], [1]),
        ([3, 3, 3], [3]),
        ([5, 4, 1], [3]),
        ([5, 5, 1], [2, 1]),
        ([9, 1, 9, 2], [2, 2]),
        ([10, 10], [1, 1]),
        ([11, 1], [1, 1]),
    ],
)
def test_a_frame_of_puts_ends_with_the_message_that_reaches_the_limit(
    sizes: list[int], frames: list[int], owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MOST_PUT_BYTES", 10)
    client = StoreClient(Path("s"), None)
    messages = [Message("T", b"b" * (size - size // 2), 0, b"p" * (size // 2)) for size in sizes]
    results = client.put_all(messages)
    assert [len(head["messages"]) for head in owner.heads[1:]] == frames
    assert results == [PutResult(PutStatus.PUT_OK, 1, 2, 3, 4, 1, "", message) for message in messages]


def test_each_call_names_what_it_is_about(owner: Owner) -> None:
    found = {"index_files": 1, "last_update_timestamp_ms": 2, "last_update_log_offset": 3, "is_limited": True}
    get = {"status": "FOUND", "next_offset": 1, "min_offset": 2, "max_offset": 3, "message_count": 4, "size": 5}
    damage = ["f", 9, "torn", "code", 2]
    owner.answers |= {
        "get": Frame({**get, "damaged": [damage], "sizes": []}),
        "wait": Frame({"has_come": True}),
        "query": Frame({**found, "damaged": [], "sizes": []}),
        "offsets": Frame({"min_offset": 6, "max_offset": 7}),
        "offset_by_time": Frame({"offset": 8}),
        "topics": Frame({"topics": ["T"]}),
        "queues": Frame({"queue_ids": [0]}),
        "lookup": Frame({"is_found": False}),
        "flush": Frame({"log_offset": 10}),
        "stats": Frame({"runtime": {}}),
    }
    client = StoreClient(Path("s"), None)
    answer = client.get("T", 1, 2, 3, TagExpression("a"), group="G")
    assert (answer.status.value, answer.next_offset, answer.min_offset, answer.max_offset) == ("FOUND", 1, 2, 3)
    assert (answer.message_count, answer.size) == (4, 5)
    [one] = answer.damaged
    assert (str(one.file), one.offset, one.reason, one.code, one.record_count) == ("f", 9, "torn", "code", 2)
    client.get("T", 1, 2)
    assert client.wait_for_message("T", 1, 2, 3)
    result = client.query("T", "k")
    assert {name: getattr(result, name) for name in found} == found
    assert (client.min_offset("T", 1), client.max_offset("T", 1), client.offset_by_time("T", 1, 2)) == (6, 7, 8)
    assert (client.topics(), client.queue_ids("T"), client.lookup(5), client.flush()) == (["T"], [0], None, 10)
    assert client.stats() == {"runtime": {}}
    of_queue = {"topic": "T", "queue_id": 1}
    assert owner.heads == [
        {"call": "hello"},
        {"call": "get", **of_queue, "offset": 2, "max_count": 3, "filter": {"tags": "a"}, "group": "G"},
        {"call": "get", **of_queue, "offset": 2, "max_count": 32, "filter": None},
        {"call": "wait", **of_queue, "offset": 2, "timeout_ms": 3, "filter": None},
        {
            "call": "query", "topic": "T", "key": "k", "max_count": 32, "begin_ms": 0, "end_ms": (1 << 63) - 1,
            "verify": True, "by_tags": False, "in_database": False,
        },
        {"call": "offsets", **of_queue},
        {"call": "offsets", **of_queue},
        {"call": "offset_by_time", **of_queue, "time_ms": 2},
        {"call": "topics"},
        {"call": "queues", "topic": "T"},
        {"call": "lookup", "log_offset": 5},
        {"call": "flush"},
        {"call": "stats", "ring": "minute"},
    ]  # fmt: skip


QUEUE = {"topic": ("T", 1), "queue_id": (1, "0")}
PLACE = QUEUE | {"offset": (1, "0")}


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (StoreClient.get, PLACE | {"max_count": (1, 0)}),
        (StoreClient.wait_for_message, PLACE | {"timeout_ms": (1, 0.5)}),
        (StoreClient.lookup, {"log_offset": (1, None)}),
        (StoreClient.query, {"topic": ("T", 1), "key": ("k", 1), "max_count": (1, "1"), "begin_ms": (1, "1")}),
        (StoreClient.queue_ids, {"topic": ("T", 1)}),
        (StoreClient.min_offset, QUEUE),
        (StoreClient.max_offset, QUEUE),
        (StoreClient.offset_by_time, QUEUE | {"time_ms": (1, 1 << 63)}),
    ],
)
def test_a_wrong_argument_of_a_call_is_named_and_not_sent(
    call: Callable[..., object], arguments: dict[str, tuple[object, object]], owner: Owner
) -> None:
    client = StoreClient(Path("s"), None)
    sound = {name: value for name, (value, _) in arguments.items()}
    for name, (_, wrong) in arguments.items():
        with pytest.raises((BadRequest, TypeError), match=f"^{name} "):
            call(client, **sound | {name: wrong})
    assert owner.heads == [{"call": "hello"}]


def test_the_end_of_a_half_says_whether_its_producer_was_asked(owner: Owner) -> None:
    done = Frame({"result": ["PUT_OK", 1, 2, 3, 4, ""]})
    owner.answers |= {"prepare": done, "commit": done, "rollback": Frame({}), "register": Frame({"is_taken": True})}
    client = StoreClient(Path("s"), None)
    message = Message("T", b"x")
    assert client.transactions.prepare(message, "P") == PutResult(PutStatus.PUT_OK, 1, 2, 3, 4, 1, "", message)
    assert client.transactions.commit(5, "P").message is None
    client.transactions.commit(5, "P", is_answer=True)
    client.transactions.rollback(6, "P")
    client.transactions.rollback(6, "P", is_answer=True)
    assert client.filters.register("G", "T", "a > 5")
    end = {"producer_group": "P"}
    rows, _ = pack_messages([message])
    assert owner.heads[1:] == [
        {"call": "prepare", "messages": rows, **end},
        {"call": "commit", "half_log_offset": 5, **end, "is_answer": False},
        {"call": "commit", "half_log_offset": 5, **end, "is_answer": True},
        {"call": "rollback", "half_log_offset": 6, **end, "is_answer": False},
        {"call": "rollback", "half_log_offset": 6, **end, "is_answer": True},
        {"call": "register", "group": "G", "topic": "T", "expression": "a > 5", "client_version": None},
    ]


@pytest.mark.parametrize(
    "error",
    [
        BadRequest("no", file=Path("f"), hint="h", code="c"),
        StoreIOError("far", offset=7),
        DamagedRecord("torn", file=Path("f"), offset=1),
        StoreError("else"),
    ],
)
def test_an_error_keeps_its_class_and_what_it_says(error: StoreError) -> None:
    again = clients._error(cast(dict[str, Any], describe_error(error)))
    assert (type(again), again.reason, again.offset, again.hint, again.code, again.subject) == (
        type(error), error.reason, error.offset, error.hint, error.code, error.subject
    )  # fmt: skip
    assert str(again.file) == str(error.file)


@pytest.mark.parametrize("name", ["Path", "no such class", None])
def test_an_error_of_no_class_of_the_engine_is_a_store_error(name: str | None) -> None:
    assert type(clients._error({"class": name, "reason": "x"})) is StoreError
