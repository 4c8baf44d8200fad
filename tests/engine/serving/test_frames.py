"""What a peer may send to the control socket: every frame is answered, and nothing is done for a wrong one."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store import BadRequest, Message, ServedStore, open_store
from store.engine.serving.calls import Calls
from store.engine.serving.frames import SIZES, Frame, encode_frame, parse_frame
from store.engine.serving.place import connect_to
from store.engine.serving.server import ControlServer
from tests.support.served_calls import CALLS, GET, ROW
from tests.support.stores import SMALL

HURTFUL = st.sampled_from([
    0.5, 1e300, float("inf"), float("nan"), -1, 1 << 31, 1 << 63, 10**400, True, False, None, "", "x", "\ud800", "1",
    [], {}, [[]], [None] * 11, ["T"], {"tags": 5}, {"sql": None}, {"sql": "("}, [ROW, ROW],
])  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    root: Path = tmp_path_factory.mktemp("frames") / "s"
    services = ("schedule", "transactions", "statistics")
    with open_store(root, read_only=False, services=services, settings=SMALL) as store, ControlServer(store):
        yield store


def answer(served: ServedStore, head: bytes, attachment: bytes = b"") -> dict[str, Any]:
    """The head of the answer to bytes sent as a frame."""
    return exchange(served, SIZES.pack(len(head), len(attachment)) + head + attachment)


def exchange(served: ServedStore, frame: bytes) -> dict[str, Any]:
    connection = connect_to(served.layout.root / ".rmqctl" / "control.sock")
    assert connection is not None
    with connection, connection.makefile("rb") as stream:
        connection.sendall(frame)
        head_size, _ = SIZES.unpack(stream.read(SIZES.size))
        found: dict[str, Any] = json.loads(stream.read(head_size))
        return found


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({1: 0.5}, "queue_id is not a whole number: 0.5"),
        ({1: True}, "queue_id is not a whole number: True"),
        ({4: 0.5}, "flag is not a whole number: 0.5"),
        ({6: 0.1}, "born_timestamp_ms is not a whole number: 0.1"),
        ({2: -1, 3: 2}, "the size of a body is less than 0: -1"),
        ({2: 2, 3: -1}, "the size of properties is less than 0: -1"),
        ({0: "\ud800"}, r"a lone surrogate in topic: '\ud800'"),
        ({4: 1 << 31}, "flag does not fit in 32 bits: 2147483648"),
        ({7: 5}, "born_host is not text: 5"),
        ({7: "nowhere"}, "'nowhere' is not a host; write 127.0.0.1:10911 or [::1]:10911"),
        ({2: 9}, "the messages have 10 bytes, the attachment 2"),
    ],
)
def test_a_wrong_message_in_a_frame_is_refused_with_all_of_the_frame(
    changed: dict[int, object], reason: str, served: ServedStore
) -> None:
    wrong = [changed.get(place, value) for place, value in enumerate(ROW)]
    end, head = served.max_log_offset, {"call": "put", "messages": [ROW, wrong]}
    error = exchange(served, encode_frame(Frame(head, b"bb")))["error"]
    assert error["class"] == "BadRequest"
    assert error["reason"].removeprefix("the call put has wrong arguments: ") == reason
    assert served.max_log_offset == end


FILTER = "filter is neither null nor an object with one of tags, key and sql"
WRONG_FILTERS = ["tags", "", 5, 0, False, [], ["tags"], {}, {"tag": "a"}, {"tags": "a", "key": "b"}]
ROWS = "messages is not a list of rows of 11 values"


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"[" * (2 << 20), "the head of a frame is no JSON"),
        (b'{"call":' * 100_000, "the head of a frame is no JSON"),
        (b"{", "the head of a frame is no JSON"),
        (b"\xff", "the head of a frame is no JSON"),
        (b"[]", "the head of a frame is no JSON object"),
        (b"{}", "the control socket has no call 'None'"),
        (b'{"call":"answer"}', "the control socket has no call 'answer'"),
        *((json.dumps({**GET, "filter": wrong}).encode(), FILTER) for wrong in WRONG_FILTERS),
        (json.dumps({**GET, "filter": {"sql": 5}}).encode(), "sql is not text: 5"),
        *((json.dumps({"call": "put", "messages": wrong}).encode(), ROWS) for wrong in (None, 5, "T", {}, [5], [[]])),
        (b'{"call":"get"}', "missing a required argument: 'topic'"),
        (json.dumps({**GET, "hold_ms": 5}).encode(), "got an unexpected keyword argument 'hold_ms'"),
        (b'{"call":"stop","attachment":1}', "got an unexpected keyword argument 'attachment'"),
        (json.dumps(GET).replace('"offset": 0', '"offset": 1e999').encode(), "offset is not a whole number: inf"),
        (json.dumps(GET).replace('"offset": 0', '"offset": 1' + "0" * 400).encode(), "offset does not fit in 64 bits"),
    ],
)
def test_a_head_that_is_no_request_is_answered(head: bytes, reason: str, served: ServedStore) -> None:
    error = answer(served, head)["error"]
    assert error["class"] == "BadRequest"
    assert re.sub("^the call [a-z]+ has wrong arguments: ", "", error["reason"]).startswith(reason)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("queue_id", -(1 << 31), None),
        ("queue_id", (1 << 31) - 1, None),
        ("queue_id", 1 << 31, "queue_id does not fit in 32 bits: 2147483648"),
        ("queue_id", -(1 << 31) - 1, "queue_id does not fit in 32 bits: -2147483649"),
        ("time_ms", (1 << 63) - 1, None),
        ("time_ms", 1 << 63, "time_ms does not fit in 64 bits: 9223372036854775808"),
        ("topic", 5, "topic is not text: 5"),
    ],
)
def test_numbers_have_the_bits_of_the_brokers(
    name: str, value: object, reason: str | None, served: ServedStore
) -> None:
    head = {"call": "offset_by_time", "topic": "Nowhere", "queue_id": 3, "time_ms": 4, name: value}
    found = answer(served, json.dumps(head).encode())
    said = found.get("error", {}).get("reason", "")
    assert (found.get("offset"), said.removeprefix("the call offset_by_time has wrong arguments: ")) == (
        (0, "") if reason is None else (None, reason)
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_wrong_value_in_a_request_is_a_defect(served: ServedStore, data: st.DataObject) -> None:
    head = dict(data.draw(st.sampled_from(CALLS)))
    names = [name for name in head if name != "call"]
    name, value = data.draw(st.sampled_from(names)), data.draw(HURTFUL)
    if name == "messages" and data.draw(st.booleans()):
        row = list(ROW)
        row[data.draw(st.integers(0, len(row) - 1))] = value
        value = [row]
    head[name] = value
    # As the socket gives it: in process, because a frame takes a thread.
    frame = encode_frame(Frame(head, b"b"))
    head_size, _ = SIZES.unpack(frame[: SIZES.size])
    server = ControlServer(served)
    parts = frame[SIZES.size : SIZES.size + head_size], frame[SIZES.size + head_size :]
    found = server._answer(*parts).head
    assert "a defect" not in found.get("error", {}).get("reason", "")


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_bytes_that_are_no_frame_are_refused_as_such(data: bytes) -> None:
    with contextlib.suppress(BadRequest):
        parse_frame(data, b"")


def test_a_frame_of_one_wrong_message_leaves_the_next_put_its_place(served: ServedStore) -> None:
    calls = Calls(served, lambda: None)
    found = calls.answer(Frame({"call": "put", "messages": [ROW]}, b"b")).head["results"][0]
    again = calls.answer(Frame({"call": "put", "messages": [ROW]}, b"b")).head["results"][0]
    assert again[3] == found[3] + 1
    assert served.put(Message("T", b"x")).queue_offset == again[3] + 1
