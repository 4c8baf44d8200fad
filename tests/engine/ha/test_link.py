"""MasterLink: heads and bodies from a master that is slow, and links that are closed."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import shutil
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import open_store
from store.engine.ha import receive as store_receive
from store.engine.ha.link import Address, MasterLink
from store.engine.ha.log_copy import LogCopy
from store.engine.ha.protocol import FrameHeader
from store.engine.ha.receive import ReceiveOptions, Receiver
from store.engine.ha.slave_log import HAClient, SlaveLog
from store.engine.ha.switch_link import AutoSwitchLink
from store.engine.ha.verifier import LARGEST_RECORD_BYTES, LogVerifier
from store.errors import BadRequest, Diverged, LinkLost, NotAStore, ReplicationError, StoreError
from store.files.filesystem import Filesystem
from tests.support.fake_master import FakeMaster, Frame, Script, honest, log_of
from tests.support.stores import SMALL, make_store, text_message
from tests.support.threads import eventually
from tests.support.times import set_time

SIZE = SMALL["mappedFileSizeCommitLog"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several segments."""
    return make_store(tmp_path_factory.mktemp("master") / "store", 100)


@pytest.fixture(scope="module")
def starts(store: Path) -> list[int]:
    """Where each record begins, and where the log ends."""
    with open_store(store) as opened:
        found = [one.log_offset for queue in opened.queues() for one in opened.messages(queue.topic, queue.queue_id)]
        return [*sorted(found), opened.max_log_offset]


def test_heads_follow_each_other_where_no_body_is_between() -> None:
    frames: list[Frame] = [(1, b""), (1, b""), (1, b"abc"), (4, b"")]
    with FakeMaster(lambda asked: iter(frames)) as master, MasterLink(Address.parse(master.address)) as link:
        link.report(1)
        assert [link.next_header(60) for _ in range(3)] == [(1, 0), (1, 0), (1, 3)]
        link.read_body(body := memoryview(bytearray(3)))
        assert (bytes(body), link.next_header(60)) == (b"abc", (4, 0))


@pytest.mark.parametrize("sent", [b"", b"\0" * 11])
def test_a_head_that_does_not_come_whole_ends_the_link(sent: bytes) -> None:
    with FakeMaster(lambda asked: iter([sent])) as master:
        link = MasterLink(Address.parse(master.address), stall_s=0.1)
        link.report(1)
        assert link.next_header(0) is None
        # The one wait is longer than the frame may take: it ends without a head, and the link with it.
        with pytest.raises(LinkLost, match=r"sent no whole frame for 0\.1 seconds"):
            link.next_header(0.2)
        link.close()


def silent(asked: int) -> Iterator[Frame]:
    return iter(())


def broken(asked: int) -> Iterator[Frame]:
    return iter([struct.pack(">qi", asked, -1)])


@pytest.mark.parametrize(
    ("first", "script", "begin", "error"),
    [
        (0, None, 0, None),
        (SIZE, None, SIZE, None),
        (SIZE, None, 0, BadRequest),
        (0, broken, 0, ReplicationError),
    ],
)
def test_every_link_is_closed_at_the_end(
    first: int, script: Script | None, begin: int, error: type[StoreError] | None, store: Path, starts: list[int],
    tmp_path: Path,
) -> None:  # fmt: skip
    links: list[MasterLink] = []

    def connect(address: Address, stall_s: float) -> MasterLink:
        links.append(MasterLink(address, stall_s=stall_s))
        return links[-1]

    copy = LogCopy(tmp_path / "copy", {"mappedFileSizeCommitLog": SIZE}, Filesystem())
    raised: list[type[StoreError]] = []
    with FakeMaster(script or honest(store, starts[-1], first=first)) as master:
        for options in (ReceiveOptions(begin=begin, connect=connect), ReceiveOptions(connect=connect)):
            try:
                Receiver(Address.parse(master.address), copy, options).run()
            except StoreError as one:
                raised.append(type(one))
    copy.close()
    assert raised[:1] == [error] * bool(error)
    assert [link._socket.fileno() for link in links] == [-1] * len(links)


