"""Units of a database as entries: valid, stale and malformed ones, from an offset on and of the queues asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store.errors import BadRequest
from store.formats.fields import fields_of
from store.structures.entry import Asked, Entry, EntryBlock
from store.structures.queuedb import rows as room
from store.structures.queuedb.keys import VALUE, VALUE_DTYPE, VALUE_NAMES, Place, last_key, unit_key
from store.structures.queuedb.runs import MalformedEntry, UnitRun

FOLDER = Path("consumequeue")
NEWEST = {("T", 0): Place(300, 3), ("T", 1): Place(0, 9), ("U", 0): Place(0, 9)}
MALFORMED = MalformedEntry(b"\x01k", b"v")


def run_of(topic: str, *offsets: int) -> UnitRun:
    values = np.array([(100 * one, 50, one, 7) for one in offsets], VALUE_DTYPE)
    return UnitRun(topic, 0, np.array(offsets, np.int64), values)


@pytest.fixture
def asked_keys(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, ...]]:
    """The bounds of the reads; every read gives units 2 to 5 of T/0, one of an unknown queue, and a malformed entry."""
    keys: list[tuple[bytes, ...]] = []

    def runs(*bounds: bytes) -> Iterator[UnitRun | MalformedEntry]:
        keys.append(bounds)
        yield from (run_of("T", 2, 3, 4, 5), MALFORMED, run_of("V", 0))

    monkeypatch.setattr(room, "open_database", lambda *given: SimpleNamespace(newest=NEWEST, runs=runs))
    return keys


def entry(kind: str, topic: str, number: int) -> Entry:
    data = VALUE.pack(100 * number, 50, number, 7)
    extra: dict[str, Any] = {"topic": topic, "queue_id": 0, "queue_offset": number}
    return Entry(kind, "consumequeue", number, 0, data, fields_of(VALUE, VALUE_NAMES, data), extra)


DAMAGE = Entry("damage", "consumequeue", 0, 0, b"v", extra={"detail": "malformed: key 016b"}, is_fault=True)


@pytest.mark.usefixtures("asked_keys")
@pytest.mark.parametrize(
    ("first", "units", "stale"),
    [(0, [2, 3], [4, 5]), (2, [2, 3], [4, 5]), (3, [3], [4, 5]), (4, [], [4, 5]), (5, [], [5]), (6, [], [])],
)
def test_a_unit_after_the_newest_of_its_queue_is_stale(first: int, units: list[int], stale: list[int]) -> None:
    unknown = [entry("stale", "V", 0)] if first == 0 else []
    wanted = [*(entry("unit", "T", one) for one in units), *(entry("stale", "T", one) for one in stale)]
    assert list(room.rows(FOLDER, Asked(first))) == [*wanted, DAMAGE, *unknown]
    blocks = [one for one in room.blocks(FOLDER, Asked(first)) if isinstance(one, EntryBlock)]
    shown = [(one.columns["kind"], one.columns["topic"], one.numbers.tolist()) for one in blocks]
    wanted_blocks = [("unit", "T", units), ("stale", "T", stale), ("stale", "V", [0] if unknown else [])]
    assert shown == [block for block in wanted_blocks if block[2]]


@pytest.mark.usefixtures("asked_keys")
def test_a_block_has_the_columns_of_its_units() -> None:
    (block, *_) = room.blocks(FOLDER, Asked(3))
    assert isinstance(block, EntryBlock)
    columns = {name: one.tolist() if isinstance(one, np.ndarray) else one for name, one in block.columns.items()}
    assert columns == {
        "kind": "unit", "file": "consumequeue", "position": 0, "log_offset": [300], "size": [50], "tags_code": [3],
        "store_timestamp_ms": [7], "topic": "T", "queue_id": 0, "queue_offset": [3],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "queue_id", "queues"),
    [(None, None, None), ("T", None, [0, 1]), ("T", 1, [1]), ("T", 0, [0])],
)
def test_the_queues_that_are_asked_for_are_read_from_the_first_offset_on(
    topic: str | None, queue_id: int | None, queues: list[int] | None, asked_keys: list[tuple[bytes, ...]]
) -> None:
    list(room.rows(FOLDER, Asked(4, topic, queue_id)))
    assert asked_keys == ([()] if queues is None else [(unit_key("T", one, 4), last_key("T", one)) for one in queues])


@pytest.mark.usefixtures("asked_keys")
@pytest.mark.parametrize(("topic", "queue_id", "name"), [("T", 2, "T/2"), ("W", None, "W"), ("W", 0, "W/0")])
def test_a_queue_that_the_database_lacks_is_refused(topic: str, queue_id: int | None, name: str) -> None:
    with pytest.raises(BadRequest, match=f"no queue {name} is in the RocksDB"):
        list(room.rows(FOLDER, Asked(0, topic, queue_id)))
