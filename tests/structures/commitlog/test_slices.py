"""Parts of segments: each record is in one part, wherever the cuts are."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store
from store.broker_line import LINE_4_9
from store.config import StoreConfig
from store.files.store_reader import StoredFile, StoreReader
from store.formats.columns import DamageReason
from store.formats.message import Message
from store.formats.run import Run
from store.structures.commitlog import slices
from store.structures.commitlog.bulk import MessageColumns
from store.structures.commitlog.commit_log import read_store_timestamp
from store.structures.commitlog.multi_dispatch import MultiDispatch
from store.structures.commitlog.put_rules import PutRules
from store.structures.commitlog.resync import has_bytes_in, read_on, runs_between
from store.structures.commitlog.scan import DEFAULT_RULES, VERIFYING, Damage, ScanRules, scan_log
from store.structures.commitlog.slices import (
    FIRST_ZERO_CHUNK_BYTES,
    LogSlice,
    _behind_zeros,
    readable_runs,
    split,
    split_into,
    walk_slice,
    whole_segment,
)
from tests.support.logs import record
from tests.support.small_log import SmallLog, SmallSegment

SEGMENT = 4096


@pytest.fixture(scope="module")
def log() -> SmallLog:
    log = SmallLog()
    log.put_many(20)
    return log


@pytest.fixture
def store(log: SmallLog, tmp_path: Path) -> Path:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(log.data.ljust(SEGMENT, b"\0"))
    return tmp_path


def starts_of(steps: object) -> list[int]:
    return [int(at) for step in steps if isinstance(step, Run) for at in step.log_offsets]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("size", "part_bytes", "starts"), [(0, 4, []), (4, 4, [0]), (5, 4, [0, 4]), (8, 4, [0, 4])])
def test_a_segment_is_cut_every_so_many_bytes(size: int, part_bytes: int, starts: list[int]) -> None:
    parts = split([StoredFile("f", 100, size, 0)], part_bytes)
    places = list(zip(starts, [*starts[1:], size], strict=False))
    assert parts == [LogSlice("f", 100, size, start, stop) for start, stop in places]
    assert [(part.log_start - 100, part.log_stop - 100) for part in parts] == places


@pytest.mark.parametrize(
    ("size", "count", "parts"), [(8, 1, 1), (8, 3, 3), (9, 3, 3), (10, 3, 3), (2, 3, 2), (0, 3, 0)]
)
def test_a_segment_is_cut_into_so_many_parts(size: int, count: int, parts: int) -> None:
    assert len(split_into([StoredFile("f", 0, size, 0)], count)) == parts


def test_a_whole_segment_is_walked_from_its_first_byte() -> None:
    assert whole_segment(StoredFile("f", 7, 9, 0)) == LogSlice("f", 7, 9, 0, 9, is_exact=True)


@pytest.mark.parametrize("part_bytes", [1000, 103, 102, 50, 7])
def test_each_record_is_in_the_part_in_which_it_begins(part_bytes: int, log: SmallLog, store: Path) -> None:
    reader = StoreReader(str(store))
    starts = [unit.log_offset for unit in log.units]
    for part in split(reader.segments(), part_bytes):
        expected = [at for at in starts if part.log_start <= at < part.log_stop]
        assert starts_of(walk_slice(reader, part, DEFAULT_RULES)) == expected
        assert starts_of(walk_slice(reader, part, DEFAULT_RULES, go_on=False)) == expected


@pytest.mark.parametrize("with_bad_bodies", [False, True])
def test_after_a_bad_body_a_part_goes_on(with_bad_bodies: bool, log: SmallLog, store: Path) -> None:
    segment, bad = store / "commitlog" / f"{0:020d}", log.units[5].log_offset
    data = bytearray(segment.read_bytes())
    data[bad + 88] ^= 1
    segment.write_bytes(data)
    reader = StoreReader(str(store))
    (part,) = split(reader.segments(), SEGMENT)
    starts = [unit.log_offset for unit in log.units if with_bad_bodies or unit.log_offset != bad]
    steps = list(walk_slice(reader, part, VERIFYING, with_bad_bodies=with_bad_bodies))
    assert starts_of(steps) == starts
    assert [step.file_start + step.position for step in steps if isinstance(step, Damage)] == [bad]
    assert starts_of(walk_slice(reader, part, VERIFYING, go_on=False)) == starts[:5]
    assert starts_of(readable_runs(reader, part, VERIFYING)) == [at for at in starts if at != bad]
    assert list(reader.damage.items()) == [((str(segment), bad), "bad body CRC")]


@pytest.mark.parametrize(
    ("start", "is_exact", "damaged"), [(0, False, [0]), (0, True, [0]), (9, True, [9]), (9, False, [])]
)
def test_a_part_begins_at_its_first_record_or_exactly_where_it_is_told(
    start: int, is_exact: bool, damaged: list[int], log: SmallLog, store: Path
) -> None:
    segment = store / "commitlog" / f"{0:020d}"
    segment.write_bytes(b"\1" * 8 + segment.read_bytes()[8:])
    part = LogSlice(str(segment.relative_to(store)), 0, SEGMENT, start, SEGMENT, is_exact)
    steps = list(walk_slice(StoreReader(str(store)), part, DEFAULT_RULES))
    assert [step.file_start + step.position for step in steps if isinstance(step, Damage)] == damaged
    assert starts_of(steps) == [unit.log_offset for unit in log.units[1:]]


@pytest.mark.parametrize(
    ("data", "reason"), [(record(v2=True), DamageReason.V2_RECORD), (b"\1" * 99, DamageReason.BAD_MAGIC)]
)
def test_a_record_of_5_x_is_named_where_it_is_damage(data: bytes, reason: DamageReason) -> None:
    (step,) = scan_log([SmallSegment(memoryview(data))], rules=ScanRules(accept_v2=False))
    assert isinstance(step, Damage)
    assert step.reason == reason


@pytest.mark.parametrize(("sys_flag", "counted"), [(0, 1), (4, 0), (8, 1), (12, 0)])
@pytest.mark.parametrize("with_crc", [False, True])
def test_prepared_and_rolled_back_messages_take_no_queue_offset(
    sys_flag: int, counted: int, with_crc: bool, tmp_path: Path
) -> None:
    settings = {"enabledAppendPropCRC": with_crc}
    with open_store(tmp_path / "s", read_only=False, settings=settings, compat="5.3") as store:
        store.put(Message("T"))
        result = store.put(Message("T", sys_flag=sys_flag))
        assert (result.queue_offset, store.put(Message("T")).queue_offset) == (counted, 1 + counted)


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoreReader, "is_local", False)


SIZE = len(record())


@pytest.mark.parametrize("window", [SIZE + 1, SIZE + 99, 2 * SIZE, SEGMENT - 1, SEGMENT, SEGMENT + 1])
@pytest.mark.parametrize("part_bytes", [SEGMENT, 1000, 50])
def test_windows_of_a_remote_file_give_the_records_of_each_part(
    window: int, part_bytes: int, log: SmallLog, store: Path, remote: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "WINDOW_BYTES", window)
    monkeypatch.setattr(slices, "LARGEST_RECORD_BYTES", SIZE)
    reader = StoreReader(str(store))
    for part in split(reader.segments(), part_bytes):
        expected = [unit.log_offset for unit in log.units if part.log_start <= unit.log_offset < part.log_stop]
        assert starts_of(walk_slice(reader, part, DEFAULT_RULES)) == expected


@pytest.mark.parametrize("hole", [SIZE - 1, 2 * SIZE, 9 * SIZE, SEGMENT - SIZE])
@pytest.mark.parametrize("window", [SIZE + 1, 2 * SIZE, SEGMENT])
def test_a_record_behind_a_hole_of_many_windows_is_found(
    hole: int, window: int, tmp_path: Path, remote: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "WINDOW_BYTES", window)
    monkeypatch.setattr(slices, "LARGEST_RECORD_BYTES", SIZE)
    reader = one_segment(tmp_path, (b"\1" * hole + record(position=hole)).ljust(SEGMENT, b"\1"))
    assert starts_of(readable_runs(reader, split(reader.segments(), SEGMENT)[0], DEFAULT_RULES)) == [hole]


def one_segment(root: Path, data: bytes, file_start: int = 0) -> StoreReader:
    (root / "commitlog").mkdir()
    (root / "commitlog" / f"{file_start:020d}").write_bytes(data)
    return StoreReader(str(root))


@pytest.mark.parametrize("file_start", [0, SEGMENT])
def test_a_damage_at_a_cut_is_of_the_part_behind_it(file_start: int, tmp_path: Path) -> None:
    sound = b"".join(record(position=file_start + place) for place in (0, SIZE))
    reader = one_segment(tmp_path, (sound + b"\1" * 8).ljust(SEGMENT, b"\0"), file_start)
    path = f"commitlog/{file_start:020d}"
    for start, stop, is_exact, damaged in [
        (0, 2 * SIZE, True, []), (0, 2 * SIZE + 1, True, [2 * SIZE]), (2 * SIZE, SEGMENT, True, [2 * SIZE]),
        (2 * SIZE, SEGMENT, False, []),
    ]:  # fmt: skip
        reader.damage.clear()
        part = LogSlice(path, file_start, SEGMENT, start, stop, is_exact)
        places = [file_start + at for at in (0, SIZE) if start <= at]
        assert starts_of(readable_runs(reader, part, DEFAULT_RULES)) == places
        assert [at for _, at in reader.damage] == damaged


CHUNK = FIRST_ZERO_CHUNK_BYTES


@pytest.mark.parametrize(
    ("size", "written", "stop", "behind"),
    [
        (CHUNK, CHUNK - 1, CHUNK, 0), (CHUNK + 1, CHUNK, CHUNK + 1, CHUNK - 8), (6 * CHUNK, 5 * CHUNK - 9, 6 * CHUNK,
        CHUNK - 8), (6 * CHUNK, 5 * CHUNK - 8, 6 * CHUNK, 5 * CHUNK - 16), (3 * CHUNK, None, CHUNK - 8, CHUNK - 8),
        (3 * CHUNK, None, CHUNK - 7, 3 * CHUNK - 8), (12, None, 12, 16), (17, 12, 17, 0),
    ],
)  # fmt: skip
def test_zeros_are_passed_over_to_less_than_a_size_before_the_first_byte(
    size: int, written: int | None, stop: int, behind: int, tmp_path: Path
) -> None:
    data = bytearray(size)
    data[size if written is None else written :] = b"\1" * (0 if written is None else 1)
    reader = one_segment(tmp_path, bytes(data[:size]).ljust(size, b"\0"))
    part = LogSlice(f"commitlog/{0:020d}", 0, size, 0, stop)
    assert _behind_zeros(reader, part, 0) == behind


@pytest.mark.parametrize(
    ("settings", "name", "queue_id"),
    [
        ({}, "%LMQ%a", 3), ({}, "a", 3), ({"enable_lmq": True}, "%LMQ%a", 0), ({"enable_lmq": True}, "a", 3),
    ],
)  # fmt: skip
def test_a_light_queue_has_the_id_0_where_light_queues_are_on(
    settings: dict[str, bool], name: str, queue_id: int
) -> None:
    lights = MultiDispatch(StoreConfig(enable_multi_dispatch=True, **settings), LINE_4_9)
    assert lights.queues_of(Message("T", queue_id=3), [name]) == [(name, queue_id)]


def test_rules_take_all_records_for_right_unless_told() -> None:
    assert (ScanRules(False, True, False, False), ScanRules(True, True, False, False)) == (DEFAULT_RULES, VERIFYING)


@pytest.mark.parametrize("number", [0, 1, 19])
def test_runs_between_begin_before_the_stop(number: int, log: SmallLog) -> None:
    segments, at = [SmallSegment(memoryview(log.data))], log.units[number].log_offset
    starts = [unit.log_offset for unit in log.units]
    for stop in (at - 1, at, at + 1):
        assert starts_of(runs_between(segments, 0, stop, rules=DEFAULT_RULES)) == [one for one in starts if one < stop]
    assert starts_of(runs_between(segments, at, 1 << 20, rules=DEFAULT_RULES)) == starts[number:]


@pytest.mark.parametrize("at", [0, 5])
def test_a_walk_of_the_log_counts_bytes_from_its_stop_on_as_not_there(at: int, log: SmallLog) -> None:
    unit, start = log.units[at], 1 << 20
    data = b"".join(record(position=start + place) for place in range(0, len(record()) * 9, len(record())))
    size = len(record())
    segments = [SmallSegment(memoryview(log.data)), SmallSegment(memoryview(data), file_start=start)]
    end = unit.log_offset + unit.size
    for stop, count in ((end - 1, at), (end, at + 1), (end + 1, at + 1)):
        assert len(starts_of(scan_log(segments, stop=stop))) == count
    assert len(starts_of(scan_log(segments, start + size * at))) == 9 - at
    assert len(starts_of(scan_log(segments, unit.log_offset))) == 20 - at
    assert starts_of(scan_log([], 0)) == []


@pytest.mark.parametrize(
    ("data", "ranges", "has"),
    [(b"\0\0\1", [(0, 2)], False), (b"\0\0\1", [(0, 3)], True), (b"\0\0\1", [(2, 3)], True),
     (b"\1\0\0", [(1, 3)], False), (b"\1", [], False), (b"\0\1\0\1", [(0, 1), (2, 4)], True)],
)  # fmt: skip
def test_bytes_are_looked_for_in_the_ranges_alone(data: bytes, ranges: list[tuple[int, int]], has: bool) -> None:
    assert has_bytes_in(ranges, lambda start, stop: data[start:stop]) is has


def test_a_search_goes_on_one_byte_after_damage() -> None:
    asked: list[int] = []

    def find(at: int) -> int | None:
        asked.append(at)
        return None

    damage = next(iter(scan_log([SmallSegment(memoryview(b"\1" * 100), file_start=50)])))
    assert list(read_on(lambda at: [damage], find, 50)) == [damage]
    assert asked == [51]


@pytest.mark.parametrize("sys_flag", [0, 0x10, 0x20, 0x30])
def test_the_store_time_is_read_after_the_born_host(sys_flag: int) -> None:
    for time_ms in (-1, 1_700_000_000_123):
        assert read_store_timestamp(memoryview(record(sys_flag=sys_flag, store_timestamp_ms=time_ms))) == time_ms


ROOM = 1024 - 8 - 91 - 1
"""Bytes of a body with which a record of a one-letter topic fills a segment of 1024 bytes up to its blank."""


@pytest.mark.parametrize(
    ("most", "segment", "body", "properties", "refused"),
    [
        (100, 4096, 99, 0, False), (100, 4096, 100, 0, False), (100, 4096, 101, 0, True),
        (4096, 1024, ROOM, 0, False), (4096, 1024, ROOM + 1, 0, True), (4096, 1024, ROOM - 5, 5, False),
        (4096, 1024, ROOM - 5, 6, True), (9, 1 << 20, 0, 32_767, False), (9, 1 << 20, 0, 32_768, True),
    ],
)  # fmt: skip
def test_a_message_is_refused_above_each_limit(
    most: int, segment: int, body: int, properties: int, refused: bool
) -> None:
    rules = PutRules(StoreConfig(max_message_size=most), segment)
    message = Message("T", bytes(body), 0, b"p" * properties)
    columns = MessageColumns.of([Message("T"), message, Message("T", queue_id=-1)])
    assert rules.refuse_rows(columns).tolist() == [False, refused, True]
    assert (rules.refuse_batch([message], is_batch=False) is not None) is refused


@pytest.mark.parametrize(("bodies", "is_refused"), [([56], False), ([57], False), ([78], False), ([79], True),
                                                    ([28, 28], False), ([28, 29], True)])  # fmt: skip
def test_a_batch_counts_as_it_is_sent(bodies: list[int], is_refused: bool) -> None:
    rules = PutRules(StoreConfig(max_message_size=100), 4096)
    assert (rules.refuse_batch([Message("T", bytes(size)) for size in bodies]) is not None) is is_refused


def test_a_delayed_message_waits_in_the_queue_before_its_level() -> None:
    rules = PutRules(StoreConfig(), 4096)
    waiting = rules.delayed(Message.of("T", "x", delay_level=3, queue_id=5))
    assert (waiting.topic, waiting.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
    assert sorted(waiting.properties.split(b"\x02")) == [b"DELAY\x013", b"REAL_QID\x015", b"REAL_TOPIC\x01T"]
    assert rules.delayed(Message.of("T", "x")) == Message("T", b"x")
