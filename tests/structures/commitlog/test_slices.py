"""Parts of segments: each record is in one part, wherever the cuts are."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store import open_store
from store.broker_line import LINE_4_9
from store.config import StoreConfig
from store.files.mapping import PAGE_SIZE
from store.files.store_reader import StoredFile, StoreReader
from store.formats.columns import DamageReason, ScanOutcome
from store.formats.message import Message, encode_blank
from store.formats.run import Run
from store.structures.commitlog import scan, slices
from store.structures.commitlog.bulk import MessageColumns
from store.structures.commitlog.multi_dispatch import MultiDispatch
from store.structures.commitlog.put_rules import PutRules
from store.structures.commitlog.readable_log import read_store_timestamp
from store.structures.commitlog.resync import has_bytes_behind, has_bytes_in, read_on, readable_behind, runs_between
from store.structures.commitlog.scan import (
    DEFAULT_RULES,
    VERIFYING,
    Blank,
    Damage,
    End,
    ScanRules,
    _PagesAhead,
    scan_log,
    scan_segment,
)
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
from tests.support.quickly import one_of
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


@pytest.mark.turns(2)
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
    assert list(reader.damage.items()) == [
        ((str(segment), bad), f"bad body CRC (up to offset {starts[6 - (not with_bad_bodies)]})")
    ]


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


@pytest.mark.turns(2)
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
        assert store.lookup(result.log_offset).queue_offset == counted  # type: ignore[union-attr]


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoreReader, "is_local", False)


SIZE = len(record())


@pytest.mark.turns(3)
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


@pytest.mark.parametrize(
    ("hole", "window"), one_of(13, [SIZE - 1, 2 * SIZE, 9 * SIZE, SEGMENT - SIZE], [SIZE + 1, 2 * SIZE, SEGMENT])
)
def test_a_record_behind_a_hole_of_many_windows_is_found(
    hole: int, window: int, tmp_path: Path, remote: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "WINDOW_BYTES", window)
    monkeypatch.setattr(slices, "LARGEST_RECORD_BYTES", SIZE)
    reader = one_segment(tmp_path, (b"\1" * hole + record(position=hole)).ljust(SEGMENT, b"\1"))
    assert starts_of(readable_runs(reader, split(reader.segments(), SEGMENT)[0], DEFAULT_RULES)) == [hole]


ZEROS = "zeros in place of a record"


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("file_start", [0, SEGMENT])
@pytest.mark.parametrize(
    ("rest", "found", "damage"),
    [
        # A hole, what follows it, the records found after the first one, and the note on the first hole.
        ((0, []), [], None),
        ((SIZE, []), [], None),
        ((SIZE, [b"\1" * 9]), [], ZEROS),
        ((7, [b"\1" * 9]), [], "unknown magic"),
        ((8, [b"\1" * 9]), [], ZEROS),
        ((8, [b"\1" * (SIZE - 8), SIZE]), [2 * SIZE], f"{ZEROS} (up to offset {2 * SIZE})"),
        ((SIZE, [SIZE]), [2 * SIZE], f"{ZEROS} (up to offset {2 * SIZE})"),
        ((SIZE, [SIZE, SIZE]), [2 * SIZE, 3 * SIZE], f"{ZEROS} (up to offset {2 * SIZE})"),
        ((9 * SIZE + 5, [SIZE]), [10 * SIZE + 5], f"{ZEROS} (up to offset {10 * SIZE + 5})"),
        ((0, [encode_blank(8), bytes(8), SIZE]), [], None),
    ],
)  # fmt: skip
def test_records_after_zeros_are_read_and_the_zeros_named(
    is_remote: bool,
    file_start: int,
    rest: tuple[int, list[bytes | int]],
    found: list[int],
    damage: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if is_remote:
        monkeypatch.setattr(StoreReader, "is_local", False)
        monkeypatch.setattr(slices, "WINDOW_BYTES", 3 * SIZE)
        monkeypatch.setattr(slices, "LARGEST_RECORD_BYTES", SIZE)
    hole, following = rest
    data = record(position=file_start) + bytes(hole)
    for piece in following:
        data += piece if isinstance(piece, bytes) else record(position=file_start + len(data))
    reader = one_segment(tmp_path, data.ljust(SEGMENT, b"\0"), file_start)
    (part,) = split(reader.segments(), SEGMENT)
    assert starts_of(readable_runs(reader, part, DEFAULT_RULES)) == [file_start + at for at in (0, *found)]
    path = str(tmp_path / part.path)
    assert reader.damage == ({(path, SIZE): damage} if damage else {})


def test_a_record_that_a_broker_puts_during_the_walk_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, behind = one_segment(tmp_path, record().ljust(SEGMENT, b"\0")), slices._behind_zeros

    def put_and_look(files: StoreReader, part: LogSlice, position: int) -> int:
        with (tmp_path / part.path).open("r+b") as file:
            file.seek(position)
            file.write(record(position=position))
        return behind(files, part, position)

    monkeypatch.setattr(slices, "_behind_zeros", put_and_look)
    (part,) = split(reader.segments(), SEGMENT)
    assert (starts_of(readable_runs(reader, part, DEFAULT_RULES)), reader.damage) == ([0], {})


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


@pytest.mark.parametrize("stop", [5 * CHUNK, 5 * CHUNK + 1, 9 * CHUNK])
def test_holes_are_passed_over_unread(stop: int, tmp_path: Path) -> None:
    reader = one_segment(tmp_path, bytes(CHUNK))
    with (tmp_path / f"commitlog/{0:020d}").open("r+b") as file:
        file.truncate(9 * CHUNK)
        file.seek(5 * CHUNK)
        file.write(b"\1")
    part = LogSlice(f"commitlog/{0:020d}", 0, 9 * CHUNK, 99, stop)
    written = [*reader.written_ranges(part.path, 0)]
    assert _behind_zeros(reader, part, 99) == (5 * CHUNK if stop == 5 * CHUNK else 5 * CHUNK - 8)
    grown = sum(stop - start for start, stop in reader.written_ranges(part.path, 0))
    assert grown - sum(stop - start for start, stop in written) <= PAGE_SIZE


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
    damage = Damage(7, Path("s"), 9, DamageReason.BAD_SIZE, -1)
    assert damage == Damage(7, Path("s"), 9, DamageReason.BAD_SIZE, -1, (0, 0))


TORN = record(properties=b"a\x01b\0")
WHOLE = record(properties=b"a\x01bc")


@pytest.mark.parametrize(
    ("parts", "count", "reason"),
    [
        ((WHOLE, TORN, WHOLE, bytes(99)), 3, None), ((TORN, WHOLE, bytes(99)), 2, None),
        ((WHOLE, TORN, bytes(99)), 1, DamageReason.TORN_PROPERTIES), ((WHOLE, WHOLE, bytes(99)), 2, None),
        ((WHOLE, TORN, b"\1" * 99), 1, DamageReason.TORN_PROPERTIES),
        ((TORN, bytes(8)), 0, DamageReason.TORN_PROPERTIES),
        ((WHOLE, WHOLE, b"\1" * 99), 2, DamageReason.BAD_MAGIC), ((TORN, bytes(7)), 1, None), ((TORN,), 1, None),
        ((record(), bytes(99)), 1, None),
    ],
)  # fmt: skip
def test_the_last_record_before_zeros_or_damage_is_torn_where_its_properties_end_in_zero(
    parts: tuple[bytes, ...], count: int, reason: DamageReason | None
) -> None:
    rules = ScanRules(accept_v2=True, cuts_torn=True)
    *runs, last = scan_log([SmallSegment(memoryview(b"".join(parts)))], rules=rules)
    assert sum(run.count for run in runs if isinstance(run, Run)) == count
    assert [run.misplaced_count for run in runs if isinstance(run, Run)] == [0] * len(runs)
    assert (last.reason if isinstance(last, Damage) else None) == reason
    if reason == DamageReason.TORN_PROPERTIES:
        assert isinstance(last, Damage)
        assert (last.position, last.size) == (sum(map(len, parts[:count])), -1)


@pytest.mark.parametrize("end", [4096, 4095, 100])
@pytest.mark.parametrize(
    ("outcome", "reason", "position", "size", "may_cut"),
    [
        (ScanOutcome.LIMIT, 0, 90, 0, True), (ScanOutcome.BLANK, 0, 90, 0, False), (ScanOutcome.FULL, 0, 90, 0, False),
        (ScanOutcome.END, 0, -7, 0, True), (ScanOutcome.END, 0, -8, 0, False),
        (ScanOutcome.DAMAGE, DamageReason.SIZE_BEYOND_SEGMENT, 90, 4096 - 90, True),
        (ScanOutcome.DAMAGE, DamageReason.SIZE_BEYOND_SEGMENT, 90, 4096 - 89, False),
        (ScanOutcome.DAMAGE, DamageReason.BODY_BEYOND, 90, 99, True),
        (ScanOutcome.DAMAGE, DamageReason.TOPIC_BEYOND, 90, 99, True),
        (ScanOutcome.DAMAGE, DamageReason.PROPERTIES_BEYOND, 90, 99, True),
        (ScanOutcome.DAMAGE, DamageReason.BAD_MAGIC, 90, 99, False),
    ],
)  # fmt: skip
def test_more_pages_can_change_the_verdict_on_what_may_go_on_behind_them(
    end: int, outcome: ScanOutcome, reason: int, position: int, size: int, may_cut: bool
) -> None:
    data, at = bytearray(4100), position if position > 0 else end + position
    data[at : at + 4] = size.to_bytes(4, "big")
    pages = _PagesAhead(SmallSegment(memoryview(data)), 0, 4096)
    pages.end = end
    assert pages.may_cut(at, np.array([at, outcome, reason])) == (may_cut and end < 4096)


class LostPages:
    """Pages that are lost: `first` is the first one's place in the buffer."""

    def __init__(self, first: int) -> None:
        self.first, self.counted = first, 0
        self.reported: list[tuple[int, int]] = []
        self.required: list[tuple[int, ...]] = []

    def count(self) -> int:
        return self.counted

    def first_lost(self, start: int, stop: int) -> int:
        base = self.base
        assert base <= start <= stop
        return base + self.first if start <= base + self.first < stop else stop

    def report(self, start: int, stop: int) -> None:
        self.reported.append((start - self.base, stop - self.base))

    def require_none_since(self, seen: int, start: int, stop: int) -> None:
        self.required.append((seen, start - self.base, stop - self.base))

    base = 0


