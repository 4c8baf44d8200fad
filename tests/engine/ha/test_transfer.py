"""The parts of replication by themselves: frames of a scripted master, and the logs they end up in."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.broker_line import LINE_4_9, LINE_5_3
from store.config import StoreConfig
from store.engine.ha import listener, master, receive, service
from store.engine.ha.link import Address
from store.engine.ha.listener import Limits, Listener
from store.engine.ha.log_copy import LogCopy
from store.engine.ha.master import HAMaster, MasterOptions, Replication
from store.engine.ha.protocol import FrameHeader
from store.engine.ha.receive import Begin, ReceiveOptions, Receiver, ReceiveReport, _Opening, _Transfer
from store.engine.ha.service import HAService
from store.engine.ha.slave_log import HAClient, SlaveLog
from store.engine.ha.verifier import LARGEST_RECORD_BYTES, LogVerifier
from store.errors import (
    BadRequest,
    Diverged,
    LinkLost,
    ReplicationError,
    StoreError,
    StoreIOError,
    StoreLocked,
    UncleanStore,
    UnsupportedFormat,
)
from store.files.filesystem import Filesystem
from store.structures.commitlog.put_result import PutStatus
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.logs import record
from tests.support.times import set_time

SIZE = len(record())
SEGMENT = 4096


def log_bytes(start: int, stop: int) -> bytes:
    """Records of 100 bytes at every multiple of it."""
    return b"".join(record(position=at) for at in range(start, stop, SIZE))


def test_what_is_not_said_is_the_brokers() -> None:
    assert dataclasses.astuple(ReceiveReport()) == (0, 0, 0, 0, 0, 0, 0, 0, 0, False, 0.0)
    given = ReceiveOptions()
    assert (given.begin, given.follow, given.observe, given.overlap_bytes) == (Begin.MIN, False, False, 1 << 20)
    assert (receive.SYNC_INTERVAL_S, receive.CAUGHT_UP_AFTER_S, receive.CAUGHT_UP_AFTER_FRAMES) == (1.0, 1.5, 3)
    assert LARGEST_RECORD_BYTES == 67_108_864
    assert (listener.MOST_CONNECTIONS, listener.IDLE_S, listener.LEAST_CONNECTIONS) == (100, 60.0, 2)


class Link:
    """A master's frames: (log offset, bytes), a number of seconds that pass, or None for a pause."""

    begins_at_first = False

    def __init__(self, clock: list[float], frames: Sequence[Any]) -> None:
        self.clock, self.frames = clock, list(frames)
        self.reports: list[int] = []
        self.is_closed = False

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True

    def report(self, log_offset: int) -> None:
        self.reports.append(log_offset)

    def next_header(self, wait_s: float) -> FrameHeader | None:
        while self.frames and isinstance(self.frames[0], float):
            self.clock[0] += self.frames.pop(0)
        if not self.frames:
            raise LinkLost("the master closed the connection")
        if self.frames[0] is None:
            self.frames.pop(0)
            return None
        return FrameHeader(self.frames[0][0], len(self.frames[0][1]))

    def read_body(self, body: memoryview) -> None:
        body[:] = self.frames.pop(0)[1]


class Copy:
    """A log in memory from `first` on."""

    segment_size = SEGMENT
    is_size_assumed = False

    def __init__(self, data: bytes = b"") -> None:
        self.data, self.first = bytearray(data), 0
        self.durable = len(data)
        self.syncs: list[int] = []

    @property
    def end(self) -> int:
        return self.first + len(self.data)

    @property
    def is_empty(self) -> bool:
        return not self.data

    def begin(self, log_offset: int) -> None:
        self.first = log_offset

    def correct_segment_size(self, size: int) -> None:
        assert size == self.segment_size

    def require_same(self, log_offset: int, data: memoryview) -> None:
        if self.data[log_offset : log_offset + len(data)] != data:
            raise Diverged("the copy holds other bytes than the master", offset=log_offset)

    def append(self, log_offset: int, data: memoryview) -> None:
        assert log_offset == self.end
        self.data += data

    def sync(self) -> None:
        if self.durable != self.end:
            self.syncs.append(self.end)
        self.durable = self.end


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    set_time(monkeypatch, receive, monotonic=lambda: now[0])
    return now


