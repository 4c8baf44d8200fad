"""Reading on over calls: what is found, where it ends, and which status is told."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from store import GetStatus, Message, MessageStore, open_store
from store.errors import BadRequest, StoreClosed
from store.formats.message import INNER_BATCH, decode_record, encode_record
from store.formats.run import Run
from store.reading import KeyExpression
from store.reading.filter import TagExpression
from store.reading.messages import MessageIterator
from store.structures.get_result import GetResult
from tests.support.stores import SMALL, make_store


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 messages in three queues; a queue file holds twenty units."""
    return make_store(tmp_path_factory.mktemp("read") / "store", 300)


@pytest.fixture
def store(root: Path) -> MessageStore:
    return open_store(root)


def test_it_reads_on_over_queue_files_and_the_limits_of_a_call(store: MessageStore) -> None:
    reader = store.messages("T", 1)
    assert [message.queue_offset for message in reader] == list(range(100))
    assert (reader.status, reader.next_offset, reader.found_count) == (GetStatus.FOUND, 100, 100)


CALLS: dict[str, tuple[Any, ...]] = {
    "get": ("T", 0, 0), "query": ("T", "k"), "lookup": (0,), "record_start": (0,), "is_in_blank": (0,),
    "offset_by_time": ("T", 0, 0), "earliest_time": ("T", 0), "min_offset": ("T", 0), "max_offset": ("T", 0),
    "queues": (), "topics": (),
    "queue_ids": ("T",), "delays": (0,), "timers": (0,), "locate": (0,), "refresh": (),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_closed_store_is_not_read(name: str, root: Path) -> None:
    store = open_store(root)
    store.close()
    with pytest.raises(StoreClosed, match="the store is closed"):
        getattr(store, name)(*CALLS[name])


@pytest.mark.parametrize("name", ["min_log_offset", "max_log_offset"])
def test_a_closed_store_has_no_ends(name: str, root: Path) -> None:
    store = open_store(root)
    store.close()
    with pytest.raises(StoreClosed, match="the store is closed"):
        getattr(store, name)


@pytest.mark.parametrize("topic", [None, 5, b"T"])
@pytest.mark.parametrize("name", ["offset_by_time", "earliest_time", "min_offset", "max_offset"])
def test_a_question_about_a_queue_names_its_topic(name: str, topic: object, store: MessageStore) -> None:
    with pytest.raises(BadRequest, match="topic is not text"):
        getattr(store, name)(topic, *CALLS[name][1:])


@pytest.mark.parametrize(("before", "calls"), [(0, 1), (1, 3)])
def test_an_offset_below_the_first_call_ends_it_and_later_messages_have_expired_meanwhile(
    before: int, calls: int
) -> None:
    answers = [GetResult(GetStatus.OFFSET_FOUND_NULL, 3, 0, 9)] * before
    answers += [GetResult(GetStatus.OFFSET_TOO_SMALL, 5, 5, 9), GetResult(GetStatus.OFFSET_OVERFLOW_ONE, 9, 5, 9)]
    asked: list[int] = []

    def call(offset: int, count: int) -> GetResult:
        asked.append(offset)
        return answers[len(asked) - 1]

    messages = MessageIterator(call, 0)
    assert (messages.min_offset, messages.max_offset) == (0, 0)
    assert list(messages) == []
    assert asked == [0, 3, 5][:calls]
    assert messages.status is GetStatus.OFFSET_TOO_SMALL


@pytest.mark.parametrize(("limit", "asked"), [(None, [32, 32, 32, 32, 32]), (33, [33, 13]), (20, [20])])
def test_a_call_asks_for_32_messages_without_a_limit(limit: int | None, asked: list[int], store: MessageStore) -> None:
    calls = list[int]()

    def call(offset: int, count: int) -> GetResult:
        calls.append(count)
        return store.get("T", 0, offset, min(count, 20))

    list(MessageIterator(call, 0, limit))
    assert calls[: len(asked)] == asked


STATUSES = [
    (GetStatus.FOUND, True, True), (GetStatus.NO_MATCHED_MESSAGE, True, True),
    (GetStatus.MESSAGE_WAS_REMOVING, True, True), (GetStatus.OFFSET_FOUND_NULL, True, True),
    (GetStatus.OFFSET_TOO_SMALL, False, True), (GetStatus.OFFSET_OVERFLOW_ONE, False, False),
    (GetStatus.OFFSET_OVERFLOW_BADLY, False, False), (GetStatus.NO_MESSAGE_IN_QUEUE, False, False),
]  # fmt: skip


@pytest.mark.parametrize(("status", "at_first", "later"), STATUSES)
@pytest.mark.parametrize("calls_before", [0, 1])
def test_reading_goes_on_after_a_hole_and_after_messages_that_expired_meanwhile(
    status: GetStatus, at_first: bool, later: bool, calls_before: int
) -> None:
    calls = list[int]()

    def call(offset: int, count: int) -> GetResult:
        calls.append(offset)
        now = GetStatus.FOUND if len(calls) <= calls_before else status
        return GetResult(now if len(calls) <= calls_before + 1 else GetStatus.NO_MESSAGE_IN_QUEUE, offset + 1, 0, 9)

    list(MessageIterator(call, 0))
    goes_on = later if calls_before else at_first
    assert calls == list(range(calls_before + 1 + goes_on))


def test_a_call_that_gets_no_further_is_the_last_one() -> None:
    answers = iter([GetResult(GetStatus.NO_MATCHED_MESSAGE, 6, 0, 9), GetResult(GetStatus.NO_MATCHED_MESSAGE, 6, 0, 9)])
    reader = MessageIterator(lambda offset, count: next(answers), 5)
    assert (list(reader), reader.next_offset, list(answers)) == ([], 6, [])


@pytest.mark.parametrize(("one_call", "offsets"), [(False, [51, 52]), (True, [50, 51, 52])])
def test_messages_inside_a_record_come_from_the_wanted_offset_on(one_call: bool, offsets: list[int]) -> None:
    inner = struct.pack(">iiiii1sh", 23, 0, 0, 0, 1, b"x", 0)
    record = decode_record(encode_record(
        Message("T", inner * 3, properties=b"INNER_BASE\x0150\x02INNER_NUM\x013"), topic=b"T", sys_flag=INNER_BATCH,
        queue_offset=50, log_offset=0, store_timestamp_ms=1,
    ))  # fmt: skip
    answer = GetResult(GetStatus.FOUND, 53, 50, 53, messages=[record])
    ends = GetResult(GetStatus.OFFSET_OVERFLOW_ONE, 53, 50, 53)
    reader = MessageIterator(lambda offset, count: answer if offset < 53 else ends, 51, one_call=one_call)
    assert [message.queue_offset for message in reader] == offsets


def test_it_stops_at_max_count_and_goes_on_from_there(store: MessageStore) -> None:
    reader = store.messages("T", 0, start=10, max_count=5)
    assert [message.queue_offset for message in reader] == [10, 11, 12, 13, 14]
    reader.max_count = 7
    assert [message.queue_offset for message in reader] == [15, 16]


@pytest.mark.parametrize(
    ("start", "end", "key", "offsets"),
    [
        (0, 3, None, [0, 1, 2]),
        (18, 22, None, [18, 19, 20, 21]),
        (0, 3, "k6", [2]),
        (0, 2, "k6", []),
        (98, 101, None, [98, 99]),
        (7, 7, None, []),
        (8, 7, None, []),
        (0, 0, None, []),
    ],
)
def test_it_ends_before_a_queue_offset(
    start: int, end: int, key: str | None, offsets: list[int], store: MessageStore
) -> None:
    one, other = (
        store.messages("T", 0, start, end=end, message_filter=KeyExpression(key) if key else None) for _ in range(2)
    )
    assert [message.queue_offset for message in one] == offsets
    assert one.next_offset == max(start, min(end, 100))
    assert sum(piece.count if isinstance(piece, Run) else 1 for piece in other.runs(50)) == len(offsets)


@pytest.mark.parametrize("most", [1, 2, 20, 21, 22, 33])
def test_runs_give_as_many_messages_as_are_wanted(most: int, store: MessageStore) -> None:
    reader = store.messages("T", 0, max_count=most)
    assert sum(piece.count if isinstance(piece, Run) else 1 for piece in reader.runs(10)) == most


@pytest.mark.parametrize("start", [None, 0, 7])
def test_a_topic_without_queues_is_refused_by_name(start: int | None, store: MessageStore) -> None:
    with pytest.raises(BadRequest, match="no topic is called 'None'; topics") as caught:
        store.messages("None", 0, start)
    assert caught.value.code == "unknown-topic"


def test_a_queue_that_its_topic_lacks_and_a_topic_that_may_come_are_empty(store: MessageStore) -> None:
    for reader in (store.messages("T", 7), store.messages("None", 0, must_exist=False)):
        assert list(reader) == []
        assert (reader.status, reader.next_offset) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0)


