"""Filters of consumer groups: the rules on unit and record, and whole stores against a plain evaluation."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store import Message, open_store
from store.files.filesystem import Filesystem
from store.formats.bloom import BloomFilter
from store.formats.message import StoredMessage, decode_record, encode_record
from store.formats.queue_unit import ExtUnit
from store.reading.filter import compile_sql
from store.reading.filter.subscription import SubscriptionFilter
from store.structures.tables.consumer_filters import ConsumerFilter, ConsumerFilterTable
from tests.cli.running import rmqctl
from tests.support.stores import SMALL, Clock, recover

BLOOM = BloomFilter.sized(20, 32)
BORN_MS = Clock().now_ms
WITH_BIT_MAPS = {
    **SMALL,
    "enableConsumeQueueExt": "true",
    "mappedFileSizeConsumeQueueExt": "300",
    "enableCalcFilterBitMap": "true",
}
OWN = BLOOM.bit_map(BLOOM.group_positions("G", "T"))
NONE = bytes(14)
SELECTED = ExtUnit(0, BORN_MS + 1, OWN)


def table(*expressions: str, topic: str = "T") -> ConsumerFilterTable:
    """Groups G, G1, G2 … with these expressions."""
    made = ConsumerFilterTable(BLOOM)
    for number, expression in enumerate(expressions):
        made.register(f"G{number or ''}", topic, expression, 1, BORN_MS)
    return made


def with_own(**changes: Any) -> SubscriptionFilter:
    made = table("a > 5")
    own = made.get("T", "G")
    assert own is not None
    made._table["T", "G"] = replace(own, **changes)
    return SubscriptionFilter(made, "T", "G")


@pytest.mark.parametrize(
    ("found", "ext", "matches"),
    [
        (SubscriptionFilter(table(), "T", "G"), replace_bits := ExtUnit(0, BORN_MS + 1, NONE), True),
        (with_own(expression=None), replace_bits, True),
        (with_own(expression="a >"), replace_bits, True),
        (with_own(bit_count=0, positions=()), replace_bits, True),
        (with_own(), None, True),
        (with_own(), ExtUnit(0, BORN_MS, NONE), True),
        (with_own(), ExtUnit(0, BORN_MS + 1, b""), True),
        (with_own(bit_count=216), replace_bits, True),
        (with_own(positions=(1, 2)), replace_bits, True),
        (with_own(), ExtUnit(0, BORN_MS + 1, bytes(27)), True),
        (with_own(), replace_bits, False),
        (with_own(), SELECTED, True),
        (with_own(), ExtUnit(0, BORN_MS + 1, b"\xff" * 14), True),
    ],
)
def test_a_unit_is_passed_over_only_where_its_bit_map_rules_the_group_out(
    found: SubscriptionFilter, ext: ExtUnit | None, matches: bool
) -> None:
    assert found.matches_tags_code(0, ext) is matches


def message(topic: str = "T", **properties: str) -> StoredMessage:
    sent = Message.of(topic, "x", properties=properties)
    return decode_record(
        encode_record(sent, topic=topic.encode(), sys_flag=0, queue_offset=0, log_offset=0, store_timestamp_ms=1)
    )


@pytest.mark.parametrize(
    ("found", "properties", "matches"),
    [
        (SubscriptionFilter(table(), "T", "G"), {}, True),
        (with_own(expression=None), {"a": "1"}, True),
        (with_own(expression="a >"), {"a": "1"}, True),
        (with_own(), {"a": "6"}, True),
        (with_own(), {"a": "5"}, False),
        (with_own(), {}, False),
        (with_own(), {"a": "six"}, False),
        (with_own(expression="a"), {"a": "6"}, False),
    ],
)
def test_a_record_matches_where_its_expression_is_true(
    found: SubscriptionFilter, properties: dict[str, str], matches: bool
) -> None:
    assert found.matches(message(**properties)) is matches


def test_a_retry_topic_has_the_filter_of_the_own_topic_where_that_is_supported() -> None:
    for supported, matches in (True, [True, False, True]), (False, [True, True, True]):
        found = SubscriptionFilter(table("a > 5"), "%RETRY%G", "G", supports_retry=supported)
        topics = [{"RETRY_TOPIC": "T", "a": "6"}, {"RETRY_TOPIC": "T", "a": "5"}, {"RETRY_TOPIC": "Other", "a": "5"}]
        assert [found.matches(message("%RETRY%G", **properties)) for properties in topics] == matches


# Whole stores.

PROPERTIES = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "5", "6", "red", "blue"]), max_size=3),
    min_size=1,
    max_size=30,
)
EXPRESSIONS = st.lists(
    st.sampled_from(["a > 5", "a = 'red'", "b IS NULL", "c BETWEEN 1 AND 5 OR a IS NOT NULL", "a IN ('1', 'red')"]),
    min_size=1,
    max_size=5,
)


def fill(root: Path, sent: list[dict[str, str]], filters: ConsumerFilterTable, **changes: str) -> Path:
    (root / "commitlog").mkdir(parents=True)
    filters.persist(root / "config", Filesystem(), BORN_MS)
    clock = Clock(BORN_MS + 1)
    with open_store(root, read_only=False, settings={**WITH_BIT_MAPS, **changes}, clock=clock) as store:
        for number, properties in enumerate(sent):
            assert store.put(Message.of("T", str(number), properties=properties)).is_ok
    return root


def bit_maps(root: Path, **changes: str) -> list[bytes | None]:
    with open_store(root, settings={**WITH_BIT_MAPS, **changes}) as store:
        queue = store.opened.queues.find("T", 0)
        assert queue is not None
        units = [queue.unit(offset) for offset in range(queue.min_offset, queue.max_offset)]
        found = [queue.ext_unit(unit.tags_code) for unit in units if unit is not None]
        return [one.bit_map if one is not None else None for one in found]


@pytest.mark.turns(3)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PROPERTIES, EXPRESSIONS)
def test_a_group_gets_what_a_plain_evaluation_selects(
    tmp_path_factory: pytest.TempPathFactory, sent: list[dict[str, str]], expressions: list[str]
) -> None:
    filters = table(*expressions)
    root = fill(tmp_path_factory.mktemp("stores") / "s", sent, filters)
    maps = bit_maps(root)
    with open_store(root, settings=WITH_BIT_MAPS) as store:
        for own in filters:
            compiled = compile_sql(expressions[int(own.group[1:] or 0)])
            selected = [number for number, properties in enumerate(sent) if compiled.matches_properties(properties)]
            found = SubscriptionFilter(filters, "T", own.group)
            got = [int(one.body) for one in store.messages("T", 0, message_filter=found)]
            assert got == selected
    for properties, bit_map in zip(sent, maps, strict=True):
        matching = [one for one in filters if compile_sql(str(one.expression)).matches_properties(properties)]
        assert bit_map == BLOOM.bit_map({bit for one in matching for bit in one.positions})


def test_units_are_passed_over_without_a_look_at_their_records(tmp_path: Path) -> None:
    """The record of a unit whose bit map rules the group out is given a matching property behind its back."""
    root = fill(tmp_path / "s", [{"a": "5"}, {"a": "6"}], table("a > 5"))
    segment = root / "commitlog" / f"{0:020d}"
    segment.write_bytes(segment.read_bytes().replace(b"a\x015", b"a\x017"))
    with open_store(root, settings=WITH_BIT_MAPS) as store:
        found = SubscriptionFilter(table("a > 5"), "T", "G")
        assert [one.body for one in store.messages("T", 0, message_filter=found)] == [b"1"]
        assert [one.body for one in store.messages("T", 0, message_filter=compile_sql("a > 5"))] == [b"0", b"1"]


def test_without_filters_of_the_topic_or_without_the_setting_units_have_no_bit_map(tmp_path: Path) -> None:
    sent = [{"a": "6"}]
    assert bit_maps(fill(tmp_path / "other", sent, table("a > 5", topic="Other"))) == [b""]
    assert bit_maps(fill(tmp_path / "off", sent, table("a > 5"), enableCalcFilterBitMap="false")) == [b""]
    assert bit_maps(fill(tmp_path / "dead", sent, table("a > 5"))) == [OWN]


def test_a_bit_map_that_no_extension_file_can_hold_leaves_the_plain_tags_code(tmp_path: Path) -> None:
    size = {"mappedFileSizeConsumeQueueExt": "30"}
    assert bit_maps(fill(tmp_path / "s", [{"a": "6"}], table("a > 5"), **size), **size) == [None]


def test_recovery_calculates_bit_maps_too(tmp_path: Path) -> None:
    root = fill(tmp_path / "s", [{"a": "5"}, {"a": "6"}], table("a > 5"))
    before = bit_maps(root)
    for folder in ("consumequeue", "consumequeue_ext"):
        for path in (root / folder).rglob("0*"):
            path.unlink(missing_ok=True) if path.is_file() else None
    (root / "abort").touch()
    words = [word for name, value in WITH_BIT_MAPS.items() for word in ("--set", f"{name}={value}")]
    assert rmqctl(*words, "recover", "--yes", store=root).code == 0
    assert bit_maps(root) == before == [NONE, OWN]


LOST = {
    "the extension": ("consumequeue_ext",),
    "the queue": ("consumequeue",),
    "both": ("consumequeue", "consumequeue_ext"),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("command", ["recover", "rebuild", "truncate-dirty", "put"])
def test_lost_extension_units_are_built_with_the_bit_maps_of_the_filters(
    lost: str, command: str, tmp_path: Path
) -> None:
    root = fill(tmp_path / "s", [{"a": "5"}, {"a": "6"}], table("a > 5"))
    for folder in LOST[lost]:
        shutil.rmtree(root / folder)
    words = [word for name, value in WITH_BIT_MAPS.items() for word in ("--set", f"{name}={value}")]
    more = ["T", "x"] if command == "put" else ["--yes"]
    assert rmqctl(*words, command, *more, store=root).code == 0
    assert bit_maps(root)[:2] == [NONE, OWN]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "with the bit maps of the filters that config/consumerFilter.json holds"),
        ({"enableCalcFilterBitMap": "false"}, "enableCalcFilterBitMap=true calculates them"),
    ],
)
def test_a_plan_says_which_bit_maps_lost_units_get(changes: dict[str, str], said: str, tmp_path: Path) -> None:
    root = fill(tmp_path / "s", [{"a": "5"}, {"a": "6"}], table("a > 5"))
    shutil.rmtree(root / "consumequeue_ext")
    change, _ = recover(root, settings={**WITH_BIT_MAPS, **changes})
    assert any(said in remark for remark in change.remarks)


# The command.


def test_get_answers_a_group_by_its_subscription(tmp_path: Path) -> None:
    root = fill(tmp_path / "s", [{"a": "5"}, {"a": "6"}], table("a > 5"))
    run = rmqctl("--format", "json", "get", "T", "--group", "G", store=root)
    assert [one["queue_offset"] for one in run.json["messages"]] == [1]
    assert run.err == "note: G is subscribed to a > 5\n"


def test_get_says_where_a_group_has_no_subscription_that_counts(tmp_path: Path) -> None:
    root = fill(tmp_path / "s", [{"a": "5"}], table("a > 5"))
    unknown = rmqctl("--format", "json", "get", "T", "--group", "Other", store=root)
    assert (len(unknown.json["messages"]), "Other has no SQL subscription to T" in unknown.err) == (1, True)
    other = rmqctl("get", "T", "--group", "G", "--set", "expectConsumerNumUseFilter=64", store=root)
    assert "a broker ignores config/consumerFilter.json" in other.err


def test_get_takes_one_kind_of_filter(tmp_path: Path) -> None:
    root = fill(tmp_path / "s", [{}], table())
    assert rmqctl("get", "T", "--group", "G", "--tags", "A", store=root).code == 2
    assert rmqctl("get", "--log-offset", "0", "--group", "G", store=root).code == 2


def test_a_filter_without_bloom_data_has_no_bits() -> None:
    assert not ConsumerFilter("G", "T", "a > 5").fits(BLOOM)
