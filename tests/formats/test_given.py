"""What comes from outside is refused by its field's name, at every door, before anything is done with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from store import BadRequest, Message, MessageColumns, WritableStore, open_store
from store.engine.serving import ControlServer, StoreClient
from store.errors import WrongKind, shown
from store.formats.given import check_flag, check_get, check_host, check_message, check_number, check_query
from store.formats.host import Host

LARGE, LARGEST = 1 << 31, 1 << 63
MESSAGE = Message("T", b"body")

WRONG_KINDS: list[tuple[str, Any]] = [
    ("topic", 5), ("topic", None), ("topic", b"T"), ("topic", ["T"]),
    *((name, value) for name in ("queue_id", "flag", "sys_flag", "reconsume_times", "prepared_transaction_offset")
      for value in (0.5, 1.0, "1", None, True, float("nan"), float("inf"))),
    ("born_timestamp_ms", 0.1), ("born_timestamp_ms", False), ("born_timestamp_ms", "0"),
    ("body", "text"), ("body", 3), ("body", [1]), ("body", memoryview(bytes(16)).cast("q")),
    ("properties", "K"), ("properties", {}), ("born_host", "127.0.0.1:1"), ("store_host", None),
    ("store_host", Host(b"abcd", "1")), # type: ignore[arg-type]
]  # fmt: skip
WRONG_VALUES: list[tuple[str, Any]] = [
    ("topic", "a\ud800"),
    *((name, value) for name in ("queue_id", "flag", "sys_flag", "reconsume_times")
      for value in (LARGE, -LARGE - 1, 1 << 70)),
    *((name, value) for name in ("born_timestamp_ms", "prepared_transaction_offset")
      for value in (LARGEST, -LARGEST - 1)),
    ("born_host", Host(b"abc", 1)), ("store_host", Host(b"abcd", LARGE)),
]  # fmt: skip

DOORS: dict[str, Callable[[WritableStore, Message], object]] = {
    "put": lambda store, message: store.put(message),
    "put of a known queue": lambda store, message: (store.put(MESSAGE), store.put(message)),
    "put_replayed": lambda store, message: store.put_replayed(message),
    "put_batch": lambda store, message: store.put_batch([message]),
    "put_many": lambda store, message: store.put_many(MessageColumns.of([message])),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("name", "value", "error"), [
    *((*one, TypeError) for one in WRONG_KINDS), *((*one, BadRequest) for one in WRONG_VALUES),
])  # fmt: skip
def test_a_value_that_no_record_can_hold_is_refused(
    door: str, name: str, value: object, error: type[Exception], shared: WritableStore
) -> None:
    size = shared.put(MESSAGE).size
    before, offset = shared.max_log_offset, shared.opened.log.queue_offset("T", 0)
    with pytest.raises(error, match=name):
        DOORS[door](shared, replace(MESSAGE, **{name: value}))  # type: ignore[arg-type]
    puts = 1 if "known" in door else 0
    assert shared.opened.log.queue_offset("T", 0) == offset + puts
    assert shared.max_log_offset == before + puts * size


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with open_store(tmp_path_factory.mktemp("door") / "s", read_only=False) as store:
        yield store


@pytest.mark.parametrize(("name", "value"), [
    ("queue_id", -LARGE), ("queue_id", LARGE - 1), ("flag", -LARGE), ("flag", LARGE - 1),
    ("born_timestamp_ms", -LARGEST), ("born_timestamp_ms", LARGEST - 1), ("body", bytearray(b"x")),
    ("body", memoryview(b"x")), ("topic", "Тема"),
])  # fmt: skip
def test_the_ends_of_a_field_are_taken(name: str, value: object, shared: WritableStore) -> None:
    result = shared.put(replace(MESSAGE, **{name: value}))  # type: ignore[arg-type]
    assert result.is_ok == ((name, value) != ("queue_id", -LARGE))
    assert ("the queue id is negative" in result.reason) == (not result.is_ok)


@pytest.mark.parametrize(("given", "reason"), [
    ({"keys": [5]}, "keys is not text: 5"), ({"keys": 5}, "keys is not a list of texts: 5"),
    ({"properties": ["a"]}, "properties is not a mapping, but list"), ({"tags": 5}, "property 'TAGS' is not text: 5"),
    *(({name: value}, f"property '{name.upper()}' is not text: {shown(value)}")
      for name in ("tags", "uniq_key") for value in (False, 0, 0.0, [], (), {}, b"")),
    *(({"keys": value}, f"keys is not a list of texts: {shown(value)}")
      for value in (None, False, b"", b"a", bytearray(), {}, {"a": 1})),
    *(({"delay_level": value}, f"delay_level is not a whole number: {shown(value)}") for value in (False, 0.0, None)),
])  # fmt: skip
def test_a_message_of_a_wrong_kind_is_refused_by_the_value_s_name(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRequest) as refused:
        Message.of("T", "x", **given)
    assert (str(refused.value), isinstance(refused.value, TypeError)) == (reason, True)


@pytest.mark.parametrize("given", [
    {"keys": [5]}, {"tags": 5}, {"uniq_key": b"u"}, {"delay_level": 0.5}, {"delay_level": True},
    {"properties": {"a": 1}}, {"properties": {1: "a"}}, {"queue_id": 0.5}, {"bogus": 1},
])  # fmt: skip
def test_a_message_is_not_made_of_a_wrong_kind(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Message.of("T", "x", **given)


def test_keys_as_one_text_are_that_text() -> None:
    assert Message.of("T", keys="order-1 order-2").properties == b"KEYS\x01order-1 order-2"


@pytest.mark.parametrize(("bits", "least", "taken", "refused"), [
    (32, None, [-LARGE, 0, LARGE - 1], [-LARGE - 1, LARGE]),
    (64, None, [-LARGEST, LARGEST - 1], [-LARGEST - 1, LARGEST, 10**9999]),
    (32, 1, [1], [0, -1]),
])  # fmt: skip
def test_a_number_is_taken_up_to_the_ends_of_its_field(
    bits: int, least: int | None, taken: list[int], refused: list[int]
) -> None:
    assert [check_number("n", value, bits, least) for value in taken] == taken
    for value in refused:
        with pytest.raises(BadRequest, match=r"^n "):
            check_number("n", value, bits, least)


def test_a_flag_is_true_or_false() -> None:
    assert check_flag("f", False) is False
    with pytest.raises(TypeError, match=r"^f is neither true nor false: 1"):
        check_flag("f", 1)


def test_a_client_refuses_a_wrong_message_as_the_store_does(tmp_path: Path) -> None:
    with (
        open_store(tmp_path / "s", read_only=False, services=[]) as store,
        ControlServer(store),
        StoreClient.connect(tmp_path / "s") as client,
    ):
        with pytest.raises(TypeError, match=r"queue_id is not a whole number: 0.5"):
            client.put(Message("T", b"", 0.5))  # type: ignore[arg-type]
        with pytest.raises(BadRequest, match="a lone surrogate in topic"):
            client.put(Message("\ud800"))
        assert client.put(MESSAGE).queue_offset == 0


READS: list[tuple[str, tuple[Any, ...], str]] = [
    ("get", (None, 0, 0), "topic is not text: None"),
    ("get", ("T", "0", 0), "queue_id is not a whole number: '0'"),
    ("get", ("T", 0, 0.5), "offset is not a whole number: 0.5"),
    ("get", ("T", 0, 0, "32"), "max_count is not a whole number: '32'"),
    ("get", ("\ud800", 0, 0), "a lone surrogate in topic: '\\ud800'; give text that is UTF-8"),
    ("get", ("T", LARGE, 0), "queue_id does not fit in 32 bits: 2147483648"),
    ("get", ("T", 0, LARGEST), "offset does not fit in 64 bits: 9223372036854775808"),
    ("get", ("T", 0, 0, 0), "max_count is less than 1: 0"),
    ("query", (None, "k"), "topic is not text: None"),
    ("query", ("T", b"k"), "key is not text: b'k'"),
    ("query", ("T", "k", 1.5), "max_count is not a whole number: 1.5"),
    ("query", ("T", "k", 1, None), "begin_ms is not a whole number: None"),
    ("query", ("T", "k", 1, 0, "now"), "end_ms is not a whole number: 'now'"),
    ("lookup", ("0",), "log_offset is not a whole number: '0'"),
    ("queue_ids", (5,), "topic is not text: 5"),
    ("min_offset", ("T", None), "queue_id is not a whole number: None"),
    ("max_offset", ("T", True), "queue_id is not a whole number: True"),
    ("offset_by_time", ("T", 0, "now"), "time_ms is not a whole number: 'now'"),
    ("messages", (None, 0), "topic is not text: None"),
]


@pytest.mark.parametrize("door", ["embedded", "read-only", "served"])
def test_a_read_of_a_wrong_value_is_refused_by_its_fields_name(door: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "s", read_only=False, services=[]) as served, ControlServer(served):
        served.put(MESSAGE)
        served.catch_up()
        store = {
            "embedded": lambda: served,
            "read-only": lambda: open_store(tmp_path / "s"),
            "served": lambda: StoreClient.connect(tmp_path / "s"),
        }[door]()
        with store:
            for method, given, reason in READS:
                with pytest.raises(BadRequest) as refused:
                    list(getattr(store, method)(*given))
                assert str(refused.value) == reason, (method, given)
                assert isinstance(refused.value, TypeError) == (" is not " in reason), (method, given)
            assert store.get("T", -1, 0).status.name == "NO_MESSAGE_IN_QUEUE"
            assert store.get("T", 0, -1).status.name == "OFFSET_TOO_SMALL"


PORT = "the port of born_host"


@pytest.mark.parametrize("size", [3, 4, 5, 15, 16, 17])
def test_an_address_has_4_or_16_bytes(size: int) -> None:
    if size in (4, 16):
        check_host("born_host", (bytes(size), 0))
        return
    with pytest.raises(BadRequest, match=f"born_host has an address of {size} bytes, not 4 or 16"):
        check_host("born_host", (bytes(size), 0))


@pytest.mark.parametrize("port", [-LARGE, -1, 0, 65536, LARGE - 1])
def test_a_port_has_32_bits(port: int) -> None:
    check_host("born_host", (bytes(4), port))


@pytest.mark.parametrize(
    ("port", "reason"),
    [
        (LARGE, f"{PORT} does not fit in 32 bits: {LARGE}"),
        (-LARGE - 1, f"{PORT} does not fit in 32 bits: {-LARGE - 1}"),
        (True, f"{PORT} is not a whole number: True"), (0.5, f"{PORT} is not a whole number: 0.5"),
        ("1", f"{PORT} is not a whole number: '1'"),
    ],
)  # fmt: skip
def test_another_port_is_refused_by_its_name(port: object, reason: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_host("born_host", (bytes(4), port))
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 38, "'" + "x" * 38 + "'"), ("x" * 39, "'" + "x" * 39 + "…"),
        ((1 << 128) - 1, f"{(1 << 128) - 1}"), (1 << 128, "a number of 129 bits"),
    ],
)  # fmt: skip
def test_a_long_value_is_shown_in_short(value: object, shown: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_number("n", value)
    text = str(refused.value).partition(": ")[2]
    assert text == shown


@pytest.mark.parametrize("name", ["offset", "max_count"])
@pytest.mark.parametrize("value", [LARGEST - 1, LARGEST])
def test_a_get_takes_numbers_of_64_bits(name: str, value: int) -> None:
    given: dict[str, Any] = {"topic": "T", "queue_id": 0, "offset": 0, "max_count": 1, name: value}
    if value < LARGEST:
        check_get(**given)
        return
    with pytest.raises(BadRequest, match=f"{name} does not fit in 64 bits"):
        check_get(**given)


@pytest.mark.parametrize(("name", "value"), [
    ("max_count", 0), *((name, -LARGEST) for name in ("begin_ms", "end_ms")),
    *((name, value) for name in ("max_count", "begin_ms", "end_ms") for value in (LARGEST - 1, LARGEST)),
])  # fmt: skip
def test_a_query_takes_numbers_of_64_bits(name: str, value: int) -> None:
    given: dict[str, Any] = {"topic": "T", "key": "k", "max_count": 1, "begin_ms": 0, "end_ms": 0, name: value}
    if value < LARGEST:
        check_query(**given)
        return
    with pytest.raises(BadRequest, match=f"{name} does not fit in 64 bits"):
        check_query(**given)


@pytest.mark.parametrize(("name", "value", "error", "reason"), [
    ("topic", 5, WrongKind, "topic is not text: 5"),
    ("queue_id", True, WrongKind, "queue_id is not a whole number: True"),
    ("queue_id", LARGE, BadRequest, f"queue_id does not fit in 32 bits: {LARGE}"),
    ("flag", 1 << 200, BadRequest, "flag does not fit in 32 bits: a number of 201 bits"),
    ("flag", (1 << 128) - 1, BadRequest, "flag does not fit in 32 bits: 340282366920938463463374607431768211455"),
    ("sys_flag", -LARGE - 1, BadRequest, f"sys_flag does not fit in 32 bits: {-LARGE - 1}"),
    ("born_timestamp_ms", LARGEST, BadRequest, f"born_timestamp_ms does not fit in 64 bits: {LARGEST}"),
    ("prepared_transaction_offset", 0.5, WrongKind, "prepared_transaction_offset is not a whole number: 0.5"),
    ("born_timestamp_ms", "0", WrongKind, "born_timestamp_ms is not a whole number: '0'"),
    ("body", "x" * 3, WrongKind, "body is not bytes, but str"),
    ("properties", "x", WrongKind, "properties is not bytes, but str"),
    ("topic", ["x" * 60], WrongKind, f"topic is not text: ['{'x' * 38}…"),
    ("topic", "x", None, ""), ("queue_id", LARGE - 1, None, ""), ("flag", -LARGE, None, ""),
])  # fmt: skip
def test_a_message_is_checked_field_by_field(name: str, value: Any, error: type[Exception] | None, reason: str) -> None:
    message = replace(MESSAGE, **{name: value})
    if error is None:
        check_message(message)
        return
    with pytest.raises(error) as refused:
        check_message(message)
    assert str(refused.value) == reason


@pytest.mark.parametrize(("offset", "max_count", "refused"), [
    (LARGEST - 1, 1, None), (LARGEST, 1, "offset does not fit in 64 bits"), (-LARGEST - 1, 1, "offset does not fit"),
    (0, 0, "max_count is less than 1: 0"), (0, LARGEST - 1, None), (0, LARGEST, "max_count does not fit in 64 bits"),
])  # fmt: skip
def test_a_get_has_longs_and_wants_a_message_at_least(offset: int, max_count: int, refused: str | None) -> None:
    if refused is None:
        check_get("T", 0, offset, max_count)
        return
    with pytest.raises(BadRequest, match=refused):
        check_get("T", 0, offset, max_count)
