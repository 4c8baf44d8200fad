"""A page that is lost while it is in use becomes zeros and an error, in a process that has asked for that."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from store.errors import StoreIOError
from store.files import Filesystem, lost_pages
from store.files.lost_pages import LostPages, WatchedMap
from tests.support.processes import REPOSITORY, environment, run
from tests.support.shortened import needs_handler

PAGE = os.sysconf("SC_PAGE_SIZE")

_MAP = """
import os, resource, sys
from pathlib import Path
from store import StoreIOError, catch_lost_pages
from store.files import Filesystem, lost_pages, settle_lost_pages
PAGE = os.sysconf("SC_PAGE_SIZE")

def error_of(step, *arguments):
    try:
        step(*arguments)
    except StoreIOError as error:
        return error.file.name, error.offset
    return None

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
path, fs = Path(sys.argv[1]), Filesystem()
"""
_SHORTENED = """
catch_lost_pages()
seen = lost_pages.count()
view = fs.map(fs.open_write(path), 8 * PAGE, writable=True)
assert fs.populate(path, view, 0, 8 * PAGE)
os.truncate(path, 2 * PAGE)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (8 * PAGE))
    return path


@pytest.mark.parametrize("writable", [False, True])
def test_a_map_that_nobody_holds_is_removed_and_not_before(writable: bool, path: Path) -> None:
    fs = Filesystem()
    view = fs.map(fs.open_write(path), 8 * PAGE, writable=writable)
    part = view[PAGE:]
    del view
    gc.collect()
    assert (part[0], is_mapped_here(path)) == (ord("x"), True)
    del part
    gc.collect()
    assert not is_mapped_here(path)


def is_mapped_here(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def outcome(path: Path, code: str, *options: str) -> tuple[int, list[str]]:
    """How a process that runs `code` ended, and the lines it printed."""
    done = run([sys.executable, *options, "-c", _MAP + code, str(path)])
    return done.code, done.out.splitlines()


@needs_handler
def test_a_lost_page_reads_as_zeros_and_whoever_asks_gets_an_error_with_file_and_offset(path: Path) -> None:
    code, lines = outcome(
        path,
        _SHORTENED
        + """
part = bytes(view[PAGE : 4 * PAGE])
print(part == b"x" * PAGE + bytes(2 * PAGE), lost_pages.count() - seen)
print(error_of(lost_pages.require_none_since, seen), error_of(lost_pages.require_none_since, lost_pages.count()))
""",
    )
    assert (code, lines) == (0, ["True 2", f"('file', {2 * PAGE}) None"])


@needs_handler
def test_a_lost_page_counts_as_unreadable_from_then_on(path: Path) -> None:
    code, lines = outcome(
        path, _SHORTENED + "os.truncate(path, 8 * PAGE); print(fs.populate(path, view, 0, 8 * PAGE), end=' ')"
        "\nview[2 * PAGE]; print(fs.populate(path, view, 0, 8 * PAGE))"
    )  # fmt: skip
    # A file that has its length again has pages again, as long as none was touched meanwhile.
    assert (code, lines) == (0, ["True True"])
    code, lines = outcome(
        path, _SHORTENED + "view[2 * PAGE]; os.truncate(path, 8 * PAGE); print(fs.populate(path, view, 0, 2 * PAGE), "
        "fs.populate(path, view, 0, 8 * PAGE))"
    )  # fmt: skip
    assert (code, lines) == (0, ["True False"])


@needs_handler
def test_what_is_written_into_a_lost_page_is_never_taken_for_durable(path: Path) -> None:
    code, lines = outcome(
        path,
        _SHORTENED
        + """
view[0] = 1
fs.fdatasync(fs.open_write(path))
view[5 * PAGE] = 1
print(error_of(fs.fdatasync, fs.open_write(path)))
del view
print(error_of(fs.fdatasync, fs.open_write(path)), error_of(fs.fsync, fs.open_write(path)))
""",
    )
    assert (code, lines) == (0, [f"('file', {5 * PAGE})", f"('file', {5 * PAGE}) ('file', {5 * PAGE})"])


@needs_handler
def test_at_the_end_each_range_that_was_not_reported_is_named_once(path: Path) -> None:
    code, lines = outcome(
        path,
        _SHORTENED
        + """
view[3 * PAGE]; view[6 * PAGE]; view[7 * PAGE]
error_of(lost_pages.require_none_since, seen)
print(*(f"{error.offset} {error.reason.split(' were ')[0]}" for error in settle_lost_pages()), sep="\\n")
print(settle_lost_pages(), error_of(lost_pages.require_none))
""",
    )
    assert (code, lines) == (0, [f"{6 * PAGE} bytes {6 * PAGE} to {8 * PAGE}", "[] None"])


@needs_handler
def test_many_threads_and_maps_lose_each_page_once(path: Path) -> None:
    code, lines = outcome(
        path,
        """
from threading import Thread
catch_lost_pages()
views = [fs.map(fs.open_read(path), 8 * PAGE, writable=False) for _ in range(50)]
os.truncate(path, 0)
threads = [Thread(target=lambda: [bytes(view) for view in views]) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(lost_pages.count(), len({error.offset for error in settle_lost_pages()}))
""",
    )
    assert (code, lines) == (0, ["400 1"])


@pytest.mark.turns(2)
@pytest.mark.parametrize("options", [(), ("-X", "faulthandler")])
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("import mmap; area = mmap.mmap(os.open(path, os.O_RDWR), PAGE); os.truncate(path, 0); area[0]",
                     id="a map of somebody else's"),
        pytest.param("import signal; os.kill(os.getpid(), signal.SIGBUS); time.sleep(60)", id="a signal that was sent"),
    ],
)  # fmt: skip
def test_any_other_bus_error_ends_the_process_as_before(path: Path, fault: str, options: tuple[str, ...]) -> None:
    mapped = "import time; catch_lost_pages(); fs.map(fs.open_read(path), PAGE, writable=False)\n"
    code, _ = outcome(path, mapped + fault, *options)
    assert code == -signal.SIGBUS


