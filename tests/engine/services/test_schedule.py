"""Delivery of delayed messages: copies as the real services made them, by an injected clock, and the saved offsets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import Message, WritableStore, open_store
from store.broker_line import LINE_5_3
from store.engine.live.running_flags import RunningFlag
from store.engine.services.schedule import (
    ScheduleMessageService,
    delivered_message,
)
from store.files.filesystem import Filesystem
from store.formats.message import decode_record, encode_record
from store.formats.properties import decode_properties
from store.formats.topics import SCHEDULE_TOPIC
from store.structures.commitlog.rewritten import rewritten_records
from store.structures.delayoffsets.files import encode_delay_offsets, read_delay_offsets, write_delay_offsets
from store.structures.tables.config_file import read_config_file
from store.structures.tables.data_version import DataVersion, read_data_version
from tests.engine.services.stores import NAMES, Builder, unpack
from tests.support.stores import SMALL, Clock
from tests.support.threads import eventually

SECOND = 1000


class Delivery:
    """An open store with its service and a clock that a test moves."""

    def __init__(self, root: Path, line: str = "4.9", **settings: Any) -> None:
        self.clock = Clock()
        self.store: WritableStore = open_store(
            root, read_only=False, settings={**SMALL, **settings}, clock=self.clock, compat=line
        )
        self.builder = Builder(self.store, self.clock)
        self.service = ScheduleMessageService(self.store, self.clock)

    def __enter__(self) -> Delivery:
        return self

    def __exit__(self, *exception: object) -> None:
        self.store.close()

    def after(self, seconds: float) -> list[str]:
        """Moves the clock, delivers, and gives the keys of all messages in topic T."""
        self.store.catch_up()
        self.clock.now_ms += int(seconds * SECOND)
        self.service.deliver()
        self.store.catch_up()
        return [str(one.uniq_key) for one in self.store.messages("T", 0, must_exist=False)]


@pytest.mark.parametrize("name", NAMES)
def test_a_delivered_message_is_the_one_that_the_real_service_put(name: str, tmp_path: Path) -> None:
    root, expected = unpack(name, tmp_path)
    pairs = [(one["commitLogOffset"], one["deliveredOffset"]) for one in expected["delayed"]]
    with open_store(root) as store:
        compared = 0
        for source_offset, copy_offset in pairs:
            if copy_offset is None or copy_offset < 0:
                continue
            source, copy = store.lookup(source_offset), store.lookup(copy_offset)
            assert source is not None
            assert copy is not None
            message = delivered_message(source, store.opened.line)
            assert message.properties == copy.property_text
            for field in (
                "topic",
                "queue_id",
                "body",
                "flag",
                "sys_flag",
                "born_host",
                "store_host",
                "reconsume_times",
            ):
                assert getattr(message, field) == getattr(copy, field), field
            assert (message.born_timestamp_ms, copy.prepared_transaction_offset) == (source.born_timestamp_ms, 0)
            compared += 1
    assert compared > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_delivery_run_over_a_real_brokers_store_delivers_what_was_pending(name: str, tmp_path: Path) -> None:
    root, expected = unpack(name, tmp_path)
    pending = {one["uniqKey"]: one for one in expected["delayed"] if one["state"] != "delivered"}
    clock = Clock(max(one["storeTimestamp"] for one in expected["delayed"]) + 3 * 3600 * SECOND)
    with open_store(root, read_only=False, recover=True, clock=clock) as store:
        end = store.max_log_offset
        ScheduleMessageService(store, clock).deliver()
        store.catch_up()
        copies = {one.uniq_key: one for one in rewritten_records(store.opened.log) if one.log_offset >= end}
        assert pending.keys() <= copies.keys()
        for key, one in pending.items():
            copy, source = copies[key], store.lookup(one["commitLogOffset"])
            assert source is not None
            assert (copy.topic, copy.queue_id) == (one["realTopic"], one["realQueueId"])
            assert (copy.body, copy.born_timestamp_ms) == (source.body, source.born_timestamp_ms)
            assert (copy.store_timestamp_ms, copy.properties) == (clock.now_ms, source.properties)


@pytest.mark.parametrize("name", NAMES)
def test_the_offsets_are_written_byte_for_byte(name: str, tmp_path: Path) -> None:
    root, _ = unpack(name, tmp_path)
    with open_store(root) as store:
        layout, fs = store.layout, Filesystem()
    before = (layout.config / "delayOffset.json").read_bytes()
    found = read_config_file(layout.config, "delayOffset.json", fs).loaded
    assert found is not None
    saved: Any = found.document.get("dataVersion")
    version = DataVersion(saved["counter"], saved["stateVersion"], saved["timestamp"]) if saved else None
    write_delay_offsets(layout, fs, read_delay_offsets(layout, fs), version)
    assert (layout.config / "delayOffset.json").read_bytes() == before
    assert (layout.config / "delayOffset.json.bak").read_bytes() == before


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (None, '{\n\t"offsetTable":{1:5,3:12\n\t}\n}'),
        (
            DataVersion(3, 0, 5),
            '{\n\t"dataVersion":{\n\t\t"counter":3,\n\t\t"stateVersion":0,\n\t\t"timestamp":5\n\t},\n\t"offsetTable":{1:5,3:12\n\t}\n}',
        ),
    ],
)
def test_both_lines_have_their_form(version: DataVersion | None, text: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "s", read_only=False, settings=SMALL) as store:
        write_delay_offsets(store.layout, Filesystem(), {3: 12, 1: 5}, version)
    assert (tmp_path / "s" / "config" / "delayOffset.json").read_text() == text


def test_a_table_without_entries_is_an_empty_object() -> None:
    assert encode_delay_offsets({}, None) == b'{\n\t"offsetTable":{}\n}'


def test_a_message_is_delivered_at_its_time_and_once(tmp_path: Path) -> None:
    with Delivery(tmp_path / "s") as delivery:
        delivery.builder.delay("A", level=1)
        delivery.builder.delay("B", level=2)
        assert delivery.after(0.999) == []
        assert delivery.after(0.001) == ["A"]
        assert delivery.after(1) == ["A"]
        assert delivery.after(4) == ["A", "B"]
        assert delivery.service.offsets == {1: 1, 2: 1}


def test_the_head_of_a_level_keeps_the_others_waiting(tmp_path: Path) -> None:
    with Delivery(tmp_path / "s") as delivery:
        delivery.builder.delay("A")
        delivery.clock.now_ms += 500
        delivery.builder.delay("B")
        assert delivery.after(0.4) == []
        assert delivery.after(0.1) == ["A"]
        assert delivery.after(0.5) == ["A", "B"]


@pytest.mark.leaves_damage
@pytest.mark.parametrize(("seconds", "delivered"), [(-3600, ["A"]), (-0.001, ["A"]), (0, [])])
def test_after_the_clock_went_back_a_message_is_due_at_once(
    seconds: float, delivered: list[str], tmp_path: Path
) -> None:
    with Delivery(tmp_path / "s") as delivery:
        delivery.builder.delay("A")
        assert delivery.after(seconds) == delivered


def test_the_version_of_5_3_moves_with_every_two_hundredth_offset(tmp_path: Path) -> None:
    with Delivery(tmp_path / "s", "5.3") as delivery:
        versions = []
        for count in (199, 1, 199, 1):
            for _ in range(count):
                delivery.builder.delay("A")
            delivery.after(1)
            delivery.service.persist()
            version = read_data_version(delivery.store.layout.config, "delayOffset.json", Filesystem())
            assert version is not None
            versions.append((version.counter, version.timestamp_ms - delivery.clock.now_ms))
    assert [counter for counter, _ in versions] == [0, 1, 1, 2]
    assert [moved for _, moved in versions[1::2]] == [0, 0]


def test_each_delivery_is_told_of_and_none_is_made_while_puts_are_refused(tmp_path: Path) -> None:
    with Delivery(tmp_path / "s") as delivery:
        told: list[tuple[int, int]] = []
        delivery.service.on_delivered = lambda level, result: told.append((level, result.queue_offset))
        for key, level in (("A", 1), ("B", 1), ("C", 2)):
            delivery.builder.delay(key, level=level)
        delivery.store.catch_up()
        delivery.store.flags.set(RunningFlag.NOT_WRITEABLE)
        assert (delivery.after(5), delivery.service.offsets, told) == ([], {}, [])
        delivery.store.flags.clear(RunningFlag.NOT_WRITEABLE)
        assert (delivery.after(0), told) == (["A", "B", "C"], [(1, 0), (1, 1), (2, 2)])


def test_saved_offsets_outlive_a_restart_and_nothing_is_delivered_twice(tmp_path: Path) -> None:
    with Delivery(tmp_path / "s") as delivery:
        delivery.builder.delay("A")
        delivery.after(1)
        delivery.service.persist()
    with Delivery(tmp_path / "s") as delivery:
        delivery.clock.now_ms += 60 * SECOND
        delivery.builder.delay("B")
        assert delivery.after(1) == ["A", "B"]


def test_without_saved_offsets_a_message_is_delivered_again(tmp_path: Path) -> None:
    for expected in (["A"], ["A", "A"]):
        with Delivery(tmp_path / "s") as delivery:
            if expected == ["A"]:
                delivery.builder.delay("A")
            assert delivery.after(60) == expected


@pytest.mark.leaves_damage
@pytest.mark.parametrize(("line", "delivered"), [("4.9", []), ("5.3", ["B"])])
def test_poison_stops_a_level_in_4_9_and_is_passed_over_in_5_3(line: str, delivered: list[str], tmp_path: Path) -> None:
    with Delivery(tmp_path / "s", line) as delivery:
        delivery.builder.schedule(1, {"UNIQ_KEY": "P", "REAL_TOPIC": "T", "DELAY": "1"})
        delivery.builder.delay("B")
        assert delivery.after(5) == delivered
        assert len(delivery.service.findings) == 1


def test_a_half_message_is_never_delivered(tmp_path: Path) -> None:
    with Delivery(tmp_path / "s") as delivery:
        properties = {"UNIQ_KEY": "H", "REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0", "DELAY": "1"}
        delivery.builder.schedule(1, properties)
        delivery.builder.delay("B")
        assert delivery.after(5) == ["B"]


def test_5_3_saves_the_offset_of_a_unit_that_is_not_due_and_4_9_does_not(tmp_path: Path) -> None:
    for line, offsets in ("4.9", {}), ("5.3", {3: 0}):
        with Delivery(tmp_path / line, line) as delivery:
            delivery.builder.delay("A", level=3)
            delivery.after(1)
            assert delivery.service.offsets == offsets


def test_an_offset_outside_its_queue_is_moved_into_it(tmp_path: Path) -> None:
    with Delivery(tmp_path / "s") as delivery:
        delivery.builder.delay("A")
        delivery.store.catch_up()
        write_delay_offsets(delivery.store.layout, Filesystem(), {1: 99}, None)
        assert ScheduleMessageService(delivery.store, delivery.clock).offsets == {1: 1}


@pytest.mark.parametrize(
    ("began", "saved_at", "done"),
    [
        (1001, 1, []),
        (1000, 1, ["deliver"]),
        (2000, -8000, ["persist"]),
        (2000, -7999, []),
        (1000, -8000, ["deliver", "persist"]),
    ],
)
def test_delays_are_delivered_after_a_second_and_saved_every_ten(began: int, saved_at: int, done: list[str]) -> None:
    calls: list[str] = []
    service: Any = SimpleNamespace(
        _clock=lambda: 2000, _began=began, _saved_at=saved_at,
        deliver=lambda: calls.append("deliver"), persist=lambda: calls.append("persist"),
    )  # fmt: skip
    ScheduleMessageService.work(service)
    assert calls == done


def test_the_number_of_messages_that_were_delivered_is_given(tmp_path: Path) -> None:
    with Delivery(tmp_path / "s") as delivery:
        for key, level in (("A", 1), ("B", 1), ("C", 2)):
            delivery.builder.delay(key, level=level)
        delivery.store.catch_up()
        counts = []
        for step_ms in (999, 1, 3999, 1):
            delivery.clock.now_ms += step_ms
            counts.append(delivery.service.deliver())
        assert counts == [0, 2, 0, 1]


@pytest.mark.leaves_damage
def test_a_unit_without_its_record_is_passed_over(tmp_path: Path) -> None:
    with Delivery(tmp_path / "s") as delivery:
        lost = delivery.builder.delay("A")
        delivery.builder.delay("B")
        delivery.store.catch_up()
        with (tmp_path / f"s/commitlog/{0:020d}").open("r+b") as segment:
            segment.seek(lost)
            segment.write(bytes(8))
        assert delivery.after(1) == ["B"]


def test_the_thread_delivers_and_saves_at_its_stop(tmp_path: Path) -> None:
    with Delivery(tmp_path / "s") as delivery:
        delivery.builder.delay("A")
        delivery.store.catch_up()
        delivery.clock.now_ms += 5 * SECOND
        delivery.service.start()
        assert eventually(lambda: delivery.service.offsets)
        delivery.service.stop()
        assert read_delay_offsets(delivery.store.layout, Filesystem()) == {1: 1}


DUE_MS = 1000
"""Queue offset n is due at 1000 + 10 n; the unit of 7 can't be read."""


