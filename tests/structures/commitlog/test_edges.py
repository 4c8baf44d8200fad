"""The edges of the log's rules: below, at and above each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from store import DamagedRecord, Message, PutResult, PutStatus, open_store
from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.config import StoreConfig
from store.errors import BadRequest, StoreIOError
from store.files import lost_pages
from store.formats.columns import DamageReason
from store.formats.host import Host
from store.formats.message import BLANK_SIZE, RECORD_MIN_SIZE, TRANSACTION_PREPARED, encode_blank, record_size
from store.structures.commitlog import bulk
from store.structures.commitlog.arrow_columns import numbers_of
from store.structures.commitlog.bulk import MessageColumns, PutManyResult
from store.structures.commitlog.bulk_put import _most_bytes, put_many
from store.structures.commitlog.column_check import _check_ends
from store.structures.commitlog.commit_log import CommitLog
from store.structures.commitlog.end import LogEnd
from store.structures.commitlog.leftovers import Leftovers, is_zeroed_cut
from store.structures.commitlog.property_map import _flat
from store.structures.commitlog.put_queue import PutHosts, PutQueue
from store.structures.commitlog.put_rules import PutRules
from store.structures.commitlog.scan import Damage, End
from tests.support.stores import SMALL, Clock, text_message

SIZE = SMALL["mappedFileSizeCommitLog"]
DELAYED = Message("T", b"x", properties=b"DELAY\x013\x02")


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("size", "words"),
    [
        (RECORD_MIN_SIZE - 1, r"\(90 bytes\)"), (RECORD_MIN_SIZE, "body reaches beyond the record"),
        (SIZE, rf"\({SIZE} bytes\)"), (SIZE + 1, rf"\({SIZE + 1} bytes\)"),
    ],
)  # fmt: skip
def test_a_size_that_no_record_can_have_is_named_with_its_place(size: int, words: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "s", settings=SMALL, read_only=False) as store:
        at = [store.put(text_message(number)).log_offset for number in range(2)][1]
        with (tmp_path / "s/commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(at)
            file.write(size.to_bytes(4, "big"))
        with pytest.raises(DamagedRecord, match=words):
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


@pytest.mark.parametrize(
    ("compat", "length", "status"),
    [
        ("4.9", 0, PutStatus.MESSAGE_ILLEGAL), ("4.9", 1, PutStatus.PUT_OK), ("4.9", 127, PutStatus.PUT_OK),
        ("4.9", 128, PutStatus.MESSAGE_ILLEGAL), ("5.3", 255, PutStatus.PUT_OK),
        ("5.3", 256, PutStatus.MESSAGE_ILLEGAL),
    ],
)  # fmt: skip
def test_a_topic_has_127_characters_at_most_and_255_in_5_x(
    compat: str, length: int, status: PutStatus, tmp_path: Path
) -> None:
    with open_store(tmp_path / "s", settings=SMALL, read_only=False, compat=compat) as store:
        result = store.put(Message("t" * length, b"x"))
        assert (result.status, store.put_batch([Message("t" * length, b"x")]).status) == (status, status)
        assert result.reason.startswith("the topic must have 1 to " if status is not PutStatus.PUT_OK else "")


def test_a_result_is_of_one_message_unless_it_says_more() -> None:
    assert PutResult(PutStatus.PUT_OK) == (PutStatus.PUT_OK, -1, 0, -1, 0, 1, "", None, ())


@pytest.mark.parametrize("at", range(6))
def test_a_text_is_found_across_two_pieces(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_PIECE_SIZE", 4)
    properties = (b"." * at + b"WAIT" + b"." * 6).ljust(12, b".")
    assert MessageColumns.of([Message("T", b"", properties=properties)]).find_in_properties(b"WAIT")
    assert not MessageColumns.of([Message("T", b"", properties=b"." * 12)]).find_in_properties(b"WAIT")


@pytest.mark.parametrize("most_places", [0, 1 << 16])
def test_queues_are_numbered_by_topic_and_id(most_places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_MAX_QUEUE_PLACES", most_places)
    places = [("A", 1), ("B", 0), ("B", 2), ("A", 1), ("B", 2)]
    columns = MessageColumns.of([Message(topic, b"", queue_id=queue_id) for topic, queue_id in places])
    keys, numbers = columns.number_queues()
    named = [(columns.topics[key >> 32], key & 0xFFFFFFFF) for key in keys.tolist()]
    assert [named[number] for number in numbers.tolist()] == places
    assert len(named) == 3


def test_messages_that_all_have_negative_queue_ids_are_numbered_too() -> None:
    keys, numbers = MessageColumns.of([Message("A", b"", queue_id=-1)] * 2).number_queues()
    assert (len(keys), numbers.tolist()) == (1, [0, 0])


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


@pytest.mark.parametrize("kind", ["put", "put_batch", "put_many", "put_replayed"])
@pytest.mark.parametrize("page_is_lost", [False, True])
def test_a_segment_that_cannot_be_had_is_the_answer_but_a_lost_page_is_an_error(
    kind: str, page_is_lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_file(*_: object) -> None:
        raise StoreIOError("no segment")

    def require_none() -> None:
        if page_is_lost:
            raise StoreIOError("a page was lost")

    messages = [Message("T", b"x")] * 2
    calls: dict[str, Callable[[CommitLog], Any]] = {
        "put": lambda log: log.put(messages[0]),
        "put_batch": lambda log: log.put_batch(messages),
        "put_replayed": lambda log: log.put_replayed(messages[0], as_stored=True),
        "put_many": lambda log: put_many(log, MessageColumns.of(messages)).refused[1],
    }
    with open_store(tmp_path / "s", settings=SMALL, read_only=False) as store:
        monkeypatch.setattr(CommitLog, "file_for", no_file)
        monkeypatch.setattr(lost_pages, "require_none", require_none)
        if page_is_lost:
            with pytest.raises(StoreIOError, match="a page was lost"):
                calls[kind](store.opened.log)
        else:
            result = calls[kind](store.opened.log)
            assert (result.status, result.reason) == (PutStatus.CREATE_MAPEDFILE_FAILED, "no segment")


@pytest.mark.leaves_damage
@pytest.mark.parametrize("kind", ["put_batch", "put_many"])
def test_what_is_put_while_a_page_is_lost_is_not_there(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def require_none() -> None:
        raise StoreIOError("a page was lost")

    messages = [Message("T", b"x")] * 2
    with open_store(tmp_path / "s", settings=SMALL, read_only=False) as store:
        store.put(messages[0])
        log, end = store.opened.log, store.max_log_offset
        with monkeypatch.context() as patch:
            patch.setattr(lost_pages, "require_none", require_none)
            with pytest.raises(StoreIOError, match="a page was lost"):
                put_many(log, MessageColumns.of(messages)) if kind == "put_many" else log.put_batch(messages)
        assert (store.max_log_offset, log.queue_offset("T", 0), log.locked_since_ms) == (end, 1, 0)


@pytest.mark.leaves_damage
@pytest.mark.parametrize(("over", "words"), [(0, "total size differs"), (1, r"bytes\)")])
def test_a_record_ends_where_the_written_bytes_do(over: int, words: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "s", settings=SMALL, read_only=False) as store:
        at = [store.put(text_message(number)).log_offset for number in range(3)][1]
        with (tmp_path / "s/commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(at)
            file.write((store.max_log_offset - at + over).to_bytes(4, "big"))
        with pytest.raises(DamagedRecord, match=words):
            store.lookup(at)


@pytest.mark.parametrize("kind", ["put_batch", "put_many"])
def test_bytes_behind_what_is_put_never_begin_a_record(kind: str, tmp_path: Path) -> None:
    messages = [Message("T", b"x")] * 2
    with open_store(tmp_path / "s", settings=SMALL, read_only=False) as store:
        store.put(messages[0])
        log = store.opened.log
        file = log.segments.last_file()
        file.write_buffer[file.wrote : file.wrote + 1000] = b"\xff" * 1000
        put_many(log, MessageColumns.of(messages)) if kind == "put_many" else log.put_batch(messages)
        end = file.wrote
        assert bytes(file.write_buffer[end : end + 9]) == bytes(BLANK_SIZE) + b"\xff"
        file.write_buffer[end : end + 1000] = bytes(1000)


def test_a_chunk_has_blocks_for_the_largest_records_and_a_blank() -> None:
    body_ends, property_ends = np.array([0, 10, 30, 60]), np.array([0, 1, 5, 12])
    assert _most_bytes(body_ends, property_ends, 1, 3) == 50 + 11 + 2 * (RECORD_MIN_SIZE + 127 + 24) + BLANK_SIZE


def test_only_messages_of_queues_are_delayed_again(tmp_path: Path) -> None:
    half = Message("T", b"x", properties=b"DELAY\x013\x02", sys_flag=TRANSACTION_PREPARED)
    with open_store(tmp_path / "s", settings=SMALL, read_only=False, clock=Clock()) as store:
        for result in (store.put_replayed(half, as_stored=False), store.put(half)):
            found = store.lookup(result.log_offset)
            assert found is not None
            assert found.topic == "T"


ONE_QUEUE = "all messages of a batch need the same topic and queue"
LIMITS: list[tuple[dict[str, Any], list[Message], bool, PutStatus | None, str]] = [
    ({}, [], True, PutStatus.MESSAGE_ILLEGAL, "the batch is empty"),
    ({}, [Message("T", queue_id=-1)], True, PutStatus.MESSAGE_ILLEGAL, "the queue id is negative: -1"),
    ({}, [Message("T", queue_id=0)], True, None, ""),
    ({}, [Message("T"), Message("U")], True, PutStatus.MESSAGE_ILLEGAL, ONE_QUEUE),
    ({}, [Message("T"), Message("T", queue_id=1)], True, PutStatus.MESSAGE_ILLEGAL, ONE_QUEUE),
    ({}, [Message("T", sys_flag=4)], True, PutStatus.MESSAGE_ILLEGAL, "a batch cannot be part of a transaction"),
    ({}, [Message("T", sys_flag=4)], False, None, ""),
    ({}, [DELAYED], True, PutStatus.MESSAGE_ILLEGAL, "a batch cannot be delayed"), ({}, [DELAYED], False, None, ""),
    ({}, [Message("T", properties=b"p" * 32_767)], False, None, ""),
    ({}, [Message("T", properties=b"p" * 32_768)], False, PutStatus.MESSAGE_ILLEGAL, "the properties have 32768 bytes"),
    ({}, [Message("T", properties="ü".encode() * 16_384)], False, PutStatus.PROPERTIES_SIZE_EXCEEDED, "the properties"),
    ({"max_message_size": 9}, [Message("T", b"x" * 9)], False, None, ""),
    ({"max_message_size": 9}, [Message("T", b"x" * 10)], False, PutStatus.MESSAGE_ILLEGAL, "the body has 10 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "messages", "is_batch", "status", "reason"), LIMITS)
def test_each_limit_has_its_answer(
    settings: dict[str, Any], messages: list[Message], is_batch: bool, status: PutStatus | None, reason: str
) -> None:
    refused = PutRules(StoreConfig(**settings), 1 << 20).refuse_batch(messages, is_batch=is_batch)
    assert (None if refused is None else refused.status) is status
    assert refused is None or refused.reason.startswith(reason)


def test_a_record_is_refused_whose_segment_has_no_room_for_it_and_a_blank() -> None:
    rules = PutRules(StoreConfig(), 1000)
    assert (rules.max_record, rules.max_body) == (992, 4 << 20)
    size = 992 - record_size(0, 1, 0)
    assert rules.refuse_batch([Message("T", bytes(size))], is_batch=False) is None
    refused = rules.refuse_batch([Message("T", bytes(size + 1))], is_batch=False)
    assert refused is not None
    assert refused.reason == "the record would have 993 bytes, the limit is 992"


@pytest.mark.parametrize(
    ("line", "with_crc", "given", "stored"),
    [
        (LINE_4_9, False, b"a\x01b", b"a\x01b"), (LINE_4_9, True, b"a\x01b", b"a\x01b"), (LINE_5_3, False, b"", b""),
        (LINE_5_3, False, b"a\x01b", b"a\x01b\x02"), (LINE_5_3, False, b"a\x01b\x02", b"a\x01b\x02"),
        (LINE_5_3, True, b"__CRC32#\x01123\x02a\x01b", b"a\x01b\x02"),
        (LINE_5_3, False, b"__CRC32#\x01123", b"__CRC32#\x01123\x02"),
    ],
)  # fmt: skip
def test_properties_are_stored_as_the_line_does(line: BrokerLine, with_crc: bool, given: bytes, stored: bytes) -> None:
    rules = PutRules(StoreConfig(enabled_append_prop_crc=with_crc), 4096, line)
    assert rules.as_stored(given) == stored
    assert rules.appends_crc is (with_crc and line is LINE_5_3)


@pytest.mark.parametrize(
    ("topic", "lines"),
    [("t" * 127, "49 53"), ("t" * 128, "53"), ("ü" * 63, "49 53"), ("ü" * 64, "53"), ("a/b", ""), ("", ""), ("..", "")],
)
def test_a_topic_names_a_folder_and_fits_its_field(topic: str, lines: str) -> None:
    taken = [
        name
        for name, line in (("49", LINE_4_9), ("53", LINE_5_3))
        if not PutRules(StoreConfig(), 4096, line).refuse_place(topic, 0)
    ]
    assert " ".join(taken) == lines
    assert PutRules(StoreConfig(), 4096).refuse_place("T", -1) == "the queue id is negative: -1"


def test_the_answer_before_anything_is_stored_and_that_of_one_refusal() -> None:
    empty = PutManyResult.empty(2)
    columns = empty.log_offsets, empty.queue_offsets, empty.sizes, empty.store_timestamps_ms
    assert [one.tolist() for one in columns] == [[-1, -1], [-1, -1], [0, 0], [0, 0]]
    assert len({id(one) for one in columns}) == 4
    refusal = PutResult(PutStatus.MESSAGE_ILLEGAL)
    refused = PutManyResult.all_refused(2, refusal)
    assert (refused.refused, refused.status_of(1)) == ({0: refusal, 1: refusal}, PutStatus.MESSAGE_ILLEGAL)
    refused.refused = {0: refusal}
    assert refused.status_of(1) is PutStatus.PUT_OK


@pytest.mark.parametrize("count", [0, 3])
def test_message_ids_name_host_and_place(count: int) -> None:
    message = Message("T", store_host=Host(bytes([127, 0, 0, 1]), 10911))
    result = PutResult(PutStatus.PUT_OK, 16, message=message, log_offsets=tuple(range(16, 16 + count)))
    ids = [f"7F00000100002A9F{at:016X}" for at in (range(16, 16 + count) if count else [16])]
    assert (result.msg_id, result.is_ok) == (",".join(ids), True)
    assert PutResult(PutStatus.PUT_OK, 0, message=message).msg_id == "7F00000100002A9F" + "0" * 16
    assert (result._replace(log_offset=-1).msg_id, result._replace(message=None).msg_id) == ("", "")


def test_a_batch_is_answered_with_the_place_of_each_message(tmp_path: Path) -> None:
    batch = [Message("T", bytes(size), 2) for size in (1, 20, 300)]
    sizes = [record_size(len(one.body), 1, 0) for one in batch]
    with open_store(tmp_path / "s", settings=SMALL, read_only=False, clock=Clock()) as store:
        first = store.put(batch[0]).size
        starts = (first, first + sizes[0], first + sizes[0] + sizes[1])
        result = store.put_batch(batch)
        expected = (PutStatus.PUT_OK, first, sum(sizes), 1, Clock().now_ms, 3, "", batch[0], starts)
        assert result == expected
        found = [store.lookup(at) for at in starts]
        assert [(one.queue_offset, len(one.body)) for one in found if one] == [(1, 1), (2, 20), (3, 300)]
        log = store.opened.log
        assert (log.queue_offset("T", 2), log.queue_offset("T", 3), log.min_offset) == (4, 0, 0)
        assert (log.earliest_time(), log.max_offset) == (Clock().now_ms, first + sum(sizes))
        assert (store.put(batch[0]).queue_offset, log.locked_since_ms) == (4, 0)


@pytest.mark.parametrize(("waits", "marks"), [([True, False, True], [True, False, True]), ([True], [True]), ([], [])])
def test_messages_wait_for_the_disk_unless_they_say_not_to(waits: list[bool], marks: list[bool]) -> None:
    messages = [Message("T", b"x", properties=b"a\x01b\x02" + (b"" if one else b"WAIT\x01false")) for one in waits]
    columns = MessageColumns.of(messages)
    assert (columns.waits_for_flush().tolist(), len(columns)) == (marks, len(waits))
    assert [columns.message(row).properties for row in range(len(waits))] == [one.properties for one in messages]


@pytest.mark.parametrize(
    ("born", "stored", "extra", "flags"), [(4, 4, 0, 0), (16, 4, 12, 16), (4, 16, 12, 32), (16, 16, 24, 48)]
)
def test_hosts_of_16_bytes_take_12_more(born: int, stored: int, extra: int, flags: int) -> None:
    message = Message("T", born_host=Host(bytes(born), 1), store_host=Host(bytes(stored), 2))
    hosts = PutHosts.of(message)
    assert (hosts.extra_size, hosts.flags, len(hosts.encoded)) == (extra, flags, born + stored + 8)


@pytest.mark.parametrize(("topic", "size"), [("T", 92), ("t" * 127, 218), ("t" * 128, 220), ("ü", 93)])
def test_a_queue_knows_the_size_of_its_smallest_record(topic: str, size: int) -> None:
    queue = PutQueue.of(topic)
    assert (queue.base_size, queue.queue_offset, queue.topic) == (size, 0, topic.encode())
    for offset in (1, 1 << 40):
        queue.move_to(offset)
        assert queue.queue_offset == offset
