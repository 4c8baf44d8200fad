"""What a put answers, one by one, as a batch and in bulk: durable, too late, not waited for, refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import Message, MessageStore, PutStatus, open_store
from store.files.filesystem import Descriptor, Filesystem
from store.structures.commitlog.bulk import MessageColumns
from tests.support.devices import FullDisk, HungDevice
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.stores import SMALL, Clock, text_message

SYNC = {**SMALL, "flushDiskType": "SYNC_FLUSH"}
NO_WAIT = b"WAIT\x01false\x02"
STANDING = {"flushIntervalCommitLog": 3_600_000}
"""No flush of the log comes by time."""


Put = Callable[[MessageStore, list[Message]], PutStatus]


def put_single(store: MessageStore, messages: list[Message]) -> PutStatus:
    return [store.put(message).status for message in messages][-1]


def put_batch(store: MessageStore, messages: list[Message]) -> PutStatus:
    return store.put_batch(messages).status


def put_bulk(store: MessageStore, messages: list[Message]) -> PutStatus:
    return store.put_many(messages).status_of(0)


every_put = pytest.mark.parametrize("put", [put_single, put_batch, put_bulk])


def opened(tmp_path: Path, fs: Filesystem | None = None, clock: Any = None, **settings: Any) -> MessageStore:
    more = {"clock": clock} if clock is not None else {}
    return open_store(tmp_path / "store", settings={**SMALL, **settings}, read_only=False, fs=fs, **more)


def test_a_bulk_put_over_many_segments_is_answered_when_all_of_it_is_durable(tmp_path: Path) -> None:
    columns = MessageColumns.of([text_message(number, body_size=400) for number in range(300)])
    with opened(tmp_path, flushDiskType="SYNC_FLUSH") as store:
        result = store.put_many(columns)
        assert result.status is PutStatus.PUT_OK
        assert store.max_log_offset > 8 * SMALL["mappedFileSizeCommitLog"]
        assert store.opened.log.segments.flushed_where == store.max_log_offset


@every_put
def test_a_device_that_does_not_answer_in_time_is_said(tmp_path: Path, put: Put) -> None:
    fs = HungDevice("commitlog")
    with opened(tmp_path, fs, flushDiskType="SYNC_FLUSH", syncFlushTimeout=20) as store:
        assert put(store, [text_message(1)]) is PutStatus.FLUSH_DISK_TIMEOUT
        fs.gate.set()


@every_put
def test_a_message_that_does_not_wait_is_answered_while_the_device_hangs(tmp_path: Path, put: Put) -> None:
    fs = HungDevice("commitlog")
    with opened(tmp_path, fs, flushDiskType="SYNC_FLUSH", syncFlushTimeout=3_600_000) as store:
        assert put(store, [Message("T", b"x", properties=NO_WAIT)]) is PutStatus.PUT_OK
        fs.gate.set()


def test_a_bulk_put_waits_for_those_of_its_messages_that_wait(tmp_path: Path) -> None:
    fs = HungDevice("commitlog")
    mixed = [Message("T", b"x", properties=NO_WAIT), Message("T", b"y"), Message("T", b"z", properties=NO_WAIT)]
    with opened(tmp_path, fs, flushDiskType="SYNC_FLUSH", syncFlushTimeout=20) as store:
        assert store.put_many(MessageColumns.of(mixed)).status is PutStatus.FLUSH_DISK_TIMEOUT
        fs.gate.set()


@every_put
def test_a_put_is_refused_while_another_holds_the_log_for_too_long(tmp_path: Path, put: Put) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock, osPageCacheBusyTimeOutMills=1000) as store:
        store.opened.log.locked_since_ms = clock.now_ms - 1001
        assert put(store, [text_message(1)]) is PutStatus.OS_PAGECACHE_BUSY
        store.opened.log.locked_since_ms = clock.now_ms - 1000
        assert put(store, [text_message(1)]) is PutStatus.PUT_OK


@every_put
def test_while_a_put_is_under_way_others_see_since_when(tmp_path: Path, put: Put) -> None:
    seen: list[int] = []
    clock = Clock()
    with opened(tmp_path, clock=clock) as store:
        log, file_for = store.opened.log, store.opened.log.file_for

        def noting(size: int) -> Any:
            seen.append(log.locked_since_ms)
            return file_for(size)

        log.file_for = noting
        assert put(store, [text_message(1)]) is PutStatus.PUT_OK
        assert seen[0] == clock.now_ms
        assert log.locked_since_ms == 0


@every_put
def test_a_segment_that_cannot_be_created_is_said_and_the_next_put_goes_on(tmp_path: Path, put: Put) -> None:
    fs = FaultyFilesystem()
    with opened(tmp_path, fs) as store:
        fs.when = lambda name, path: name == "preallocate" and "commitlog" in str(getattr(path, "path", path))
        assert put(store, [text_message(1)]) is PutStatus.CREATE_MAPEDFILE_FAILED
        fs.when = None
        assert put(store, [text_message(1)]) is PutStatus.PUT_OK
        assert store.max_offset("T", 0) == 0, "the service has a turn only in catch_up"
        store.catch_up()
        assert store.max_offset("T", 0) == 1


def test_a_bulk_put_keeps_what_went_in_before_a_segment_could_not_be_created(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    columns = MessageColumns.of([text_message(number, body_size=400) for number in range(300)])
    with opened(tmp_path, fs) as store:
        fs.when = lambda name, path: name == "preallocate" and path.path.name.endswith("65536")
        result = store.put_many(columns)
        stored = int((result.log_offsets >= 0).sum())
        assert 0 < stored < 300
        assert sorted(result.refused) == list(range(stored, 300))
        assert result.status_of(0) is PutStatus.PUT_OK
        assert result.status_of(299) is PutStatus.CREATE_MAPEDFILE_FAILED
        store.catch_up()
        assert store.max_offset("T", 0) == stored


@every_put
@pytest.mark.parametrize("lent", [False, True])
def test_a_put_wakes_the_flush_that_is_not_timed(tmp_path: Path, put: Put, lent: bool) -> None:
    flushed = threading.Event()

    class Noting(Filesystem):
        def fdatasync(self, descriptor: Descriptor) -> None:
            super().fdatasync(descriptor)
            if descriptor.path.parent.name == "commitlog":
                flushed.set()

    settings = {
        "flushCommitLogTimed": False,
        "flushIntervalCommitLog": 3_600_000,
        "commitIntervalCommitLog": 3_600_000,
        "transientStorePoolEnable": lent,
    }
    with opened(tmp_path, Noting(), **settings) as store:
        assert put(store, [text_message(1)]) is PutStatus.PUT_OK
        assert flushed.wait(60)


@pytest.mark.parametrize("waits", [False, True])
def test_a_replayed_message_wakes_the_flush_whether_it_waits_or_not(tmp_path: Path, waits: bool) -> None:
    woken: list[str] = []
    with opened(tmp_path, Filesystem(), flushCommitLogTimed=False) as store:
        store._flushed_by = SimpleNamespace(wakeup=lambda: woken.append("flush"))  # type: ignore[assignment]
        assert store.put_replayed(text_message(1), waits=waits).is_ok
    assert woken == ["flush"]


@every_put
def test_a_full_disk_refuses_the_first_put(tmp_path: Path, put: Put) -> None:
    with opened(tmp_path, FullDisk(0.91)) as store:
        assert put(store, [text_message(1)]) is PutStatus.SERVICE_NOT_AVAILABLE
        assert "diskSpaceWarningLevelRatio" in store.put(text_message(1)).reason
    with opened(tmp_path, FullDisk(0.91), diskSpaceWarningLevelRatio=91) as store:
        assert put(store, [text_message(1)]) is PutStatus.PUT_OK
