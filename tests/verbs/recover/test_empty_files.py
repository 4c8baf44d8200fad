"""A power cut may leave a name on 0 bytes: recover takes such files away, with which a 4.9 broker does not start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store import open_store
from store.change.quarantine import undo
from store.errors import WrongFileSize
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.verbs.check.check import check_files
from tests.support.golden import copy_store
from tests.support.refstore import SETTINGS, SIZES, needs_refstore, refstore
from tests.support.simulating import simulate, sizes_afterwards, sizes_in
from tests.support.snapshots import snapshot
from tests.support.stores import make_store, recover, stored_messages

COUNT = 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("whole") / "store", COUNT, **SETTINGS)


def last_segment(root: Path) -> Path:
    """Made ahead."""
    return root / "commitlog" / f"{max(int(path.name) for path in (root / 'commitlog').iterdir()) + 65536:020d}"


def last_queue_file(root: Path) -> Path:
    return max((root / "consumequeue/T/0").iterdir())


def only_queue_file(root: Path) -> Path:
    for path in sorted((root / "consumequeue/T/0").iterdir())[1:]:
        path.unlink()
    return root / f"consumequeue/T/0/{0:020d}"


def newest_index_file(root: Path) -> Path:
    return max((root / "index").iterdir())


PLACES = {place.__name__: place for place in (last_segment, last_queue_file, only_queue_file, newest_index_file)}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(whole: Path, place: str, tmp_path: Path) -> Path:
    """A killed store with one empty file."""
    root = copy_store(whole, tmp_path / "store")
    (root / "abort").touch()
    PLACES[place](root).write_bytes(b"")
    return root


def test_recover_takes_an_empty_file_away_and_nothing_is_lost(root: Path, place: str, whole: Path) -> None:
    before = snapshot(root)
    empty = next(path for path in root.rglob("*[0-9]") if path.is_file() and not path.stat().st_size)
    _, change_id = recover(root, settings=SETTINGS, compat="4.9")
    # A queue file is built anew.
    assert (empty.stat().st_size if empty.exists() else None) == (400 if "queue" in place else None)
    with open_store(root, settings=SETTINGS) as store, open_store(whole, settings=SETTINGS) as other:
        assert stored_messages(store) == stored_messages(other)
    assert list(check_files(StoreReader(str(root)))) == []
    assert change_id is not None
    undo(root, change_id, fs=Filesystem())
    assert {name: state for name, state in snapshot(root).items() if not name.startswith(".rmqctl")} == before


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_the_start_of_a_broker_is_foretold(root: Path, place: str, line: str) -> None:
    start = simulate(root, line, **SETTINGS)
    assert start.starts == (line == "5.3" or place == "newest_index_file")
    if start.starts:
        recover(root, settings=SETTINGS, as_broker=True, compat=line)
        return
    assert start.blocker[0] == ("queue-file-size" if "queue" in place else "empty-segment")
    # Every file is made ahead.
    assert start.lost.messages == 0
    with pytest.raises(WrongFileSize, match="0 bytes instead of"):
        recover(root, settings=SETTINGS, as_broker=True, compat=line)


@needs_refstore
@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_the_real_store_starts_as_foretold(root: Path, line: str) -> None:
    start = simulate(root, line, **SETTINGS)
    with refstore(line.replace(".", ""), "load", "--store", root, *SIZES, "--then-close", "none") as process:
        said = json.loads(process.communicate(timeout=60)[0].splitlines()[-1])
    assert said["loadOk"] == start.starts
    assert sizes_in(root) == sizes_afterwards(start)