def test_a_copy_that_is_stopped_before_its_master_answers_has_received_nothing(tmp_path: Path) -> None:
    copy = LogCopy(tmp_path / "copy", {"mappedFileSizeCommitLog": SIZE}, Filesystem())
    with FakeMaster(silent) as master:
        options = ReceiveOptions(should_stop=lambda: True)
        report = Receiver(Address.parse(master.address), copy, options).run()
    copy.close()
    assert dataclasses.asdict(report) == {
        "log_start": 0, "resumed_at": 0, "log_end": 0, "received_bytes": 0, "compared_bytes": 0, "record_count": 0,
        "unfinished_bytes": 0, "connection_count": 1, "segment_size": SIZE, "is_size_assumed": False,
        "transfer_seconds": 0.0,
    }  # fmt: skip


class Given:
    """A link whose master sends these frames from 0 on without a pause."""

    begins_at_first = True

    def __init__(self, frames: list[bytes]) -> None:
        self._frames, self._next, self.reports = [*frames, b""], 0, list[int]()

    def __enter__(self) -> Given:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def report(self, log_offset: int) -> None:
        self.reports.append(log_offset)

    def next_header(self, wait_s: float) -> FrameHeader:
        return FrameHeader(self._next, len(self._frames[0]))

    def read_body(self, body: memoryview) -> None:
        body[:] = self._frames.pop(0)
        self._next += len(body)


