"""A bucket of backups holds whole objects alone, whatever happens to requests and to the store that is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store.errors import BadRequest, StoreIOError
from store.files.backup_files import BackupFiles
from store.files.filesystem import Filesystem
from store.files.remote_requests import RemoteRequests
from store.formats.zstd_frames import CACHED_BYTES, FRAME_BYTES
from store.kernels.native import clock_ms
from store.verbs.backup.bucket import BackupBucket
from store.verbs.backup.create import CreateOptions, create_backup
from store.verbs.backup.prune import plan_prune
from store.verbs.backup.verify import verify_files
from tests.support.s3 import s3_bucket
from tests.support.stores import make_store
from tests.support.throttling import CUT, Proxy, proxy_before_the_bucket
from tests.verbs.backup.backups import messages_of, put_more

LOG = f"commitlog/{0:020d}"
ADDRESS = ""
_PLACES = itertools.count()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy before an empty place of backups; pauses take no time."""
    global ADDRESS
    # Servers of one process share what they hold.
    ADDRESS = f"s3://backups/{next(_PLACES)}"
    monkeypatch.setattr(RemoteRequests, "wait", lambda self, seconds: None)
    with s3_bucket("backups"), proxy_before_the_bucket() as found:
        yield found


def bucket(*, compresses: bool = False) -> BackupBucket:
    return BackupBucket(ADDRESS, Filesystem(), compresses=compresses)


def back_up(root: Path, *, compresses: bool = False, **options: Any) -> None:
    create_backup(root, bucket(compresses=compresses), CreateOptions(**options), Filesystem(), clock_ms)


def faults() -> list[str]:
    files = BackupFiles(ADDRESS)
    return [one.fault for one in verify_files(files, files.manifests())]


def stored() -> dict[str, int]:
    return bucket().stored_files()


@pytest.mark.turns(2)
@pytest.mark.parametrize("compresses", [False, True])
def test_a_second_backup_sends_what_is_new(compresses: bool, proxy: Proxy, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 200)
    back_up(root, compresses=compresses)
    assert messages_of(f"backup:{ADDRESS}") == messages_of(root)
    before, proxy.sent[:] = stored(), []
    back_up(root, compresses=compresses)
    assert (stored(), [path.split("/")[3] for path in proxy.sent]) == (before, ["backups"])
    put_more(root, 10)
    back_up(root, compresses=compresses)
    assert sorted(name.partition(".")[0] for name in stored().keys() - before.keys() if name.startswith("log")) == [
        f"log/{32768:020d}"
    ]
    assert (faults(), len(bucket().ids())) == ([], 3)


def test_bytes_that_are_read_twice_are_counted_once_each(proxy: Proxy, tmp_path: Path) -> None:
    root, counted = make_store(tmp_path / "store", 100), list[tuple[int, int]]()
    for _ in range(2):
        back_up(root, progress=lambda *done: counted.append(done))
    first, both = 16384, 18_815
    assert counted == [
        (first, 2 * both), (2 * first, 2 * both), (both + first, 2 * both), (2 * both, 2 * both),
        (2 * first, 2 * both), (both + first, 2 * both), (2 * both, 2 * both),
    ]  # fmt: skip


@pytest.mark.turns(6)
@pytest.mark.parametrize("compresses", [False, True])
@pytest.mark.parametrize("size", [0, 1, CACHED_BYTES + 1, 2 * FRAME_BYTES + 1])
def test_any_number_of_bytes_comes_back(size: int, compresses: bool, proxy: Proxy) -> None:
    data = (b"%d " % size * size)[:size]
    target = bucket(compresses=compresses)
    file = target.add(LOG, lambda: [memoryview(data)] if size else [])
    assert (file.size, file.stored_size) == (size, target.stored_size(file.stored))
    assert b"".join(target.chunks(file)) == data
    proxy.sent.clear()
    assert (target.add(LOG, lambda: [memoryview(data)] if size else []), proxy.sent) == (file, [])


