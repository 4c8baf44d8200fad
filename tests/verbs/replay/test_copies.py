"""The messages of a store that are put or sent again, and the copies that a broker made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from store.formats.host import Host
from store.formats.message import Message
from store.formats.properties import encode_properties
from store.structures.commitlog.bulk import MessageColumns
from store.verbs.replay.copies import CopyFilter, as_produced, at_real_place, waits_as

HALF, OP, SCHEDULE = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"
BORN = Host.parse("10.0.0.7:4711")
ORDERS = {"REAL_TOPIC": "Orders", "REAL_QID": "3"}


def message(topic: str, properties: dict[str, str] | None = None, sys_flag: int = 0) -> Message:
    text = encode_properties(properties or {})
    return Message(topic, b"hello", 1, flag=5, sys_flag=sys_flag, born_timestamp_ms=7, born_host=BORN, properties=text)


ORDER = message("Orders")


@pytest.mark.parametrize(
    ("topic", "kind", "chosen"),
    [
        ("Orders", None, False),
        ("%RETRY%g", "retried", True),
        ("%DLQ%g", "retried", True),
        (SCHEDULE, "delayed", True),
        ("rmq_sys_wheel_timer", "delayed", True),
        (HALF, "half", True),
        ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "half", True),
        ("TRANS_CHECK_MAX_TIME_TOPIC", "discarded", True),
        (OP, None, True),
        ("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", None, True),
    ],
)
def test_a_topic_has_messages_or_copies_of_one_kind(topic: str, kind: str | None, chosen: bool) -> None:
    assert (waits_as(topic), CopyFilter().chooses(topic), CopyFilter(halves=True).chooses(topic)) == (
        kind, chosen, chosen
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "left"),
    [
        (message("Orders", {"TAGS": "a"}), message("Orders", {"TAGS": "a"})),
        (message("Orders", {"TAGS": "a", "DELAY": "3", **ORDERS}), message("Orders", {"TAGS": "a"})),
        (message("Orders", {"DELAY": "3"}), message("Orders", {"DELAY": "3"})),
        (message("Orders", {"TAGS": "a", "TRAN_MSG": "true"}, 8 | 1), message("Orders", {"TAGS": "a"}, 1)),
        (message("Orders", {"TRAN_MSG": "true"}, 4), message("Orders", {"TRAN_MSG": "true"}, 4)),
    ],
)
def test_a_delivered_or_committed_message_loses_the_broker_s_marks(found: Message, left: Message) -> None:
    found = replace(found, prepared_transaction_offset=900)
    chosen = CopyFilter().choose(found, b"")
    assert chosen == replace(left, prepared_transaction_offset=900 if found.properties == left.properties else 0)


def waiting(messages: Sequence[Message], *, halves: bool = False) -> tuple[list[bytes], dict[str, int]]:
    """The data that are left at the end of these messages, each with its number as its data."""
    copies = CopyFilter(halves=halves)
    for number, one in enumerate(messages):
        copies.choose(one, b"%d" % number)
    return list(copies.waiting()), dict(copies.left_out)


DELAYED = message(SCHEDULE, {**ORDERS, "DELAY": "3"})


@pytest.mark.parametrize(
    ("others", "left", "out"),
    [
        ([], [b"0"], {}),
        ([ORDER], [], {"delayed": 1}),
        ([message("Bills")], [b"0"], {}),
        ([message("Bills", {"RETRY_TOPIC": "Orders"})], [], {"delayed": 1}),
        ([replace(ORDER, body=b"jello")], [b"0"], {}),
        ([replace(ORDER, flag=6)], [b"0"], {}),
        ([replace(ORDER, born_timestamp_ms=8)], [b"0"], {}),
        ([replace(ORDER, born_host=Host.parse("10.0.0.7:4712"))], [b"0"], {}),
        ([message("Orders", {"UNIQ_KEY": "K"})], [b"0"], {}),
        ([DELAYED], [b"0"], {"delayed": 1}),
        ([message("%RETRY%g", {"RETRY_TOPIC": "Orders"}), ORDER], [], {"delayed": 1, "retried": 1}),
        ([message(HALF, ORDERS), message(OP)], [b"0"], {"half": 1, "op": 1}),
    ],
)  # fmt: skip
def test_a_message_without_a_key_waits_unless_another_has_all_of_its_fields(
    others: list[Message], left: list[bytes], out: dict[str, int]
) -> None:
    assert waiting([DELAYED, *others]) == (left, out)


@pytest.mark.parametrize(
    ("real", "kind"), [("Orders", "delayed"), ("%RETRY%g", "retried"), ("%DLQ%g", "retried"), ("g%RETRY%", "delayed")]
)
def test_a_retry_that_waits_for_its_time_is_a_retry(real: str, kind: str) -> None:
    retry = message(SCHEDULE, {"REAL_TOPIC": real, "UNIQ_KEY": "K"})
    assert waiting([retry, message("Orders", {"UNIQ_KEY": "K"})]) == ([], {kind: 1})


def test_half_messages_wait_only_where_they_are_asked_for() -> None:
    halves = [message(HALF, {**ORDERS, "UNIQ_KEY": key}) for key in ("K", "L", "")]
    assert waiting([*halves, message("Orders", {"UNIQ_KEY": "K"})], halves=True) == ([b"1", b"2"], {"half": 1})
    assert waiting(halves) == ([], {"half": 3})


KEYS = {
    "all with keys": [b"K", b"L"],
    "one without": [b"K", b""],
    "one that was chosen": [b"K", None],
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_messages_seen_as_columns_hold_back_their_copies(name: str) -> None:
    copies, keys = CopyFilter(), KEYS[name]
    delayed = [message(SCHEDULE, {**ORDERS, "UNIQ_KEY": key}) for key in ("K", "L", "M")]
    for number, one in enumerate([*delayed, DELAYED]):
        copies.choose(one, b"%d" % number)
    copies.see(MessageColumns.of([ORDER, message("Other", {"RETRY_TOPIC": "Orders"})]), keys)
    held = {b"0": b"K" in keys, b"1": b"L" in keys, b"2": False, b"3": b"" in keys}
    assert list(copies.waiting()) == [data for data, is_held in held.items() if not is_held]
    assert copies.left_out == {"delayed": sum(held.values())}


@pytest.mark.parametrize(
    ("topic", "properties", "place"),
    [
        (SCHEDULE, {**ORDERS, "DELAY": "3"}, ("Orders", 3, {"DELAY": "3"})),
        (HALF, {**ORDERS, "TRAN_MSG": "true"}, ("Orders", 3, {"TRAN_MSG": "true"})),
        ("TRANS_CHECK_MAX_TIME_TOPIC", {"REAL_TOPIC": "Orders", "REAL_QID": "0"}, ("Orders", 0, {})),
        (SCHEDULE, {"REAL_TOPIC": "Orders"}, (SCHEDULE, 1, {"REAL_TOPIC": "Orders"})),
        (SCHEDULE, {"REAL_QID": "3"}, (SCHEDULE, 1, {"REAL_QID": "3"})),
        (SCHEDULE, {"REAL_TOPIC": "Orders", "REAL_QID": "x"}, (SCHEDULE, 1, {"REAL_TOPIC": "Orders", "REAL_QID": "x"})),
        ("Orders", ORDERS, ("Orders", 1, ORDERS)),
        (OP, ORDERS, (OP, 1, ORDERS)),
    ],
)
def test_a_message_that_waits_goes_to_its_real_place_if_it_has_one(
    topic: str, properties: dict[str, str], place: tuple[str, int, dict[str, str]]
) -> None:
    real_topic, queue_id, kept = place
    found = message(topic, properties)
    wanted = replace(found, topic=real_topic, queue_id=queue_id, properties=encode_properties(kept))
    assert at_real_place(found) == wanted


def test_a_message_that_is_no_copy_is_given_back_itself() -> None:
    assert as_produced(ORDER, {}) is ORDER
