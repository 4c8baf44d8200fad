"""Following the log: over segments, over damage, in a thread; and several handlers side by side."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import numpy as np
import pytest

from store import kernels
from store.config import StoreConfig
from store.dispatch.dispatcher import Dispatcher
from store.dispatch.fan_out import FanOut, _Stage
from store.files.filesystem import Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.files.mapping import PAGE_SIZE
from store.formats.message import Message
from store.formats.run import Int64Array, Run
from store.structures.commitlog.commit_log import CommitLog
from store.structures.commitlog.scan import ScanRules
from store.structures.index.keys import Keys
from tests.support.bad_sectors import BadSectors
from tests.support.small_log import START_MS, SmallLog

SEGMENT_SIZE = 4096


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers run in threads, which uncompiled kernels would not be worth."""
    monkeypatch.setattr(kernels, "COMPILED", True)


class Collector:
    """Keeps the log offsets it was given, and the count of each call."""

    def __init__(self) -> None:
        self.log_offsets: list[int] = []
        self.calls = 0

    def dispatch(self, run: Run) -> None:
        self.calls += 1
        self.log_offsets += run.columns.log_offset.tolist()


def new_log(folder: Path) -> CommitLog:
    files = MappedFileQueue(folder, SEGMENT_SIZE, Filesystem(), writable=True)
    config = StoreConfig(mapped_file_size_commit_log=SEGMENT_SIZE)
    return CommitLog(files, config, lambda: START_MS)


def put(log: CommitLog, count: int, body_size: int = 300) -> list[int]:
    return [log.put(Message("T", bytes(body_size))).log_offset for _ in range(count)]


def dispatcher(log: CommitLog, *handlers: Collector, start: int = 0) -> Dispatcher:
    return Dispatcher(log, handlers, start, ScanRules())


def damage(log: CommitLog, log_offset: int, position: int, data: bytes) -> None:
    file = log.segments.find_by_offset(log_offset)
    assert file is not None
    at = log_offset - file.file_start + position
    file.buffer[at : at + len(data)] = data


def test_every_record_is_handed_to_every_handler_once_over_several_segments(tmp_path: Path) -> None:
    log, first, second = new_log(tmp_path), Collector(), Collector()
    places = put(log, 30)
    follower = dispatcher(log, first, second)
    assert follower.behind_bytes == log.max_offset
    told: list[int] = []
    assert follower.catch_up(told.append) == 30
    assert [told[0] > 0, told[-1], told] == [True, log.max_offset, sorted(set(told))]
    assert first.log_offsets == second.log_offsets == places
    assert follower.behind_bytes == 0
    places += put(log, 5)
    assert follower.catch_up() == 5
    assert first.log_offsets == places


def test_it_begins_where_it_is_told_to_but_not_before_the_log(tmp_path: Path) -> None:
    log, collector = new_log(tmp_path), Collector()
    places = put(log, 30)
    dispatcher(log, collector, start=places[20]).catch_up()
    assert collector.log_offsets == places[20:]
    first = log.segments.first
    assert first is not None
    log.segments.delete_files([first])
    again = Collector()
    dispatcher(log, again).catch_up()
    assert again.log_offsets == [place for place in places if place >= SEGMENT_SIZE]


def test_a_record_whose_sum_alone_is_wrong_is_skipped(tmp_path: Path) -> None:
    log, collector = new_log(tmp_path), Collector()
    places = put(log, 6)
    # A shorter properties length: the parts no longer add up to the size.
    log.put(Message("T", b"b", properties=b"A\x01b"))
    places += put(log, 2)
    broken = places[6] - (91 + 1 + 1 + 3)
    damage(log, broken, 91 + 1 + 1 - 2, b"\0\1")
    follower = dispatcher(log, collector)
    follower.catch_up()
    assert collector.log_offsets == places
    assert [one.position for one in follower.damages] == [broken]
    assert [text.partition(":")[0] for text in follower.describe_findings()] == ["not dispatched"]


def test_a_broker_goes_on_as_far_behind_the_segment_as_the_skipped_record_is_long(tmp_path: Path) -> None:
    log, collector = new_log(tmp_path), Collector()
    places = put(log, 30)
    damage(log, places[2], 91 + 300 + 1 - 4, b"\2")
    follower = Dispatcher(log, [collector], 0, ScanRules(), as_broker=True)
    follower.catch_up()
    # The first record behind the segment is as long as the skipped one.
    assert collector.log_offsets == places[:2] + [place for place in places if place > SEGMENT_SIZE]


