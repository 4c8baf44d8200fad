"""Over an unreadable page of any file every reading command answers, or names the file; none dies.

The pages fail in the populate step, as on a bad device, and once more on a real mount where FUSE is to be had.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from store.errors import StoreIOError
from store.files.filesystem import Descriptor, Filesystem
from tests.cli.running import Run, rmqctl
from tests.support import eio_mirror
from tests.support.bad_sectors import BadSectors
from tests.support.processes import Finished, run_lines
from tests.support.stores import make_store

LOG = f"{0:020d}"
QUEUE = "0/00000000000000000000"
SIZES = {
    "mappedFileSizeCommitLog": 1 << 16,
    "mappedFileSizeConsumeQueue": 20 * 1024,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}
MESSAGES = 900
ANSWERED, NOT_ANSWERED = (0, 1), (4, 5)

READING = """
info | dump commitlog | dump consumequeue T/0 | dump index | find k5 | find k700
get T --queue 0 --offset 0 | get T --queue 0 --offset 290 --max 10 | get T --queue 1 --offset 0 --max 900
get --log-offset 0 | get T --queue 0 --since 1
index-query T k5 | index-query T k700
check | checkpoint show | fingerprint | usage | usage --by topic,day | timeline | lag | salvage
recover --dry-run | recover --abnormal --dry-run | recover --normal --dry-run | rebuild --dry-run
truncate-dirty --dry-run | truncate-dirty --offset 0 --dry-run | clean-expired --dry-run
clean-expired --force --dry-run | checkpoint rewrite --dry-run | simulate
delay show | delay rewrite-offsets --dry-run | transaction show | timer show | quarantine list
config settings | config show | config check | config rebuild-topics --dry-run
doctor | report --html OUT.html | stale | stale --to OUT.stale.jsonl | salvage --to OUT.salvaged
salvage STORE/commitlog/00000000000000000000 --to OUT.jsonl | find --body "message 5[0-9]"
sql "select count(*) from messages" | sql "select count(*) from index" | export --to OUT --as jsonl
diff STORE OTHER
"""
ALWAYS_ANSWER = (
    "check",
    "checkpoint show",
    "doctor",
    "fingerprint",
    "info",
    "rebuild --dry-run",
    "report",
    "salvage",
    "stale",
    "timeline",
    "usage",
)


def commands(store: Path, out: Path, other: Path) -> list[list[str]]:
    lines = (
        READING.replace("OUT", str(out))
        .replace("OTHER", str(other))
        .replace("STORE", str(store))
        .replace("\n", "|")
        .split("|")
    )
    return [shlex.split(line) for line in lines if line.strip()]


@dataclass(frozen=True)
class Sector:
    """A page of one file below the store."""

    path: str
    page: int

    @classmethod
    def all_of(cls, root: Path) -> dict[str, Sector]:
        index = min((root / "index").iterdir()).name
        segment = max(path.name for path in (root / "commitlog").iterdir())
        return {
            "the first page of the log": cls(f"commitlog/{LOG}", 0),
            "a page in the middle of the log": cls(f"commitlog/{LOG}", 7),
            "a page of the last segment": cls(f"commitlog/{segment}", 1),
            "the first page of a queue": cls(f"consumequeue/T/{QUEUE}", 0),
            "a page in the middle of a queue": cls(f"consumequeue/T/{QUEUE}", 1),
            "the header of the index": cls(f"index/{index}", 0),
            "the entries of the index": cls(f"index/{index}", 5),
        }


PLACES = [
    "the first page of the log",
    "a page in the middle of the log",
    "a page of the last segment",
    "the first page of a queue",
    "a page in the middle of a queue",
    "the header of the index",
    "the entries of the index",
]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("healthy") / "store", MESSAGES, **SIZES)


@pytest.mark.parametrize("place", PLACES)
def test_every_reading_command_answers_or_names_the_unreadable_file(
    place: str, healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    shutil.copytree(healthy, store)
    sector = Sector.all_of(store)[place]
    spoil(monkeypatch, store / sector.path, sector.page)
    name = Path(sector.path).name
    runs = [(rmqctl(*given(store, words)), words) for words in commands(store, tmp_path / "out", healthy)]
    faults = [fault for run, words in runs for fault in faults_of(run, words, name)]
    assert not faults, "\n".join(faults)


def given(store: Path, words: list[str]) -> list[str]:
    """The words with --store, which contradicts a second word that names what is read."""
    return words if len(words) > 1 and words[1].startswith(str(store)) else ["--store", str(store), *words]


def spoil(monkeypatch: pytest.MonkeyPatch, path: Path, page: int) -> None:
    """Makes a page unreadable for every Filesystem."""
    bad = BadSectors({path.name: {page}})
    populate, read = Filesystem.populate, Filesystem.read

    def spoiled_populate(fs: Filesystem, file: Path, view: memoryview, start: int, stop: int) -> bool:
        return not (file == path and bad.is_bad(file, start, stop)) and populate(fs, file, view, start, stop)

    def spoiled_read(fs: Filesystem, descriptor: Descriptor, position: int, size: int) -> bytes:
        if descriptor.path == path and bad.is_bad(path, position, position + size):
            raise StoreIOError.from_os(OSError(errno.EIO, os.strerror(errno.EIO)), path, "read the file")
        return read(fs, descriptor, position, size)

    monkeypatch.setattr(Filesystem, "populate", spoiled_populate)
    monkeypatch.setattr(Filesystem, "read", spoiled_read)


def faults_of(run: Run | Finished, words: list[str], name: str) -> list[str]:
    """What is wrong with a command's end: neither an answer nor an error that names the file `name`."""
    line = " ".join(words)
    if run.code in ANSWERED and "Traceback" not in run.err:
        return []
    is_named = run.code in NOT_ANSWERED and name in run.err and not line.startswith(ALWAYS_ANSWER)
    return [] if is_named else [f"{line}: {run.code} {run.err}"]