def test_one_call_has_the_limits_of_a_broker_call(store: MessageStore) -> None:
    assert [message.queue_offset for message in store.messages("T", 0, start=15, one_call=True)] == [15, 16, 17, 18, 19]


@pytest.mark.parametrize(
    ("topic", "start", "tags", "status", "next_offset"),
    [
        ("T", 0, "none", GetStatus.NO_MATCHED_MESSAGE, 100),
        ("T", 100, None, GetStatus.OFFSET_OVERFLOW_ONE, 100),
        ("T", 200, None, GetStatus.OFFSET_OVERFLOW_BADLY, 100),
    ],
)
def test_without_a_message_the_status_says_why(
    store: MessageStore, topic: str, start: int, tags: str | None, status: GetStatus, next_offset: int
) -> None:
    reader = store.messages(topic, 0, start, message_filter=TagExpression(tags) if tags else None)
    assert list(reader) == []
    assert (reader.status, reader.next_offset) == (status, next_offset)


def test_a_body_without_its_crc_is_handed_out_and_counted_or_left_out(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 5, queues=1)
    log = root / "commitlog" / f"{0:020}"
    data = log.read_bytes()
    log.write_bytes(data.replace(b"message 2 ", b"massage 2 ", 1))
    with open_store(root, settings={"checkCRCOnRecover": "false"}) as store:
        for only_sound, offsets in ((False, [0, 1, 2, 3, 4]), (True, [0, 1, 3, 4])):
            reader = store.messages("T", 0, only_sound=only_sound)
            assert [message.queue_offset for message in reader] == offsets
            assert reader.unsound_count == 1


@pytest.mark.parametrize(
    "values",
    [{"topic": "\ud800"}, {"body": "\ud800"}, {"tags": "\ud800"}, {"keys": ["a\x01b"]}, {"properties": {"a\x02": "b"}}],
)
def test_a_message_that_no_record_can_hold_is_a_bad_request(values: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        Message.of(**{"topic": "T", **values})  # type: ignore[arg-type]


def test_a_message_of_names_is_read_back_under_those_names(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", settings=SMALL, read_only=False) as store:
        made = Message.of("T", "héllo", keys=["a", "b"], tags="t", uniq_key="U", properties={"x": "y"}, queue_id=2)
        assert store.put(made).is_ok
        store.catch_up()
        (found,) = store.messages("T", 2)
    assert (found.body.decode(), found.keys, found.tags, found.uniq_key) == ("héllo", ["a", "b"], "t", "U")
    assert found.properties["x"] == "y"
    assert found.read_properties().is_whole