@pytest.mark.parametrize(
    ("reached", "now_ms", "expected"),
    [
        ({}, 1029, (7, 0, 0)),
        ({}, 1030, (7, 1, 0)),
        ({3: 2}, 1041, (7, 2, 11)),
        ({3: 5}, 1041, (5, 0, 0)),
        ({3: 7}, 1041, (3, 1, 0)),
        ({3: 7}, 5000, (3, 3, 0)),
        ({3: 10}, 5000, (0, 0, 0)),
        ({3: 99}, 5000, (0, 0, 0)),
    ],
)
def test_a_level_shows_what_waits_and_since_when_the_first_is_due(
    reached: dict[int, int], now_ms: int, expected: tuple[int, int, int]
) -> None:
    service: Any = object.__new__(ScheduleMessageService)
    service._clock, service._reached = lambda: now_ms, reached
    queue: Any = SimpleNamespace(
        min_offset=3, max_offset=10, real_tags_code=lambda code: code,
        unit=lambda offset: SimpleNamespace(tags_code=DUE_MS + 10 * offset) if offset != 7 else None,
    )  # fmt: skip
    assert service._backlog(3, 5000, queue) == (3, 5000, *expected)


@pytest.mark.parametrize(
    ("topic", "queue_id"), [("T", "4"), ("T", "-1"), ("", "4"), (None, "4"), ("T", None), ("T", "x")]
)
def test_a_delivered_message_has_its_real_queue_and_no_half_message_before(
    topic: str | None, queue_id: str | None
) -> None:
    named = {"REAL_TOPIC": topic, "REAL_QID": queue_id, "DELAY": "3"}
    properties = "".join(f"{name}\x01{value}\x02" for name, value in named.items() if value is not None)
    message = Message("T", b"body", 2, properties.encode(), 5, 0, 6, reconsume_times=7, prepared_transaction_offset=8)
    record = decode_record(
        encode_record(
            message, topic=SCHEDULE_TOPIC.encode(), sys_flag=0, queue_offset=9, log_offset=70, store_timestamp_ms=1
        )
    )
    if topic and queue_id in ("4", "-1"):
        found = delivered_message(record, LINE_5_3)
        assert decode_properties(found.properties) == decode_properties(properties.encode())
        assert replace(found, properties=b"") == replace(
            message, topic=topic, queue_id=int(queue_id), properties=b"", prepared_transaction_offset=0
        )
    else:
        with pytest.raises(ValueError, match="the record at log offset 70 has no REAL_TOPIC or no REAL_QID"):
            delivered_message(record, LINE_5_3)
