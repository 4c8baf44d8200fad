"""The edges of the log's rules: below, at and above each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from store import DamagedRecord, Message, PutResult, PutStatus, open_store
from store.errors import BadRequest
from store.formats.columns import DamageReason
from store.formats.message import BLANK_SIZE, RECORD_MIN_SIZE, TRANSACTION_PREPARED, encode_blank, record_size
from store.structures.commitlog import bulk
from store.structures.commitlog.arrow_columns import numbers_of
from store.structures.commitlog.bulk import MessageColumns
from store.structures.commitlog.column_check import _check_ends
from store.structures.commitlog.end import LogEnd
from store.structures.commitlog.leftovers import Leftovers, is_zeroed_cut
from store.structures.commitlog.property_map import _flat
from store.structures.commitlog.scan import Damage, End
from tests.support.stores import SMALL, Clock, text_message

SIZE = SMALL["mappedFileSizeCommitLog"]
DELAYED = Message("T", b"x", properties=b"DELAY\x013\x02")


@pytest.mark.leaves_damage
@pytest.mark.parametrize("size", [RECORD_MIN_SIZE - 1, SIZE, SIZE + 1])
def test_a_size_that_no_record_can_have_is_named_with_its_place(size: int, tmp_path: Path) -> None:
    with open_store(tmp_path / "s", settings=SMALL, read_only=False) as store:
        at = [store.put(text_message(number)).log_offset for number in range(2)][1]
        with (tmp_path / "s/commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(at)
            file.write(size.to_bytes(4, "big"))
        with pytest.raises(DamagedRecord, match=rf"\({size} bytes\)"):
            store.lookup(at)


@pytest.mark.parametrize("left", [BLANK_SIZE, BLANK_SIZE + 1])
def test_a_segment_ends_in_a_blank_where_one_has_room(left: int, tmp_path: Path) -> None:
    body = SIZE - left - record_size(0, 1, 0, 0)
    with open_store(tmp_path / "s", settings={**SMALL, "maxMessageSize": SIZE}, read_only=False) as store:
        assert store.put(Message("T", bytes(body))).log_offset == 0
        assert store.put(Message("T", b"x")).log_offset == SIZE
    data = (tmp_path / "s/commitlog" / f"{0:020d}").read_bytes()
    assert data[SIZE - left : SIZE - left + BLANK_SIZE] == encode_blank(left)


@pytest.mark.parametrize(
    ("message", "as_stored", "topic"),
    [(DELAYED, False, "SCHEDULE_TOPIC_XXXX"), (DELAYED, True, "T"), (Message("T", b"x"), False, "T")],
)
def test_a_replayed_message_is_delayed_unless_it_is_put_as_stored(
    message: Message, as_stored: bool, topic: str, tmp_path: Path
) -> None:
    with open_store(tmp_path / "s", settings=SMALL, read_only=False) as store:
        result = store.put_replayed(message, as_stored=as_stored)
        found = store.lookup(result.log_offset)
    assert found is not None
    assert (found.topic, result.message_count) == (topic, 1)


@pytest.mark.parametrize(("length", "status"), [(127, PutStatus.PUT_OK), (128, PutStatus.MESSAGE_ILLEGAL)])
def test_a_topic_has_127_characters_at_most(length: int, status: PutStatus, tmp_path: Path) -> None:
    with open_store(tmp_path / "s", settings=SMALL, read_only=False) as store:
        assert store.put(Message("t" * length, b"x")).status is status


def test_a_result_is_of_one_message_unless_it_says_more() -> None:
    assert PutResult(PutStatus.PUT_OK).message_count == 1


@pytest.mark.parametrize("at", range(6))
def test_a_text_is_found_across_two_pieces(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_PIECE_SIZE", 4)
    properties = (b"." * at + b"WAIT" + b"." * 6).ljust(12, b".")
    assert MessageColumns.of([Message("T", b"", properties=properties)]).find_in_properties(b"WAIT")
    assert not MessageColumns.of([Message("T", b"", properties=b"." * 12)]).find_in_properties(b"WAIT")


def test_queues_are_numbered_by_topic_and_id() -> None:
    places = [("A", 1), ("B", 0), ("B", 2), ("A", 1), ("B", 2)]
    columns = MessageColumns.of([Message(topic, b"", queue_id=queue_id) for topic, queue_id in places])
    keys, numbers = columns.number_queues()
    named = [(columns.topics[key >> 32], key & 0xFFFFFFFF) for key in keys.tolist()]
    assert [named[number] for number in numbers.tolist()] == places
    assert len(named) == 3


@pytest.mark.parametrize(("ends", "row"), [([5, 10], 0), ([0, 5, 10], 1), ([6, 6], 0)])
def test_the_first_row_beyond_the_data_is_named(ends: list[int], row: int) -> None:
    with pytest.raises(BadRequest, match=f"wrong in row {row}: "):
        _check_ends("bodies", np.array(ends, np.int64), "data", bytes(5), len(ends) - 1)


def test_a_null_number_is_0() -> None:
    batch = pa.record_batch({"flag": pa.array([3, None], pa.int32())})
    assert numbers_of(batch, "flag").tolist() == [3, 0]


def test_a_part_of_strings_begins_at_its_own_first_byte() -> None:
    strings = pa.array([b"one", b"two", b"four"], pa.binary())
    data, ends = _flat(strings.slice(1))
    assert (bytes(data), ends.tolist()) == (b"twofour", [3, 7])


@dataclass
class Bytes:
    """A segment in memory that begins at log offset 4096."""

    buffer: memoryview
    file_start: int = 4096
    readable: int = 1 << 20

    @property
    def size(self) -> int:
        return len(self.buffer)

    def readable_end(self, start: int, stop: int) -> int:
        return min(stop, self.readable)


@dataclass
class Times:
    """The store times of a run in a segment."""

    store_timestamp_ms: Any
    file_start: int = 4096

    @property
    def columns(self) -> Times:
        return self

    @property
    def count(self) -> int:
        return len(self.store_timestamp_ms)


END = End(4096, Path("s"), 0)
DAMAGE = Damage(4096, Path("s"), 0, DamageReason.BAD_SIZE, -1)


@pytest.mark.parametrize(
    ("outcome", "others", "times", "stale"),
    [
        (END, 0, [9, 10, 11], [True, False, False]),
        (END, 1, [9, 10, 11], [True, False, False]),
        (DAMAGE, 0, [9, 10, 8], [True, False, True]),
        (DAMAGE, 0, [10, 9], [False, False]),
        (DAMAGE, 1, [9, 8], [False, False]),
        (None, 0, [9], [False]),
    ],
)
def test_what_is_older_than_the_last_record_is_left_over(
    outcome: Any, others: int, times: list[int], stale: list[bool]
) -> None:
    segments: Any = [Bytes(memoryview(bytes(1024))), *[Bytes(memoryview(b""), 8192)] * others]
    run: Any = Times(np.array(times))
    leftovers = Leftovers(segments, LogEnd(0, 4096, outcome, last_store_timestamp_ms=10), run)
    assert leftovers.among(run).tolist() == stale
    assert leftovers.stop == (4096 + 1024 if any(stale) or outcome is END else None)
    elsewhere: Any = Times(np.array(times), 8192)
    assert not leftovers.among(elsewhere).any()


def test_behind_the_8_bytes_of_an_earlier_cut_all_is_left_over() -> None:
    record = bytearray(1024)
    record[28:36] = (4096).to_bytes(8, "big")
    segment: Any = Bytes(memoryview(record))
    assert is_zeroed_cut(segment, 0)
    run: Any = Times(np.array([11]))
    leftovers = Leftovers([segment], LogEnd(0, 4096, END, last_store_timestamp_ms=10), run)
    assert leftovers.among(run).tolist() == [True]


def test_only_messages_of_queues_are_delayed_again(tmp_path: Path) -> None:
    half = Message("T", b"x", properties=b"DELAY\x013\x02", sys_flag=TRANSACTION_PREPARED)
    with open_store(tmp_path / "s", settings=SMALL, read_only=False, clock=Clock()) as store:
        found = store.lookup(store.put_replayed(half, as_stored=False).log_offset)
    assert found is not None
    assert found.topic == "T"