def transfer(clock: list[float], copy: Copy, asked: int, *frames: Any, **options: Any) -> tuple[Link, ReceiveReport]:
    link, report = Link(clock, frames), ReceiveReport()
    verifier = LogVerifier(copy.end, SEGMENT)
    opening: Any = _Opening(link, asked, link.next_header(0) or FrameHeader(0, 0))  # type: ignore[arg-type]
    any_copy: Any = copy
    try:
        _Transfer(opening, any_copy, verifier, ReceiveOptions(**options), report, clock[0] - 1).run()
    except LinkLost:
        report.unfinished_bytes = -1
    return link, report


def frames_of(start: int, stop: int, size: int) -> list[tuple[int, bytes]]:
    data = log_bytes(0, stop)
    return [(at, data[at : min(stop, at + size)]) for at in range(start, stop, size)]


HEARTBEAT = (1000, b"")


@pytest.mark.parametrize(("asked", "known"), [(0, 0), (1, 0), (1, 300), (300, 300), (250, 300), (100, 900)])
def test_a_transfer_compares_what_is_known_and_appends_the_rest(asked: int, known: int, clock: list[float]) -> None:
    copy, seen = Copy(log_bytes(0, known)), list[int]()
    frames = frames_of(asked, 1000, 200)
    link, report = transfer(clock, copy, asked, *frames, 2.5, HEARTBEAT, on_progress=seen.append)
    assert bytes(copy.data) == log_bytes(0, 1000)
    assert (report.received_bytes, report.compared_bytes) == (1000 - asked, max(0, known - max(asked, 0)))
    assert seen == [sum(len(data) for _, data in frames[: number + 1]) for number in range(len(frames))]
    assert (report.transfer_seconds, link.reports, report.unfinished_bytes) == (1.0, [1000], 0)


def test_what_came_is_reported_when_nothing_more_comes_at_once(clock: list[float]) -> None:
    one, two, three, four, five = frames_of(0, 1000, 200)
    frames = [one, None, two, three, None, None, four, five, None, HEARTBEAT]
    assert transfer(clock, Copy(), 0, *frames)[0].reports == [200, 600, 1000]
    assert transfer(clock, Copy(), 0, *frames, observe=True)[0].reports == []


@pytest.mark.parametrize(("pause_s", "reports"), [(4.0, [200, 1000]), (5.0, [200, 1000]), (5.5, [200, 200, 1000])])
def test_a_report_is_repeated_after_5_seconds(pause_s: float, reports: list[int], clock: list[float]) -> None:
    one, *others = frames_of(0, 1000, 200)
    frames = [one, None, pause_s, *others, None, HEARTBEAT]
    assert transfer(clock, Copy(), 0, *frames)[0].reports == reports


@pytest.mark.parametrize(("pause_s", "syncs"), [(1.0, [1000]), (1.5, [600, 1000])])
def test_frames_without_a_pause_are_synced_every_second(
    pause_s: float, syncs: list[int], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "VERIFY_BYTES", 1)
    one, two, three, *others = frames_of(0, 1000, 200)
    copy = Copy()
    link, _ = transfer(clock, copy, 0, one, two, pause_s, three, *others, None, HEARTBEAT)
    assert (copy.syncs, link.reports) == (syncs, syncs)


@pytest.mark.parametrize(
    ("sync_bytes", "syncs"), [(399, [400, 800, 1000]), (400, [400, 800, 1000]), (401, [600, 1000])]
)
def test_so_many_bytes_are_synced_at_once(
    sync_bytes: int, syncs: list[int], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "VERIFY_BYTES", 1)
    monkeypatch.setattr(receive, "SYNC_BYTES", sync_bytes)
    copy = Copy()
    transfer(clock, copy, 0, *frames_of(0, 1000, 200), None, HEARTBEAT)
    assert copy.syncs == syncs


@pytest.mark.parametrize(
    ("pause_s", "sizes", "is_over"),
    [
        (1.6, [300, 100, 100, 100], True), (1.5, [300, 100, 100, 100], False), (1.6, [300, 100, 100], False),
        (1.6, [300, 100, 300, 100, 100], False), (1.6, [100, 100, 100, 100], False),
    ],
)  # fmt: skip
def test_three_frames_that_are_not_full_after_a_while_are_the_end(
    pause_s: float, sizes: list[int], is_over: bool, clock: list[float]
) -> None:
    data, at, frames = log_bytes(0, 1000), 0, list[Any]()
    for number, size in enumerate(sizes):
        frames += [pause_s] * (number == 1) + [(at, data[at : at + size])]
        at += size
    # A link without more is lost.
    assert (transfer(clock, Copy(), 0, *frames)[1].unfinished_bytes == 0) is is_over
    assert transfer(clock, Copy(), 0, *frames, follow=True)[1].unfinished_bytes == -1


