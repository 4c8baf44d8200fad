"""follow_master: a backup that a store's master keeps up to date, over its restarts and other logs."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import open_store
from store.engine.ha.follow import FollowOptions, _Follower, _open_copy, follow_master
from store.engine.ha.link import Address
from store.engine.ha.receive import ReceiveOptions
from store.errors import Diverged, StoreError, StoreLocked
from store.files.filesystem import Filesystem
from store.files.lock import StoreLock
from store.formats.backup_manifest import Manifest
from store.kernels.native import clock_ms
from store.structures.epochs.files import Epoch, decode_epochs
from store.verbs.backup.bucket import open_target
from store.verbs.backup.create import CreateOptions
from store.verbs.backup.restore import restore_backup
from store.verbs.backup.verify import verify_files
from tests.support.fake_controller import FakeController
from tests.support.golden import copy_store
from tests.support.refstore import free_port
from tests.support.s3 import s3_bucket
from tests.support.stores import SMALL, Clock, make_store, text_message
from tests.support.threads import eventually
from tests.verbs.backup.backups import faults_in, messages_of, restore

NOW_MS = 1_800_000_000_000
SEGMENT = SMALL["mappedFileSizeCommitLog"]


@pytest.fixture(autouse=True)
def soon_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost link is made again after 0.05 s in place of 1 s."""
    monkeypatch.setattr("store.engine.ha.follow.ReceiveOptions", partial(ReceiveOptions, reconnect_delay_s=0.05))


class Follower(threading.Thread):
    """A follower in a thread of its own."""

    def __init__(
        self, root: Path, to: Path | str, port: int, every_s: float = 0.05, *, has_controller: bool = False
    ) -> None:
        super().__init__()
        self.made: list[Manifest] = []
        self.lost: list[StoreError] = []
        self.grown: list[int] = []
        self.error: StoreError | None = None
        self.stopping = threading.Event()
        self._root, self.folder, self._port = root, open_target(str(to), Filesystem()), port
        self._options = FollowOptions(
            self.stopping.is_set,
            CreateOptions(),
            every_s,
            has_controller,
            self.made.append,
            on_lost=self.lost.append,
            on_grown=lambda manifest: self.grown.append(manifest.log_end),
        )

    def run(self) -> None:
        address = Address("127.0.0.1", self._port)
        try:
            self.made.append(follow_master(self._root, address, self.folder, self._options, Filesystem(), clock_ms))
        except StoreError as error:
            self.error = error

    @property
    def end(self) -> int:
        newest = self.folder.newest() if self.made else None
        return newest.log_end if newest else -1

    def await_end(self, log_end: int) -> None:
        assert eventually(lambda: self.end == log_end), (self.end, log_end, self.error)


@contextmanager
def following(*words: Path | str | int, every_s: float = 0.05, has_controller: bool = False) -> Iterator[Follower]:
    follower = Follower(*words, every_s=every_s, has_controller=has_controller)  # type: ignore[arg-type]
    follower.start()
    try:
        assert eventually(lambda: bool(follower.made) or follower.error is not None)
        yield follower
    finally:
        follower.stopping.set()
        follower.join()


@contextmanager
def master(root: Path, port: int) -> Iterator[Callable[[int, int], int]]:
    """A store that serves slaves, as a function that puts messages and gives the log's end."""
    with open_store(root, settings=SMALL, read_only=False, clock=Clock(NOW_MS), listen=f"127.0.0.1:{port}") as store:

        def put(start: int, count: int) -> int:
            for number in range(start, start + count):
                assert store.put(text_message(number)).is_ok
            return store.max_log_offset

        yield put