@pytest.mark.parametrize("pages", [{0}, {2}, {1, 2}, {7}, {6, 7}, set(range(8))])
def test_behind_unreadable_pages_it_goes_on_at_the_next_record(pages: set[int], tmp_path: Path) -> None:
    size, collector = 8 * PAGE_SIZE, Collector()
    config = StoreConfig(mapped_file_size_commit_log=size)
    places = put(CommitLog(MappedFileQueue(tmp_path, size, Filesystem(), writable=True), config, lambda: START_MS), 100)
    files = MappedFileQueue(tmp_path, size, BadSectors({f"{0:020d}": pages}), writable=False)
    files.load()
    files.set_positions_full()
    follower = dispatcher(CommitLog(files, config, lambda: START_MS), collector)
    follower.catch_up()
    record, bad = places[1], [(page * PAGE_SIZE, (page + 1) * PAGE_SIZE) for page in pages]
    assert collector.log_offsets == [
        place
        for place in places
        if place >= size or not any(start < place + record and place < stop for start, stop in bad)
    ]
    said = [text.partition(":")[0] for text in follower.describe_findings()]
    assert said == ["not dispatched"]


def test_of_many_skipped_records_the_newest_hundred_are_named(tmp_path: Path) -> None:
    log, collector = new_log(tmp_path), Collector()
    places = [log.put(Message("T", b"b", properties=b"A\x01b")).log_offset for _ in range(103)]
    for place in places:
        damage(log, place, 91 + 1 + 1 - 2, b"\0\1")
    follower = dispatcher(log, collector)
    follower.catch_up()
    assert [one.file_start + one.position for one in follower.damages] == places[3:]


@pytest.mark.parametrize("magic", [b"\1\2\3\4", b"\0\0\0\0"])
def test_at_anything_worse_the_rest_of_the_segment_is_skipped(tmp_path: Path, magic: bytes) -> None:
    log, collector = new_log(tmp_path), Collector()
    places = put(log, 20)
    damage(log, places[3], 0, bytes(4) + magic)
    follower = dispatcher(log, collector)
    follower.catch_up()
    assert collector.log_offsets == places[:3] + [place for place in places if place >= SEGMENT_SIZE]
    assert follower.behind_bytes == 0
    said = [text.partition(":")[0] for text in follower.describe_findings()]
    assert said == ["not dispatched, with the rest of the segment"]


@pytest.mark.parametrize(("readable", "is_noted"), [(0, False), (1, True)])
def test_zeros_are_named_where_a_record_stands_after_them_and_before_the_end(
    readable: int, is_noted: bool, tmp_path: Path
) -> None:
    log, collector = new_log(tmp_path), Collector()
    places = put(log, 3)
    damage(log, places[1], 0, bytes(places[2] - places[1]))
    (file,) = log.segments.files
    file.set_positions(places[2] + readable * (places[2] - places[1]))
    follower = dispatcher(log, collector)
    follower.catch_up()
    assert collector.log_offsets == places[:1]
    assert [one.position for one in follower.damages] == [places[1]] * is_noted
    assert follower.behind_bytes == 0


@pytest.mark.parametrize("as_broker", [False, True])
def test_a_missing_segment_is_passed_and_a_broker_stays_there(as_broker: bool, tmp_path: Path) -> None:
    log, collector = new_log(tmp_path), Collector()
    places = put(log, 30)
    log.segments.delete_files([log.segments.files[1]])
    follower = Dispatcher(log, [collector], 0, ScanRules(), as_broker=as_broker)
    follower.catch_up()
    kept = [place for place in places if place < SEGMENT_SIZE or (place >= 2 * SEGMENT_SIZE and not as_broker)]
    assert collector.log_offsets == kept
    assert follower.describe_findings() == (
        [] if as_broker else ["the log lacks 4096 to 8192: messages there are in no queue"]
    )