@pytest.mark.parametrize(("end", "is_behind"), [(300, True), (200, False)])
def test_a_heartbeat_before_the_copys_end_is_of_another_log(end: int, is_behind: bool, clock: list[float]) -> None:
    copy = Copy(log_bytes(0, end))
    if is_behind:
        with pytest.raises(Diverged, match=f"the copy ends at {end}, and the master has nothing at 200"):
            transfer(clock, copy, 200, (200, b""))
    else:
        assert transfer(clock, copy, 200, (200, b""))[0].reports == []
    with pytest.raises(ReplicationError, match="the master sends log offset 201, 200 comes next"):
        transfer(clock, copy, 200, (201, b""))


class Masters:
    """A master of segments first … last that is asked again and again; the last one is of 100 bytes."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first * SEGMENT, last * SEGMENT
        self.asked: list[int] = []
        self.links: list[Any] = []

    def connect(self, address: Address, stall_s: float) -> Any:
        link: Any = Link([0.0], [])
        self.links.append(link)
        link.next_header = lambda wait_s: self.header(link.reports[-1])
        return link

    def header(self, asked: int) -> FrameHeader:
        self.asked.append(asked)
        at = asked or self.last
        return FrameHeader(at, SIZE if self.first <= at < self.last + SIZE else 0)


@pytest.mark.parametrize("last", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("first", [0, 1, 2, 4, 5])
def test_the_first_segment_that_a_master_has_is_found(first: int, last: int) -> None:
    if first > last:
        return
    masters = Masters(first, last)
    copy: Any = Copy()
    receiver = Receiver(Address("h", 1), copy, ReceiveOptions(connect=masters.connect))
    opening = receiver._begin_empty()
    assert opening is not None
    assert copy.first == first * SEGMENT
    assert opening.header.log_offset == (masters.asked[-1] or copy.first)
    assert [link.is_closed for link in masters.links] == [True] * (len(masters.links) - 1) + [False]
    assert masters.asked[:2] == ([0, 1] if last else [0])
    assert len(masters.asked) <= 6


@pytest.mark.parametrize(
    ("begin", "asked", "start"),
    [(Begin.LAST_SEGMENT, [0], 5), (3 * SEGMENT + 7, [0, 3 * SEGMENT], 3), (5 * SEGMENT, [0], 5), (0, [0, 1], None)],
)
def test_a_copy_begins_where_it_is_told(begin: Any, asked: list[int], start: int | None) -> None:
    masters = Masters(2, 5)
    copy: Any = Copy()
    receiver = Receiver(Address("h", 1), copy, ReceiveOptions(begin=begin, connect=masters.connect))
    if start is None:
        with pytest.raises(BadRequest, match="the master has no data there"):
            receiver._begin_empty()
        assert all(link.is_closed for link in masters.links)
    else:
        receiver._begin_empty()
        assert copy.first == start * SEGMENT
    assert masters.asked == asked


def test_a_copy_that_is_stopped_ends_each_link() -> None:
    for stop_after in (1, 2, 3):
        masters = Masters(4, 9)
        copy: Any = Copy()
        options = ReceiveOptions(
            connect=masters.connect,
            should_stop=lambda: len(masters.asked) >= stop_after,  # noqa: B023
        )
        assert Receiver(Address("h", 1), copy, options).run().connection_count == 1
        assert (len(masters.links), all(link.is_closed for link in masters.links)) == (stop_after, True)


def test_a_link_is_tried_again_after_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    lost: list[StoreError] = []
    set_time(monkeypatch, receive, sleep=paused.append)

    def connect(address: Address, stall_s: float) -> Any:
        assert stall_s == 20.0
        raise LinkLost("no master")

    copy: Any = Copy()
    options = ReceiveOptions(
        follow=True, reconnect_delay_s=7, connect=connect, on_lost=lost.append, should_stop=lambda: len(lost) == 3
    )
    with pytest.raises(LinkLost):
        Receiver(Address("h", 1), copy, options).run()
    assert (paused, len(lost)) == ([7, 7, 7], 3)


# The copy of a log.


def copy_at(root: Path, fs: Filesystem | None = None, **settings: Any) -> LogCopy:
    return LogCopy(root, {"mappedFileSizeCommitLog": SEGMENT, **settings}, fs or Filesystem())


def test_a_copy_is_written_by_one_at_a_time(tmp_path: Path) -> None:
    copy = copy_at(tmp_path / "copy")
    with pytest.raises(StoreLocked):
        copy_at(tmp_path / "copy")
    copy.close()
    copy_at(tmp_path / "copy").close()


@pytest.mark.leaves_damage
def test_a_copy_is_compared_and_appended_over_its_segments(tmp_path: Path) -> None:
    copy = copy_at(tmp_path / "copy")
    data = bytes(range(1, 251)) * 33
    copy.append(0, memoryview(data[:SEGMENT]))
    copy.append(SEGMENT, memoryview(data[SEGMENT : 2 * SEGMENT]))
    assert (copy.durable, copy.end) == (SEGMENT, 2 * SEGMENT)
    copy.sync()
    assert copy.durable == 2 * SEGMENT
    for start in (0, 100, SEGMENT - 1, SEGMENT, SEGMENT + 5):
        copy.require_same(start, memoryview(data[start : 2 * SEGMENT]))
        for bad in (start, SEGMENT, 2 * SEGMENT - 1):
            if bad >= start:
                other = bytearray(data[: 2 * SEGMENT])
                other[bad] ^= 1
                with pytest.raises(Diverged) as error:
                    copy.require_same(start, memoryview(other)[start:])
                assert error.value.offset == bad
    copy.close()


@pytest.mark.leaves_damage
@pytest.mark.parametrize("start", [0, 100, SEGMENT - 1, SEGMENT, SEGMENT + 5])
def test_a_segment_that_was_dropped_meanwhile_is_not_compared(start: int, tmp_path: Path) -> None:
    copy = copy_at(tmp_path / "copy")
    data = bytes(range(1, 251)) * 33
    copy.append(0, memoryview(data[:SEGMENT]))
    copy.append(SEGMENT, memoryview(data[SEGMENT : 2 * SEGMENT]))
    copy.drop_before(SEGMENT)
    assert copy.first == SEGMENT
    copy.require_same(start, memoryview(data[start : 2 * SEGMENT]))
    copy.require_same(start, memoryview(bytes(max(0, SEGMENT - start))))
    other = bytearray(data[: 2 * SEGMENT])
    other[SEGMENT + 5] ^= 1
    with pytest.raises(Diverged) as error:
        copy.require_same(start, memoryview(other)[start:])
    assert error.value.offset == SEGMENT + 5
    copy.close()


def test_what_a_power_cut_left_unwritten_is_written_durably(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    copy = copy_at(tmp_path / "copy", fs)
    copy.append(0, memoryview(b"x" * 512 + bytes(512) + b"x" * 512))
    copy.sync()
    before = fs.count("fdatasync")
    copy.require_same(512, memoryview(b"y" * 512))
    assert fs.count("fdatasync") == before + 1
    copy.require_same(0, memoryview(b"x" * 512 + b"y" * 512))
    assert fs.count("fdatasync") == before + 1
    copy.close()


@pytest.mark.leaves_damage
@pytest.mark.parametrize(("size", "stored"), [(SEGMENT, SEGMENT), (1024, 1024), (2 * SEGMENT, 2 * SEGMENT)])
def test_the_only_segment_gets_the_length_that_its_blank_tells(size: int, stored: int, tmp_path: Path) -> None:
    copy = copy_at(tmp_path / "copy")
    copy.correct_segment_size(size)
    copy.begin(0)
    copy.append(0, memoryview(log_bytes(0, 500)))
    copy.correct_segment_size(size)
    copy.close()
    assert (tmp_path / f"copy/commitlog/{0:020d}").stat().st_size == stored
    again = LogCopy(tmp_path / "copy", {"mappedFileSizeCommitLog": stored}, Filesystem())
    again.correct_segment_size(512)
    assert (again._old_end, again.segment_size) == (512, 512)
    again.correct_segment_size(8192)
    assert again._old_end == 512
    again.close()


@pytest.mark.leaves_damage
def test_folders_of_a_new_copy_are_durable_and_go_where_nothing_came(tmp_path: Path) -> None:
    fs, root = FaultyFilesystem(), tmp_path / "a/copy"
    copy = copy_at(root, fs)
    asked = [argument for name, argument in fs.operations if name == "fsync_folder"]
    assert asked == [tmp_path, tmp_path / "a", root]
    copy.remove_if_unused()
    copy.close()
    assert list(tmp_path.iterdir()) == []
    kept = copy_at(root, fs)
    kept.append(0, memoryview(b"x"))
    created = [argument for name, argument in fs.operations if name == "fsync_folder"][-1]
    assert created == root / "commitlog"
    kept.remove_if_unused()
    kept.close()
    assert (root / f"commitlog/{0:020d}").exists()
    assert (root / "lock").exists()
    again = copy_at(root)
    again.remove_if_unused()
    again.close()
    assert root.exists()
    kept = copy_at(root)
    (root / f"commitlog/{0:020d}").write_bytes(b"xy")
    with pytest.raises(StoreIOError, match="the file ends at 2"):
        kept.require_same(1, memoryview(b"yz"))
    kept.close()
    empty = copy_at(tmp_path / "empty")
    (tmp_path / "empty/commitlog/mine").write_bytes(b"")
    empty.remove_if_unused()
    empty.close()
    assert (tmp_path / "empty/commitlog/mine").exists()
    assert (tmp_path / "empty/lock").exists()


def test_a_store_that_cannot_take_a_copy_is_left_alone(tmp_path: Path) -> None:
    copy_at(tmp_path / "copy").close()
    (tmp_path / "copy/abort").write_bytes(b"")
    with pytest.raises(UncleanStore):
        copy_at(tmp_path / "copy")
    (tmp_path / "copy/abort").unlink()
    (tmp_path / "copy/RocksDBMessageStore").mkdir()
    with pytest.raises(UnsupportedFormat):
        copy_at(tmp_path / "copy")
    with pytest.raises(BadRequest, match="into one folder"):
        copy_at(tmp_path / "new", storePathCommitLog=f"{tmp_path}/a,{tmp_path}/b")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes").write_bytes(b"")
    with pytest.raises(StoreError, match="not a store"):
        copy_at(tmp_path / "other")


class Segments:
    """The segments of a slave's log, in memory."""

    file_size = SEGMENT

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.flushed_where = 0
        self.asked: list[int] = []

    def flush(self, pages: int) -> bool:
        self.asked.append(pages)
        self.flushed_where = min(len(self.data), self.flushed_where + SEGMENT)
        return self.flushed_where == len(self.data)


