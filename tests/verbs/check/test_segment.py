"""The walk of one segment: what it is compared with, how it counts on, and what it finds."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from store import Message, open_store
from store.config import StoreConfig
from store.files.store_reader import StoredFile, StoreReader
from store.formats.queue_unit import UNIT
from store.structures.consumequeue.expect import Units
from store.structures.consumequeue.survey import QueueFile
from store.structures.findings import (
    BAD_CRC,
    BAD_LENGTH,
    BAD_PROPERTIES_CRC,
    BAD_SELF_OFFSET,
    COPIED_CRC,
    INDEX_ENTRY_NOWHERE,
    LOST_INDEX,
    MISSING_INDEX_ENTRY,
    MISSING_RECORD,
    MISSING_UNIT,
    QUEUE_LEAP,
    STALE_TAIL,
    TIME_BACKWARDS,
    UNIT_NOWHERE,
    Finding,
)
from store.structures.index.survey import IndexFile, survey_index
from store.verbs.check.listing import Listing
from store.verbs.check.segment import Derived, SegmentRules, Surveys, _QueueStates, check_segment
from store.verbs.rebuild.plan import plan_rebuild
from tests.support.stores import SMALL, make_store
from tests.verbs.check.stores import SIZE, findings, records, write
from tests.verbs.salvage.records import record


def queue_file(path: str, low: int, high: int) -> QueueFile:
    return QueueFile("T", 0, path, 0, 400, 0, 0, low, high, rises=True)


def index_file(path: str, low: int, high: int) -> IndexFile:
    return IndexFile(
        path,
        2240,
        50,
        2,
        low,
        high,
        rises=True,
        is_chained=True,
        begin_timestamp_ms=1,
        end_timestamp_ms=1,
        is_full=False,
    )


@pytest.mark.parametrize(
    ("low", "high", "is_met"),
    [
        (0, 99, False),
        (0, 100, True),
        (100, 100, True),
        (150, 160, True),
        (0, 500, True),
        (199, 199, True),
        (199, 500, True),
        (200, 500, False),
        (-1, -1, False),
    ],
)
def test_a_segment_is_compared_with_the_files_that_name_offsets_in_it(low: int, high: int, is_met: bool) -> None:
    queues = [queue_file("before", 0, 50), queue_file("one", low, high), queue_file("other", 120, 180)]
    indexes = [index_file("behind", 300, 400), index_file("one", low, high), index_file("other", 120, 180)]
    found = Surveys([*queues, *indexes]).of_segment(StoredFile("", 100, 100, 0))
    assert [file.path for file in found.queues] == ["one"] * is_met + ["other"]
    assert [file.path for file in found.indexes] == ["one"] * is_met + ["other"]
    assert found.has_index


def test_a_store_has_an_index_though_none_of_its_files_names_the_segment() -> None:
    segment = StoredFile("", 100, 100, 0)
    assert Surveys([index_file("behind", 300, 400)]).of_segment(segment).has_index
    assert not Surveys([queue_file("one", 100, 150)]).of_segment(segment).has_index


def units(*rows: tuple[int, int, int], queues: list[tuple[str, int]]) -> Units:
    """Units by queue number, queue offset and log offset."""
    number, queue_offset, log_offset = np.array(rows, np.int64).T
    return Units(queues, number, queue_offset, log_offset, np.full(len(rows), 10), np.zeros(len(rows), np.int64))


def test_queue_offsets_count_on_in_every_queue_from_run_to_run() -> None:
    states, queues = _QueueStates(), [("T", 0), ("U", 3)]
    broken = []
    for run in (
        units((0, 5, 0), (1, 9, 110), (0, 6, 120), queues=queues[:2]),
        units((1, 10, 130), (0, 8, 140), (1, 10, 150), (0, 9, 160), queues=queues),
        units((2, 0, 170), (0, 10, 180), (2, 1, 190), (1, 11, 200), queues=[*queues, ("%LMQ%a", 0)]),
    ):
        found = states.broken(states.numbers_of(run), run, run.queue_offset)
        broken += [(states.names[number], before, rows.tolist()) for number, before, rows in found]
    assert broken == [(("T", 0), (6, 6, 120), [1, 3]), (("U", 3), (9, 9, 110), [0, 2])]
    assert states.ends() == {
        ("T", 0): (5, 0, (10, 10, 180)), ("U", 3): (9, 110, (11, 11, 200)), ("%LMQ%a", 0): (0, 170, (1, 1, 190))
    }  # fmt: skip
    assert states.is_shared.tolist() == [False, False, True]


def test_a_record_of_several_messages_takes_their_queue_offsets_from_run_to_run() -> None:
    states, broken = _QueueStates(), []
    for offsets, taken in (([0, 4], [3, 4]), ([5, 9, 12], [8, 10, 12]), ([13], [15]), ([16], [16])):
        run = units(*((0, offset, 10 * offset) for offset in offsets), queues=[("T", 0)])
        found = states.broken(states.numbers_of(run), run, np.array(taken))
        broken += [(before, rows.tolist()) for _, before, rows in found]
    assert broken == [((4, 4, 40), [0, 1, 2])]
    assert states.ends() == {("T", 0): (0, 0, (16, 16, 160))}


@pytest.mark.parametrize("count", [1, 10])
def test_nothing_at_or_behind_a_writers_horizon_is_looked_at(count: int, root: Path) -> None:
    stored = records(root)
    horizon = stored[count].log_offset
    write(root, horizon, bytes(8))
    write(root, stored[count - 1].log_offset + 28, bytes(8) if count > 1 else b"\1")
    files = StoreReader(str(root))
    for limit, behind in ((horizon, set()), (horizon + 8, set()), (None, {STALE_TAIL})):
        found, seam = check_segment(files, files.segments()[0], Derived((), (), has_index=True), rules_of(limit))
        assert {one.kind for one in found} - {MISSING_UNIT, MISSING_INDEX_ENTRY} == {BAD_SELF_OFFSET, *behind}
        assert (seam.record_count, seam.end) == (count, horizon)


def rules_of(horizon: int | None) -> SegmentRules:
    return SegmentRules(StoreConfig().delay_levels_ms, horizon)


@pytest.mark.parametrize("count", [1, 10, None])
@pytest.mark.parametrize("beyond", [0, 1, 100])
def test_records_are_walked_up_to_a_horizon_or_the_segments_end(count: int | None, beyond: int, root: Path) -> None:
    stored = [one for one in records(root) if one.log_offset < SIZE]
    # A record that begins before the horizon is walked whole.
    expected = len(stored) if count is None else count + (beyond > 0)
    horizon = beyond + (SIZE if count is None else stored[count].log_offset)
    files = StoreReader(str(root))
    _, found = check_segment(files, files.segments()[0], Derived((), (), has_index=True), rules_of(horizon))
    end = stored[expected - 1].log_offset + stored[expected - 1].size
    assert (found.record_count, found.first, found.end) == (expected, 0, end)
    assert found.newest_ms == found.last_ms == stored[expected - 1].store_timestamp_ms


def test_beside_a_writer_entries_are_needed_up_to_the_newest_of_all_index_files(root: Path) -> None:
    files = StoreReader(str(root))
    listed = Listing.of(files, {})
    surveyed = [one for file in listed.indexes for one in survey_index(files, file, listed.index_geometries)]
    indexes = [one for one in surveyed if isinstance(one, IndexFile)]
    segment, horizon = files.segments()[0], 3 * SIZE
    for kept, is_lacking in ((indexes, False), (indexes[:2], False), (indexes[1:2], True)):
        derived = Derived((), tuple(kept), has_index=True)
        found, _ = check_segment(files, segment, derived, rules_of(horizon))
        assert {one.kind for one in found} - {MISSING_UNIT} == ({MISSING_INDEX_ENTRY} if is_lacking else set())


@pytest.mark.parametrize(("number", "beyond", "expected"), [(0, -1, 0), (0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2)])
def test_of_a_later_segment_too_the_records_before_the_horizon_are_walked(
    number: int, beyond: int, expected: int, root: Path
) -> None:
    stored = [one for one in records(root) if one.log_offset >= SIZE]
    assert stored[0].log_offset == SIZE
    files, horizon = StoreReader(str(root)), stored[number].log_offset + beyond
    _, found = check_segment(files, files.segments()[1], Derived((), (), has_index=True), rules_of(horizon))
    times = [one.store_timestamp_ms for one in stored[:expected]]
    assert (found.record_count, found.outcome) == (expected, "end")
    assert (found.first_ms, found.last_ms) == ((times[0], times[-1]) if times else (0, 0))


@pytest.mark.parametrize(("horizon", "confirmed"), [(1, None), (None, 0)])
def test_an_index_without_entries_needs_none_beside_a_writer_and_of_what_is_not_confirmed(
    horizon: int | None, confirmed: int | None, root: Path
) -> None:
    files, rules = StoreReader(str(root)), SegmentRules(StoreConfig().delay_levels_ms, horizon, confirmed=confirmed)
    found, _ = check_segment(files, files.segments()[0], Derived((), (), has_index=True), rules)
    assert MISSING_INDEX_ENTRY not in {one.kind for one in found}


def test_the_summary_of_a_segment_without_records_names_none(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(SIZE))
    files = StoreReader(str(tmp_path))
    found, seam = check_segment(files, files.segments()[0], Derived((), (), has_index=False), rules_of(None))
    assert (found, seam.outcome, seam.first, seam.end, seam.record_count) == ([], "end", -1, None, 0)
    assert (seam.first_ms, seam.last_ms, seam.newest_ms, seam.queues) == (0, 0, 0, {})
    assert (seam.first_key, seam.key_count) == (-1, 0)


@pytest.mark.parametrize(("later_ms", "kinds"), [(-1, [STALE_TAIL]), (0, [BAD_LENGTH]), (1, [BAD_LENGTH])])
def test_older_records_behind_damage_at_the_logs_end_are_what_others_were_put_over(
    later_ms: int, kinds: list[str], tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 60)
    stored = records(root)
    write(root, stored[30].log_offset, b"\xff")
    for one in stored[31:]:
        write(root, one.log_offset + 56, (stored[29].store_timestamp_ms + later_ms).to_bytes(8, "big"))
    files = StoreReader(str(root))
    found, seam = check_segment(files, files.segments()[0], Derived((), (), has_index=True), rules_of(None))
    assert [one.kind for one in found if one.kind in (STALE_TAIL, BAD_LENGTH)] == kinds
    assert (seam.outcome, seam.record_count) == ("end", 30 if later_ms < 0 else 59)


@pytest.mark.parametrize("damaged", [0, 1, 40])
def test_the_first_key_of_a_log_without_index_files_stays_the_first_behind_damage(damaged: int, root: Path) -> None:
    stored = records(root)
    write(root, stored[damaged].log_offset + 4, b"\xff")
    shutil.rmtree(root / "index")
    first = stored[1].log_offset if damaged == 0 else 0
    detail = f"no file for {299 * 3} keys, the first at log offset {first}"
    assert findings(root, LOST_INDEX) == [Finding(LOST_INDEX, "index", 0, count=299 * 3, detail=detail)]


def test_the_first_key_of_a_log_without_index_files_is_of_the_first_record_with_a_key(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", settings=SMALL, read_only=False) as store:
        for number in range(3):
            assert store.put(Message.of("T", b"body", properties={"KEYS": f"k{number}"} if number else {})).is_ok
    shutil.rmtree(tmp_path / "store/index")
    first = records(tmp_path / "store")[1].log_offset
    detail = f"no file for 2 keys, the first at log offset {first}"
    assert [one.detail for one in findings(tmp_path / "store", LOST_INDEX)] == [detail]


@pytest.mark.parametrize(("promised", "lacking"), [(9, 0), (10, 0), (11, 1), (15, 5)])
def test_records_that_end_behind_the_confirm_offset_need_no_units_and_entries(
    promised: int, lacking: int, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 20, queues=1)
    (root / "epochFileCheckpoint").touch()
    ends = [0, *(one.log_offset + one.size for one in records(root))]
    for count in (10, promised):
        page = bytearray((root / "checkpoint").read_bytes())
        page[32:40] = ends[count].to_bytes(8, "big")
        (root / "checkpoint").write_bytes(page)
        if count == 10:
            with plan_rebuild(root, settings=SMALL) as change:
                change.apply(keep=False)
    found = [(one.kind, one.offset, one.count) for one in findings(root, MISSING_UNIT, MISSING_INDEX_ENTRY)]
    entries = [(MISSING_INDEX_ENTRY, ends[10], 3 * lacking)]
    assert found == ([*entries, (MISSING_UNIT, ends[10], lacking)] if lacking else [])


def test_store_times_may_be_as_far_apart_as_two_longs(root: Path) -> None:
    first, second, *_ = records(root)
    for one, time_ms in ((first, (1 << 63) - 1), (second, -1 << 63)):
        write(root, one.log_offset + 56, time_ms.to_bytes(8, "big", signed=True))
    (found,) = findings(root, TIME_BACKWARDS)
    assert (found.offset, found.detail) == (
        second.log_offset,
        f"{((1 << 64) - 1) / 1000:.3f} s before the record in front of it",
    )


@pytest.mark.parametrize(("at", "early_ms"), [(5, 0), (5, 1), (5, 1500), (5, -1), (0, 5)])
def test_a_store_time_before_that_of_the_record_in_front_is_found(at: int, early_ms: int, root: Path) -> None:
    stored = records(root)
    before_ms = stored[at - 1].store_timestamp_ms if at else stored[0].store_timestamp_ms
    write(root, stored[at].log_offset + 56, (before_ms - early_ms).to_bytes(8, "big"))
    detail = f"{early_ms / 1000:.3f} s before the record in front of it"
    expected = [Finding(TIME_BACKWARDS, f"commitlog/{0:020d}", stored[at].log_offset, detail=detail)]
    assert findings(root, TIME_BACKWARDS) == (expected if at and early_ms > 0 else [])


def test_a_record_that_names_another_log_offset_is_found(root: Path) -> None:
    place = records(root)[-2].log_offset
    write(root, place + 28, (place + 1).to_bytes(8, "big"))
    segment = f"commitlog/{place // SIZE * SIZE:020d}"
    assert findings(root, BAD_SELF_OFFSET) == [
        Finding(BAD_SELF_OFFSET, segment, place, detail=f"the record says {place + 1}")
    ]


@pytest.mark.parametrize("left", [0, 1, 3])
def test_records_behind_the_logs_end_are_counted_from_the_first(left: int, root: Path) -> None:
    stored = records(root)
    end = stored[-left - 1].log_offset
    write(root, end, bytes(8))
    words = "1 record is" if left == 1 else f"{left} records are"
    segment = f"commitlog/{end // SIZE * SIZE:020d}"
    assert findings(root, STALE_TAIL) == [
        Finding(STALE_TAIL, segment, one.log_offset, count=left, detail=f"{words} past the end at {end}")
        for one in stored[-left:][:left][:1]
    ]  # fmt: skip


@pytest.mark.parametrize("gap", [1, 2, 100])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_record_past_the_logs_end_is_found_wherever_it_begins(gap: int, is_damaged: bool, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 1, queues=1)
    [only] = records(root)
    stale = bytearray(record(only.size + gap))
    stale[90] ^= is_damaged
    write(root, only.size + gap, stale)
    detail = f"1 record is past the end at {only.size}"
    expected = Finding(STALE_TAIL, f"commitlog/{0:020d}", only.size + gap, detail=detail)
    assert findings(root, STALE_TAIL) == [expected]


@pytest.mark.parametrize("behind", [0, 100])
def test_an_index_entry_that_names_a_place_behind_the_last_record_is_found(behind: int, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 5, queues=1)
    place = (last := records(root)[-1]).log_offset + last.size + behind
    [file] = (root / "index").iterdir()
    data = bytearray(file.read_bytes())
    at = 40 + 4 * SMALL["maxHashSlotNum"] + 20 * 15 + 4
    assert data[at : at + 8] == last.log_offset.to_bytes(8, "big")
    data[at : at + 8] = place.to_bytes(8, "big")
    file.write_bytes(data)
    detail = f"points to {place}, where no record begins"
    found = findings(root, INDEX_ENTRY_NOWHERE)
    assert found == [Finding(INDEX_ENTRY_NOWHERE, f"index/{file.name}", 15, detail=detail)]


@pytest.mark.parametrize(
    ("mark", "kind", "detail"),
    [
        ({}, BAD_PROPERTIES_CRC, "the body has its CRC: other bytes are damaged"),
        ({"RETRY_TOPIC": "T"}, COPIED_CRC, "its other bytes are right"),
    ],
)
def test_a_record_without_the_crc_of_its_properties_is_a_copy_or_damaged(
    mark: dict[str, str], kind: str, detail: str, tmp_path: Path
) -> None:
    settings, root = {**SMALL, "enabledAppendPropCRC": True}, tmp_path / "store"
    with open_store(root, settings=settings, read_only=False, compat="5.3") as store:
        for _ in range(2):
            assert store.put(Message.of("T", b"body", properties={"a": "b", **mark})).is_ok
    place = records(root)[1].log_offset
    write(root, place + 16, b"\1")
    expected = [Finding(kind, f"commitlog/{0:020d}", place, detail=detail)]
    assert findings(root, BAD_PROPERTIES_CRC, COPIED_CRC) == expected


@pytest.mark.parametrize("number", [3, 120, 250])
@pytest.mark.parametrize(("at", "kind"), [(90, BAD_CRC), (4, BAD_LENGTH)])
def test_damage_is_found_at_the_log_offset_of_its_record(number: int, at: int, kind: str, root: Path) -> None:
    place = records(root)[number].log_offset
    write(root, place + at, b"\xff")
    (found,) = findings(root, BAD_CRC, BAD_LENGTH)
    assert (found.kind, found.file, found.offset) == (kind, f"commitlog/{place // SIZE * SIZE:020d}", place)


@pytest.mark.parametrize("number", [10, 11, 12, 130])
def test_a_record_with_another_queue_offset_is_a_gap_of_its_queue_alone(number: int, root: Path) -> None:
    message = records(root)[number]
    write(root, message.log_offset + 20, (message.queue_offset + 5).to_bytes(8, "big"))
    found = {(one.file, one.topic, one.queue_id) for one in findings(root, MISSING_RECORD, QUEUE_LEAP)}
    assert found == {(f"commitlog/{message.log_offset // SIZE * SIZE:020d}", "T", number % 3)}


@pytest.mark.parametrize("behind", [0, 100])
def test_a_unit_that_names_a_place_behind_the_last_record_is_found(behind: int, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 15, queues=1)
    last = records(root)[-1]
    place = last.log_offset + last.size + behind
    file = root / "consumequeue/T/0" / f"{0:020d}"
    data = file.read_bytes()
    file.write_bytes(data[:300] + UNIT.pack(place, 100, 0) + data[320:])
    detail = f"points to {place}, where no record begins"
    name = f"consumequeue/T/0/{0:020d}"
    assert findings(root, UNIT_NOWHERE) == [Finding(UNIT_NOWHERE, name, 15, "T", 0, detail=detail)]
