"""Names below rmqctl's own folder: no link is followed, and no descriptor stays open."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from store.errors import ForeignFile
from store.files.beneath import make_folders, open_file, open_unnamed, opened_folder, parent_of
from tests.support.processes import open_below

OWN = ".rmqctl"


def use_parent(path: Path) -> None:
    with parent_of(path) as (folder, name):
        assert (folder is None, name) == (OWN not in path.parent.parts, path.name if folder else str(path))


def use_folder(path: Path) -> None:
    with opened_folder(path.parent) as folder:
        assert os.path.samestat(os.fstat(folder), path.parent.stat())


def use_file(path: Path) -> None:
    descriptor = open_file(path, os.O_RDONLY)
    assert os.path.samestat(os.fstat(descriptor.number), path.stat())
    assert os.read(descriptor.number, 2) == b"x"
    os.close(descriptor.number)


def use_unnamed(path: Path) -> None:
    os.close(open_unnamed(path.parent, os.O_RDWR | os.O_TMPFILE))


USES = (use_parent, use_folder, use_file, use_unnamed)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("folder", ["plain/a/b", f"{OWN}", f"{OWN}/a/b"])
def test_a_file_is_reached_and_nothing_stays_open(use: Callable[[Path], None], folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "file").write_bytes(b"x")
    use(tmp_path / folder / "file")
    assert open_below(tmp_path) == []


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("link", [OWN, f"{OWN}/a", f"{OWN}/a/b"])
@pytest.mark.parametrize("is_link", [True, False])
def test_a_link_or_a_file_as_a_folder_of_one_s_own_is_refused_with_its_path(
    use: Callable[[Path], None], link: str, is_link: bool, tmp_path: Path
) -> None:
    (tmp_path / "else/a/b").mkdir(parents=True)
    (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
    if is_link:
        (tmp_path / link).symlink_to(tmp_path / "else" / Path(link).relative_to(OWN))
    else:
        (tmp_path / link).write_bytes(b"")
    with pytest.raises(ForeignFile, match="a link or a file") as refused:
        use(tmp_path / OWN / "a/b/file")
    assert (refused.value.file, open_below(tmp_path)) == (tmp_path / link, [])


@pytest.mark.parametrize("folder", ["plain", OWN])
def test_folders_are_made_and_listed_outermost_first(folder: str, tmp_path: Path) -> None:
    root = tmp_path / folder
    assert make_folders(root / "a/b") == [root, root / "a", root / "a/b"]
    assert (make_folders(root / "a/b/c"), make_folders(root / "a/b/c")) == ([root / "a/b/c"], [])
    assert open_below(tmp_path) == []


def test_a_file_in_the_place_of_a_folder_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        make_folders(tmp_path / "plain")
    (tmp_path / OWN).mkdir()
    (tmp_path / OWN / "link").symlink_to(tmp_path)
    with pytest.raises(ForeignFile):
        make_folders(tmp_path / OWN / "link")
    with pytest.raises(ForeignFile):
        open_file(tmp_path, os.O_RDONLY)


def test_a_file_that_only_has_one_s_own_folder_in_its_name_is_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / f"{OWN}.txt").symlink_to("file")
    use_file(tmp_path / f"{OWN}.txt")
