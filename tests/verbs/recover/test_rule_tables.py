"""Rules of a start and of a plan by tables, without a store: each below, at and above its bound."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.files.filesystem import Filesystem
from store.formats.checkpoint_page import CheckpointPage
from store.formats.dledger import DLEDGER_HEADER
from store.formats.run import Int64Array
from store.opened.checkpoint import StoreCheckpoint
from store.structures.commitlog.scan import written_after
from store.structures.dledger.start import _accepted_end, _entry_size
from store.structures.queuedb.start import _starting_segment, _units_behind
from store.structures.trap import Trap
from store.verbs.recover import checkpoint_review
from store.verbs.recover.confirm import keep_confirm_offset, up_to_confirmed
from store.verbs.recover.from_rebuild import _last_queued_record, open_rebuilt
from store.verbs.recover.lost import LossCounter, LostForGroup, LostQueue
from store.verbs.recover.plan import lower_checkpoint
from store.verbs.recover.recover import _broker_repeats_keys
from store.verbs.recover.refused_topics import refused_later
from store.verbs.recover.simulate import _waits_at
from store.verbs.recover.stray_units import _falling, _stray
from store.verbs.recover.walk import dispatch_stretch, walk
from tests.support.stores import SMALL, make_store, planning

UNIT = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])


def log_of(*places: tuple[int, int], start: int = 0) -> Any:
    """A log of segments by begin and size."""
    files = [SimpleNamespace(file_start=start, size=size) for start, size in places]
    return SimpleNamespace(segments=SimpleNamespace(files=files), start=start)


@pytest.mark.parametrize(
    ("line", "built_to", "start", "log_end", "at"),
    [
        (LINE_4_9, -1, 0, 99, -1),
        (LINE_4_9, -1, 0, 100, -1),
        (LINE_4_9, -1, 0, 101, 100),
        (LINE_4_9, 99, 0, 300, 100),
        (LINE_4_9, 100, 0, 300, 100),
        (LINE_4_9, 199, 0, 300, 199),
        (LINE_4_9, 200, 0, 300, -1),
        (LINE_4_9, -1, 200, 300, -1),
        (LINE_5_3, -1, 0, 300, -1),
    ],
)
def test_4_9_waits_for_a_segment_that_its_dispatch_needs(
    line: BrokerLine, built_to: int, start: int, log_end: int, at: int
) -> None:
    log = log_of((0, 100), (200, 100), start=start)
    opened: Any = SimpleNamespace(line=line, log=log, queues=SimpleNamespace(built_to=built_to))
    assert _waits_at(opened, log_end) == at


@pytest.mark.parametrize(("first", "expected"), [(-1, 0), (0, 0), (1, 1), (2, 2)])
def test_4_9_waits_for_the_segment_where_its_queues_end(first: int, expected: int) -> None:
    opened: Any = SimpleNamespace(line=LINE_4_9, log=log_of((50, 10)), queues=SimpleNamespace(built_to=first))
    assert _waits_at(opened, 60) == expected


@pytest.mark.parametrize(
    ("queue_end", "start"), [(-1, 100), (0, 100), (99, 100), (100, 100), (199, 100), (200, 200), (299, 200), (300, 300)]
)
def test_after_a_shutdown_a_walk_begins_where_the_rocksdb_ends(queue_end: int, start: int) -> None:
    opened: Any = SimpleNamespace(log=log_of((100, 100), (200, 100), (300, 100)), line=LINE_5_3)
    found = _starting_segment(opened, queue_end, abnormal=False)
    reaches = f"the newest that the RocksDB's queues reach into ({queue_end})"
    none = "the RocksDB's queues reach into no segment"
    assert found == (start, none if queue_end < 100 else reaches)
    assert _starting_segment(SimpleNamespace(log=log_of(), line=LINE_5_3), queue_end, abnormal=False) == (0, none)  # type: ignore[arg-type]


@pytest.mark.parametrize(("log_end", "behind"), [(100, [1, 2]), (101, [2]), (200, [2]), (201, [])])
def test_units_of_a_rocksdb_behind_the_logs_end_are_named_by_queue(log_end: int, behind: list[int]) -> None:
    names = np.dtype([("queue_offset", ">i8"), ("log_offset", ">i8"), ("size", ">i4")])
    units = np.array([(0, 50, 10), (1, 100, 11), (2, 200, 12)], names)
    newest = {("U", 1): SimpleNamespace(log_offset=99), ("T", 0): SimpleNamespace(log_offset=200)}
    database: Any = SimpleNamespace(newest=newest, units=lambda queue: units if queue == ("T", 0) else units[:0])
    found = [
        (queue, numbers.tolist(), places.tolist(), sizes.tolist())
        for queue, numbers, places, sizes in _units_behind(database, log_end)
    ]
    rows = [("T", 0), behind, [100 * one for one in behind], [10 + one for one in behind]]
    assert found == ([tuple(rows)] if behind else [])


def queue_of(max_offset: int, log_offset: int | None) -> Any:
    unit = None if log_offset is None else SimpleNamespace(log_offset=log_offset)
    return SimpleNamespace(max_offset=max_offset, unit=lambda number: unit if number == max_offset - 1 else None)


@pytest.mark.parametrize(
    ("queues", "last"),
    [
        ([], 40),
        ([queue_of(0, 90)], 40),
        ([queue_of(1, 90)], 90),
        ([queue_of(3, 90), queue_of(9, 70)], 90),
        ([queue_of(3, None), queue_of(9, 70)], 70),
    ],
)
def test_the_last_queued_record_is_that_of_the_newest_unit(queues: list[Any], last: int) -> None:
    opened: Any = SimpleNamespace(queues=queues)
    assert _last_queued_record(opened, 40) == last


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_a_checkpoint_is_lowered_to_what_the_files_hold(over: int) -> None:
    before = CheckpointPage(physic_ms=50 + over, logics_ms=50 - over, index_ms=30 + over, confirm_log_offset=900 + over)
    checkpoint = StoreCheckpoint(Path("checkpoint"), Filesystem(), before, None)
    config = SimpleNamespace(queues_in_database=True)
    opened: Any = SimpleNamespace(checkpoint=checkpoint, index=SimpleNamespace(flushed_until_ms=30), config=config)
    lower_checkpoint(opened, 50, 900)
    page = checkpoint.page
    assert (page.physic_ms, page.logics_ms) == (min(50, 50 + over), min(50, 50 - over))
    assert (page.index_ms, page.confirm_log_offset) == (min(30, 30 + over), min(900, 900 + over))


def entry(place: int, *, magic: int = 1, body: int = 10, size: int | None = None) -> bytes:
    """The header of an entry and its body."""
    whole = DLEDGER_HEADER.size + body if size is None else size
    return DLEDGER_HEADER.pack(magic, whole, 0, 0, place, 0, 0, 0, body) + bytes(body)


def entries(*data: bytes, size: int = 400) -> Any:
    return SimpleNamespace(file_start=1000, size=size, buffer=b"".join(data).ljust(size, b"\0"))


@pytest.mark.parametrize(
    ("segment", "at", "size"),
    [
        (entries(entry(1000)), 1000, 58),
        (entries(entry(1000), entry(1058)), 1058, 58),
        (entries(entry(1001)), 1000, 0),
        (entries(entry(1000, magic=2)), 1000, 0),
        (entries(entry(1000, body=1)), 1000, 49),
        (entries(entry(1000, body=0)), 1000, 0),
        (entries(entry(1000, size=57)), 1000, 0),
        (entries(entry(1000), size=58), 1000, 58),
        (entries(entry(1000)[:57], size=57), 1000, 0),
        (entries(entry(1000)[:47], size=47), 1000, 0),
        (entries(entry(1000)), 999, 0),
        (entries(entry(1000)), 1399, 0),
    ],
)
def test_an_entry_is_what_its_header_says_whole(segment: Any, at: int, size: int) -> None:
    assert _entry_size(segment, at) == size


@pytest.mark.parametrize(
    ("log_end", "accepted"),
    [(1000, 1116), (1048, 1116), (1058, 1116), (1106, 1116), (1116, 1116), (999, 999), (1400, 1400), (1200, 1200)],
)
def test_dledger_accepts_entries_behind_damaged_records(log_end: int, accepted: int) -> None:
    assert _accepted_end([entries(entry(1000), entry(1058))], log_end) == accepted


@pytest.mark.parametrize(
    ("units", "records", "stray"),
    [
        ([(0, 0, 10), (1, 10, 10), (2, 20, 10)], [], []),
        ([(0, 0, 10), (1, 9, 10)], [], [1]),
        ([(0, 0, 10), (1, 9, 10)], [(0, 0, 10)], [1]),
        ([(0, 0, 10), (1, 9, 10)], [(1, 9, 10)], [0]),
        ([(0, 0, 10), (1, 9, 10)], [(0, 0, 10), (1, 9, 10)], [1]),
        ([(0, 50, 10), (1, 10, 10), (2, 20, 10)], [(1, 10, 10), (2, 20, 10)], [0]),
        ([(0, 0, 10), (1, 50, 10), (2, 60, 10), (3, 20, 10)], [(0, 0, 10), (3, 20, 10)], [2, 1]),
        ([(0, 0, 10), (1, 50, 10), (2, 60, 10), (3, 20, 10)], [(2, 60, 10), (3, 20, 10)], [3]),
    ],
)
def test_where_the_rise_breaks_the_log_tells_which_unit_is_stray(
    units: list[tuple[int, int, int]], records: list[tuple[int, int, int]], stray: list[int]
) -> None:
    columns: Int64Array = np.array(units, np.int64).T
    assert _falling(columns, lambda *unit: unit in records) == stray


@pytest.mark.parametrize(
    ("unit", "is_stray"),
    [
        ((0, 10), False),
        ((-1, 10), True),
        ((90, 10), False),
        ((91, 10), True),
        ((50, 1), False),
        ((50, 0), True),
        ((50, -1), True),
    ],
)
@pytest.mark.parametrize("first", [0, 20])
def test_a_unit_is_stray_that_names_bytes_outside_of_the_log(first: int, unit: tuple[int, int], is_stray: bool) -> None:
    units: Any = np.array([(*unit, 0)], UNIT)
    blank: Any = np.array([(0, 0x7FFFFFFF, 0)], UNIT)
    pieces = [(0, blank), (first + 1, units)]
    assert _stray(pieces, 100, lambda *_: False) == ([first + 1] if is_stray else [])


@pytest.mark.parametrize(("line", "is_refused"), [(LINE_4_9, False), (LINE_5_3, True)])
def test_5_3_does_not_read_a_topic_of_an_attribute_that_it_refuses(
    line: BrokerLine, is_refused: bool, tmp_path: Path
) -> None:
    attributes = {"T": {"cleanup.policy": "compaction"}, "U": {"cleanup.policy": "DELETE"}}
    topics = {name: {"topicName": name, "attributes": one} for name, one in attributes.items()}
    (tmp_path / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    opened: Any = SimpleNamespace(line=line, layout=SimpleNamespace(config=tmp_path), fs=Filesystem())
    clause = "cleanup.policy is 'compaction', expected DELETE or COMPACTION"
    detail = f"of topic T {clause}: it is not read, and its next message stops the dispatch of all topics"
    assert [*refused_later(opened)] == ([Trap("topic-attribute", detail)] if is_refused else [])


def test_a_stretch_is_handed_over_behind_damage_and_with_bad_bodies(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 20, queues=1)
    segment = root / "commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    size = int.from_bytes(data[:4], "big")
    data[95] ^= 1
    data[3 * size + 4] ^= 1
    segment.write_bytes(data)
    met: list[int] = []
    handler: Any = SimpleNamespace(dispatch=lambda run: met.extend(run.columns.queue_offset.tolist()))
    with planning(root, settings=SMALL) as opened:
        dispatch_stretch(opened, 0, 6 * size, [handler])
    assert met == [0, 1, 2, 4, 5]


def controlled(confirm: int, start: int = 0) -> Any:
    """A store in controller mode."""
    return SimpleNamespace(
        line=LINE_5_3,
        fs=SimpleNamespace(exists=lambda path: True),
        layout=SimpleNamespace(controller_state=None),
        checkpoint=SimpleNamespace(confirm_log_offset=confirm),
        log=SimpleNamespace(start=start),
    )


@pytest.mark.parametrize(
    ("confirm", "start", "kept"), [(999, 0, 999), (1000, 0, 1000), (1001, 0, 1000), (99, 100, 100), (-5, 0, 0)]
)
def test_the_confirm_offset_stays_inside_of_the_log(confirm: int, start: int, kept: int) -> None:
    opened = controlled(confirm, start)
    keep_confirm_offset(opened, 1000, only_confirmed=True)
    assert opened.checkpoint.confirm_log_offset == kept


@pytest.mark.parametrize(("confirm", "as_broker", "is_limit"), [(0, False, False), (0, True, True), (1, False, True)])
def test_a_confirm_offset_of_zero_limits_a_broker_alone(confirm: int, as_broker: bool, is_limit: bool) -> None:
    handlers: list[Any] = []
    assert (up_to_confirmed(controlled(confirm), handlers, as_broker=as_broker) is not handlers) == is_limit


@pytest.mark.parametrize(("log_end", "is_kept"), [(99, False), (100, False), (101, True)])
def test_a_walk_into_the_newest_segment_is_not_done_again(
    log_end: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_review, "_newest_written_segment", lambda opened: 100)
    monkeypatch.setattr(checkpoint_review, "walk", lambda opened, start, **_: start)
    opened: Any = None
    walked: Any = SimpleNamespace(log_end=log_end)
    assert checkpoint_review._log_end(opened, walked, None) == (walked if is_kept else 100)


def test_units_without_a_record_are_lost_where_none_was_built() -> None:
    opened: Any = None
    counter, queue = LossCounter(opened), SimpleNamespace(topic="T", queue_id=0, max_offset=5)
    counter._missing = [(("T", 0), np.array([2, 3, 4, 5]), np.array([10, 20, 30, 40]))]
    counter.note_built(queue, 3)  # type: ignore[arg-type]
    counter._count_missing()
    assert counter._tally.rows() == [LostQueue("T", 0, 2, 50, unreadable_count=2)]
    assert counter._tally.unconsumed({("T", "g"): {0: 3}}) == [LostForGroup("g", "T", 0, 1)]


def test_a_walk_counts_the_bytes_of_the_log_from_its_start_on(tmp_path: Path) -> None:
    root = tmp_path / "store"
    make_store(root, 400)
    told: list[tuple[int, int]] = []
    with planning(root) as opened:
        segments = opened.log.segments.files
        start = segments[1].file_start
        # What is read of a sparse file in memory counts as written afterwards.
        total = written_after(segments, start)
        end = walk(opened, start, progress=lambda done, in_all: told.append((done, in_all)))
    assert told[-1] == (end.log_end - start, total)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_rebuilt_queues_and_index_take_the_place_of_those_that_were_opened(tmp_path: Path) -> None:
    root = tmp_path / "store"
    make_store(root, 5)
    with planning(root) as opened:
        closed: list[str] = []
        for name in ("queues", "index"):
            former = getattr(opened, name)
            close = former.close
            former_close = lambda name=name, close=close: (closed.append(name), close())  # noqa: E731
            setattr(opened, name, SimpleNamespace(close=former_close))
        open_rebuilt(opened, root)
        assert closed == ["queues", "index"]
        assert opened.queues.find("T", 0) is not None


@pytest.mark.parametrize(
    ("line", "is_written", "ends", "built_to", "repeats"),
    [
        (LINE_4_9, True, [], -1, False),
        (LINE_4_9, True, [0], -1, True),
        (LINE_4_9, True, [50], 50, True),
        (LINE_4_9, True, [50, 20], 50, True),
        (LINE_4_9, True, [50], 51, False),
        (LINE_4_9, True, [99], 51, True),
        (LINE_4_9, True, [100], 51, False),
        (LINE_4_9, False, [50], 50, False),
        (LINE_5_3, True, [50], 50, False),
    ],
)
def test_4_9_enters_keys_again_from_where_its_queues_end(
    line: BrokerLine, is_written: bool, ends: list[int], built_to: int, repeats: bool
) -> None:
    files = [SimpleNamespace(header=SimpleNamespace(end_log_offset=end)) for end in ends]
    opened: Any = SimpleNamespace(
        line=line,
        config=SimpleNamespace(writes_index_files=is_written),
        index=SimpleNamespace(files=files),
        log=SimpleNamespace(start=0, max_offset=100),
        queues=SimpleNamespace(built_to=built_to),
    )
    assert _broker_repeats_keys(opened) is repeats