@pytest.mark.parametrize(
    ("status", "step"), [(403, 2), pytest.param(CUT, 5, marks=pytest.mark.slow)], ids=["refused", "cut"]
)
def test_when_no_request_from_any_one_on_is_answered_the_next_backup_is_whole(
    status: int, step: int, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(RemoteRequests, "retries", 0)  # pyarrow tries for 6 s itself.
    root = make_store(tmp_path / "store", 100)
    back_up(root)
    put_more(root, 40)
    kept, number, failed = stored(), 0, True
    while failed:
        at, failed = proxy.count + number, False
        proxy.status_of = lambda count, at=at: status if count >= at else 0  # type: ignore[misc]
        try:
            back_up(root)
        except StoreIOError:
            failed = True
        proxy.status_of = lambda count: 0
        assert kept.items() <= stored().items()
        assert faults() == []
        kept, number = stored(), number + step
    assert number > 10
    assert messages_of(f"backup:{ADDRESS}") == messages_of(root)


@pytest.mark.turns(4)
def test_one_cut_connection_is_made_again(proxy: Proxy, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60)
    back_up(root)
    for number in range(0, proxy.count, 3):
        at = proxy.count + number
        proxy.status_of = lambda count, at=at: CUT if count == at else 0  # type: ignore[misc]
        put_more(root, 1)
        back_up(root)
    assert (faults(), messages_of(f"backup:{ADDRESS}")) == ([], messages_of(root))


@pytest.mark.turns(4)
@pytest.mark.parametrize("status", [429, 503])
def test_a_store_that_throttles_a_third_of_all_requests_gets_a_whole_backup(
    status: int, proxy: Proxy, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 100)
    proxy.status_of = lambda number: status if number % 10 in (1, 2, 3) else 0
    back_up(root)
    assert proxy.refused > 0.2 * proxy.count
    assert (faults(), messages_of(f"backup:{ADDRESS}")) == ([], messages_of(root))


@pytest.mark.turns(4)
@pytest.mark.parametrize("compresses", [False, True])
@pytest.mark.parametrize("left", [b"", b"abc", bytes(60)])
def test_an_object_that_is_not_whole_is_sent_again(left: bytes, compresses: bool, proxy: Proxy) -> None:
    data, target = b"0123456789" * 9, bucket(compresses=compresses)
    file = target.add(LOG, lambda: [memoryview(data)])
    target._place.write(file.stored, lambda: [left])
    assert bucket(compresses=compresses).add(LOG, lambda: [memoryview(data)]) == file
    assert b"".join(bucket().chunks(file)) == data


def test_a_file_that_changes_between_hashing_and_sending_is_not_kept(proxy: Proxy) -> None:
    versions = [b"first", b"other"]
    with pytest.raises(StoreIOError, match="another process has changed the file"):
        bucket().add(LOG, lambda: [memoryview(versions.pop(0))])
    assert stored() == {}


def test_a_file_that_cannot_be_read_to_its_end_leaves_no_object(proxy: Proxy) -> None:
    passes = iter((False, True))

    def data() -> Iterator[memoryview]:
        yield memoryview(b"first")
        if next(passes):
            raise StoreIOError("cannot read the file")
        yield memoryview(b"second")

    with pytest.raises(StoreIOError, match="cannot read the file"):
        bucket().add(LOG, data)
    assert stored() == {}


def test_a_bucket_with_other_files_is_no_place_of_backups(proxy: Proxy, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    bucket()._place.write("mine", lambda: [b"x"])
    with pytest.raises(BadRequest, match="the folder has other files, and no backups"):
        back_up(root)
    assert stored() == {}


@pytest.mark.turns(3)
def test_a_prune_deletes_objects_that_no_backup_needs(proxy: Proxy, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 100)
    for _ in range(2):
        back_up(root)
        put_more(root, 100)
    target = bucket()
    plan = plan_prune(target, clock_ms(), keep_last=1, keep_days=None)
    assert [name.partition(".")[0] for name in plan.files] == [
        f"log/{16384:020d}", "tables/checkpoint", "tables/queue-ends"
    ]  # fmt: skip
    plan.apply(target)
    assert (faults(), len(target.ids()), stored().keys() & plan.files.keys()) == ([], 1, set())