@pytest.mark.parametrize(
    ("verify_bytes", "sync_bytes", "interval_s", "reported"),
    [
        (1000, 1, 3600, [1000, 2000, 3000]),
        (1001, 1, 3600, [2000, 3000]),
        (1000, "first", 3600, [1000, 2000, 3000]),
        (1000, "behind first", 3600, [2000, 3000]),
        (1000, 1 << 20, 3600, []),
        (1000, 1 << 20, -1, [1000, 2000, 3000]),
        (1 << 20, 1, -1, []),
    ],
)
def test_what_is_synced_in_passing_is_reported(
    verify_bytes: int, sync_bytes: Any, interval_s: float, reported: list[int], store: Path, starts: list[int],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def whole(log_offset: int) -> int:
        return max(start for start in starts if start <= log_offset)

    sync_bytes = {"first": whole(1000), "behind first": whole(1000) + 1}.get(sync_bytes, sync_bytes)
    for name, value in ("VERIFY_BYTES", verify_bytes), ("SYNC_BYTES", sync_bytes), ("SYNC_INTERVAL_S", interval_s):
        monkeypatch.setattr(store_receive, name, value)
    log = log_of(store)[1][:3500]
    link: Any = Given([log[at : at + 1000] for at in range(0, 3500, 1000)])
    copy = LogCopy(tmp_path / "copy", {"mappedFileSizeCommitLog": SIZE}, Filesystem())
    Receiver(Address("", 0), copy, ReceiveOptions(connect=lambda address, stall_s: link)).run()
    copy.close()
    assert link.reports == [0, *(whole(end) for end in [*reported, 3500])]


def test_a_link_that_is_lost_behind_a_blank_goes_on_in_its_segment(
    store: Path, starts: list[int], tmp_path: Path
) -> None:
    lost: list[StoreError] = []
    blank = log_of(store)[1].index(struct.pack(">i", -875286124)) - 4
    copy = LogCopy(tmp_path / "copy", {"mappedFileSizeCommitLog": SIZE}, Filesystem())
    batch = blank + 8
    with FakeMaster(honest(store, starts[-1], batch=batch)) as master:
        master.cut_after = 12 + batch

        def on_lost(error: StoreError) -> None:
            lost.append(error)
            assert copy.end == blank + 9 < SIZE
            master.cut_after = 0

        options = ReceiveOptions(
            follow=True, reconnect_delay_s=0, on_lost=on_lost, should_stop=lambda: copy.durable >= starts[-1]
        )
        report = Receiver(Address.parse(master.address), copy, options).run()
    copy.close()
    assert (len(lost), report.record_count) == (1, 100)
    assert log_of(tmp_path / "copy")[1][: starts[-1]] == log_of(store)[1][: starts[-1]]


def test_a_store_that_follows_connects_again(store: Path, starts: list[int], tmp_path: Path) -> None:
    settings = {**SMALL, "brokerRole": "SLAVE"}
    with (
        FakeMaster(honest(store, starts[-1])) as master,
        open_store(tmp_path / "s", read_only=False, settings=settings, master=master.address) as slave,
    ):
        assert eventually(lambda: slave.max_log_offset == starts[-1])
        client: Any = slave._services.ha.client
        client._receiver._options = dataclasses.replace(client._receiver._options, reconnect_delay_s=0)
        master._connections[-1].shutdown(2)
        assert eventually(lambda: len(client.lost) == 1 and len(master._connections) > 2)
        assert client.failure is None


def test_the_newest_hundred_lost_links_are_kept(tmp_path: Path) -> None:
    with open_store(make_store(tmp_path / "s", 1)) as opened:
        client = HAClient(opened.opened.log, Address("127.0.0.1", 1))
    errors = [StoreError(str(number)) for number in range(102)]
    for error in errors:
        client._note_lost(error)
    assert client.lost == errors[2:]


def test_a_copy_that_cannot_be_loaded_gives_its_lock_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise Diverged("not loaded")

    with monkeypatch.context() as patched:
        patched.setattr(LogCopy, "_load", fail)
        # The error keeps the copy, and with it a lock that is not given back.
        with pytest.raises(Diverged) as kept:
            LogCopy(tmp_path / "copy", SMALL, Filesystem())
    LogCopy(tmp_path / "copy", SMALL, Filesystem()).close()
    assert str(kept.value) == "not loaded"


@pytest.mark.leaves_damage
@pytest.mark.parametrize(("sent", "refused_at"), [(b"xx\1\1", None), (b"xxxx", None), (b"xy", 1), (b"y", 0)])
def test_what_is_behind_the_end_is_overwritten_by_the_same_alone(
    sent: bytes, refused_at: int | None, tmp_path: Path
) -> None:
    settings = {"mappedFileSizeCommitLog": SIZE}
    copy = LogCopy(tmp_path, settings, Filesystem())
    copy.append(0, memoryview(b"xx"))
    copy.close()
    copy = LogCopy(tmp_path, settings, Filesystem())
    assert copy.end == 0
    if refused_at is None:
        copy.append(0, memoryview(sent))
    else:
        with pytest.raises(Diverged, match="other bytes than the master") as error:
            copy.append(0, memoryview(sent))
        assert error.value.offset == refused_at
    copy.close()
    assert log_of(tmp_path)[1][:4] == (sent if refused_at is None else b"xx\0\0")


def test_records_of_5_x_are_received(tmp_path: Path) -> None:
    with open_store(tmp_path / "m", settings=SMALL, read_only=False, compat="5.3") as opened:
        assert opened.put(text_message(0, topic="T" * 128)).is_ok
        log_end = opened.max_log_offset
    copy = LogCopy(tmp_path / "copy", {"mappedFileSizeCommitLog": SIZE}, Filesystem(), compat="5.3")
    with FakeMaster(honest(tmp_path / "m", log_end)) as master:
        report = Receiver(Address.parse(master.address), copy, ReceiveOptions()).run()
    copy.close()
    assert (report.record_count, report.log_end) == (1, log_end)


@pytest.mark.parametrize(("count", "is_assumed"), [(0, True), (1, True), (2, False)])
def test_one_segment_does_not_tell_the_size_of_all(count: int, is_assumed: bool, store: Path, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    for segment in sorted((store / "commitlog").iterdir())[:count]:
        shutil.copy(segment, tmp_path / "commitlog")
    (tmp_path / "lock").touch()
    copy = LogCopy(tmp_path, {}, Filesystem())
    assert copy.is_size_assumed is is_assumed
    copy.close()


@pytest.mark.parametrize(("log_offset", "is_start"), [(0, True), (SIZE - 1, False), (SIZE, True), (SIZE + 1, False)])
def test_a_copy_begins_with_a_segment(log_offset: int, is_start: bool, tmp_path: Path) -> None:
    copy = LogCopy(tmp_path / "copy", {"mappedFileSizeCommitLog": SIZE}, Filesystem())
    with nullcontext() if is_start else pytest.raises(BadRequest, match=f"begins at {log_offset}, no multiple"):
        copy.begin(log_offset)
    assert (copy.first, copy.end, copy.durable) == (log_offset * is_start,) * 3
    copy.close()


def test_what_is_asked_for_again_is_the_most_that_can_be_unsynced() -> None:
    """Below SYNC_BYTES are written, below VERIFY_BYTES are held, and a frame comes."""
    assert store_receive.UNSYNCED_BYTES == (16 << 20) + (2 << 20) + 4194292


@pytest.mark.parametrize(
    ("sizes", "late_after_s", "received"),
    [
        ([1000, 500, 500, 500, 400], -1, 2500),
        ([1000, 500, 500, 1000, 500, 500, 500, 400], -1, 4500),
        ([500] * 6, -1, 3000),
        ([1000, 500, 500, 500, 400], 3600, 2900),
    ],
)
def test_three_small_frames_after_a_while_are_the_logs_end(
    sizes: list[int], late_after_s: float, received: int, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_receive, "CAUGHT_UP_AFTER_S", late_after_s)
    log, starts = log_of(store)[1], [0, *itertools.accumulate(sizes)]
    link: Any = Given([log[start:stop] for start, stop in itertools.pairwise(starts)])
    copy = LogCopy(tmp_path / "copy", {"mappedFileSizeCommitLog": SIZE}, Filesystem())
    report = Receiver(Address("", 0), copy, ReceiveOptions(connect=lambda address, stall_s: link)).run()
    copy.close()
    assert report.received_bytes == received


@pytest.mark.parametrize(
    ("start", "segment_size", "size", "is_waited_for"),
    [
        (SIZE, SIZE, SIZE, True),
        (SIZE, SIZE, SIZE + 1, False),
        (1 << 30, 1 << 30, LARGEST_RECORD_BYTES, True),
        (1 << 30, 1 << 30, LARGEST_RECORD_BYTES + 1, False),
    ],
)
def test_no_record_is_waited_for_that_cannot_come(
    start: int, segment_size: int, size: int, is_waited_for: bool
) -> None:
    verifier = LogVerifier(start, segment_size)
    verifier.room(8)[:] = struct.pack(">ii", size, -626843481)
    verifier.took(8)
    reason = f"a record of {size} bytes, {segment_size} are left in the segment"
    with nullcontext() if is_waited_for else pytest.raises(ReplicationError, match=reason):
        assert list(verifier.verified()) == []


def test_a_link_that_was_lost_is_made_again_after_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    set_time(monkeypatch, store_receive, sleep=slept.append)

    def connect(address: Address, stall_s: float) -> MasterLink:
        raise LinkLost("no master")

    copy = LogCopy(tmp_path / "copy", {"mappedFileSizeCommitLog": SIZE}, Filesystem())
    options = ReceiveOptions(
        follow=True, reconnect_delay_s=0.25, connect=connect, should_stop=lambda: slept == [0.25, 0.25]
    )
    with pytest.raises(LinkLost, match="no master"):
        Receiver(Address("", 0), copy, options).run()
    copy.close()
    assert slept == [0.25, 0.25]


def test_a_log_is_not_copied_into_a_folder_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(NotAStore):
        LogCopy(tmp_path, {}, Filesystem())
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


@pytest.mark.parametrize(("log_offset", "is_start"), [(0, True), (SIZE - 1, False), (SIZE, True)])
def test_a_slaves_log_begins_with_a_segment(log_offset: int, is_start: bool, tmp_path: Path) -> None:
    with open_store(make_store(tmp_path / "s", 1)) as opened:
        log = SlaveLog(opened.opened.log)
        with nullcontext() if is_start else pytest.raises(BadRequest, match="no multiple"):
            log.begin(log_offset)


@pytest.mark.parametrize(("size", "noted"), [(0, []), (1, [(7, 5)])])
def test_a_frame_with_bytes_of_the_log_tells_their_epoch(size: int, noted: list[tuple[int, int]]) -> None:
    told: list[Any] = []
    link: Any = SimpleNamespace(_epochs=SimpleNamespace(note=told.append), address="a")
    head = bytearray(struct.pack(">iiqiqq", 2, size, 9, 7, 5, 0))
    assert (AutoSwitchLink._decode_head(link, head), told) == ((9, size), noted)


def test_a_connection_that_the_master_closed_is_lost_at_once() -> None:
    link: Any = MasterLink.__new__(MasterLink)
    link._socket, master = socket.socketpair()
    link.address = "master:10912"
    master.close()
    with link._socket, pytest.raises(LinkLost, match="the master at master:10912 closed the connection"):
        link._receive([memoryview(bytearray(8))], time.monotonic() + 5)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError(errno.ECONNRESET, "Connection reset"), "connection reset"), (OSError("Odd"), "odd")],
)
def test_a_failed_call_is_named_by_the_system_s_reason_or_its_own_words(error: OSError, reason: str) -> None:
    link = cast(Any, SimpleNamespace(address="m:1"))
    with (
        pytest.raises(LinkLost, match=f"^cannot receive at m:1: {reason}$") as lost,
        MasterLink._errors(link, "receive"),
    ):
        raise error
    assert lost.value.errno == error.errno