@pytest.mark.parametrize("place", ["the first page of a queue", "a page in the middle of a queue"])
def test_check_names_the_range_of_a_queue_file_and_goes_on(
    place: str, healthy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sector = Sector.all_of(healthy)[place]
    spoil(monkeypatch, healthy / sector.path, sector.page)
    run = rmqctl("--format", "json", "check", store=healthy)
    found = {row["kind"]: row for row in run.json["findings"]}
    assert run.code == 1
    assert set(found) <= {"unreadable-units", "missing-unit"}
    assert found["unreadable-units"]["detail"] == (
        f"can't read bytes {sector.page * 4096} to {sector.page * 4096 + 4096}"
    )


@pytest.mark.parametrize("place", ["the header of the index", "the entries of the index"])
def test_check_names_the_range_of_an_index_file_and_goes_on(
    place: str, healthy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sector = Sector.all_of(healthy)[place]
    spoil(monkeypatch, healthy / sector.path, sector.page)
    run = rmqctl("--format", "json", "check", store=healthy)
    kinds = {row["kind"] for row in run.json["findings"]}
    assert run.code == 1
    assert "unreadable-index" in kinds
    assert kinds <= {"unreadable-index", "missing-index-entry", "checkpoint-ahead"}


def test_a_fingerprint_says_what_counts_as_zeros(healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sector = Sector.all_of(healthy)["a page in the middle of a queue"]
    spoil(monkeypatch, healthy / sector.path, sector.page)
    run = rmqctl("--format", "json", "fingerprint", store=healthy)
    notes = [part["note"] for part in run.json["parts"] if part["note"]]
    assert notes == [f"{sector.path}: can't read bytes 4096 to 8192"]


@pytest.mark.slow
@pytest.mark.skipif(not eio_mirror.is_possible(), reason="no FUSE here: /dev/fuse, fusermount and fusepy are needed")
@pytest.mark.parametrize("place", PLACES)
def test_no_command_dies_over_an_unreadable_page_of_a_real_mount(place: str, healthy: Path, tmp_path: Path) -> None:
    sector = Sector.all_of(healthy)[place]
    words = commands(tmp_path / "mnt", tmp_path / "out", healthy)
    with eio_mirror.unreadable_page(healthy, tmp_path / "mnt", sector.path, sector.page) as mount:
        ends = run_lines(mount, words)
    name = Path(sector.path).name
    faults = [fault for line, done in zip(words, ends, strict=True) for fault in faults_of(done, line, name)]
    assert not faults, "\n".join(faults)


@pytest.mark.leaves_damage
def test_an_unreadable_checkpoint_promises_nothing_and_is_written_anew(
    healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = shutil.copytree(healthy, tmp_path / "store")
    with monkeypatch.context() as bad:
        spoil(bad, store / "checkpoint", 0)
        checked = rmqctl("--format", "json", "check", store=store)
        assert [row["kind"] for row in checked.json["findings"]] == ["checkpoint-invalid"]
        assert rmqctl("get", "T", "--queue", "0", store=store).code == 0
        assert rmqctl("recover", "--yes", store=store).code == 0
    assert rmqctl("check", store=store).code == 0


CHANGING = [
    ["recover", "--normal", "--dry-run"],
    ["rebuild", "--dry-run"],
    ["truncate-dirty", "--dry-run"],
    ["put", "T", "x"],
]


@pytest.mark.leaves_damage
@pytest.mark.parametrize("words", CHANGING, ids=lambda words: words[0])
def test_a_changing_command_says_which_pages_of_the_log_it_passed_over(
    words: list[str], healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = shutil.copytree(healthy, tmp_path / "store")
    sector = Sector.all_of(store)["a page in the middle of the log"]
    spoil(monkeypatch, store / sector.path, sector.page)
    run = rmqctl(*words, store=store)
    assert run.code == 1
    assert f"passed over {LOG}" in run.err
    assert "bytes 28672 to 32768" in run.err


INDEX_PLACES = ["the header of the index", "the entries of the index"]


@pytest.fixture
def with_bad_index(
    request: pytest.FixtureRequest, healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    store = shutil.copytree(healthy, tmp_path / "store")
    sector = Sector.all_of(store)[request.param]
    spoil(monkeypatch, store / sector.path, sector.page)
    return store


@pytest.mark.parametrize("with_bad_index", INDEX_PLACES, indirect=True)
@pytest.mark.parametrize("key", ["k5", "k899", "all"])
def test_index_query_answers_by_the_log_where_an_index_file_cannot_be_read(
    with_bad_index: Path, healthy: Path, key: str
) -> None:
    words = ("--format", "json", "index-query", "T", key)
    found, expected = (rmqctl(*words, store=root) for root in (with_bad_index, healthy))
    assert found.code == 0, found.err
    assert found.json["messages"] == expected.json["messages"]
    # A page that the key's chain does not lead to is not read.
    assert ("read from the log" in found.err) == ("left out" in found.err)


@pytest.mark.parametrize("with_bad_index", INDEX_PLACES, indirect=True)
@pytest.mark.parametrize(
    "words", [["recover", "--yes"], ["recover", "--abnormal", "--yes"], ["truncate-dirty", "--yes"], ["put", "T", "x"]]
)
def test_a_changing_command_quarantines_an_unreadable_index_file_and_builds_its_keys(
    with_bad_index: Path, words: list[str]
) -> None:
    bad = min((with_bad_index / "index").iterdir()).name
    run = rmqctl(*words, store=with_bad_index)
    assert run.code == 0, run.err
    quarantined = [path.name for path in (with_bad_index / ".rmqctl/quarantine").rglob("*") if path.is_file()]
    assert any(name.endswith(bad) for name in quarantined)
    keys = rmqctl("--format", "json", "index-query", "T", "k5", store=with_bad_index)
    assert [message["keys"][0] for message in keys.json["messages"]] == ["k5"]
    check = rmqctl("check", store=with_bad_index)
    assert check.code == 0, check.out