@pytest.mark.turns(3)
def test_a_backup_follows_its_store_over_restarts_and_has_everything_at_its_end(tmp_path: Path) -> None:
    root, to, port = make_store(tmp_path / "store", 50), tmp_path / "backups", free_port()
    with following(root, to, port) as follower:
        for number in range(3):
            with master(root, port) as put:
                end = put(1000 * (number + 1), 100)
                follower.await_end(end)
        follower.stopping.set()
        follower.join()
    assert (follower.error, [one.id for one in follower.made]) == (None, [follower.made[0].id] * 2)
    assert follower.made[1].log_end == follower.grown[-1] == end
    assert follower.grown == sorted(follower.grown)
    assert {type(one).__name__ for one in follower.lost} == {"LinkLost"}
    assert [int(one.name) for one in (to / "following/commitlog").iterdir()] == [end - end % SEGMENT]
    assert faults_in(to) == []
    restore(to, tmp_path / "new")
    assert messages_of(tmp_path / "new") == messages_of(root)


@pytest.mark.turns(3)
def test_a_backup_follows_a_master_in_controller_mode_and_keeps_its_epochs(tmp_path: Path) -> None:
    root, to = make_store(tmp_path / "store", 50), tmp_path / "backups"
    newer = copy_store(root, tmp_path / "newer")
    with master(newer, free_port()) as put:
        end = put(1000, 100)
    controlled = FakeController(newer, end, [(1, 0), (4, end - SEGMENT)])
    with controlled:
        port = int(controlled.address.rpartition(":")[2])
        with following(root, to, port, has_controller=True) as follower:
            follower.await_end(end)
    assert (follower.error, controlled.handshakes[0]) == (None, (0, 1, -1))
    assert decode_epochs((to / "following/epochFileCheckpoint").read_bytes())[-1] == Epoch(4, end - SEGMENT)
    restore(to, tmp_path / "new")
    assert messages_of(tmp_path / "new") == messages_of(newer)


@pytest.mark.turns(3)
def test_the_next_run_goes_on_with_what_was_received(tmp_path: Path) -> None:
    root, to, port = make_store(tmp_path / "store", 50), tmp_path / "backups", free_port()
    with master(root, port) as put:
        for number in range(2):
            with following(root, to, port) as follower:
                end = put(1000 * (number + 1), 10)
                follower.await_end(end)
            assert follower.error is None
    assert len(follower.folder.ids()) == 2
    assert {one.stored for one in follower.made[0].segments if one.is_sealed} <= {
        one.stored for one in follower.made[1].segments
    }


@pytest.mark.turns(3)
def test_after_a_pause_of_segments_the_log_is_received_from_the_newest_one(tmp_path: Path) -> None:
    root, to, port = make_store(tmp_path / "store", 50), tmp_path / "backups", free_port()
    with master(root, port) as put:
        with following(root, to, port) as follower:
            follower.await_end(put(1000, 10))
        put(2000, 200)
        with following(root, to, port) as follower:
            end = put(3000, 5)
            follower.await_end(end)
    assert follower.error is None
    assert [int(one.name) for one in (to / "following/commitlog").iterdir()] == [end - end % SEGMENT]
    restore(to, tmp_path / "new")
    assert messages_of(tmp_path / "new") == messages_of(root)


def test_a_log_that_is_another_one_ends_the_run_and_names_what_to_delete(tmp_path: Path) -> None:
    root, to, port = make_store(tmp_path / "store", 50), tmp_path / "backups", free_port()
    before = shutil.copytree(root, tmp_path / "before")
    with following(root, to, port) as follower:
        with master(root, port) as put:
            end = put(1000, 5)
            follower.await_end(end)
        shutil.rmtree(root)
        shutil.copytree(before, root)
        with master(root, port) as put:
            put(5000, 2)
            follower.join()
    assert isinstance(follower.error, Diverged)
    assert follower.error.hint == f"delete {to}/following to follow this log; the backup has what was received"
    assert follower.end == end


