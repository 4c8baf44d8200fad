"""Over an unreadable page of any file every reading command answers, or names the file; none dies.

The pages fail in the populate step, as on a bad device, and once more on a real mount where FUSE is to be had.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.running import Run, rmqctl
from tests.support import eio_mirror
from tests.support.processes import Finished, run_lines
from tests.support.quickly import one_of
from tests.support.stores import make_store
from tests.support.unreadable_stores import LOG, MESSAGES, PLACES, SIZES, Sector, spoil

READING = """
1001110 info
1000000 dump commitlog
0005500 dump consumequeue T/0
0000055 dump index
1000011 find k5
0000000 find k700
5000000 get T --queue 0 --offset 0
0000000 get T --queue 0 --offset 290 --max 10
5550000 get T --queue 1 --offset 0 --max 900
5000000 get --log-offset 0
5000000 get T --queue 0 --since 1
5000000 index-query T k5
0000000 index-query T k700
1111111 check
0000010 checkpoint show
0000000 fingerprint
1110000 usage
1110000 usage --by topic,day
1110000 timeline
1110000 lag
1110000 salvage
1115500 recover --dry-run
0015500 recover --abnormal --dry-run
1115500 recover --normal --dry-run
1110000 rebuild --dry-run
1115500 truncate-dirty --dry-run
5005500 truncate-dirty --offset 0 --dry-run
0000000 clean-expired --dry-run
0000000 clean-expired --force --dry-run
0010000 checkpoint rewrite --dry-run
0005500 simulate
1110000 delay show
0000000 delay rewrite-offsets --dry-run
1110000 transaction show
1110000 timer show
0000000 quarantine list
0000000 config settings
0000000 config show
0000000 config check
1110000 config rebuild-topics --dry-run
1111111 doctor
1111111 report --html OUT.html
0000000 stale
0000000 stale --to OUT.stale.jsonl
1110000 salvage --to OUT.salvaged
1100000 salvage STORE/commitlog/00000000000000000000 --to OUT.jsonl
1101011 find --body "message 5[0-9]"
1110000 sql "select count(*) from messages"
0000055 sql "select count(*) from index"
1110000 export --to OUT --as jsonl
1111100 diff STORE OTHER
"""
"""The exit codes with the page of each of PLACES unreadable, and the command."""


def commands(store: Path, out: Path, other: Path) -> list[tuple[str, list[str]]]:
    """Each command's exit codes, and its words."""
    text = READING.replace("OUT", str(out)).replace("OTHER", str(other)).replace("STORE", str(store))
    lines = (line.split(" ", 1) for line in text.strip().splitlines())
    return [(codes, shlex.split(words)) for codes, words in lines]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("healthy") / "store", MESSAGES, **SIZES)


@pytest.mark.parametrize("place", one_of(9, PLACES))
def test_every_reading_command_answers_or_names_the_unreadable_file(
    place: str, healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    shutil.copytree(healthy, store)
    sector = Sector.all_of(store)[place]
    spoil(monkeypatch, store / sector.path, sector.page)
    name = Path(sector.path).name
    for codes, words in commands(store, tmp_path / "out", healthy):
        run = rmqctl(*given(store, words))
        assert not faults_of(run, words, name, codes[PLACES.index(place)])


def given(store: Path, words: list[str]) -> list[str]:
    """The words with --store, which contradicts a second word that names what is read."""
    return words if len(words) > 1 and words[1].startswith(str(store)) else ["--store", str(store), *words]


def faults_of(run: Run | Finished, words: list[str], name: str, codes: str = "0145") -> str:
    """What is wrong with a command's end: another exit code, or an error that does not name the file `name`."""
    is_named = run.code in (0, 1) or name in run.err
    is_right = str(run.code) in codes and is_named and "Traceback" not in run.err
    return "" if is_right else f"{' '.join(words)}: {run.code}, expected {codes}: {run.err}"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (
            "the first page of a queue",
            [
                ("unreadable-units", 1, "can't read bytes 0 to 4096"),
                ("missing-unit", 116, "no entry for queue offset 0"),
                ("missing-unit", 89, "no entry for queue offset 116"),
            ],
        ),
        (
            "a page in the middle of a queue",
            [
                ("unreadable-units", 1, "can't read bytes 4096 to 8192"),
                ("missing-unit", 27, "no entry for queue offset 204"),
                ("missing-unit", 69, "no entry for queue offset 231"),
            ],
        ),
        (
            "the header of the index",
            [
                ("unreadable-index", 1, "can't read bytes 0 to 4096"),
                ("missing-index-entry", 1041, "keys of this record are in no index file"),
                ("missing-index-entry", 958, "keys of this record are in no index file"),
            ],
        ),
        (
            "the entries of the index",
            [
                ("unreadable-index", 1, "can't read bytes 20480 to 24576"),
                ("missing-index-entry", 120, "keys of this record are in no index file"),
                ("missing-index-entry", 85, "keys of this record are in no index file"),
            ],
        ),
    ],
)
def test_check_names_the_range_of_a_file_and_goes_on(
    place: str, expected: list[tuple[str, int, str]], healthy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sector = Sector.all_of(healthy)[place]
    spoil(monkeypatch, healthy / sector.path, sector.page)
    run = rmqctl("--format", "json", "check", store=healthy)
    assert run.code == 1
    assert [(row["kind"], row["count"], row["detail"]) for row in run.json["findings"]] == expected


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
    words = [words for _, words in commands(tmp_path / "mnt", tmp_path / "out", healthy)]
    with eio_mirror.unreadable_page(healthy, tmp_path / "mnt", sector.path, sector.page) as mount:
        ends = run_lines(mount, words)
    name = Path(sector.path).name
    # How far a mount reads ahead decides which commands meet the page.
    faults = [faults_of(done, line, name) for line, done in zip(words, ends, strict=True)]
    assert not any(faults), "\n".join(filter(None, faults))


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


@pytest.mark.turns(2)
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
