"""Names that no broker writes: recover goes on beside them, and says which keep which broker line from starting."""

from __future__ import annotations

import shutil
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
    "consumequeue/T/notes": ("4.9",),
    "consumequeue/T/old/": ("4.9",),
    "consumequeue/T/1/x.bak": BOTH,
    "consumequeue/T/1/sub/": ("4.9",),
    "index/.DS_Store": (),
    "index/old/": (),
    "index/x.bak": (),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_store(tmp_path_factory.mktemp("whole") / "store", 60, queues=2)
    (root / "abort").touch()
    return root


def add(root: Path, name: str) -> None:
    path = root / name
    (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
    if not name.endswith("/"):
        path.write_text("not the broker's")


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
            assert ("not one of 5.3" in line) == (blocked == ("4.9",))
    assert not (root / "abort").exists()


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