def slave_log(data: bytes, min_offset: int = 0) -> SlaveLog:
    def read(log_offset: int, size: int) -> bytes | None:
        assert log_offset // SEGMENT == (log_offset + size - 1) // SEGMENT
        return data[log_offset : log_offset + size] if log_offset + size <= len(data) else None

    log: Any = SimpleNamespace(
        segments=Segments(data), min_offset=min_offset, max_offset=len(data) if data else -1, read=read
    )
    return SlaveLog(log)


def test_a_slaves_log_is_compared_over_its_segments() -> None:
    data = bytes(range(1, 251)) * 40
    log = slave_log(data)
    assert (log.first, log.end, log.is_empty, log.is_size_assumed) == (0, 10_000, False, False)
    for start in (0, 7, SEGMENT - 1, SEGMENT):
        log.require_same(start, memoryview(data)[start:9999])
        for bad in (start, 2 * SEGMENT - 1, 9998):
            other = bytearray(data)
            other[bad] ^= 1
            with pytest.raises(Diverged):
                log.require_same(start, memoryview(other)[start:9999])
    with pytest.raises(Diverged):
        log.require_same(9990, memoryview(bytes(11)))
    empty = slave_log(b"", -1)
    assert (empty.first, empty.end, empty.durable, empty.is_empty) == (0, 0, 0, True)


