"""receive: a copy that is byte for byte the master's log, from masters that behave, break off, or do harm."""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import Message, open_store
from store.engine.ha import receive as store_receive
from store.engine.ha.link import Address
from store.engine.ha.log_copy import LogCopy
from store.engine.ha.receive import ReceiveOptions, Receiver
from store.errors import Diverged
from store.files.filesystem import Filesystem
from store.layout import segment_name
from tests.cli.running import Run, rmqctl
from tests.support.fake_master import FakeMaster, Frame, Script, honest, log_of
from tests.support.stores import SMALL, make_store
from tests.support.threads import eventually

# Queues and index of a copy are for the reader to build.
SIZE = SMALL["mappedFileSizeCommitLog"]


@pytest.fixture(scope="module")
def master_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several segments."""
    return make_store(tmp_path_factory.mktemp("master") / "store", 300)


@pytest.fixture(scope="module")
def log_end(master_store: Path) -> int:
    with open_store(master_store) as store:
        return store.max_log_offset


def receive(script: Script, to: Path, *options: object, cut_after: int = 0) -> Run:
    with FakeMaster(script) as master:
        master.cut_after = cut_after
        return rmqctl("receive", master.address, "--to", to, "--format", "json", *options)


def copied(to: Path) -> bytes:
    return log_of(to)[1]


def expected(store: Path, log_end: int) -> bytes:
    """The log up to its end, zeros behind that, as long as its segments."""
    log = log_of(store)[1]
    return log[:log_end] + bytes(-log_end % SIZE)


def test_a_copy_begins_at_0_of_a_longer_log_and_is_byte_identical(
    master_store: Path, log_end: int, tmp_path: Path
) -> None:
    run = receive(honest(master_store, log_end), tmp_path / "copy")
    assert run.code == 0, run.err
    assert (run.json["log_start"], run.json["log_end"], run.json["received_records"]) == (0, log_end, 300)
    assert copied(tmp_path / "copy") == expected(master_store, log_end)


def test_the_first_blank_tells_the_segment_size(master_store: Path, log_end: int, tmp_path: Path) -> None:
    run = receive(honest(master_store, log_end), tmp_path / "copy")
    assert (run.json["segment_size_bytes"], run.json["is_segment_size_assumed"]) == (SIZE, False)


def test_a_store_opens_on_the_copy_and_has_all_messages(master_store: Path, log_end: int, tmp_path: Path) -> None:
    receive(honest(master_store, log_end), tmp_path / "copy")
    with open_store(master_store) as master, open_store(tmp_path / "copy", settings=SMALL) as copy:
        assert copy.queues() == master.queues()


@pytest.mark.turns(2)
@pytest.mark.parametrize("batch", [1, 7, 32768])
def test_frames_of_any_size_make_the_same_copy(master_store: Path, log_end: int, tmp_path: Path, batch: int) -> None:
    assert receive(honest(master_store, log_end, batch=batch), tmp_path / "copy").code == 0
    assert copied(tmp_path / "copy") == expected(master_store, log_end)


def test_a_copy_can_begin_at_the_last_segment(master_store: Path, log_end: int, tmp_path: Path) -> None:
    size = ("--set", f"mappedFileSizeCommitLog={SIZE}", "--from-offset", "last-segment")
    run = receive(honest(master_store, log_end), tmp_path / "copy", *size)
    assert run.json["log_start"] == log_end - log_end % SIZE
    assert copied(tmp_path / "copy") == expected(master_store, log_end)[run.json["log_start"] :]


def test_a_copy_can_begin_in_the_segment_of_a_log_offset(master_store: Path, log_end: int, tmp_path: Path) -> None:
    size = ("--set", f"mappedFileSizeCommitLog={SIZE}", "--from-offset", SIZE + 5)
    assert receive(honest(master_store, log_end), tmp_path / "copy", *size).json["log_start"] == SIZE


def test_min_is_the_first_segment_that_the_master_still_has(master_store: Path, log_end: int, tmp_path: Path) -> None:
    size = ("--set", f"mappedFileSizeCommitLog={SIZE}")
    run = receive(honest(master_store, log_end, first=SIZE), tmp_path / "copy", *size)
    assert (run.code, run.json["log_start"], run.json["log_end"]) == (0, SIZE, log_end)


def test_an_offset_that_the_master_lacks_is_refused(master_store: Path, log_end: int, tmp_path: Path) -> None:
    size = ("--set", f"mappedFileSizeCommitLog={SIZE}", "--from-offset", 0)
    run = receive(honest(master_store, log_end, first=SIZE), tmp_path / "copy", *size)
    assert (run.code, "the master has no data there" in run.err) == (2, True)


def test_an_empty_master_gives_an_empty_copy(tmp_path: Path) -> None:
    run = receive(lambda asked: iter([(0, b"")]), tmp_path / "copy")
    assert (run.code, run.json["log_end"]) == (0, 0)


def test_a_copy_cut_anywhere_goes_on_where_it_ended(master_store: Path, log_end: int, tmp_path: Path) -> None:
    to, ends = tmp_path / "copy", [0]
    # Each connection sends the overlap again, which is the whole of this log.
    for cut_after in range(5000, 2 * log_end, 7001):
        size = ("--set", f"mappedFileSizeCommitLog={SIZE}")
        run = receive(honest(master_store, log_end), to, *size, cut_after=cut_after)
        if run.code == 0:
            break
        # What the master had not read yet when it closed makes a reset of it, or a broken pipe.
        assert run.code == 5, run.err
        assert re.search("closed the connection|reset|broken pipe", run.err, re.IGNORECASE), run.err
        with open_store(to, settings=SMALL) as store:
            ends.append(store.max_log_offset)
    assert ends == sorted(ends)
    assert copied(to) == expected(master_store, log_end)


def test_follow_connects_again_and_takes_what_came_meanwhile(master_store: Path, log_end: int, tmp_path: Path) -> None:
    lost: list[Exception] = []
    copy = LogCopy(tmp_path / "copy", {}, Filesystem())
    with FakeMaster(honest(master_store, log_end)) as master:
        master.cut_after = 20_000

        def on_lost(error: Exception) -> None:
            lost.append(error)
            master.cut_after += 20_000

        options = ReceiveOptions(
            follow=True, reconnect_delay_s=0, on_lost=on_lost, should_stop=lambda: copy.durable >= log_end
        )
        report = Receiver(Address.parse(master.address), copy, options).run()
    copy.close()
    assert (len(lost) > 1, report.log_end) == (True, log_end)
    assert copied(tmp_path / "copy") == expected(master_store, log_end)


def test_a_report_counts_only_what_is_durable_and_observe_reports_nothing(
    master_store: Path, log_end: int, tmp_path: Path
) -> None:
    for option, reported in ((), log_end), (("--observe",), 1):
        with FakeMaster(honest(master_store, log_end)) as master:
            rmqctl("receive", master.address, "--to", tmp_path / f"copy{len(option)}", *option)
            # The master reads reports in a thread of its own.
            assert eventually(lambda master=master, reported=reported: max(master.reports) >= reported)
            assert max(master.reports) == reported


def test_a_divergence_is_found_before_a_byte_is_overwritten(master_store: Path, log_end: int, tmp_path: Path) -> None:
    to, other = tmp_path / "copy", make_store(tmp_path / "other", 310, queues=2)
    receive(honest(master_store, log_end), to)
    before = copied(to)
    with open_store(other) as store:
        run = receive(honest(other, store.max_log_offset), to)
    assert (run.code, "the copy holds other bytes than the master" in run.err) == (4, True)
    assert copied(to) == before


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("start", "stop", "is_written"),
    [
        (512, 1024, True),
        (700, 1024, True),
        (1023, 1024, True),
        (700, 2048, True),
        (512, 1023, False),
        (1022, 1023, False),
        (700, 1023, False),
    ],
)
def test_zeros_up_to_a_sectors_end_are_written_and_another_difference_is_refused(
    start: int, stop: int, is_written: bool, tmp_path: Path
) -> None:
    sound = b"x" * 2048
    copy = LogCopy(tmp_path, {"mappedFileSizeCommitLog": SIZE}, Filesystem())
    copy.append(0, memoryview(sound))
    copy.close()
    torn = sound[:start] + bytes(stop - start) + sound[stop:]
    segment = tmp_path / f"commitlog/{0:020d}"
    segment.write_bytes(torn + bytes(SIZE - 2048))
    with contextlib.nullcontext() if is_written else pytest.raises(Diverged, match=f"offset {start}: "):
        copy.require_same(100, memoryview(sound)[100:])
    assert segment.read_bytes()[:2048] == (sound if is_written else torn)


@pytest.mark.parametrize(
    ("unsynced", "asked"), [(99, -100), (100, -100), (101, -101), (1000, -1000), (SIZE, None), (2 * SIZE, None)]
)
def test_a_copy_that_goes_on_asks_for_what_may_be_unsynced_in_its_last_segment(
    unsynced: int, asked: int | None, master_store: Path, log_end: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive(honest(master_store, log_end), tmp_path / "copy")
    monkeypatch.setattr(store_receive, "UNSYNCED_BYTES", unsynced)
    with FakeMaster(honest(master_store, log_end)) as master:
        copy = LogCopy(tmp_path / "copy", {"mappedFileSizeCommitLog": SIZE}, Filesystem())
        Receiver(Address.parse(master.address), copy, ReceiveOptions(overlap_bytes=100)).run()
        copy.close()
        assert master.reports[0] == (log_end - log_end % SIZE if asked is None else log_end + asked)


def test_a_master_that_is_behind_its_copy_has_diverged(master_store: Path, log_end: int, tmp_path: Path) -> None:
    receive(honest(master_store, log_end), tmp_path / "copy")
    run = receive(honest(master_store, SIZE + 100), tmp_path / "copy")
    assert (run.code, f"the copy ends at {log_end}" in run.err) == (4, True)


def with_bytes(store: Path, log_end: int, at: int, data: bytes) -> Script:
    """The log of the store with other bytes in one place."""
    log = log_of(store)[1]
    log = log[:at] + data + log[at + len(data) :]

    def script(asked: int) -> Iterator[Frame]:
        start = asked or log_end - log_end % SIZE
        while start < log_end:
            stop = min(start + 512, log_end, start - start % SIZE + SIZE)
            yield start, log[start:stop]
            start = stop
        yield start, b""

    return script


HOSTILE: dict[str, Script] = {
    "a frame of 2 GiB": lambda asked: iter([struct.pack(">qi", asked, 0x7FFFFFFF)]),
    "a negative frame": lambda asked: iter([struct.pack(">qi", asked, -1)]),
    "another log offset": lambda asked: iter([(asked + 8, bytes(8))]),
    "garbage": lambda asked: iter([b"HTTP/1.1 400 Bad Request\r\n\r\n"]),
    "zeros": lambda asked: iter([(asked, bytes(4096))]),
    "a record of 1 GiB": lambda asked: iter([(asked, struct.pack(">ii", 1 << 30, -626843481)[bool(asked) :])]),
    "a record of no size": lambda asked: iter([(asked, struct.pack(">ii", 0, -626843481)[bool(asked) :])]),
    "a blank of another size": lambda asked: iter([(asked, struct.pack(">ii", 12, -875286124)[bool(asked) :])]),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_master_is_refused_and_the_copy_unharmed(
    name: str, master_store: Path, log_end: int, tmp_path: Path
) -> None:
    fresh = receive(HOSTILE[name], tmp_path / "fresh")
    assert (fresh.code, (tmp_path / "fresh").exists()) == (4, False), fresh.err
    receive(honest(master_store, log_end), tmp_path / "copy")
    assert receive(HOSTILE[name], tmp_path / "copy").code == 4
    assert copied(tmp_path / "copy") == expected(master_store, log_end)


# Properties, and what fills a segment behind its last record, have no CRC.
@pytest.mark.parametrize("at", [4, 30, 90, 120, SIZE + 28])
def test_a_changed_byte_is_found_and_nothing_behind_it_is_written(
    at: int, master_store: Path, log_end: int, tmp_path: Path
) -> None:
    run = receive(with_bytes(master_store, log_end, at, b"\xff"), tmp_path / "copy")
    assert run.code == 4, run.err
    written = copied(tmp_path / "copy") if (tmp_path / "copy").exists() else b""
    assert written[: at + 1].rstrip(b"\0") == log_of(master_store)[1][: len(written[: at + 1].rstrip(b"\0"))]


def test_a_frame_that_drips_in_ends_the_link(tmp_path: Path) -> None:
    from store.engine.ha.link import Address, MasterLink
    from store.errors import LinkLost

    def drip(asked: int) -> Iterator[Frame]:
        yield struct.pack(">qi", asked, 1000)
        for _ in itertools.count():
            time.sleep(0.02)
            yield b"x"

    with FakeMaster(drip) as master, MasterLink(Address.parse(master.address), stall_s=0.3) as link:
        link.report(1)
        assert link.next_header(1) == (1, 1000)
        with pytest.raises(LinkLost, match="no whole frame"):
            link.read_body(memoryview(bytearray(1000)))


@pytest.mark.parametrize("is_there", [True, False])
def test_no_master_is_an_io_error_and_leaves_nothing(is_there: bool, tmp_path: Path) -> None:
    if is_there:
        (tmp_path / "backups").mkdir()
    run = rmqctl("receive", "127.0.0.1:1", "--to", tmp_path / "backups" if is_there else tmp_path / "backups" / "new")
    assert (run.code, "cannot connect to the master" in run.err) == (5, True)
    assert [path.name for path in tmp_path.rglob("*")] == ["backups"] * is_there


def test_no_master_leaves_a_copy_as_it_was(master_store: Path, log_end: int, tmp_path: Path) -> None:
    receive(honest(master_store, log_end), tmp_path / "copy")
    assert rmqctl("receive", "127.0.0.1:1", "--to", tmp_path / "copy").code == 5
    assert copied(tmp_path / "copy") == expected(master_store, log_end)


def test_a_segments_last_frame_after_a_pause_is_not_taken_for_the_logs_end(
    master_store: Path, log_end: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_receive, "CAUGHT_UP_AFTER_S", 0.05)
    send = honest(master_store, log_end, batch=1000)

    def pausing(asked: int) -> Iterator[Frame]:
        for frame in send(asked):
            if (frame[0] + len(frame[1])) % SIZE == 0:
                time.sleep(0.1)
            yield frame

    run = receive(pausing, tmp_path / "copy")
    assert (run.code, run.json["log_end"]) == (0, log_end)


@pytest.mark.parametrize("address", ["nohost", "host:", "host:65536", "host:99999", ":1", "host:x"])
def test_an_address_is_host_and_port(address: str, tmp_path: Path) -> None:
    assert rmqctl("receive", address, "--to", tmp_path / "copy").code == 2


def test_a_locked_copy_is_left_alone(tmp_path: Path) -> None:
    with open_store(tmp_path / "copy", read_only=False, settings=SMALL):
        assert rmqctl("receive", "127.0.0.1:1", "--to", tmp_path / "copy").code == 4


@pytest.mark.parametrize(
    ("topic_bytes", "given", "compat"),
    [(127, [], "4.9"), (128, [], "5.3"), (128, ["--compat", "4.9"], "4.9"), (128, ["--compat", "5.5"], "5.3")],
)
def test_a_copy_with_a_record_of_version_2_is_one_of_5_3(
    topic_bytes: int, given: list[str], compat: str, tmp_path: Path
) -> None:
    with open_store(tmp_path / "master", settings=SMALL, read_only=False, compat="5.3") as store:
        for topic in ("T", "T" * topic_bytes, "T"):
            assert store.put(Message(topic, b"x")).is_ok
        end = store.max_log_offset
    run = receive(honest(tmp_path / "master", end), tmp_path / "copy", *given)
    assert run.code == 0, run.err
    assert rmqctl("-f", "json", "info", store=tmp_path / "copy").json["compat"] == compat


@pytest.mark.parametrize(
    ("log_offset", "end", "first"),
    [(0, 350, 0), (99, 350, 0), (100, 350, 100), (199, 350, 100), (350, 350, 300), (900, 300, 200), (900, 301, 300),
     (100, 100, 0), (100, 101, 100)],
)  # fmt: skip
def test_segments_before_an_offset_are_deleted_but_for_the_newest(
    log_offset: int, end: int, first: int, tmp_path: Path
) -> None:
    deleted: list[str] = []
    fs = SimpleNamespace(unlink=lambda path: deleted.append(path.name))
    copy: Any = SimpleNamespace(first=0, end=end, segment_size=100, folder=tmp_path, _fs=fs)
    LogCopy.drop_before(copy, log_offset)
    assert (copy.first, deleted) == (first, [segment_name(start) for start in range(0, first, 100)])