@pytest.mark.parametrize(
    ("first", "were_lost", "end", "reported", "required"),
    [
        (100, True, 100, [(100, 300)], []), (50, True, 50, [(50, 300)], []), (299, True, 299, [(299, 300)], []),
        (300, False, 300, [], [(0, 0, 4096)]), (49, False, 300, [], [(0, 0, 4096)]),
    ],
)  # fmt: skip
def test_pages_end_where_the_first_one_was_lost_that_the_kernel_met(
    first: int, were_lost: bool, end: int, reported: list[Any], required: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, buffer = LostPages(first), memoryview(bytearray(4096))
    monkeypatch.setattr(scan, "lost_pages", lost)
    lost.base = scan._address_of(buffer)
    pages = _PagesAhead(SmallSegment(buffer), 0, 4096)
    pages.end = 300
    assert not pages.were_lost(50)
    pages.require_kept()
    assert lost.required == []
    lost.counted = 7
    assert pages.were_lost(50) is were_lost
    assert (pages.end, pages.read_on(50)) == (end, not were_lost)
    assert (lost.reported, lost.required) == (reported, required)
    pages.require_kept()
    assert lost.required == required, "looked at once"


@pytest.mark.parametrize("pages_a_window", [1, 2])
def test_a_window_grows_until_the_limit(pages_a_window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "FIRST_WINDOW_BYTES", 100 * pages_a_window)
    monkeypatch.setattr(scan, "WINDOW_BYTES", 500)
    pages = _PagesAhead(SmallSegment(memoryview(bytes(4096))), 50, 2000)
    ends = [pages.end]
    while pages.read_on(50):
        ends.append(pages.end)
    first = 100 * pages_a_window
    assert ends[:3] == [50 + first, 50 + first + min(4 * first, 500), 50 + first + min(4 * first, 500) + 500]
    assert ends[-1] == 2000
    assert pages.unreadable(70) == Damage(0, Path(f"{0:020d}"), 70, DamageReason.UNREADABLE, -1, (2000, 2000))


def test_reading_ahead_ends_with_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    ahead = SimpleNamespace(until=lambda stop: stop, close=lambda: closed.append("closed"))
    monkeypatch.setattr(scan.ReadAhead, "of", lambda segment, start, limit: ahead)
    monkeypatch.setattr(scan, "_CACHED_BYTES_PER_S", math.inf)
    monkeypatch.setattr(scan, "FIRST_WINDOW_BYTES", SIZE)
    data = b"".join(record(position=at) for at in range(0, 9 * SIZE, SIZE))
    walk = scan_segment(SmallSegment(memoryview(data)))
    assert (sum(step.count for step in walk if isinstance(step, Run)), closed) == (9, ["closed"])


@pytest.mark.parametrize(("position", "has"), [(0, True), (3, True), (4, False)])
def test_bytes_are_behind_a_position_unless_all_are_zero(position: int, has: bool) -> None:
    segment = SmallSegment(memoryview(b"\0\0\0\1\0\0"))
    fs: Any = SimpleNamespace(written_ranges=lambda path, at: [(at, 99)])
    assert has_bytes_behind(segment, position, fs) is has
    unreadable: Any = SimpleNamespace(
        size=6, buffer=segment.buffer, path=segment.path, readable_end=lambda start, stop: stop - 1
    )
    assert has_bytes_behind(unreadable, position, fs)


@pytest.mark.parametrize("file_start", [0, SEGMENT])
def test_a_record_with_a_bad_body_is_read_behind_its_damage(file_start: int) -> None:
    data = bytearray(b"".join(record(position=file_start + at) for at in (0, SIZE, 2 * SIZE)))
    data[SIZE + 88] ^= 1
    segments = [SmallSegment(memoryview(data), file_start=file_start)]
    steps = list(readable_behind(segments, 0, rules=VERIFYING, with_bad_bodies=True))
    assert starts_of(steps) == [file_start + at for at in (0, SIZE, 2 * SIZE)]
    assert [step.reason for step in steps if isinstance(step, Damage)] == [DamageReason.BAD_CRC]


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


def step_at(position: int, kind: str) -> Any:
    path = Path("s")
    made = {
        "blank": Blank(4096, path, position, 50),
        "end": End(4096, path, position),
        "damage": Damage(4096, path, position, DamageReason.BAD_SIZE, -1),
        "crc": Damage(4096, path, position, DamageReason.BAD_CRC, -1),
    }
    return made[kind]


@pytest.mark.parametrize(
    ("kind", "behind_end", "with_bodies", "asked"),
    [
        ("blank", False, False, []), ("blank", True, False, [4096 + 18]), ("end", False, False, []),
        ("end", True, False, [4096 + 11]), ("damage", False, False, [4096 + 11]), ("damage", False, True, [4096 + 11]),
        ("crc", False, False, [4096 + 11]), ("crc", False, True, [5000 + SIZE]), ("crc", True, True, [5000 + SIZE]),
    ],
)  # fmt: skip
def test_a_walk_goes_on_behind_what_it_met(kind: str, behind_end: bool, with_bodies: bool, asked: list[int]) -> None:
    (run, *_) = scan_log([SmallSegment(memoryview(record(position=5000)), file_start=5000)])
    step, finds = step_at(10, kind), list[int]()
    bodies = (lambda at: [run, step] if at == 4106 else []) if with_bodies else None
    steps = read_on(lambda at: [step], finds.append, 4096, behind_end=behind_end, scan_bad_body=bodies)
    assert list(steps) == [step, *([run] if asked == [5000 + SIZE] else [])]
    assert finds == asked
    assert list(read_on(lambda at: [run], finds.append, 5000, behind_end=True)) == [run]
    assert (list(read_on(lambda at: [], finds.append, 0)), list(read_on(lambda at: [run], finds.append, None))) == (
        [],
        [],
    )
    assert finds == asked


@pytest.mark.parametrize("offset", [0, 1, SIZE - 1, SIZE, SIZE + 1, 2 * SIZE - 1, 2 * SIZE])
def test_segments_are_read_from_a_log_offset_on(offset: int) -> None:
    segments = [SmallSegment(memoryview(record(position=at)), file_start=at) for at in (0, SIZE)]
    behind = list(readable_behind(segments, offset))
    assert starts_of(behind) == [at for at in (0, SIZE) if at >= offset]
    if offset in (0, SIZE):
        assert starts_of(scan_log(segments, offset)) == [offset]
    assert list(readable_behind(segments, 2 * SIZE)) == []


def test_a_walk_begins_in_the_segment_behind_the_end_of_one() -> None:
    blank = encode_blank(SIZE)
    first = record() + blank.ljust(SIZE, b"\0")
    segments = [
        SmallSegment(memoryview(first)),
        SmallSegment(memoryview(record(position=2 * SIZE)), file_start=2 * SIZE),
    ]
    assert starts_of(scan_log(segments)) == [0, 2 * SIZE]
    assert starts_of(scan_log(segments, 2 * SIZE)) == [2 * SIZE]
    assert starts_of(scan_log(segments, 3 * SIZE)) == []
    assert starts_of(scan_log(segments, stop=2 * SIZE)) == [0]
    last = list(scan_log(segments[:1]))[-1]
    assert last == Blank(0, segments[0].path, SIZE, SIZE)
    assert last.describe() == f"the end of the last segment ({0:020d}, offset {SIZE})"


@pytest.mark.parametrize(
    ("is_slow", "ahead", "begun"),
    [(False, None, False), (True, None, True), (True, "one", False), (False, "one", False)],
)
def test_pages_are_read_ahead_once_where_reading_is_slow(
    is_slow: bool, ahead: str | None, begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = _PagesAhead(SmallSegment(memoryview(bytes(4096))), 0, 4096)
    pages._is_slow, pages._ahead = is_slow, cast(Any, ahead and SimpleNamespace(until=lambda stop: stop))
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(scan.ReadAhead, "of", lambda segment, start, limit: asked.append((start, limit)))
    end = pages.end
    pages.read_on(0)
    assert asked == ([(end, 4096)] if begun else [])