def test_a_slaves_log_is_flushed_to_its_end_and_has_its_own_segment_size() -> None:
    log = slave_log(bytes(2 * SEGMENT + 5))
    log.durable = 0
    log.sync()
    segments: Any = log._segments
    assert (segments.asked, log.durable) == ([0, 0, 0], 2 * SEGMENT + 5)
    log.sync()
    assert segments.asked == [0, 0, 0]
    log.correct_segment_size(SEGMENT)
    with pytest.raises(ReplicationError) as error:
        log.correct_segment_size(SEGMENT + 1)
    assert error.value.code == "segment-size"


@pytest.mark.parametrize("is_stopping", [False, True])
@pytest.mark.parametrize("error", [LinkLost("lost"), Diverged("other bytes"), None])
def test_a_client_keeps_why_it_ended_by_itself(is_stopping: bool, error: StoreError | None) -> None:
    log: Any = SimpleNamespace(segments=Segments(b""), min_offset=-1, max_offset=-1)
    client = HAClient(log, Address("h", 1))

    def run() -> None:
        if error is not None:
            raise error

    client._receiver = SimpleNamespace(run=run)  # type: ignore[assignment]
    if is_stopping:
        client._stopping.set()
    client._run()
    assert client.failure is (None if is_stopping and isinstance(error, LinkLost) else error)
    for number in range(101):
        client._note_lost(LinkLost(str(number)))
    assert [one.reason for one in client.lost] == [str(number) for number in range(1, 101)]
    client.stop()
    assert client._should_stop()