def test_without_being_asked_the_engine_leaves_the_signal_alone(path: Path) -> None:
    code, _ = outcome(path, _SHORTENED.replace("catch_lost_pages()", "") + "view[5 * PAGE]")
    assert code == -signal.SIGBUS


def test_uncompiled_kernels_have_no_handler(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _MAP + _SHORTENED + "view[5 * PAGE]", str(path)],
        env={**environment(), "RMQCTL_NO_EXTENSIONS": "1"}, cwd=REPOSITORY, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == -signal.SIGBUS


@pytest.mark.parametrize(
    ("seen", "start", "stop", "is_lost"),
    [
        (4, 0, sys.maxsize, True),
        (5, 0, sys.maxsize, False),
        (6, 0, sys.maxsize, False),
        (4, 0, 1100, False),
        (4, 0, 1101, True),
        (4, 1199, 2000, True),
        (4, 1200, 2000, False),
    ],
)
def test_a_page_counts_within_its_addresses_where_it_was_lost_since(
    seen: int, start: int, stop: int, is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = LostPages(WatchedMap(1000, 500, Path("file"), (0, 0)), 1100, 1200, noted_at=5)
    monkeypatch.setattr(lost_pages, "count", lambda: 5)
    monkeypatch.setattr(lost_pages, "_noted", lambda: [found])
    if is_lost:
        with pytest.raises(StoreIOError, match=r"^file, offset 100: bytes 100 to 200 were lost"):
            lost_pages.require_none_since(seen, start, stop)
    else:
        lost_pages.require_none_since(seen, start, stop)
    assert found.is_reported is is_lost


class Handler:
    """Stands for the compiled handler: addresses that are lost are said by a test."""

    most_watched_maps = 2

    def __init__(self) -> None:
        self.maps: dict[int, tuple[int, int, bool]] = {}
        self.ranges: list[tuple[int, int]] = []
        self.lost = self.settled = 0

    def watch_map(self, number: int, start: int, size: int, writable: bool) -> None:
        self.maps[number] = start, size, writable

    def lost_page_count(self) -> int:
        return self.lost

    def lose(self, *ranges: tuple[int, int]) -> None:
        self.ranges, self.lost = list(ranges), self.lost + len(ranges)

    def take_lost_ranges(self) -> list[tuple[int, int]]:
        taken, self.ranges = self.ranges, []
        return taken

    def settle_lost_pages(self) -> None:
        self.settled += 1


A, B = (1, 1), (1, 2)
"""The files of the maps of `handler`."""


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Handler]:
    """Two maps side by side: of file a at 1000 to 2000, of file b at 2000 to 3000."""
    found = Handler()
    # A map of an earlier test that is collected now would end the watch of one of these.
    gc.disable()
    with monkeypatch.context() as patched:
        for name, value in {
            "_handler": found, "_maps": {}, "_free_numbers": [], "_most_numbers": 0, "_lost": [], "_settled": 0,
            "_looked_at": 0,
        }.items():  # fmt: skip
            patched.setattr(lost_pages, name, value)
        assert lost_pages.watch(1000, 1000, Path("a"), A, writable=False) == 0
        assert lost_pages.watch(2000, 1000, Path("b"), B, writable=True) == 1
        yield found
    gc.enable()


def losses() -> list[tuple[str, int, int, bool]]:
    """Of each loss the file, the range in it, and whether it was reported."""
    return [
        (str(one.of.path), one.start - one.of.start, one.stop - one.of.start, one.is_reported)
        for one in lost_pages._noted()
    ]


