"""What a rebuild is about, and what it keeps of expired queues: to the queue, the record and the entry."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from store import Message, open_store
from store.errors import BadRequest
from store.files.store_reader import StoreReader
from store.formats.message import TRANSACTION_PREPARED
from store.formats.queue_unit import BATCH_UNIT_SIZE, UNIT_SIZE
from store.structures.batchqueue.queues import expired_size
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE
from store.verbs.rebuild.behind import ends_in_damage, messages_behind
from store.verbs.rebuild.expired import _expired_size
from store.verbs.rebuild.scope import RebuildScope
from tests.support.stores import SMALL, make_store

START, SIZE = 1000, SMALL["mappedFileSizeCommitLog"]


@pytest.mark.parametrize(
    ("scope", "wanted", "is_narrow"),
    [
        (RebuildScope(), {("A", 0), ("A", 1), ("B", 0)}, False),
        (RebuildScope(topic="A"), {("A", 0), ("A", 1)}, True),
        (RebuildScope(topic="A", queue_id=1), {("A", 1)}, True),
        (RebuildScope(topic="C"), set(), True),
    ],
)
def test_a_scope_is_all_queues_those_of_a_topic_or_one(
    scope: RebuildScope, wanted: set[tuple[str, int]], is_narrow: bool
) -> None:
    assert {queue for queue in (("A", 0), ("A", 1), ("B", 0)) if scope.wants(queue)} == wanted
    assert scope.is_narrow == is_narrow


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"queue_id": 0}, "queue_id 0 is given without a topic"),
        ({"topic": "T", "confirmed": -1}, "confirmed is less than 0: -1"),
        ({"confirmed": 1 << 63}, "confirmed does not fit in 64 bits: 9223372036854775808"),
    ],
)
def test_a_scope_of_wrong_values_is_refused_by_the_name_of_its_field(fields: dict[str, Any], refusal: str) -> None:
    with pytest.raises(BadRequest) as refused:
        RebuildScope(**fields)
    assert str(refused.value) == refusal
    assert RebuildScope(topic="T", queue_id=0, confirmed=0).is_narrow


EXPIRED, AT_START, LIVE = (900, 99), (900, 100), (900, 101)
FILLER = (0, 0x7FFFFFFF)


@pytest.mark.parametrize(
    ("units", "kept"),
    [
        ([], 0),
        ([EXPIRED], 1),
        ([AT_START], 1),
        ([LIVE], 0),
        ([(START, 50)], 0),
        ([EXPIRED, AT_START, LIVE, EXPIRED], 2),
        ([FILLER, EXPIRED], 2),
        ([FILLER, FILLER], 0),
        ([FILLER, LIVE], 0),
        ([EXPIRED, (-1, 50)], 1),
        ([EXPIRED, (0, 0)], 1),
        ([(0, 50), (0, 1)], 2),
    ],
)
def test_the_leading_entries_of_expired_messages_are_kept(units: list[tuple[int, int]], kept: int) -> None:
    data = b"".join(struct.pack(">qiq", log_offset, size, 0) for log_offset, size in units)
    assert _expired_size(memoryview(data), START) == kept * UNIT_SIZE


@pytest.mark.parametrize(("units", "kept"), [([EXPIRED, AT_START, LIVE], 2), ([LIVE], 0), ([EXPIRED], 1)])
def test_the_leading_entries_of_a_batch_queue_are_kept(units: list[tuple[int, int]], kept: int) -> None:
    made = np.zeros(len(units), BATCH_UNIT_DTYPE)
    made["log_offset"], made["size"] = zip(*units, strict=True)
    made["message_count"] = made["store_timestamp_ms"] = 1
    assert expired_size(memoryview(made.tobytes()), START) == kept * BATCH_UNIT_SIZE


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[StoreReader, int]:
    """A store whose second record has a damaged body, and where that begins."""
    root = make_store(tmp_path / "s", 200)
    segment = min((root / "commitlog").iterdir())
    data = bytearray(segment.read_bytes())
    at = int.from_bytes(data[:4], "big")
    data[at + 90] ^= 1
    segment.write_bytes(data)
    return StoreReader(str(root)), at


def test_messages_behind_damage_are_counted_by_topic_in_the_scope(damaged: tuple[StoreReader, int]) -> None:
    files, at = damaged
    assert ends_in_damage(files, at)
    assert messages_behind(files, RebuildScope(), at) == {"T": 199}
    # Of 200 messages over three queues, queue 0 has 67; the damaged one is of queue 1.
    assert messages_behind(files, RebuildScope(topic="T", queue_id=0), at) == {"T": 66}
    assert messages_behind(files, RebuildScope(topic="T", queue_id=1), at) == {"T": 67}
    assert messages_behind(files, RebuildScope(topic="U"), at) == {}
    assert messages_behind(files, RebuildScope(queues=False), at) == {}


@pytest.mark.parametrize("log_end", [0, SIZE - 1, SIZE, SIZE + 1, 10 * SIZE])
def test_an_end_before_a_sound_record_zeros_or_no_segment_is_no_damage(log_end: int, tmp_path: Path) -> None:
    files = StoreReader(str(make_store(tmp_path / "s", 20)))
    assert messages_behind(files, RebuildScope(), log_end) == {}


def test_damage_at_a_segments_first_byte_ends_the_log(tmp_path: Path) -> None:
    root = make_store(tmp_path / "s", 200)
    for start in (0, SIZE):
        with (root / "commitlog" / f"{start:020d}").open("r+b") as segment:
            segment.seek(90)
            segment.write(b"\xff")
        assert ends_in_damage(StoreReader(str(root)), start)


def test_messages_behind_damage_are_counted_by_topic_without_what_no_queue_shows(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", settings=SMALL, read_only=False) as store:
        for topic, sys_flag in (("T", 0), ("T", TRANSACTION_PREPARED), ("U", 0), ("A", 0), ("U", 0), ("T", 4)):
            assert store.put(Message(topic, b"body" * 30, sys_flag=sys_flag)).is_ok
    segment = tmp_path / "s/commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    data[90] ^= 1
    segment.write_bytes(data)
    found = messages_behind(StoreReader(str(tmp_path / "s")), RebuildScope(), 0)
    assert [*found.items()] == [("A", 1), ("T", 1), ("U", 2)]
