"""A query by key: up to three rounds through the index, until a message has the key indeed.

Source: DefaultMessageStore.queryMessage (4.9.8).
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.errors import DamagedRecord
from store.reading.message_store import END_OF_TIME_MS, MessageStore
from store.structures.index.index_service import QueryOffsets

END = 1000


def message(log_offset: int, key: str = "k", topic: str = "T", uniq_key: str = "") -> Any:
    """Stored at as many milliseconds as its log offset."""
    return SimpleNamespace(
        log_offset=log_offset, topic=topic, keys=["other", key], uniq_key=uniq_key, store_timestamp_ms=log_offset
    )


class Log:
    """Messages by log offset; None for a record that is damaged."""

    min_offset, max_offset = 0, END

    def __init__(self, messages: dict[int, Any]) -> None:
        self.messages = messages

    def lookup(self, log_offset: int, size: int | None) -> Any:
        found = self.messages.get(log_offset)
        if found is None:
            raise DamagedRecord("no record", file=Path("log"))
        return found


class Index:
    """Answers one call after the other, then nothing; notes what it was asked."""

    def __init__(self, *answers: list[int]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Any, ...]] = []

    def query(self, *asked: Any) -> QueryOffsets:
        self.asked.append(asked)
        offsets = self.answers[len(self.asked) - 1] if len(self.asked) <= len(self.answers) else []
        return QueryOffsets(offsets, len(self.asked), 10 * len(self.asked), [Path("index") / str(len(self.asked))])


def store_of(index: Index, *messages: Any) -> MessageStore:
    log = Log({one.log_offset: one for one in messages})
    config = SimpleNamespace(max_msgs_num_batch=64)
    opened: Any = SimpleNamespace(layout=None, config=config, line=None, log=log, index=index)
    return MessageStore(opened)


def found(store: MessageStore, **options: Any) -> list[int]:
    return [one.log_offset for one in store.query("T", "k", **options).messages]


def test_messages_come_oldest_first_after_one_round() -> None:
    index = Index([30, 20, 10], [5])
    store = store_of(index, *map(message, (5, 10, 20, 30)))
    assert found(store) == [10, 20, 30]
    assert index.asked == [("T", "k", 32, 0, END_OF_TIME_MS)]


def test_limits_and_times_are_handed_to_the_index() -> None:
    index = Index([10])
    assert found(store_of(index, message(10)), max_count=3, begin_ms=4, end_ms=99) == [10]
    assert index.asked == [("T", "k", 3, 4, 99)]


def test_no_entry_ends_the_query_and_the_files_and_the_reach_before_stay() -> None:
    index = Index([30, 20], [])
    result = store_of(index, message(20, "x"), message(30, "x")).query("T", "k")
    assert (result.messages, result.index_files) == ([], ["2"])
    assert (result.last_update_timestamp_ms, result.last_update_log_offset) == (1, 10)
    assert len(index.asked) == 2


@pytest.mark.parametrize(
    "other",
    [{"key": "x"}, {"topic": "S"}, {"topic": "U"}, {"key": "x", "uniq_key": "a"}, {"key": "x", "uniq_key": "z"}],
)
def test_of_a_hash_that_others_share_only_the_key_counts(other: dict[str, str]) -> None:
    store = store_of(Index([30, 20, 10]), message(10, **other), message(20), message(30, "x", uniq_key="k"))
    assert found(store) == [20, 30]


def test_without_verifying_the_broker_s_own_answer_is_given() -> None:
    index = Index([30, 20], [10])
    assert found(store_of(index, message(10), message(20, "x"), message(30, "x")), verify=False) == [20, 30]
    assert len(index.asked) == 1


def test_where_only_others_have_the_hash_the_next_round_looks_before_them() -> None:
    index = Index([900, 800], [700, 600], [500, 400], [300])
    others = [message(n, "x") for n in (400, 500, 600, 700, 800, 900)]
    assert found(store_of(index, *others, message(300))) == []
    assert [asked[4] for asked in index.asked] == [END_OF_TIME_MS, 800, 600]


def test_a_message_of_the_third_round_is_found() -> None:
    index = Index([900], [700], [500])
    assert found(store_of(index, message(900, "x"), message(700, "x"), message(500))) == [500]


@pytest.mark.parametrize(("begin_ms", "rounds"), [(800, 2), (801, 1)])
def test_no_round_follows_where_the_oldest_is_before_the_time_asked_for(begin_ms: int, rounds: int) -> None:
    index = Index([900, 800], [], [])
    found(store_of(index, message(800, "x"), message(900, "x")), begin_ms=begin_ms)
    assert len(index.asked) == rounds


def test_entries_that_lead_nowhere_are_passed_over() -> None:
    index = Index([END + 1, END, END - 1, 50, 0, -1])
    store = store_of(index, message(0), message(END - 1), message(END), message(END + 1), message(-1))
    assert found(store) == [0, END - 1]
