"""Names that no broker writes: recover goes on beside them, and says which keep which broker line from starting."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.snapshots import contents
from tests.support.stores import make_store

BOTH = ("4.9", "5.3")
KEPT_FROM_STARTING: dict[str, tuple[str, ...]] = {
    "commitlog/x.bak": BOTH,
    "commitlog/old/": ("4.9",),
    "consumequeue/.DS_Store": (),
    "consumequeue/backup/0/x": BOTH,
    "consumequeue/T/notes": (),
    "consumequeue/T/9": (),
    "consumequeue/T/old/": (),
    "consumequeue/T/1/x.bak": BOTH,
    "consumequeue/T/1/sub/": ("4.9",),
    "index/.DS_Store": (),
    "index/old/": (),
    "index/20260101000000000/": ("5.3",),
    "index/x.bak": (),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_store(tmp_path_factory.mktemp("whole") / "store", 60, queues=2)
    (root / "abort").touch()
    return root


KINDS: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a link": lambda path: path.symlink_to("nowhere"),
}


def add(root: Path, name: str) -> None:
    path = root / name
    (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
    if not name.endswith("/"):
        path.write_text("not the broker's")


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", KEPT_FROM_STARTING)
def test_recover_says_which_brokers_a_name_keeps_from_starting_as_simulate_does(
    name: str, whole: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    add(root, name)
    blocked = tuple(line for line in BOTH if rmqctl("simulate", "--compat", line, store=root).code)
    assert blocked == KEPT_FROM_STARTING[name]
    for consent in ("--dry-run", "--yes"):
        run = rmqctl("recover", consent, store=root)
        said = [line for line in run.err.splitlines() if "from starting" in line]
        assert run.code == bool(blocked), run.err
        assert len(said) == bool(blocked)
        for line in said:
            assert str(root / name.rstrip("/")) in line
            assert f"a broker of {' and of '.join(blocked)}" in line
            others = [one for one in BOTH if one not in blocked]
            assert all(f"not one of {one}" in line for one in others)
    assert not (root / "abort").exists()


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", KEPT_FROM_STARTING)
def test_recover_gives_the_same_store_beside_a_foreign_name(name: str, whole: Path, tmp_path: Path) -> None:
    root, twin = (shutil.copytree(whole, tmp_path / one) for one in ("store", "twin"))
    add(root, name)
    for one in (root, twin):
        shutil.rmtree(one / "consumequeue/T/0")
        rmqctl("recover", "--yes", store=one)
    folder = Path("consumequeue/T/0")
    assert contents(root / folder) == contents(twin / folder)


def test_get_reads_on_beside_a_foreign_name_in_the_log(whole: Path, tmp_path: Path) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    add(root, "commitlog/x.bak")
    run = rmqctl("get", "T", "--queue", "1", store=root)
    assert run.code == 0
    assert "left out" in run.err


def test_every_command_goes_on_beside_names_that_are_no_queue(whole: Path, tmp_path: Path) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    add(root, "consumequeue/T/notes")
    for words in (["recover", "--yes"], ["truncate-dirty", "--yes"], ["clean-expired", "--yes"], ["put", "T", "body"]):
        assert rmqctl(*words, store=root).code == 0


CHANGES = ("recover --yes", "rebuild --yes", "put T body --recover")


@pytest.mark.turns(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "codes"),
    [("commitlog/{:020d}", [4, 4, 4]), ("consumequeue/T/1/{:020d}", [1, 0, 4]), ("index/{:017d}", [0, 0, 0])],
)
def test_check_names_what_is_no_file_and_other_commands_say_its_kind(
    name: str, codes: list[int], kind: str, whole: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    place = root / name.format(4_000_000)
    KINDS[kind](place)
    run = rmqctl("check", "--format", "json", store=root)
    named = [one["detail"] for one in json.loads(run.out)["findings"] if one["file"] == str(place)]
    assert [one.split(" among")[0] for one in named] == [kind]
    assert rmqctl("get", "T", "--queue", "1", store=root).code == 0
    runs = [rmqctl(*words.split(), store=root) for words in CHANGES]
    assert [run.code for run in runs] == codes
    assert [kind in run.err for run in runs if run.code] == [True for code in codes if code]


@pytest.mark.parametrize(
    "words", [["recover", "--yes"], ["rebuild", "--yes"], ["truncate-dirty", "--yes"], ["put", "T", "x"]]
)
def test_a_segment_that_leads_nowhere_keeps_the_store_from_being_changed(
    words: list[str], whole: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    segment = sorted((root / "commitlog").iterdir())[0]
    segment.unlink()
    segment.symlink_to(tmp_path / "lost")
    before = contents(root / "consumequeue")
    refused = rmqctl(*words, store=root)
    assert refused.code == 4
    assert f"{segment}: a link" in refused.err
    assert contents(root / "consumequeue") == before


def test_no_command_takes_a_file_in_place_of_a_queue_for_a_blocker(whole: Path, tmp_path: Path) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    add(root, "consumequeue/T/9")
    assert rmqctl("simulate", store=root).code == 0
    refused = rmqctl("put", "T", "body", "--recover", store=root)
    assert refused.code == 4
    assert "a file, where a queue's folder is expected" in refused.err
    assert "move it" in refused.err


LINKED = ("commitlog", "consumequeue", "index", "checkpoint", "consumequeue/T", "consumequeue/T/1")


@pytest.mark.parametrize("name", LINKED)
def test_check_names_a_link_and_reads_through_it(name: str, whole: Path, tmp_path: Path) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    (root / name).rename(tmp_path / "elsewhere")
    (root / name).symlink_to(tmp_path / "elsewhere")
    run = rmqctl("check", "--format", "json", store=root)
    assert [(one["kind"], one["file"]) for one in json.loads(run.out)["findings"]] == [("link", str(root / name))]


def test_check_walks_no_deeper_behind_a_link_than_a_queue_goes(whole: Path, tmp_path: Path) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    deep = tmp_path / "outside/1/2/3/4"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    (tmp_path / "outside/1/2/round").symlink_to(tmp_path / "outside")
    (root / "consumequeue/Z").symlink_to(tmp_path / "outside")
    run = rmqctl("check", "--format", "json", store=root)
    assert {Path(one["file"]).name for one in json.loads(run.out)["findings"]} == {"Z", "2"}


def test_put_refuses_a_linked_checkpoint_before_it_stores_anything(whole: Path, tmp_path: Path) -> None:
    root = shutil.copytree(whole, tmp_path / "store")
    rmqctl("recover", "--yes", store=root)
    (root / "checkpoint").rename(tmp_path / "elsewhere")
    (root / "checkpoint").symlink_to(tmp_path / "elsewhere")
    log = contents(root / "commitlog")
    refused = rmqctl("put", "T", "body", store=root)
    assert (refused.code, refused.out) == (4, "")
    assert "a link, where a file is expected" in refused.err
    assert contents(root / "commitlog") == log
