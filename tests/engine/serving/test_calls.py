"""What each call of the control socket asks of the store: its arguments, their ranges, and those that are absent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from store import Message
from store.engine.serving.calls import Calls
from store.engine.serving.frames import Frame, pack_messages
from store.errors import BadRequest
from store.formats.message import Host
from store.structures.commitlog.put_result import PutResult, PutStatus

PUT = PutResult(PutStatus.PUT_OK, 7, 50, 3, 9)
ROW = ("PUT_OK", 7, 50, 3, 9, "")


class Store:
    """Notes what it is asked, and gives an answer by name."""

    def __init__(self, asked: list[tuple[Any, ...]], **answers: Any) -> None:
        self._asked, self._answers = asked, answers

    def __getattr__(self, name: str) -> Any:
        if isinstance(self._answers.get(name), Store):
            return self._answers[name]
        return lambda *given, **named: self._asked.append((name, *given, named)) or self._answers.get(name)


def asked_by(head: dict[str, Any], attachment: bytes = b"", **answers: Any) -> tuple[list[tuple[Any, ...]], Any]:
    """Give what a call asks of the store, and its answer's head."""
    asked: list[tuple[Any, ...]] = []
    parts = {name: Store(asked, **answers) for name in ("transactions", "filters")}
    calls = Calls(Store(asked, **parts, **answers), lambda: asked.append(("stop", {})))  # type: ignore[arg-type]
    return asked, calls.answer(Frame(head, attachment)).head


@pytest.mark.parametrize(
    ("flag", "is_answer"), [({}, False), ({"is_answer": False}, False), ({"is_answer": True}, True)]
)
@pytest.mark.parametrize("call", ["commit", "rollback"])
def test_an_end_is_an_answer_where_the_caller_says_so(call: str, flag: dict[str, bool], is_answer: bool) -> None:
    head = {"call": call, "half_log_offset": 5, "producer_group": "PG", **flag}
    asked, answer = asked_by(head, commit=PUT)
    assert asked == [(call, 5, "PG", {"is_answer": is_answer})]
    assert answer == ({"result": ROW} if call == "commit" else {})


@pytest.mark.parametrize("named", [{}, {"by_tags": True}, {"in_database": True}])
def test_a_query_has_the_options_that_the_caller_gives(named: dict[str, bool]) -> None:
    head = {"call": "query", "topic": "T", "key": "k", "max_count": 5, "begin_ms": 6, "end_ms": 7, "verify": True}
    result = SimpleNamespace(
        index_files=1, last_update_timestamp_ms=2, last_update_log_offset=3, damaged=[], is_limited=True,
        messages=[SimpleNamespace(raw=b"abc"), SimpleNamespace(raw=b"de")],
    )  # fmt: skip
    asked, answer = asked_by(head | named, query=result)
    assert asked == [("query", "T", "k", {"max_count": 5, "begin_ms": 6, "end_ms": 7, "verify": True} | named)]
    assert answer == {
        "index_files": 1, "last_update_timestamp_ms": 2, "last_update_log_offset": 3, "damaged": [], "sizes": [3, 2],
        "is_limited": True,
    }  # fmt: skip


def message(host: str = "10.0.0.1:1") -> Message:
    return Message("T", b"body", born_timestamp_ms=4, born_host=Host.parse(host))


@pytest.mark.parametrize(
    ("messages", "options", "calls"),
    [
        ([message()], {}, ["put"]),
        ([message()], {"is_replayed": False}, ["put"]),
        ([message(), message()], {}, ["put_many"]),
        ([message(), message("10.0.0.2:1")], {}, ["put", "put"]),
        ([message(), message()], {"is_replayed": True, "as_stored": False}, ["put_replayed", "put_replayed"]),
    ],
)
def test_messages_of_one_host_are_put_at_once(
    messages: list[Message], options: dict[str, bool], calls: list[str]
) -> None:
    rows, attachment = pack_messages(messages)
    columns = {name: [7] * 2 for name in ("log_offsets", "sizes", "queue_offsets", "store_timestamps_ms")}
    many = SimpleNamespace(
        status_of=lambda row: PutStatus.PUT_OK, refused={1: SimpleNamespace(reason="full")}, **columns
    )
    asked, answer = asked_by(
        {"call": "put", "messages": rows, **options}, attachment, put=PUT, put_replayed=PUT, put_many=many
    )
    assert [one[0] for one in asked] == calls
    if calls == ["put_many"]:
        assert asked[0][1] == messages
        assert answer == {"results": [["PUT_OK", 7, 7, 7, 7, ""], ["PUT_OK", 7, 7, 7, 7, "full"]]}
    else:
        assert [one[1] for one in asked] == messages
        assert answer == {"results": [ROW] * len(messages)}


def test_the_store_is_asked_with_the_arguments_as_they_are() -> None:
    head = {"call": "offset_by_time", "time_ms": 4, "queue_id": 3, "topic": "T"}
    assert asked_by(head, offset_by_time=9) == ([("offset_by_time", "T", 3, 4, {})], {"offset": 9})


@pytest.mark.parametrize(("timeout_ms", "held_ms"), [(0, 0), (60_000, 60_000), (60_001, 60_000)])
def test_a_get_is_held_for_a_minute_at_most(timeout_ms: int, held_ms: int) -> None:
    head = {"call": "wait", "topic": "T", "queue_id": 3, "offset": 4, "timeout_ms": timeout_ms}
    asked, answer = asked_by(head, wait_for_message=True)
    assert (asked, answer) == ([("wait_for_message", "T", 3, 4, held_ms, None, {})], {"has_come": True})


@pytest.mark.parametrize(
    ("version", "given"), [({}, None), ({"client_version": None}, None), ({"client_version": 0}, 0)]
)
def test_a_subscription_is_written_at_once(version: dict[str, int | None], given: int | None) -> None:
    head = {"call": "register", "group": "G", "topic": "T", "expression": "a > 5", **version}
    asked, answer = asked_by(head, register=True)
    assert (asked, answer) == ([("register", "G", "T", "a > 5", given, {}), ("persist", {})], {"is_taken": True})
    assert asked_by({"call": "unregister", "group": "G"}) == ([("unregister", "G", {}), ("persist", {})], {})


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ({"call": "none"}, "the control socket has no call 'none'"),
        ({"call": 5}, "the control socket has no call '5'"),
        ({}, "the control socket has no call 'None'"),
        ({"call": "x" * 50}, f"the control socket has no call '{'x' * 40}'"),
        ({"call": "lookup"}, "the call lookup has wrong arguments: missing a required argument: 'log_offset'"),
        ({"call": "stats", "ring": "year"}, "the call stats has wrong arguments: the ring is one of minute, hour, day"),
    ],
)
def test_an_unknown_call_and_wrong_arguments_are_refused(head: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest) as refused:
        asked_by(head)
    assert refused.value.reason == told