@pytest.mark.parametrize("ends", [(True, True), (True, False), (False, True), (False, False)])
def test_a_service_starts_and_stops_the_ends_that_it_has(ends: tuple[bool, bool]) -> None:
    calls: list[str] = []

    def end(name: str) -> Any:
        return SimpleNamespace(
            start=lambda: calls.append(f"start {name}"), stop=lambda: calls.append(f"stop {name}"), failure=None
        )

    log: Any = None
    ha = HAService(log, StoreConfig(broker_role="SYNC_MASTER"), LINE_4_9, None, None)
    assert not ha.is_waited_for
    ha.master, ha.client = end("master") if ends[0] else None, end("client") if ends[1] else None
    ha.start()
    ha.stop()
    names = [name for name, is_there in zip(("master", "client"), ends, strict=True) if is_there]
    assert calls == [f"start {name}" for name in names] + [f"stop {name}" for name in reversed(names)]
    assert (ha.is_waited_for, ha.describe_findings()) == (ends[0], [])
    if ha.client is not None:
        ha.client.failure = LinkLost("no master")
        assert ha.describe_findings() == ["replication ended: no master"]


@pytest.mark.parametrize(
    ("line", "replicas", "asked"), [(LINE_4_9, 3, [7]), (LINE_5_3, 3, [7, 2]), (LINE_5_3, 1, [7, 0])]
)
def test_a_put_waits_for_a_slave_in_4_9_and_for_so_many_in_5_x(line: Any, replicas: int, asked: list[int]) -> None:
    log: Any = None
    ha = HAService(log, StoreConfig(in_sync_replicas=replicas), line, None, None)
    assert (ha.replicate(7), ha.is_waited_for) == (PutStatus.SLAVE_NOT_AVAILABLE, False)
    seen: list[int] = []

    def wait(*numbers: int) -> master.Replication:
        seen.extend(numbers)
        return master.Replication.TIMEOUT

    ha.master = SimpleNamespace(wait_for_slave=wait, wait_for_slaves=wait)  # type: ignore[assignment]
    assert (ha.replicate(7), seen) == (PutStatus.FLUSH_SLAVE_TIMEOUT, asked)
    assert service._options(StoreConfig()).batch_size == 32_768


def test_a_master_that_is_left_accepts_no_more() -> None:
    log: Any = SimpleNamespace(max_offset=0, segment_size=SEGMENT, read=lambda *_: None)
    with HAMaster(log, Address("127.0.0.1", 0)) as one:
        assert dataclasses.astuple(one.options)[:-1] == (32_768, 5.0, 20.0, 3.0, 268_435_456, 100)
    assert one.listener._ending.is_set()
    assert not any(thread.is_alive() for thread in one.listener._threads)


