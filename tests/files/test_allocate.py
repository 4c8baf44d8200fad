"""Files made ahead: there when needed, gone when not."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from store.errors import StoreIOError
from store.files.allocate import AllocateMappedFileService
from store.files.filesystem import Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.files.transient_pool import TransientStorePool
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.threads import run_in_threads

SIZE = 4096


@pytest.fixture
def service() -> Iterator[AllocateMappedFileService]:
    service = AllocateMappedFileService(Filesystem())
    yield service
    service.stop()


def starts_on_disk(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir())


def settle(service: AllocateMappedFileService) -> None:
    for request in list(service._ahead.values()):
        assert request.done.wait(60)


def test_the_next_file_is_there_before_it_is_needed(tmp_path: Path, service: AllocateMappedFileService) -> None:
    service.take(tmp_path, 0, SIZE)
    settle(service)
    assert starts_on_disk(tmp_path) == [0, SIZE]
    assert service.take(tmp_path, SIZE, SIZE).file_start == SIZE
    settle(service)
    assert starts_on_disk(tmp_path) == [0, SIZE, 2 * SIZE]


def test_a_file_made_ahead_is_durable_before_its_name_appears(tmp_path: Path) -> None:
    made: list[object] = []

    class Noting(Filesystem):
        def create_file(self, path: Path, size: int, **more: Any) -> Any:
            made.append(more["is_durable"])
            return super().create_file(path, size, **more)

    service = AllocateMappedFileService(Noting())
    service.take(tmp_path, 0, SIZE)
    settle(service)
    service.stop()
    assert made == [True, True]


def test_stopping_deletes_what_nobody_took(tmp_path: Path, service: AllocateMappedFileService) -> None:
    service.take(tmp_path, 0, SIZE)
    service.stop()
    service.delete_unused()
    assert starts_on_disk(tmp_path) == [0]
    assert not service._ahead


def test_a_stopped_service_still_gives_files_and_makes_none_ahead(
    tmp_path: Path, service: AllocateMappedFileService
) -> None:
    service.stop()
    service.take(tmp_path, 0, SIZE)
    assert starts_on_disk(tmp_path) == [0]


def test_no_space_for_the_file_ahead_does_not_hurt_until_it_is_needed(tmp_path: Path) -> None:
    fs = FaultyFilesystem(errno_code=errno.ENOSPC)
    fs.when = lambda name, file: name == "preallocate" and file.path.name.endswith("4096")
    service = AllocateMappedFileService(fs)
    try:
        service.take(tmp_path, 0, SIZE)
        settle(service)
        with pytest.raises(StoreIOError, match="no space left"):
            service.take(tmp_path, SIZE, SIZE)
        assert starts_on_disk(tmp_path) == [0]
        fs.when = None
        assert service.take(tmp_path, SIZE, SIZE).file_start == SIZE
    finally:
        service.stop()


def test_a_warmed_file_that_can_not_be_flushed_is_not_left_behind(tmp_path: Path) -> None:
    fs = FaultyFilesystem(when=lambda name, _: name == "fdatasync")
    service = AllocateMappedFileService(fs, warm=True)
    with pytest.raises(StoreIOError):
        service.take(tmp_path, 0, SIZE)
    service.stop()
    assert starts_on_disk(tmp_path) == []


def test_files_made_ahead_borrow_their_buffers_and_give_them_back_unused(tmp_path: Path) -> None:
    pool = TransientStorePool(2, SIZE)
    service = AllocateMappedFileService(Filesystem(), transient_pool=pool)
    assert service.take(tmp_path, 0, SIZE).has_lent_buffer
    service.stop()
    assert pool.available_count == 1


def test_a_queue_rolls_through_files_made_ahead(tmp_path: Path, service: AllocateMappedFileService) -> None:
    queue = MappedFileQueue(tmp_path, SIZE, Filesystem(), writable=True, allocate=service)
    for _ in range(10):
        queue.last_file().append(bytes(SIZE))
    service.stop()
    service.delete_unused()
    assert starts_on_disk(tmp_path) == [i * SIZE for i in range(10)]


def test_several_queues_share_the_service(tmp_path: Path, service: AllocateMappedFileService) -> None:
    def fill(folder: Path) -> None:
        queue = MappedFileQueue(folder, SIZE, Filesystem(), writable=True, allocate=service)
        for _ in range(10):
            queue.last_file().append(bytes(SIZE))

    folders = [tmp_path / name for name in "abcd"]
    run_in_threads(*[partial(fill, folder) for folder in folders])
    service.stop()
    service.delete_unused()
    assert all(starts_on_disk(folder) == [i * SIZE for i in range(10)] for folder in folders)
