"""Reading on over calls: what is found, where it ends, and which status is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import GetStatus, Message, MessageStore, open_store
from store.errors import BadRequest
from store.reading.filter import TagExpression
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


def test_it_stops_at_max_count_and_goes_on_from_there(store: MessageStore) -> None:
    reader = store.messages("T", 0, start=10, max_count=5)
    assert [message.queue_offset for message in reader] == [10, 11, 12, 13, 14]
    reader.max_count = 7
    assert [message.queue_offset for message in reader] == [15, 16]


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
