"""Many threads, one store; many processes, one writer."""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from store import MessageStore, open_store
from tests.support.processes import command_line, run
from tests.support.snapshots import snapshot
from tests.support.stores import SMALL, make_store, stored_messages, text_message

WRITERS, READERS, QUEUES = 8, 4, 3


@pytest.mark.parametrize(("flush", "each"), [("ASYNC_FLUSH", 150), ("SYNC_FLUSH", 30)])
def test_queue_offsets_stay_dense_and_records_intact_with_8_writers_and_4_readers(
    flush: str, each: int, tmp_path: Path
) -> None:
    settings = {**SMALL, "flushDiskType": flush}
    done = threading.Event()
    with open_store(tmp_path / "store", settings=settings, read_only=False) as store:
        with ThreadPoolExecutor(WRITERS + READERS) as pool:
            readers = [pool.submit(read_until, store, done) for _ in range(READERS)]
            writers = [pool.submit(put_many, store, writer, each) for writer in range(WRITERS)]
            try:
                placed = [place for writer in writers for place in writer.result(60)]
            finally:
                done.set()
            for reader in readers:
                reader.result(60)
        store.catch_up()
    assert sorted(placed) == [(queue, offset) for queue in range(QUEUES) for offset in range(WRITERS * each // QUEUES)]
    with open_store(tmp_path / "store") as store:
        found = stored_messages(store)
    for (_, _), messages in found.items():
        assert [offset for offset, _ in messages] == list(range(len(messages)))
    bodies = sorted(body for messages in found.values() for _, body in messages)
    assert bodies == sorted(text_message(number).body for number in range(WRITERS * each))


def put_many(store: MessageStore, writer: int, each: int) -> list[tuple[int, int]]:
    """Puts this writer's share; gives the queue and queue offset of each message."""
    placed = []
    for number in range(writer * each, (writer + 1) * each):
        result = store.put(text_message(number, queue_id=number % QUEUES))
        assert result.is_ok, result
        placed.append((number % QUEUES, result.queue_offset))
    return placed


def read_until(store: MessageStore, done: threading.Event) -> None:
    """Reads all queues again and again; whatever is visible must be whole and at its place."""
    while not done.is_set():
        for queue in range(QUEUES):
            offset = 0
            while messages := store.get("T", queue, offset).messages:
                for message in messages:
                    assert message.is_crc_right
                    assert message.queue_offset == offset
                    offset += 1


@pytest.mark.turns(3)
def test_a_second_process_is_refused_with_exit_3_while_the_first_holds_the_lock(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    with open_store(root, read_only=False) as store:
        before = snapshot(root, without=("lock", "checkpoint"))
        for words in (("put", "T", "body"), ("recover", "--yes"), ("truncate-dirty", "--yes")):
            refused = run(command_line(root, *words))
            assert refused.code == 3
            assert len(refused.err.strip().splitlines()) == 1
            assert "lock" in refused.err
        assert snapshot(root, without=("lock", "checkpoint")) == before
        assert store.put(text_message(10)).is_ok
    assert run(command_line(root, "put", "T", "body")).code == 0


def test_reading_works_beside_a_writer_and_takes_no_lock(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    with open_store(root, read_only=False) as store:
        store.put(text_message(10, queue_id=1))
        with open_store(root) as reader:
            assert len(stored_messages(reader)["T", 1]) == 4
        store.put(text_message(11, queue_id=2))


@pytest.mark.slow
def test_readers_in_threads_see_whole_messages_while_the_store_is_refreshed_under_them(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 30, queues=QUEUES)
    done = threading.Event()
    with (
        open_store(root, settings=SMALL, read_only=False) as writer,
        open_store(root, settings=SMALL) as store,
        ThreadPoolExecutor(READERS + 2) as pool,
    ):
        readers = [pool.submit(read_until, store, done) for _ in range(READERS)]
        readers.append(pool.submit(query_until, store, done))
        try:
            for number in range(30, 90):
                assert writer.put(text_message(number, queue_id=number % QUEUES)).is_ok
                store.refresh()
                assert store.max_offset("T", number % QUEUES) == number // QUEUES + 1
        finally:
            done.set()
        for reader in readers:
            reader.result(60)


def test_a_view_finds_its_messages_by_key_though_a_writer_has_put_more_than_a_query_gives(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 30)
    with open_store(root, settings=SMALL, read_only=False) as writer, open_store(root, settings=SMALL) as store:
        before = [message.log_offset for message in store.query("T", "all").messages]
        for number in range(30, 110):
            writer.put(text_message(number))
        writer.catch_up()
        assert len(before) == 30
        assert [message.log_offset for message in store.query("T", "all").messages] == before


def test_two_refreshes_at_once_leave_one_view_and_no_scratch_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = open_store(make_store(tmp_path / "store", 10))
    with ThreadPoolExecutor(4) as pool:
        for refreshed in [pool.submit(store.refresh) for _ in range(8)]:
            refreshed.result(60)
    assert len(list(tmp_path.glob("rmqctl-*"))) == 1
    store.close()
    assert list(tmp_path.glob("rmqctl-*")) == []


def query_until(store: MessageStore, done: threading.Event) -> None:
    """Looks the same key up again and again; every message has it, so some are always found."""
    while not done.is_set():
        messages = store.query("T", "all").messages
        assert messages
        assert all(message.is_crc_right for message in messages)