def test_it_stops_at_what_was_readable_when_it_began(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    put(log, 3)

    class PuttingHandler(Collector):
        def dispatch(self, run: Run) -> None:
            super().dispatch(run)
            put(log, 1)

    handler = PuttingHandler()
    assert dispatcher(log, handler).catch_up() == 3
    assert handler.calls == 1


def test_handlers_side_by_side_get_every_run_in_order() -> None:
    log, handlers = SmallLog(), [Collector(), Collector()]
    places = log.put_many(200)
    with FanOut(handlers) as fan_out:
        log.dispatch_to(fan_out)
    assert [handler.log_offsets for handler in handlers] == [places, places]


@pytest.mark.parametrize(
    ("count", "in_threads", "compiled", "expected"),
    [(1, True, True, False), (2, True, True, True), (2, False, True, False), (2, True, False, False)],
)
def test_threads_work_where_several_handlers_and_compiled_kernels_are(
    count: int, in_threads: bool, compiled: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "COMPILED", compiled)
    log, threads = SmallLog(), set[bool]()
    log.put_many(2)

    class Named(Collector):
        def dispatch(self, run: Run) -> None:
            threads.add(threading.current_thread() is not threading.main_thread())

    with FanOut([Named() for _ in range(count)], in_threads=in_threads) as fan_out:
        log.dispatch_to(fan_out)
    assert threads == {expected}


def test_the_first_handlers_error_is_raised_when_all_have_done_their_runs() -> None:
    log, done = SmallLog(), Collector()
    log.put(keys="key")

    class Broken(Collector):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

        def dispatch(self, run: Run) -> None:
            raise OSError(self.reason)

    with pytest.raises(OSError, match="one"), FanOut([Broken("one"), done, Broken("two")]) as fan_out:
        log.dispatch_to(fan_out, start=0)
    assert done.calls == 1
    with pytest.raises(OSError, match="only"), FanOut([done, Broken("only")]) as fan_out:
        log.dispatch_to(fan_out, start=0)


@pytest.mark.parametrize("interrupted", [False, True])
def test_runs_that_wait_are_dropped_with_an_error_and_done_without_one(interrupted: bool) -> None:
    log, entered, go = SmallLog(), threading.Event(), threading.Event()
    log.put(keys="key")

    class Slow(Collector):
        def dispatch(self, run: Run) -> None:
            super().dispatch(run)
            entered.set()
            go.wait(10)

    slow, opener = Slow(), threading.Timer(0.05, go.set)
    with contextlib.suppress(KeyboardInterrupt), FanOut([slow, Collector()]) as fan_out:
        for _ in range(3):
            log.dispatch_to(fan_out, start=0)
        entered.wait(10)
        opener.start()
        if interrupted:
            raise KeyboardInterrupt
    assert slow.calls == (1 if interrupted else 3)


class Keyed(Collector):
    """Takes the keys of runs, and notes the log offset of each key's record."""

    with_tags = False

    def put_keys(self, run: Run, keys: Keys) -> None:
        self.log_offsets += (run.columns.log_offset[keys.records]).tolist()


class Coded(Collector):
    """Takes the tags codes of runs."""

    delay_levels_ms = np.zeros(0, np.int64)

    def __init__(self) -> None:
        super().__init__()
        self.codes: list[int] = []

    def put_units(self, run: Run, codes: Int64Array) -> None:
        super().dispatch(run)
        self.codes += codes.tolist()


def log_with_keys(count: int) -> tuple[SmallLog, list[int]]:
    log = SmallLog()
    return log, [log.put(keys="key", tags="A") for _ in range(count)]


def test_without_a_handler_of_keys_one_of_units_is_given_the_runs() -> None:
    log, places = log_with_keys(20)
    coded, other = Coded(), Collector()
    with FanOut([coded, other]) as fan_out:
        log.dispatch_to(fan_out)
    assert (coded.log_offsets, coded.codes, coded.calls) == (places, [], other.calls)


@pytest.mark.parametrize("beside", [Collector, Coded])
def test_handlers_of_units_and_keys_are_given_them_in_order(beside: type[Collector]) -> None:
    log, places = log_with_keys(200)
    keyed, other = Keyed(), beside()
    with FanOut([keyed, other]) as fan_out:
        log.dispatch_to(fan_out)
    assert keyed.log_offsets == other.log_offsets == places
    assert keyed.calls == 0
    if isinstance(other, Coded):
        assert other.codes == [ord("A")] * len(places)


@pytest.mark.parametrize("broken", [(Keyed, "put_keys"), (Coded, "put_units")])
def test_a_handler_that_fails_with_what_was_read_ends_the_walk_with_its_error(
    broken: tuple[type[Collector], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = log_with_keys(200)

    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(*broken, fail)

    def walk() -> None:
        with FanOut([Coded(), Keyed()]) as fan_out:
            log.dispatch_to(fan_out)

    with pytest.raises(OSError, match="no space"):
        walk()
    assert not threads_of_builders()


def threads_of_builders() -> list[str]:
    names = ("Collector.", "Keyed.", "Coded.", "read_")
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(names)]


@pytest.mark.parametrize("place", ["finish", "give", "start"])
def test_an_interrupt_at_any_place_leaves_no_thread_behind(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log, method, calls = SmallLog(), getattr(_Stage, place), []
    log.put_many(200)

    def interrupted(worker: object, *arguments: object, **named: object) -> object:
        calls.append(worker)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return method(worker, *arguments, **named)

    monkeypatch.setattr(_Stage, place, interrupted)
    with pytest.raises(KeyboardInterrupt), FanOut([Coded(), Keyed(), Collector()]) as builders:
        log.dispatch_to(builders)
    assert not threads_of_builders()


def test_a_failing_handler_ends_the_walk_with_its_error() -> None:
    log = SmallLog()
    log.put_many(200)

    class Broken(Collector):
        def dispatch(self, run: Run) -> None:
            super().dispatch(run)
            raise OSError("no space")

    broken = Broken()

    def walk() -> None:
        with FanOut([Collector(), broken]) as fan_out:
            log.dispatch_to(fan_out)

    with pytest.raises(OSError, match="no space"):
        walk()
    assert broken.calls == 1
    assert "Broken.dispatch" not in [thread.name for thread in threading.enumerate()]