@pytest.mark.turns(3)
def test_a_writer_in_the_folder_is_waited_for(tmp_path: Path) -> None:
    root, to, port = make_store(tmp_path / "store", 50), tmp_path / "backups", free_port()
    with master(root, port) as put, following(root, to, port) as follower:
        with StoreLock(to / "lock", Filesystem()) as lock:
            assert eventually(lambda: _takes(lock))
            end = put(1000, 5)
            assert eventually(lambda: any(isinstance(one, StoreLocked) for one in follower.lost))
        follower.await_end(end)
    assert follower.error is None


def _takes(lock: StoreLock) -> bool:
    try:
        lock.acquire()
    except StoreLocked:
        time.sleep(0.01)
        return False
    return True


@pytest.mark.turns(4)
def test_a_backup_in_an_object_store_follows_too(tmp_path: Path) -> None:
    root, to, port = make_store(tmp_path / "store", 50), "s3://followed/a", free_port()
    with s3_bucket("followed"):
        for number in range(2):
            with master(root, port) as put, following(root, to, port) as follower:
                for step in range(2):
                    end = put(1000 * (2 * number + step + 1), 30)
                    follower.await_end(end)
        assert follower.error is None
        assert [one.log_end for one in follower.folder.manifests()][-1] == end
        files = follower.folder
        assert list(verify_files(files, files.manifests())) == []
        restore_backup(files, files.find(None), tmp_path / "new", Filesystem(), clock=clock_ms)
    assert messages_of(tmp_path / "new") == messages_of(root)


@pytest.mark.turns(3)
def test_an_empty_store_is_followed_from_its_first_message(tmp_path: Path) -> None:
    root, to, port = tmp_path / "store", tmp_path / "backups", free_port()
    with master(root, port) as put, following(root, to, port) as follower:
        end = put(1000, 5)
        follower.await_end(end)
    assert (follower.error, faults_in(to)) == (None, [])


@pytest.mark.parametrize(
    ("begin", "kept"),
    [(0, [0, 1, 2]), (SEGMENT, [1, 2]), (2 * SEGMENT, [2]), (None, [2]), (3 * SEGMENT, [])],
)
def test_a_received_log_is_kept_from_the_newest_segment_of_the_backup_on_if_that_is_in_it(
    begin: int | None, kept: list[int], tmp_path: Path
) -> None:
    """None stands for the end of the log."""
    made, created = make_store(tmp_path / "following", 200), SimpleNamespace(segment_size=SEGMENT, line="4.9")
    with open_store(made) as store:
        end = store.max_log_offset
    assert 2 * SEGMENT < end < 3 * SEGMENT
    copy = _open_copy(made, created, end if begin is None else begin)  # type: ignore[arg-type]
    copy.close()
    assert sorted(int(one.name) for one in (made / "commitlog").glob("0*")) == [number * SEGMENT for number in kept]
    assert (copy.first, copy.end) == ((SEGMENT * kept[0], end) if kept else (0, 0))


def test_a_backup_grows_when_it_is_due_and_a_writer_in_its_folder_is_reported() -> None:
    calls: list[tuple[Any, ...]] = []
    busy = StoreLocked("held")

    def grow(durable: int) -> None:
        calls.append(("grow", durable))
        if len(calls) == 1:
            raise busy

    growing: Any = SimpleNamespace(grow=grow, manifest=SimpleNamespace(log_end=70))
    copy: Any = SimpleNamespace(durable=80, drop_before=lambda end: calls.append(("drop", end)))
    target: Any = SimpleNamespace(writing=nullcontext)
    told = FollowOptions(
        should_stop=lambda: len(calls) > 2,
        every_s=0,
        on_lost=lambda error: calls.append(("lost", error)),
        on_grown=lambda manifest: calls.append(("grown", manifest.log_end)),
    )
    follower = _Follower(copy, growing, target, told)
    assert (follower._should_stop(), calls) == (False, [("grow", 80), ("lost", busy)])
    told.every_s = 1000
    grown = [("grow", 80), ("grown", 70), ("drop", 70)]
    for _ in range(2):
        assert (follower._should_stop(), calls[2:]) == (True, grown)
