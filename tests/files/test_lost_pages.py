"""A page that is lost while it is in use becomes zeros and an error, in a process that has asked for that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from store.errors import StoreIOError
from store.files import lost_pages
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
