"""Putting columns of messages stores what putting them one by one stores."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from store import Message, open_store
from store.errors import BadRequest
from store.formats.host import LOCALHOST, Host
from store.formats.properties import encode_properties
from store.formats.run import Int64Array
from store.structures.commitlog import bulk_put
from store.structures.commitlog.bulk import MessageColumns
from tests.support.golden import copy_store, golden

SETTINGS = {
    "mappedFileSizeCommitLog": 4096,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 64,
    "maxIndexNum": 256,
}


def a_clock() -> int:
    return 1_700_000_000_000


def messages(count: int = 60) -> list[Message]:
    """Messages of several topics, queues, sizes, transaction types and keys."""
    return [
        Message(
            f"Topic{number % 3}",
            bytes([number]) * (number * 7 % 150),
            queue_id=number % 4,
            properties=encode_properties({"KEYS": f"k{number} all", "TAGS": f"t{number % 5}"}),
            sys_flag=(0, 4, 8, 12)[number % 4],
            born_timestamp_ms=number,
        )
        for number in range(count)
    ]


def files_of(root: Path) -> dict[str, bytes]:
    """Contents by name; index files by rank, for their names are times."""
    kept = {}
    for rank, path in enumerate(sorted(path for path in root.rglob("*") if path.is_file())):
        name = str(path.relative_to(root))
        if name not in ("checkpoint", "lock"):
            kept[f"index/{rank}" if name.startswith("index") else name] = path.read_bytes()
    return kept


def stored(root: Path, put: str, many: list[Message], compat: str | None = None) -> dict[str, bytes]:
    with open_store(root, read_only=False, settings=SETTINGS, clock=a_clock, compat=compat) as store:
        if put == "many":
            store.put_many(MessageColumns.of(many))
        else:
            assert all(store.put(message).is_ok for message in many)
    return files_of(root)


def log_of(root: Path) -> bytes:
    """All of the log but for the zeros behind it, to which a segment made ahead may add at any time."""
    return b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir())).rstrip(b"\0")


def stored_bodies(root: Path, columns: MessageColumns) -> list[bytes]:
    with open_store(root / "s", read_only=False, settings=SETTINGS) as store:
        offsets = store.put_many(columns).log_offsets
        return [store.lookup(int(at)).body for at in offsets]  # type: ignore[union-attr]


def test_columns_are_stored_as_single_puts_are(tmp_path: Path) -> None:
    assert stored(tmp_path / "a", "many", messages()) == stored(tmp_path / "b", "one by one", messages())


def test_delayed_messages_among_them_are_rewritten_as_single_puts_do(tmp_path: Path) -> None:
    many = messages(20)
    many[7].properties, many[7].sys_flag = encode_properties({"DELAY": "3"}), 0
    assert stored(tmp_path / "a", "many", many) == stored(tmp_path / "b", "one by one", many)


def test_ipv6_hosts_are_stored_as_single_puts_store_them(tmp_path: Path) -> None:
    many = messages(20)
    for message in many:
        message.born_host = Host.parse("[2001:db8::1]:5000")
    assert stored(tmp_path / "a", "many", many) == stored(tmp_path / "b", "one by one", many)


def test_5_3_ends_each_property_string_with_one_separator(tmp_path: Path) -> None:
    texts = [b"a\x01b", b"", b"a\x01b\x02", b"a\x01b", b"a\x01bc\x02", b"a\x01bcd"]
    many = [Message("T", b"x" * size, properties=text, born_timestamp_ms=1) for size, text in enumerate(texts)]
    one_by_one = stored(tmp_path / "a", "one by one", many, "5.3")
    assert stored(tmp_path / "b", "many", many, "5.3") == one_by_one
    with open_store(tmp_path / "b") as store:
        found = [message.property_text for message in store.messages("T", 0)]
    assert found == [b"a\x01b\x02", b"", b"a\x01b\x02", b"a\x01b\x02", b"a\x01bc\x02", b"a\x01bcd\x02"]


@pytest.mark.parametrize("length", [126, 127, 128, 255])
@pytest.mark.parametrize("with_crc", [False, True])
def test_a_long_topic_has_the_size_that_its_record_has(length: int, with_crc: bool, tmp_path: Path) -> None:
    settings = {**SETTINGS, "enabledAppendPropCRC": with_crc}
    with open_store(tmp_path, read_only=False, compat="5.3", settings=settings) as store:
        result = store.put(Message("T" * length, b"x"))
        raw = store.lookup(result.log_offset).raw  # type: ignore[union-attr]
    assert (result.size, raw[4:8].hex()) == (len(raw), "daa320a7" if length < 128 else "daa320ab")


@pytest.mark.parametrize("name", ["flag", "sys_flag", "reconsume_times"])
@pytest.mark.parametrize("number", [1 << 31, -(1 << 31) - 1])
def test_a_number_that_does_not_fit_its_field_is_refused_before_any_row_is_written(
    name: str, number: int, tmp_path: Path
) -> None:
    many = messages(5)
    setattr(many[2], name, number)
    with open_store(tmp_path, read_only=False) as store:
        with pytest.raises(BadRequest, match=f"the column {name} is wrong in row 2: {number} does not fit in 32 bits"):
            store.put_many(MessageColumns.of(many))
        assert store.max_log_offset == 0


def test_refused_rows_are_left_out_and_named(tmp_path: Path) -> None:
    many = messages(10)
    many[3].topic, many[6].body = "x" * 128, bytes(5000)
    with open_store(tmp_path / "s", read_only=False, settings=SETTINGS) as store:
        columns = MessageColumns.of(many)
        result = store.put_many(columns)
        assert sorted(result.refused) == [3, 6]
        assert (result.log_offsets < 0).nonzero()[0].tolist() == [3, 6]
        assert columns.message(7).body == many[7].body
        assert [store.lookup(int(at)).body for at in result.log_offsets if at >= 0] == [  # type: ignore[union-attr]
            message.body for place, message in enumerate(many) if place not in (3, 6)
        ]


def test_an_arrow_batch_is_stored_as_messages_are(tmp_path: Path) -> None:
    many = messages(30)
    batch = pa.record_batch(
        {
            "topic": [message.topic for message in many],
            "body": pa.array([message.body for message in many], pa.binary()),
            "queue_id": [message.queue_id for message in many],
            "sys_flag": [message.sys_flag for message in many],
            "born_timestamp_ms": [message.born_timestamp_ms for message in many],
            "properties": pa.array([message.properties for message in many], pa.binary()),
        }
    )
    with open_store(tmp_path / "a", read_only=False, settings=SETTINGS, clock=a_clock) as store:
        store.put_many(MessageColumns.from_arrow(batch))
    assert files_of(tmp_path / "a") == stored(tmp_path / "b", "one by one", many)


BODIES = [b"one", b"", b"fou"]


@pytest.mark.parametrize(
    "bodies",
    [
        pa.array(BODIES, pa.binary()),
        pa.array(BODIES, pa.large_binary()),
        pa.array(BODIES, pa.string()),
        pa.array(BODIES, pa.large_string()),
        pa.array(BODIES, pa.binary_view()),
        pa.array(["one", "", "fou"], pa.string_view()),
        pa.array(BODIES, pa.binary()).dictionary_encode(),
        pa.array([b"left out", *BODIES], pa.binary()).slice(1),
        pa.array([b"left out", *BODIES], pa.binary_view()).slice(1),
    ],
    ids=lambda bodies: str(bodies.type)[:20],
)
def test_bodies_of_every_arrow_layout_are_stored_as_they_are(tmp_path: Path, bodies: pa.Array) -> None:
    batch = pa.record_batch({"topic": ["A", "B", "A"], "body": bodies})
    assert stored_bodies(tmp_path, MessageColumns.from_arrow(batch)) == BODIES


def test_bodies_of_fixed_size_are_stored_as_they_are(tmp_path: Path) -> None:
    batch = pa.record_batch({"topic": ["A", "A"], "body": pa.array([b"abc", b"def"], pa.binary(3))})
    assert stored_bodies(tmp_path, MessageColumns.from_arrow(batch)) == [b"abc", b"def"]


def test_topics_of_a_dictionary_and_absent_properties_are_taken() -> None:
    topics = pa.array(["A", "B", "A"], pa.large_string()).dictionary_encode()
    properties = pa.array([b"k\x01v\x02", None, None], pa.binary_view())
    columns = MessageColumns.from_arrow(pa.record_batch({"topic": topics, "body": BODIES, "properties": properties}))
    assert [columns.message(row).topic for row in range(3)] == ["A", "B", "A"]
    assert [columns.message(row).properties for row in range(3)] == [b"k\x01v\x02", b"", b""]


@pytest.mark.parametrize(
    ("column", "array", "named"),
    [
        ("body", pa.array([1, 2, 3]), "int64"),
        ("body", pa.array([[1], [2], [3]]), "list"),
        ("body", pa.array([1, 2, 3]).dictionary_encode(), "int64"),
        ("body", pa.array([b"a", None, b"c"]), "nulls"),
        ("body", pa.array([b"a", None, b"c"], pa.binary()).dictionary_encode(), "nulls"),
        ("topic", pa.array([1, 2, 3]), "int64"),
        ("topic", pa.array([1, 2, 3]).dictionary_encode(), "int64"),
        ("topic", pa.array([b"A", b"B", b"C"]), "binary"),
        ("topic", pa.array(["A", None, "C"]), "nulls"),
        ("properties", pa.array([{"a": "b"}] * 3), "struct"),
        ("queue_id", pa.array([1.5, 2.0, 3.0]), "double"),
        ("queue_id", pa.array([[1], [2], [3]]), "list"),
    ],
)
def test_an_arrow_column_of_another_type_is_refused_by_name(column: str, array: pa.Array, named: str) -> None:
    batch = pa.record_batch({"topic": ["A", "B", "A"], "body": BODIES} | {column: array})
    with pytest.raises(BadRequest, match=f"the column {column} .*{named}"):
        MessageColumns.from_arrow(batch)


def numbers(*values: int) -> Int64Array:
    return np.array(values, np.int64)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("body_ends", numbers(0, 3, 3, 3_000_000), "body_ends is wrong in row 2"),
        ("body_ends", numbers(0, 3, 0, 3), "body_ends is wrong in row 1"),
        ("body_ends", numbers(-1, 3, 3, 6), "body_ends is wrong in row 0"),
        ("body_ends", numbers(0, 3, 6), "body_ends has 3 values, 4 are needed"),
        ("body_ends", np.array([0, 3, 3, 6], np.int32), "body_ends must be"),
        ("body_ends", numbers(0, 9, 3, 9, 3, 9, 6)[::2], "body_ends must be contiguous"),
        ("bodies", memoryview(b"oneto"), "body_ends is wrong in row 2"),
        ("bodies", "text", "bodies must be bytes"),
        ("property_ends", numbers(0, 0, 0, 7), "property_ends is wrong in row 2"),
        ("property_ends", numbers(0, 0, 5, 0), "property_ends is wrong in row 2"),
        ("topic_of", numbers(0, 2, 0), "topic_of is wrong in row 1"),
        ("topic_of", numbers(0, 0, -1), "topic_of is wrong in row 2"),
        ("topic_of", numbers(0, 0), "values"),
        ("numbers", {}, "queue_id is missing"),
        ("numbers", {"queue_id": numbers(0, 0)}, "queue_id has 2 values"),
        ("numbers", {"queue_id": numbers(0, 1 << 31, 0)}, "queue_id is wrong in row 1"),
        ("numbers", {"queue_id": numbers(0, 0, 0), "weight": numbers(1, 1, 1)}, "no such column: weight"),
    ],
)
def test_columns_that_do_not_hold_together_are_refused_before_anything_is_written(
    tmp_path: Path, field: str, value: object, named: str
) -> None:
    columns = MessageColumns.of([Message("A", b"one"), Message("B", b""), Message("A", b"fou")])
    setattr(columns, field, value)
    with open_store(tmp_path / "s", read_only=False, settings=SETTINGS) as store:
        store.put_many(MessageColumns.of(messages(3)))
        end, before = store.max_log_offset, log_of(tmp_path / "s")
        with pytest.raises(BadRequest, match=named):
            store.put_many(columns)
        assert (store.max_log_offset, log_of(tmp_path / "s")) == (end, before)


def test_a_message_that_the_kernel_cannot_encode_ends_the_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_put, "check_columns", lambda _: None)
    columns = MessageColumns.of(messages(3))
    columns.body_ends = numbers(0, 0, 5, 2)
    with open_store(tmp_path / "s", read_only=False, settings=SETTINGS) as store:
        with pytest.raises(BadRequest, match="row 2"):
            store.put_many(columns)
        assert store.put(messages(1)[0]).is_ok, "the log can still be written"


@pytest.fixture
def cut_store(tmp_path: Path) -> Path:
    """A store that was cut in the middle of a segment, with the old records still past the cut."""
    root = copy_store(golden("corrupt-mid").store, tmp_path / "cut")
    with open_store(root, read_only=False, recover=True):
        pass
    return root


def test_behind_a_cut_no_old_record_comes_back_after_a_bulk_put(cut_store: Path) -> None:
    with open_store(cut_store, read_only=False) as store:
        result = store.put_many(MessageColumns.of(messages(5)))
        end = store.max_log_offset
        assert int((result.log_offsets + result.sizes).max()) == end
    with open_store(cut_store) as store:
        assert store.max_log_offset == end


def of_hosts(many: list[Message]) -> MessageColumns:
    """Columns of messages whose hosts differ."""
    columns = MessageColumns.of([replace(one, born_host=LOCALHOST, store_host=LOCALHOST) for one in many])
    pairs = [(one.born_host, one.store_host) for one in many]
    columns.hosts = sorted(set(pairs))
    columns.hosts_of = np.array([columns.hosts.index(pair) for pair in pairs], np.int64)
    return columns


def with_hosts(many: list[Message]) -> list[Message]:
    hosts = [LOCALHOST, Host.parse("10.0.0.1:1"), Host.parse("[::1]:65535")]
    return [
        replace(one, born_host=hosts[number % 3], store_host=hosts[number % 2 * 2]) for number, one in enumerate(many)
    ]


def test_messages_of_other_hosts_are_stored_as_single_puts_are(tmp_path: Path) -> None:
    many = with_hosts(messages())
    many[7] = replace(many[7], body=bytes(5000))  # refused
    with open_store(tmp_path / "a", read_only=False, settings=SETTINGS, clock=a_clock) as store:
        assert sorted(store.put_many(of_hosts(many)).refused) == [7]
    with open_store(tmp_path / "b", read_only=False, settings=SETTINGS, clock=a_clock) as store:
        assert [store.put(one).is_ok for one in many].index(False) == 7
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


@pytest.mark.turns(3)
@pytest.mark.leaves_damage  # Store times that fall.
@pytest.mark.parametrize("as_stored", [True, False])
@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("compat", ["4.9", "5.3"])
@pytest.mark.parametrize("delay", [b"", b"DELAY\x012"])
def test_replayed_columns_are_stored_as_single_replays_are(
    as_stored: bool, times: bool, compat: str, delay: bytes, tmp_path: Path
) -> None:
    many = with_hosts(messages())
    many[5].properties = delay
    many[7] = replace(many[7], queue_id=-1)  # refused
    given = np.array([(number * 37 % 60 - 20) << number % 50 for number in range(len(many))], np.int64)
    chosen = given.tolist() if times else [None] * len(many)
    columns = of_hosts(many)
    with open_store(tmp_path / "a", read_only=False, settings=SETTINGS, clock=a_clock, compat=compat) as store:
        result = store.put_many_replayed(columns, as_stored=as_stored, store_timestamps_ms=given if times else None)
    with open_store(tmp_path / "b", read_only=False, settings=SETTINGS, clock=a_clock, compat=compat) as store:
        single = [
            store.put_replayed(one, as_stored=as_stored, store_timestamp_ms=time_ms)
            for one, time_ms in zip(many, chosen, strict=True)
        ]
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert sorted(result.refused) == [7]
    assert result.log_offsets.tolist() == [one.log_offset for one in single]
    assert result.store_timestamps_ms.tolist() == [one.store_timestamp_ms for one in single]


@pytest.mark.parametrize(("place", "names"), [(2, "so no 2"), (-1, "so no -1")])
def test_a_pair_of_hosts_that_is_not_there_is_refused(place: int, names: str, tmp_path: Path) -> None:
    columns = of_hosts(with_hosts(messages(2)))
    columns.hosts_of = np.array([0, place], np.int64)
    with (
        open_store(tmp_path / "s", read_only=False, settings=SETTINGS) as store,
        pytest.raises(BadRequest, match=f"the column hosts_of is wrong in row 1: there are 2 pairs of hosts, {names}"),
    ):
        store.put_many(columns)


def test_store_times_are_as_many_as_messages(tmp_path: Path) -> None:
    with (
        open_store(tmp_path / "s", read_only=False, settings=SETTINGS) as store,
        pytest.raises(BadRequest, match="the column store_timestamps_ms has 1 values, 2 are needed"),
    ):
        store.put_many_replayed(MessageColumns.of(messages(2)), store_timestamps_ms=np.zeros(1, np.int64))


@pytest.mark.parametrize(("row_count", "stops"), [(0, []), (1, [1]), (2, [2]), (3, [2, 3]), (5, [2, 4, 5])])
def test_the_put_lock_is_free_after_each_chunk(
    row_count: int, stops: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    put, asked = bulk_put._BulkPut.__new__(bulk_put._BulkPut), list[int]()
    put.rows, put.log = np.arange(row_count), cast(Any, SimpleNamespace(locked=nullcontext))
    numbers = np.zeros((1, row_count), np.int64)

    def chunk(numbers: Int64Array, body_ends: object, property_ends: object, start: int, now_ms: object) -> int:
        asked.append(numbers.shape[1])
        return numbers.shape[1] - start

    monkeypatch.setattr(bulk_put, "RUN_CAPACITY", 2)
    monkeypatch.setattr(put, "_numbers", lambda: (numbers, None, None))
    monkeypatch.setattr(put, "_chunk", chunk)
    put.run()
    assert asked == stops