@pytest.mark.parametrize(("next_offset", "count", "is_there"), [(5, 2, 1), (6, 2, 0), (6, 1, 1), (7, 1, 0), (9, 0, 1)])
def test_so_many_slaves_have_the_log_up_to_an_offset(next_offset: int, count: int, is_there: int) -> None:
    log: Any = SimpleNamespace(max_offset=10, segment_size=SEGMENT)
    ended: list[str] = []
    one = HAMaster(log, Address("127.0.0.1", 0), MasterOptions(on_slave=ended.append))
    slaves: list[Any] = [SimpleNamespace(acknowledged=at, address=f"h:{at}", end=ended.append) for at in (6, 5)]
    one._connections = Slaves(slaves)  # type: ignore[assignment]
    assert one.wait_for_slaves(next_offset, count, 0) is [Replication.TIMEOUT, Replication.OK][is_there]
    assert one.slaves() == [("h:5", 5, 5), ("h:6", 6, 4)]
    one.forget(slaves[1], "the slave closed")
    assert (ended, one.connection_count) == (["h:5 ended: the slave closed"], 1)
    one.stop()
    assert ended[1:] == ["the master stops"]


def test_a_slave_is_told_of_and_listed_before_it_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[object] = []
    served: Any = SimpleNamespace(address="h:1", acknowledged=-1, run=lambda: noted.append(one.connection_count))
    log: Any = SimpleNamespace(max_offset=10, segment_size=SEGMENT)
    one = HAMaster(log, Address("127.0.0.1", 0), MasterOptions(on_slave=noted.append))
    one._connections = Slaves()  # type: ignore[assignment]
    monkeypatch.setattr(master, "_Connection", lambda ha, peer: served)
    one._serve(cast(Any, None))
    assert noted == ["h:1 connected", 1]


def test_a_stop_waits_for_each_connection_no_longer_than_its_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    now = [100.0]
    set_time(monkeypatch, listener, monotonic=lambda: now[0])

    def join(timeout: float) -> None:
        waits.append(timeout)
        now[0] += 3

    server: Any = SimpleNamespace(shutdown=lambda how: None, close=lambda: None)
    one = Listener("port", server, lambda peer: None, Limits())
    ended: list[int] = []
    one._peers = {Ended(ended): SimpleNamespace(join=join) for _ in range(3)}  # type: ignore[dict-item, misc]
    one.stop()
    one.stop()
    assert waits == [5.0, 2.0, 0.0] * 2
    assert ended == [listener.socket.SHUT_RD] * 3 + [listener.socket.SHUT_RDWR] * 3


class Slaves(list[Any]):
    """Connections that stand for a set of them."""

    add, discard = list.append, list.remove


class Ended:
    """A peer that notes how it is ended."""

    def __init__(self, ended: list[int]) -> None:
        self._ended = ended

    def end(self, how: int) -> None:
        self._ended.append(how)


def test_an_error_of_accept_ends_one_quiet_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = SimpleNamespace()
    one = Listener("port", server, lambda peer: None, Limits())
    asked: list[tuple[str, int]] = []

    def accept() -> None:
        raise OSError("too many open files")

    def end_quietest(rule: str, allowed: int) -> bool:
        asked.append((rule, allowed))
        one._ending.set()
        return True

    monkeypatch.setattr(one, "_accept", accept)
    monkeypatch.setattr(one, "_end_quietest", end_quietest)
    worker = threading.Thread(target=one._accept_all)
    worker.start()
    worker.join(10)
    assert (asked, one.trouble) == ([("error", 0)], "too many open files")


@pytest.mark.parametrize(
    ("pieces", "taken"),
    [
        ([4, 4], [1]),
        ([8, 8], [1, 2]),
        ([12, 4], [1, 2]),
        ([20, 4], [2, 3]),
        ([24], [3]),
        ([7, 1, 16], [1, 3]),
        ([7], []),
    ],
)
def test_reports_are_read_from_any_pieces_and_the_last_of_a_piece_counts(pieces: list[int], taken: list[int]) -> None:
    data = b"".join(number.to_bytes(8, "big") for number in (1, 2, 3))
    places = [sum(pieces[:number]) for number in range(len(pieces) + 1)]
    received = iter([*(data[start:stop] for start, stop in itertools.pairwise(places)), b""])
    reports, notes = list[int](), list[None]()
    connection: Any = SimpleNamespace(
        _is_over=False,
        _socket=SimpleNamespace(recv=lambda most: next(received)),
        _take_report=reports.append,
        _peer=SimpleNamespace(note_request=lambda: notes.append(None)),
    )
    assert master._Connection._read(connection) == "the slave closed"
    assert (reports, len(notes)) == (taken, len(taken))
