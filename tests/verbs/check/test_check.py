"""The findings of a check, by whole rows: names, seams between segments, promises of the checkpoint, one segment."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import open_store
from store.errors import BadRequest, StoreIOError
from store.files.store_reader import StoredFile, StoreReader
from store.formats.message import StoredMessage
from store.formats.queue_unit import PRE_BLANK, UNIT
from store.structures.findings import (
    BAD_CRC,
    BAD_LENGTH,
    BAD_SELF_OFFSET,
    CHECKPOINT_AHEAD,
    CHECKPOINT_INVALID,
    FOREIGN_FILE,
    INDEX_ENTRY_NOWHERE,
    LINK,
    LOST_INDEX,
    MISSING_INDEX_ENTRY,
    MISSING_SEGMENT,
    MISSING_UNIT,
    QUEUE_GAP,
    STALE_TAIL,
    TIME_BACKWARDS,
    UNIT_NOWHERE,
    Finding,
)
from store.verbs.check import promises, writer
from store.verbs.check.check import CheckOptions, Progress, _Check, check_files, is_chosen, require_within, seams_before
from store.verbs.check.listing import (
    HARMLESS,
    LINKED,
    NO_BROKER,
    NO_BROKERS,
    NOT_4_9,
    NOT_5_3,
    Listing,
)
from store.verbs.check.seams import SegmentSummary, lost_index_findings, seam_findings
from store.verbs.check.segment import Derived, SegmentRules, check_segment
from tests.support.golden import copy_store
from tests.support.stores import SMALL, make_store

SIZE, COUNT = SMALL["mappedFileSizeCommitLog"], 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("whole") / "store", COUNT)


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    return copy_store(whole, tmp_path / "store")


def findings(root: Path, *kinds: str) -> list[Finding]:
    """Check the store; the findings of these kinds, or all, with their files by their places in the store."""
    found = [one for one in check_files(StoreReader(str(root))) if not kinds or one.kind in kinds]
    return [replace(one, file=one.file.removeprefix(f"{root}/")) for one in found]


def records(root: Path) -> list[StoredMessage]:
    with open_store(root) as store:
        found = [message for queue_id in range(3) for message in store.messages("T", queue_id)]
    return sorted(found, key=lambda one: one.log_offset)


def write(root: Path, log_offset: int, data: bytes) -> None:
    with (root / "commitlog" / f"{log_offset // SIZE * SIZE:020d}").open("r+b") as file:
        file.seek(log_offset % SIZE)
        file.write(data)


FILE: Callable[[Path], None] = lambda path: path.write_bytes(b"x") and None  # noqa: E731
EMPTY: Callable[[Path], None] = Path.touch
FOLDER: Callable[[Path], None] = Path.mkdir
FIFO: Callable[[Path], None] = os.mkfifo
LAST_EMPTY = "a segment of 0 bytes; a 4.9 broker does not start with it, a 5.3 one deletes it"


@pytest.mark.parametrize(
    ("name", "make", "detail"),
    [
        ("consumequeue/file", FILE, f"a file where topics' folders are; {HARMLESS}"),
        ("consumequeue/T/file", FILE, f"not the folder of a queue; {HARMLESS}"),
        ("consumequeue/T/7", FILE, f"not the folder of a queue; {HARMLESS}"),
        ("consumequeue/T/old", FOLDER, f"not the folder of a queue; {HARMLESS}"),
        ("consumequeue/T/0/x.bak", FILE, f"not the name of a queue file; {NO_BROKER}"),
        ("consumequeue/T/0/folder", FOLDER, f"a folder among a queue's files; {NOT_4_9}"),
        ("consumequeue/T/0/00000000000000009999", FIFO, f"a FIFO among a queue's files; {NO_BROKERS}"),
        ("index/x.bak", FILE, f"not the name of an index file; {HARMLESS}"),
        ("index/folder", FOLDER, f"a folder among the index files; {HARMLESS}"),
        ("index/20260101000000000", FOLDER, f"a folder among the index files; {NOT_5_3}"),
        ("index/20260101000000000", FIFO, f"a FIFO among the index files; {NO_BROKERS}"),
        ("commitlog/x.bak", FILE, f"not the name of a segment; {NO_BROKER}"),
        ("commitlog/folder", FOLDER, f"a folder among the segments; {NOT_4_9}"),
        ("commitlog/00000000000000999999", FIFO, f"a FIFO among the segments; {NO_BROKERS}"),
        ("commitlog/00000000000000999999", EMPTY, LAST_EMPTY),
        ("commitlog/00000000000000000001", EMPTY, f"a segment of 0 bytes; {NO_BROKER}"),
    ],
)
def test_a_name_that_no_broker_made_is_listed_with_what_brokers_do(
    name: str, make: Callable[[Path], None], detail: str, root: Path
) -> None:
    make(root / name)
    assert findings(root) == [Finding(FOREIGN_FILE, name, 0, detail=detail)]


def test_links_are_listed_and_what_they_lead_to_counts(root: Path, tmp_path: Path) -> None:
    names = ["consumequeue/T/0", f"index/{min((root / 'index').iterdir()).name}"]
    for number, name in enumerate(names):
        (root / name).rename(tmp_path / str(number))
        (root / name).symlink_to(tmp_path / str(number))
    assert findings(root) == [Finding(LINK, name, 0, detail=LINKED) for name in names]


def test_what_is_in_a_folder_among_the_index_files_is_part_of_it(root: Path) -> None:
    (root / "index/folder").mkdir()
    (root / "index/folder/x.bak").touch()
    assert [one.file for one in findings(root)] == ["index/folder"]


def listing_of(*names: tuple[str, int], settings: dict[str, object] | None = None) -> Listing:
    """List a store with these files, by path and size."""
    entries = [
        SimpleNamespace(path=name, size=size, mtime_ms=0, is_folder=not size, is_file=size > 0, is_link=False, kind="")
        for name, size in names
    ]
    files: Any = SimpleNamespace(
        links=list, below=lambda folder: [one for one in entries if one.path.startswith(folder + "/")],
        index_files=list, segments=list, foreign_in_commitlog=list, name_of=str,
    )  # fmt: skip
    return Listing.of(files, settings or {})


@pytest.mark.parametrize(("queues", "shares"), [(1, 1), (15, 15), (16, 16), (31, 31), (32, 16), (33, 17), (9000, 18)])
def test_queues_are_shared_among_sixteen_tasks_of_at_most_five_hundred(queues: int, shares: int) -> None:
    listing = listing_of(*((f"consumequeue/T/{number}", 0) for number in range(queues)))
    found = listing.shares()
    assert len(found) == shares
    assert [queue for share in found for queue in share] == list(listing.queues)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sizes", "given", "usual"), [([], 0, 0), ([40, 60, 60], 0, 60), ([40, 60, 60], 40, 40), ([], 40, 40)]
)
def test_a_queue_file_should_be_as_long_as_the_settings_say_or_as_most_are(
    sizes: list[int], given: int, usual: int
) -> None:
    files = [(f"consumequeue/T/{number}/{0:020d}", size) for number, size in enumerate(sizes)]
    settings: dict[str, object] = {"mappedFileSizeConsumeQueue": given} if given else {}
    assert listing_of(*files, settings=settings).queue_file_size == usual


@pytest.mark.parametrize(
    ("files", "span"), [([], (0, 0)), ([(200, 50)], (200, 250)), ([(300, 70), (200, 100)], (200, 370))]
)
def test_a_queues_extension_goes_from_its_first_file_to_the_end_of_its_last(
    files: list[tuple[int, int]], span: tuple[int, int]
) -> None:
    names = [(f"consumequeue_ext/T/1/{number:020d}", size) for number, size in files]
    (queue,) = listing_of(("consumequeue/T/1", 0), *names).queues
    assert (queue.topic, queue.queue_id, queue.extension_start, queue.extension_end) == ("T", 1, *span)


NONE: Any = StoreReader("/store")


def seam(number: int, times: tuple[int, int] = (0, 0), count: int = 2, **fields: Any) -> SegmentSummary:
    """Summarise the segment from 100 * number on, which has records from 10 after its start on."""
    start = 100 * number
    return SegmentSummary(
        str(number), start, first=start + 10, end=start + 90, record_count=count, first_ms=times[0], last_ms=times[1],
        **{"outcome": "blank", **fields},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seams", "found"),
    [
        ([seam(0, (5, 9)), seam(1, (9, 9))], []),
        ([seam(0, (5, 9)), seam(1, (7, 9))], [(TIME_BACKWARDS, 1, 110, 1, "2 ms before the record in front of it")]),
        ([seam(0, (5, 9)), seam(2, (8, 9))], []),
        ([seam(0, (5, 9), count=0), seam(1, (8, 9))], []),
        ([seam(0, (5, 9)), seam(1, (8, 9), count=0)], []),
        ([seam(0, outcome="end"), seam(1)], [(STALE_TAIL, 1, 110, 2, "2 records are behind the end at 90")]),
        ([seam(0, outcome="end"), seam(1, count=1)], [(STALE_TAIL, 1, 110, 1, "1 record is behind the end at 90")]),
        ([seam(0, outcome="damage"), seam(1)], []),
    ],
)
def test_times_and_ends_are_compared_between_neighbours_with_records(
    seams: list[SegmentSummary], found: list[tuple[Any, ...]]
) -> None:
    segments = [StoredFile("", 100 * number, 100, 0) for number in range(4)]
    assert list(seam_findings(NONE, segments, seams)) == [
        Finding(kind, f"/store/{number}", offset, count=count, detail=detail)
        for kind, number, offset, count, detail in found
    ]


@pytest.mark.parametrize(
    ("first", "second", "third", "gaps"),
    [
        ((0, 4), (5, 9), (10, 12), []),
        ((0, 4), (6, 9), (10, 12), [1]),
        ((0, 4), (4, 9), (10, 12), [1]),
        ((0, 4), None, (5, 9), []),
        ((0, 4), None, (6, 9), [2]),
        ((0, 4), (5, 9), (9, 12), [2]),
    ],
)
def test_queue_offsets_go_on_from_segment_to_segment(
    first: tuple[int, int], second: tuple[int, int] | None, third: tuple[int, int], gaps: list[int]
) -> None:
    segments = [StoredFile("", 100 * number, 100, 0) for number in range(3)]
    seams = [
        seam(number, queues={("T", 0): (ends[0], 100 * number + 10, ends[1])} if ends else {})
        for number, ends in enumerate((first, second, third))
    ]
    found = list(seam_findings(NONE, segments, seams))
    assert [(one.file, one.offset, one.topic, one.queue_id) for one in found] == [
        (f"/store/{number}", 100 * number + 10, "T", 0) for number in gaps
    ]
    assert list(seam_findings(NONE, segments, [seams[0], seams[2]])) == []


def test_the_keys_of_a_log_without_index_files_are_counted_from_the_first() -> None:
    seams = [seam(0), seam(1, first_key=130, key_count=1), seam(2, first_key=210, key_count=3)]
    detail = "no file for 4 keys, the first at log offset 130"
    assert list(lost_index_findings(NONE, seams)) == [Finding(LOST_INDEX, "/store/index", 0, count=4, detail=detail)]
    assert list(lost_index_findings(NONE, seams[:1])) == []


@pytest.mark.parametrize("later", [-1, 0, 1, 7])
@pytest.mark.parametrize("field", ["physic", "logics", "index", "master_flushed", "confirm"])
def test_the_checkpoint_promises_no_more_than_the_files_reach(field: str, later: int, root: Path) -> None:
    last = records(root)[-1]
    full = sorted((root / "index").iterdir())[-2].read_bytes()
    reached = {
        "physic": last.store_timestamp_ms,
        "logics": last.store_timestamp_ms,
        "index": int.from_bytes(full[8:16], "big"),
        "master_flushed": last.log_offset + last.size,
        "confirm": last.log_offset + last.size,
    }
    at = [*reached].index(field) * 8
    page = bytearray((root / "checkpoint").read_bytes())
    page[at : at + 8] = (reached[field] + later).to_bytes(8, "big")
    (root / "checkpoint").write_bytes(page)
    unit = "ms" if at < 24 else "bytes"
    detail = f"{field} is {{}}, {later} {unit} later than anything in the files"
    found = findings(root)
    assert [(one.kind, one.file, one.offset) for one in found] == [(CHECKPOINT_AHEAD, "checkpoint", at)] * (later > 0)
    assert all(one.detail.endswith(detail.split("{}")[1]) for one in found)


NO_CHECKPOINT = "there is no checkpoint: an abnormal recovery reads the whole log"


@pytest.mark.parametrize(("size", "fault"), [(None, NO_CHECKPOINT), (23, "23 bytes, expected 4096"), (4096, None)])
def test_a_checkpoint_that_is_missing_or_short_is_found(size: int | None, fault: str | None, root: Path) -> None:
    data = (root / "checkpoint").read_bytes()
    (root / "checkpoint").unlink()
    if size is not None:
        (root / "checkpoint").write_bytes(data[:size])
    expected = [Finding(CHECKPOINT_INVALID, "checkpoint", 0, detail=fault)] if fault else []
    assert findings(root, CHECKPOINT_INVALID) == expected


def test_a_checkpoint_of_which_nothing_can_be_read_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (errno.EIO, errno.EACCES):
        error = StoreIOError("its bytes can't be read", errno=number)
        monkeypatch.setattr(promises, "read_file", lambda files, error=error: raised(error))
        found = promises.checkpoint_file_findings(StoreReader(str(root)))
        if number in promises.UNREADABLE:
            expected = Finding(CHECKPOINT_INVALID, f"{root}/checkpoint", 0, detail=error.reason)
            assert list(found) == [expected]
        else:
            with pytest.raises(StoreIOError):
                list(found)


def raised(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("index_ms", [0, 1])
@pytest.mark.parametrize("has_segment", [True, False])
def test_beside_a_log_without_records_the_checkpoint_promises_nothing(
    has_segment: bool, index_ms: int, tmp_path: Path
) -> None:
    (tmp_path / "commitlog").mkdir()
    if has_segment:
        (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(SIZE))
    numbers = (1, 0, index_ms, 0, 1)
    (tmp_path / "checkpoint").write_bytes(b"".join(one.to_bytes(8, "big") for one in numbers).ljust(4096, b"\0"))
    rows = [(one.offset, one.detail) for one in findings(tmp_path, CHECKPOINT_AHEAD)]
    assert rows == [
        (0, "physic is 1, 1 ms later than anything in the files"),
        *[(16, "index is 1, 1 ms later than anything in the files")] * index_ms,
        (32, "confirm is 1, 1 bytes later than anything in the files"),
    ]


def test_a_unit_of_the_first_record_of_a_log_that_is_gone_is_found(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 1)
    (root / "commitlog" / f"{0:020d}").unlink()
    assert findings(root, UNIT_NOWHERE) == [
        Finding(UNIT_NOWHERE, f"consumequeue/T/0/{0:020d}", 0, "T", 0, detail="points to 0, where no segment is")
    ]


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
    return CheckOptions().rules(horizon)


@pytest.mark.parametrize(("at", "early_ms"), [(5, 0), (5, 1), (5, 1500), (5, -1), (0, 5)])
def test_a_store_time_before_that_of_the_record_in_front_is_found(at: int, early_ms: int, root: Path) -> None:
    stored = records(root)
    before_ms = stored[at - 1].store_timestamp_ms if at else stored[0].store_timestamp_ms
    write(root, stored[at].log_offset + 56, (before_ms - early_ms).to_bytes(8, "big"))
    detail = f"{early_ms} ms before the record in front of it"
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
        Finding(STALE_TAIL, segment, one.log_offset, count=left, detail=f"{words} behind the end at {end}")
        for one in stored[-left:][:left][:1]
    ]  # fmt: skip


def test_units_and_entries_of_a_segment_that_is_gone_are_counted_file_by_file(root: Path) -> None:
    lost = range(SIZE, 2 * SIZE)
    stored = records(root)
    expected = []
    for path in sorted(root.glob("consumequeue/T/*/*")):
        units = [one[0] for one in UNIT.iter_unpack(path.read_bytes())]
        rows = [number for number, place in enumerate(units) if place in lost]
        if rows:
            detail = f"points to {units[rows[0]]}, where no segment is"
            number = int(path.name) // 20 + rows[0]
            name, queue_id = str(path.relative_to(root)), int(path.parent.name)
            expected.append(Finding(UNIT_NOWHERE, name, number, "T", queue_id, len(rows), detail))
    for path in sorted(root.glob("index/*")):
        data = path.read_bytes()[240:]
        places = [int.from_bytes(data[at + 4 : at + 12], "big") for at in range(0, len(data), 20)]
        rows = [number for number, place in enumerate(places) if place in lost]
        if rows:
            detail = f"points to {places[rows[0]]}, where no segment is"
            name = str(path.relative_to(root))
            expected.append(Finding(INDEX_ENTRY_NOWHERE, name, rows[0], count=len(rows), detail=detail))
    (root / "commitlog" / f"{SIZE:020d}").unlink()
    assert sum(one.count for one in expected[:3]) >= 3
    found = findings(root)
    assert [one for one in found if one.kind in (UNIT_NOWHERE, INDEX_ENTRY_NOWHERE)] == expected
    assert {one.kind for one in found} == {UNIT_NOWHERE, INDEX_ENTRY_NOWHERE, MISSING_SEGMENT, QUEUE_GAP}
    assert stored[-1].log_offset > 2 * SIZE


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
    found = {(one.file, one.topic, one.queue_id) for one in findings(root, QUEUE_GAP)}
    assert found == {(f"commitlog/{message.log_offset // SIZE * SIZE:020d}", "T", number % 3)}


def test_the_segments_before_an_offset_are_summed_up_back_to_one_with_records_in_log_order(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 100)
    for number in (2, 3, 4):
        (root / "commitlog" / f"{number * SIZE:020d}").write_bytes(bytes(SIZE))
    files = StoreReader(str(root))
    found = seams_before(files, files.segments(), CheckOptions(from_offset=4 * SIZE))
    assert [(one.file_start, one.record_count > 0) for one in found] == [
        (SIZE, True), (2 * SIZE, False), (3 * SIZE, False),
    ]  # fmt: skip


@pytest.mark.parametrize("has_writer", [True, False])
def test_the_newest_index_file_is_a_writers_where_there_is_one(has_writer: bool, root: Path) -> None:
    checked = _Check(StoreReader(str(root)), CheckOptions(), Progress(), None, None)
    checked.is_written_to = has_writer
    newest = f"index/{max((root / 'index').iterdir()).name}"
    assert checked.listing_rules().written_index == (newest if has_writer else None)


def segment(number: int, size: int = 100, path: str = "commitlog/00000000000000000000") -> StoredFile:
    return StoredFile(path, number, size, 0)


@pytest.mark.parametrize(("from_offset", "is_in"), [(0, True), (199, True), (200, False), (201, False)])
def test_a_segment_is_walked_when_it_ends_after_the_first_offset(from_offset: int, is_in: bool) -> None:
    assert is_chosen(segment(100), CheckOptions(from_offset=from_offset)) == is_in


@pytest.mark.parametrize("percent", [0, 0.01, 10, 50, 99.99, 100])
def test_a_sample_is_of_the_given_percent_and_part_of_every_larger_one(percent: float) -> None:
    segments = [segment(0, path=f"commitlog/{number:020d}") for number in range(2000)]
    chosen = {one.path for one in segments if is_chosen(one, CheckOptions(sample_percent=percent))}
    larger = {one.path for one in segments if is_chosen(one, CheckOptions(sample_percent=percent + 5))}
    assert chosen <= larger
    assert abs(len(chosen) - 20 * percent) <= (60 if 0 < percent < 100 else 0)


@pytest.mark.parametrize(
    ("from_offset", "segments", "end"),
    [(0, [], None), (1, [], 0), (299, [0, 200], None), (300, [0, 200], 300), (301, [0, 200], 300)],
)
def test_a_check_from_the_logs_end_on_is_refused(from_offset: int, segments: list[int], end: int | None) -> None:
    files = [segment(number) for number in segments]
    if end is None:
        require_within(NONE, files, from_offset)
    else:
        message = f"nothing to check from log offset {from_offset} on: the last segment ends at {end}"
        with pytest.raises(BadRequest, match=message):
            require_within(NONE, files, from_offset)


@pytest.mark.parametrize(
    ("queues", "horizon"),
    [
        ([], 0),
        ([[]], 0),
        ([[(300, 50, 0), (0, 0, 0)]], 300),
        ([[(300, 50, 0), PRE_BLANK]], 300),
        ([[(300, 50, 0), (400, 0, 0), (-1, 50, 0)]], 300),
        ([[(300, 50, 0), (400, 1, 0)]], 400),
        ([[(0, 50, 0)]], 0),
        ([[(300, 50, 0)], [(500, 50, 0)], [(200, 50, 0)]], 500),
    ],
)
def test_a_store_is_dispatched_up_to_the_newest_unit_of_any_queue(
    queues: list[list[tuple[int, int, int]]], horizon: int
) -> None:
    data = {str(number): b"".join(UNIT.pack(*unit) for unit in units) for number, units in enumerate(queues)}
    listings: Any = [SimpleNamespace(files=[StoredFile(path, 0, 0, 0)]) for path in data]
    files: Any = SimpleNamespace(salvage_written=lambda path, *_: SimpleNamespace(buffer=memoryview(data[path])))
    assert writer.horizon_of(files, [*listings, SimpleNamespace(files=[])]) == horizon


def test_of_many_queues_the_newest_file_of_each_of_the_sixteen_written_to_last_is_read() -> None:
    read: list[str] = []

    def salvage_written(path: str, *_: int) -> Any:
        read.append(path)
        return SimpleNamespace(buffer=memoryview(UNIT.pack(int(path), 50, 0)))

    listings: Any = [
        SimpleNamespace(files=[StoredFile("9999", 0, 0, 0), StoredFile(str(number), 0, 0, number)])
        for number in range(30)
    ]
    files: Any = SimpleNamespace(salvage_written=salvage_written)
    assert writer.horizon_of(files, reversed(listings)) == 29
    assert sorted(map(int, read)) == [*range(14, 30)]


def test_the_horizon_is_from_before_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(writer, "sleep", slept.append)
    monkeypatch.setattr(writer, "horizon_of", lambda files, listings: len(slept))
    assert (writer.settled_horizon(NONE, []), slept) == (0, [writer.RUN_SECONDS])
