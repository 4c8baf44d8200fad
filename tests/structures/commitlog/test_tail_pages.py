"""TailPages: blocks for the tail of the log, and pages that are writable before a put needs them."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from store import Message, open_store
from store.errors import StoreIOError
from store.files.mapped_file import MappedFile
from store.structures.commitlog.tail_pages import SMALLEST_SEGMENT, WINDOW_BYTES, WINDOW_NS, TailPages
from tests.support.faulty_filesystem import FaultyFilesystem

SIZE = 2 * SMALLEST_SEGMENT


class WatchedFilesystem(FaultyFilesystem):
    """Notes the ranges whose pages are made writable, and touches none."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.made: list[tuple[int, int]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def preallocate(self, descriptor: object, position: int, size: int) -> None:
        self.before("preallocate", descriptor)

    def make_writable(self, view: memoryview, start: int, stop: int) -> None:
        self.made.append((start, stop))
        self.meanwhile()


class Tail:
    """A tail whose clock stands still but for `fill`."""

    def __init__(self, folder: Path, *, size: int = SIZE, flushes_by_time: bool = True) -> None:
        self.fs, self.now_ns = WatchedFilesystem(errno_code=errno.ENOSPC), 0
        self.file = MappedFile.create(folder / "log", 0, size, self.fs)
        self.pages = TailPages(self.file, flushes_by_time=flushes_by_time, clock_ns=lambda: self.now_ns)

    def fill(self, ns: int) -> None:
        """Write up to the limit in that time, and ask for more."""
        self.file.wrote, self.now_ns = self.pages.limit_position, self.now_ns + ns
        self.pages.reserve(min(self.file.wrote + 100, self.file.size))
        self.pages.go_ahead()

    def fill_fast(self, times: int = 1) -> None:
        for _ in range(times):
            self.fill(1)


@pytest.fixture
def tail(tmp_path: Path) -> Tail:
    return Tail(tmp_path)


def test_at_a_low_rate_no_page_is_touched_ahead(tail: Tail) -> None:
    while tail.file.wrote < tail.file.size:
        tail.fill(SIZE * WINDOW_NS // WINDOW_BYTES)
    assert tail.fs.made == []


def test_at_a_high_rate_the_window_behind_the_one_taken_is_made_writable(tail: Tail) -> None:
    tail.fill_fast(20)
    starts, stops = zip(*tail.fs.made, strict=True)
    assert stops[-1] == SIZE
    assert starts[1:] == stops[:-1]
    assert all(stop - start == WINDOW_BYTES for start, stop in tail.fs.made[:-1])


def test_the_room_ahead_has_blocks_before_a_put_may_use_it(tail: Tail) -> None:
    for _ in range(20):
        tail.fill_fast()
        assert tail.pages.limit_position <= tail.file.reserved


@pytest.mark.parametrize("options", [{"flushes_by_time": False}, {"size": SMALLEST_SEGMENT // 2}])
def test_a_store_that_flushes_each_put_and_a_small_segment_get_blocks_only(
    tmp_path: Path, options: dict[str, int]
) -> None:
    tail = Tail(tmp_path, **options)  # type: ignore[arg-type]
    tail.fill_fast(20)
    assert tail.fs.made == []
    assert tail.file.wrote == tail.file.size


def test_a_rate_that_falls_ends_it(tail: Tail) -> None:
    tail.fill_fast(4)
    tail.fill(2 * WINDOW_NS)
    count = len(tail.fs.made)
    tail.fill(2 * WINDOW_NS)
    assert len(tail.fs.made) == count


def test_the_next_segment_goes_on_at_the_rate_of_the_one_before(tail: Tail) -> None:
    tail.fill_fast(4)
    later = TailPages(tail.file, flushes_by_time=True, before=tail.pages, clock_ns=lambda: tail.now_ns)
    count = len(tail.fs.made)
    later.reserve(later.limit_position + 1)
    later.go_ahead()
    assert len(tail.fs.made) == count + 1


def test_other_threads_take_the_window_while_its_pages_are_made(tail: Tail) -> None:
    taken: list[int] = []

    def take() -> None:
        tail.fs.meanwhile = lambda: None
        other = threading.Thread(target=tail.fill_fast)
        other.start()
        other.join()
        taken.append(tail.pages.limit_position)

    tail.fill_fast(3)
    tail.fs.meanwhile = take
    tail.fill_fast()
    assert taken == [tail.fs.made[-2][1]]


def test_a_full_disk_is_told_to_the_put_that_needs_the_room(tail: Tail) -> None:
    tail.fill_fast(3)
    tail.fs.when = lambda name, _: name == "preallocate"
    with pytest.raises(StoreIOError):
        tail.fill_fast(20)
    assert tail.pages.limit_position <= tail.file.reserved
    tail.fs.when = None
    tail.fill_fast(20)
    assert tail.file.wrote == tail.file.size


def test_after_a_refusal_no_window_is_made_before_a_put_needs_it(tail: Tail) -> None:
    tail.fill_fast(5)
    assert tail.fs.made
    tail.fs.when = lambda name, _: name == "preallocate"
    tail.pages._ready = tail.file.reserved
    tail.pages._open_up()
    asked = tail.fs.count("preallocate")
    tail.pages.go_ahead()
    tail.pages.go_ahead()
    assert tail.fs.count("preallocate") == asked + 1


def test_messages_put_at_a_high_rate_are_read_back(tmp_path: Path) -> None:
    body = bytes(range(256)) * 256
    settings = {"mappedFileSizeCommitLog": str(SMALLEST_SEGMENT)}
    with open_store(tmp_path / "s", settings=settings, read_only=False) as store:
        results = [store.put(Message("Orders", body)) for _ in range(SMALLEST_SEGMENT // len(body) + 10)]
        assert all(result.is_ok for result in results)
        found = [store.lookup(result.log_offset) for result in results]
    assert all(message is not None and message.body == body for message in found)
