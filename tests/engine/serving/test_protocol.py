"""One protocol: a store that is opened here and one that another process serves have the same methods and answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from store import (
    LiveStore,
    Message,
    MessageColumns,
    MessageStore,
    ReadableStore,
    ServedStore,
    StoreClient,
    WritableStore,
    open_store,
)
from store.engine.serving import ControlServer
from store.errors import StoreClosed
from store.reading.filter import TagExpression
from tests.support.stores import SMALL, text_message


def now_ms() -> int:
    return 1_700_000_000_000


PUTS: dict[str, Callable[[LiveStore], object]] = {
    "put": lambda store: store.put(text_message(0)),
    "put_all": lambda store: store.put_all([text_message(number) for number in (1, 2, 3)]),
    "put_replayed": lambda store: store.put_replayed(text_message(4), store_timestamp_ms=now_ms() + 5),
    "flush": lambda store: store.flush(),
}
READS: dict[str, Callable[[ReadableStore], object]] = {
    "topics": lambda store: store.topics(),
    "queue_ids": lambda store: (store.queue_ids("T"), store.queue_ids("None")),
    "min_offset": lambda store: (store.min_offset("T", 0), store.min_offset("None", 0)),
    "max_offset": lambda store: (store.max_offset("T", 0), store.max_offset("T", 9)),
    "offset_by_time": lambda store: [store.offset_by_time("T", 0, now_ms() + ms) for ms in (-1, 0, 5, 6)],
    "get": lambda store: [store.get("T", 0, offset, 2, TagExpression("tag1 || tag2")) for offset in (0, 4, 5, 9)],
    "messages": lambda store: [list(store.messages("T", 0)), list(store.messages("None", 0, must_exist=False))],
    "lookup": lambda store: (store.lookup(0), store.lookup(1 << 40)),
    "query": lambda store: (store.query("T", "k1"), store.query("T", "none", verify=False)),
}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[LiveStore]]:
    """Three stores with nothing in them: opened for writing, with services, and asked through its control socket."""
    with ExitStack() as open_until_end:
        opened: list[LiveStore] = []
        for name, services in (("written", None), ("with services", ()), ("served", ())):
            root, options = tmp_path / name, {"settings": SMALL, "clock": now_ms}
            if services is None:
                opened.append(open_until_end.enter_context(open_store(root, read_only=False, **options)))
                continue
            owner = open_until_end.enter_context(open_store(root, read_only=False, services=services, **options))
            if name == "served":
                open_until_end.enter_context(ControlServer(owner))
                opened.append(open_until_end.enter_context(StoreClient.connect(root)))
            else:
                opened.append(owner)
        yield opened


def test_the_table_has_each_method_of_the_protocols() -> None:
    methods = {name for name in dir(LiveStore) if not name.startswith("_")}
    assert methods == {*PUTS, *READS, "close"}


@pytest.mark.parametrize("kind", [WritableStore, ServedStore, StoreClient])
def test_a_store_that_takes_messages_has_the_protocols_signatures(kind: type[LiveStore]) -> None:
    assert issubclass(kind, LiveStore)
    for name in (*PUTS, *READS):
        asked = inspect.signature(getattr(LiveStore, name)).parameters
        given = inspect.signature(getattr(kind, name)).parameters
        assert {one: (given[one].kind, given[one].default) for one in asked} == {
            one: (asked[one].kind, asked[one].default) for one in asked
        }


def test_a_store_that_is_opened_for_reading_is_readable_and_takes_no_message() -> None:
    assert issubclass(MessageStore, ReadableStore)
    assert not issubclass(MessageStore, LiveStore)
    assert not hasattr(MessageStore, "put")


def test_each_kind_of_store_answers_alike(stores: list[LiveStore], tmp_path: Path) -> None:
    for name, call in (PUTS | READS).items():
        answers = [call(store) for store in stores]
        assert answers[1:] == answers[:-1], name
    messages, end = READS["messages"](stores[0]), stores[0].flush()
    stores[0].close()
    with open_store(tmp_path / "written") as read_only:
        assert (READS["messages"](read_only), read_only.max_log_offset) == (messages, end)


def test_a_closed_store_refuses_a_flush(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", read_only=False)
    store.close()
    with pytest.raises(StoreClosed):
        store.flush()


NO_FLAG = "{} is neither true nor false: {}"
NO_MESSAGE = "message is not a Message, but {}"
WRONG_KINDS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda store: store.put(None), NO_MESSAGE.format("NoneType")),
    (lambda store: store.put("body"), NO_MESSAGE.format("str")),
    (lambda store: store.put_all(["a"]), NO_MESSAGE.format("str")),
    (lambda store: store.put_replayed({}), NO_MESSAGE.format("dict")),
    (lambda store: store.put_replayed(Message.of("T"), as_stored="no"), NO_FLAG.format("as_stored", "'no'")),
    (lambda store: store.query("T", "k", verify="no"), NO_FLAG.format("verify", "'no'")),
    (lambda store: store.query("T", "k", by_tags=0), NO_FLAG.format("by_tags", 0)),
    (lambda store: store.query("T", "k", in_database=None), NO_FLAG.format("in_database", None)),
]


@pytest.mark.parametrize(("call", "reason"), WRONG_KINDS)
def test_a_value_of_another_kind_is_a_type_error_with_a_sentence(
    call: Callable[[Any], Any], reason: str, stores: list[LiveStore]
) -> None:
    for store in stores:
        with pytest.raises(TypeError) as refused:
            call(store)
        assert (str(refused.value), store.flush()) == (reason, 0)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda store: store.put_many(None), "messages is not a Sequence, but NoneType"),
        (lambda store: store.put_many("abc"), "messages is not a Sequence, but str"),
        (lambda store: store.put_many([Message.of("T"), None]), NO_MESSAGE.format("NoneType")),
        (lambda store: store.put_batch(None), "messages is not a Sequence, but NoneType"),
        (lambda store: store.put_batch("abc"), "messages is not a Sequence, but str"),
        (lambda store: store.put_many_replayed([]), "messages is not a MessageColumns, but list"),
        (lambda store: store.put_many_replayed(MessageColumns.of([]), as_stored=1), NO_FLAG.format("as_stored", 1)),
        (lambda store: store.get("T", 0, 0, 1, "a"), "message_filter is not a filter, but str"),
    ],
)  # fmt: skip
def test_so_is_one_of_a_store_of_this_process(call: Callable[[Any], Any], reason: str, stores: list[LiveStore]) -> None:
    for store in stores[:2]:
        with pytest.raises(TypeError) as refused:
            call(store)
        assert (str(refused.value), store.flush()) == (reason, 0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"read_only": "no"}, "read_only is neither true nor false: 'no'"),
        ({"read_only": 0}, "read_only is neither true nor false: 0"),
        ({"read_only": False, "recover": "no"}, "recover is neither true nor false: 'no'"),
        ({"read_only": False, "force_empty_log": 1}, "force_empty_log is neither true nor false: 1"),
        ({"as_is": "no"}, "as_is is neither true nor false: 'no'"),
        ({"settings": ["flushDiskType"]}, "settings is not a Mapping, but list"),
        ({"settings": "flushDiskType=SYNC_FLUSH"}, "settings is not a Mapping, but str"),
        ({"read_only": False, "services": "schedule"}, "services is not a collection of names, but str"),
        ({"read_only": False, "listen": 10912}, "listen is not text: 10912"),
        ({"read_only": False, "master": 10912}, "master is not text: 10912"),
        ({"compat": 4.9}, "compat is not text: 4.9"),
    ],
)
def test_so_is_one_of_the_opening(options: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError) as refused:
        open_store(tmp_path / "s", **options)
    assert (str(refused.value), (tmp_path / "s").exists()) == (reason, False)