def test_as_many_maps_are_watched_as_the_handler_has_room_for_and_a_number_is_used_again(handler: Handler) -> None:
    assert handler.maps == {0: (1000, 1000, False), 1: (2000, 1000, True)}
    assert lost_pages.watch(5000, 10, Path("c"), A, writable=False) == -1
    lost_pages.end_watch(-1)
    lost_pages.end_watch(0)
    assert handler.maps[0] == (0, 0, False)
    assert lost_pages.watch(5000, 10, Path("c"), A, writable=False) == 0
    assert handler.maps == {0: (5000, 10, False), 1: (2000, 1000, True)}
    assert lost_pages.watch(6000, 10, Path("d"), A, writable=False) == -1


@pytest.mark.parametrize(
    ("ranges", "found"),
    [
        ([(1100, 1200)], [("a", 100, 200, False)]),
        ([(2100, 2200), (1100, 1200)], [("a", 100, 200, False), ("b", 100, 200, False)]),
        ([(1900, 2100)], [("a", 900, 1000, False), ("b", 0, 100, False)]),
        ([(900, 1000), (3000, 3100)], []),
        ([(999, 1001), (2999, 3001)], [("a", 0, 1, False), ("b", 999, 1000, False)]),
        ([(1100, 1200), (1200, 1300)], [("a", 100, 300, False)]),
        ([(1100, 1200), (1201, 1300)], [("a", 100, 200, False), ("a", 201, 300, False)]),
    ],
)
def test_lost_pages_are_of_the_map_at_their_address_and_adjacent_ones_are_one_loss(
    ranges: list[tuple[int, int]], found: list[tuple[str, int, int, bool]], handler: Handler
) -> None:
    assert losses() == []
    handler.lose(*ranges)
    assert losses() == losses() == found


def test_what_was_reported_does_not_grow(handler: Handler) -> None:
    handler.lose((1100, 1200))
    lost_pages.report(1100, 1200)
    handler.lose((1200, 1300))
    assert losses() == [("a", 100, 200, True), ("a", 200, 300, False)]


@pytest.mark.parametrize(
    ("start", "stop", "first", "is_reported"),
    [
        (0, 1100, 1100, False), (0, 1101, 1100, True), (1150, 1160, 1100, True), (1199, 3000, 1100, True),
        (1200, 3000, 3000, False),
    ],
)  # fmt: skip
def test_the_first_lost_page_of_a_range_of_addresses(
    start: int, stop: int, first: int, is_reported: bool, handler: Handler
) -> None:
    handler.lose((1100, 1200))
    assert lost_pages.first_lost(start, stop) == first
    lost_pages.report(start, stop)
    assert losses() == [("a", 100, 200, is_reported)]


def test_a_file_with_a_lost_page_is_refused_and_others_are_not(handler: Handler) -> None:
    lost_pages.require_whole(A)
    handler.lose((1100, 1200))
    lost_pages.require_whole(B)
    with pytest.raises(StoreIOError, match=r"^a, offset 100: bytes 100 to 200 were lost while they were in use"):
        lost_pages.require_whole(A)


def test_losses_are_settled_once_and_kept_while_their_map_is_open(handler: Handler) -> None:
    assert (lost_pages.settle_lost_pages(), handler.settled) == ([], 0)
    handler.lose((1100, 1200), (2100, 2200))
    lost_pages.report(2100, 2200)
    (error,) = lost_pages.settle_lost_pages()
    assert (error.file, error.offset, handler.settled) == (Path("a"), 100, 1)
    assert (lost_pages.settle_lost_pages(), handler.settled) == ([], 1)
    lost_pages.require_none()
    assert losses() == [("a", 100, 200, True), ("b", 100, 200, True)]
    lost_pages.end_watch(0)
    handler.lose((2300, 2400))
    assert lost_pages.first_lost(0, 2000) == 2000
    with pytest.raises(StoreIOError, match=r"^b, offset 300"):
        lost_pages.require_none()
    assert lost_pages.settle_lost_pages() == []
    assert losses() == [("b", 100, 200, True), ("b", 300, 400, True)]


def test_the_first_lost_page_of_a_process_is_seen() -> None:
    spec = find_spec(lost_pages.__name__)
    assert spec is not None
    assert spec.loader is not None
    fresh = module_from_spec(spec)
    spec.loader.exec_module(fresh)
    fresh._handler = found = Handler()  # type: ignore[attr-defined]
    assert fresh.watch(1000, 1000, Path("a"), A, writable=False) == 0
    assert (fresh.settle_lost_pages(), found.settled) == ([], 0)
    found.lose((1100, 1200))
    with pytest.raises(StoreIOError, match=r"^a, offset 100: bytes 100 to 200 were lost while they were in use"):
        fresh.require_none()


@pytest.mark.parametrize(("starts", "first"), [((), 90), ((30,), 30), ((30, 20), 20), ((20, 30), 20)])
def test_the_first_lost_page_of_a_range_counts(
    starts: tuple[int, ...], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_pages, "_overlapping", lambda start, stop: [SimpleNamespace(start=at) for at in starts])
    assert lost_pages.first_lost(10, 90) == first
